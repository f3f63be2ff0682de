#include "src/nn/layers/common.h"
#include "src/nn/layers/sparsity.h"

namespace perigee {
namespace {

constexpr const char* kRbmPositional[] = {"hidden"};
constexpr Option kRbmOptions[] = {
    {"hidden", "integer", nullptr, "hidden units", {1, 1 << 24}},
    {"visible_units",
     "name",
     "binary",
     "what the inputs are; linear: gaussian without noise; softmax: one of them is 1",
     {},
     {"binary", "gaussian", "softmax", "linear"}},
    {"hidden_units", "name", "binary", "what the outputs are", {}, {"binary", "gaussian", "rectified", "softmax"}},
    {"steps", "integer", "1", "of Gibbs sampling in each step of training (the k of CD-k)", {1, 1000}},
    {"persistent", "integer", "0", "chains that go on from step to step (PCD); 0: they begin at the examples (CD)", {0, 1 << 16}},
    {"reconstruction", "name", "mean", "what visible units of CD are given: their mean, or a draw", {}, {"mean", "sample"}},
    {"sparsity", "number", "0", "mean activation that is wanted of each hidden unit; 0: any", {0, 0.999999}},
    {"sparsity_weight", "number or schedule", "0.1", "factor of that penalty in the loss of an example", {0, 1e9}}};

// Energy of visible v and hidden h: -h'Wv - c'h - b'v, and of gaussian units 1/2 |v - b|^2 in place of -b'v, and 1/2 |h|^2 more.
class Machine {
 public:
  Machine(LayerContext& context, int64_t visible)
      : context_(context),
        visible_units_(context.options().choice("visible_units")),
        hidden_units_(context.options().choice("hidden_units")),
        persistent_(context.options().integer("persistent")) {
    const int64_t hidden = context.options().integer("hidden");
    Json small = Json::object();
    small.set("type", "normal");
    small.set("stddev", 0.01);
    weight_ = context.parameter("weight", Shape{hidden, visible}, ParameterRole::weight, visible, hidden, small);
    hidden_bias_ = context.parameter("bias", Shape{hidden}, ParameterRole::bias, visible, hidden, 0.0);
    visible_bias_ = context.parameter("visible_bias", Shape{visible}, ParameterRole::bias, hidden, visible, 0.0);
  }

  // W v + c, and what hidden units are on average.
  Value hidden_input(Value v) { return linear(v, weight_, hidden_bias_); }
  Value hidden_mean(Value x) {
    if (hidden_units_ == "gaussian") return x;
    if (hidden_units_ == "rectified") return softplus(x);
    return hidden_units_ == "softmax" ? softmax(x) : sigmoid(x);
  }
  Value visible_mean(Value h) {
    const Value a = matmul(h, weight_) + visible_bias_;
    return visible_units_ == "binary" ? sigmoid(a) : visible_units_ == "softmax" ? softmax(a) : a;
  }

  Value hidden_draw(Value v, const std::string& purpose) {
    const Value x = hidden_input(v);
    if (hidden_units_ == "gaussian") return x + normal(x, purpose);
    // Nair & Hinton 2010: max(0, x + noise of variance sigmoid(x)) stands for endless copies of a binary unit.
    if (hidden_units_ == "rectified") return relu(x + normal(x, purpose) * sqrt(sigmoid(x)));
    return hidden_units_ == "softmax" ? one_of(x, purpose) : coin(sigmoid(x), purpose);
  }
  Value visible_draw(Value h, const std::string& purpose) {
    const Value a = matmul(h, weight_) + visible_bias_;
    if (visible_units_ == "softmax") return one_of(a, purpose);
    if (visible_units_ == "binary") return coin(sigmoid(a), purpose);
    return visible_units_ == "gaussian" ? a + normal(a, purpose) : a;
  }

  // [N]: -log of the sum of exp(-energy) over hidden states. Of rectified units its slope alone is right.
  Value free_energy(Value v) {
    const Value x = hidden_input(v);
    const Value own = gaussian_input() ? square(v - visible_bias_) * 0.5 : -(v * visible_bias_);
    return reduce_sum(own, {1}) - hidden_part(x);
  }

  // CD-k (Hinton 2002): where `steps` alternations from `v` lead.
  Value chain_from(Value v, int64_t steps) {
    const bool draws = context_.options().choice("reconstruction") == "sample";
    for (int64_t i = 1; i <= steps; ++i) {
      const std::string step = std::to_string(i);
      const Value h = hidden_draw(v, "hidden" + step);
      v = draws ? visible_draw(h, "visible" + step) : visible_mean(h);
    }
    return stop_gradient(v);
  }

  // PCD (Tieleman 2008): the chains are a state. A number whose slope is that of -(mean free energy of the chains): with their statistics as
  // constants it is linear in weights and biases, so that each slice of a batch computes its share without touching the chains.
  Value chains(int64_t steps) {
    Value v = context_.state("chains", Shape{persistent_, weight_.shape()[1]}, 0);
    for (int64_t i = 1; i <= steps; ++i) v = visible_draw(hidden_draw(v, "hidden" + std::to_string(i)), "visible" + std::to_string(i));
    v = stop_gradient(v);
    context_.assign("chains", v);
    const Value h = stop_gradient(hidden_mean(hidden_input(v)));
    const Value products = stop_gradient(matmul(h, v, true) / static_cast<double>(persistent_));
    const Value hidden = stop_gradient(reduce_mean(h, {0})), visible = stop_gradient(reduce_mean(v, {0}));
    Value sum = reduce_sum(weight_ * products, {0, 1}) + reduce_sum(hidden_bias_ * hidden, {0}) + reduce_sum(visible_bias_ * visible, {0});
    if (gaussian_input()) sum = sum - reduce_sum(square(visible_bias_), {0}) * 0.5;
    return sum;
  }

  bool trained() const { return context_.training() && !context_.frozen("weight"); }
  bool persistent() const { return persistent_ > 0; }

 private:
  bool gaussian_input() const { return visible_units_ == "gaussian" || visible_units_ == "linear"; }

  // [N]: log of the sum over hidden states of exp(h'x - ...).
  Value hidden_part(Value x) {
    if (hidden_units_ == "gaussian") return reduce_sum(square(x), {1}) * 0.5;
    if (hidden_units_ == "rectified") return reduce_sum(stop_gradient(hidden_mean(x)) * x, {1});
    if (hidden_units_ == "binary") return reduce_sum(softplus(x), {1});
    const Value largest = stop_gradient(reduce_max(x, {1}, true));
    return log(reduce_sum(exp(x - largest), {1})) + reshape(largest, Shape{x.shape()[0]});
  }

  // Draws belong to the example, those of chains that go on to the step: the same in every slice of a batch.
  Value noise(const char* op, Value like, const std::string& purpose) {
    Json attrs = Json::object();
    attrs.set("stream", context_.random_stream(purpose));
    attrs.set("per", persistent_ > 0 ? "step" : "example");
    return like.graph().apply(op, {like}, std::move(attrs));
  }
  Value normal(Value like, const std::string& purpose) { return noise("random_normal", like, purpose); }
  Value coin(Value probability, const std::string& purpose) {
    const Value on = greater(probability, noise("random_uniform", probability, purpose));
    const auto number = [&](double value) { return probability.graph().constant(value, {probability.dtype(), Shape()}); };
    return where(on, number(1), number(0));
  }
  // Gumbel's way of drawing from softmax(x): the largest of x - log(-log(u)).
  Value one_of(Value x, const std::string& purpose) {
    const Value noisy = x - log(-log(noise("random_uniform", x, purpose)));
    const Value place = x.graph().apply("arg_max", {noisy}, Json(Json::Object{{"axis", Json(1)}}));
    Json attrs = Json::object();
    attrs.set("depth", x.shape()[1]);
    attrs.set("dtype", dtype_name(x.dtype()));
    return x.graph().apply("one_hot", {place}, std::move(attrs));
  }

  LayerContext& context_;
  const std::string visible_units_, hidden_units_;
  const int64_t persistent_;
  Value weight_, hidden_bias_, visible_bias_;
};

// The slope of free_energy(v) - free_energy(where the chain leads) by the parameters is the update of contrastive divergence, though that is
// the gradient of no function. The number itself says little: the loss shows the squared error of a reconstruction.
void add_divergence(LayerContext& context, Machine& machine, Value v) {
  const Value error = reduce_sum(square(v - machine.visible_mean(machine.hidden_mean(machine.hidden_input(v)))), {1});
  if (!machine.trained()) {
    if (!context.training()) context.add_loss(error);
    return;
  }
  const int64_t steps = context.options().integer("steps");
  const Value data = machine.free_energy(v);
  const Value energy = machine.persistent() ? data + machine.chains(steps) : data - machine.free_energy(machine.chain_from(v, steps));
  context.add_loss((energy - stop_gradient(energy)) + stop_gradient(error));
}

std::vector<Value> build_rbm(LayerContext& context, std::span<const Value> inputs) {
  const Value x = flatten(inputs[0]);
  Machine machine(context, x.shape()[1]);
  add_divergence(context, machine, stop_gradient(x));
  const Value hidden = machine.hidden_mean(machine.hidden_input(x));
  if (const double target = context.options().number("sparsity"); target > 0 && machine.trained()) {
    if (context.options().choice("hidden_units") != "binary")
      context.options().fail("sparsity", "is the share of time in which a unit is on",
                             "hidden_units = \"" + context.options().choice("hidden_units") + "\"", "\"binary\"");
    const Value own = machine.hidden_mean(machine.hidden_input(stop_gradient(x)));
    context.add_loss(sparsity_terms(own, target), "sparsity_weight");
  }
  return {hidden};
}

}  // namespace

extern const LayerDef layer_rbm;
const LayerDef layer_rbm{
    .name = "rbm",
    .doc =
        "A restricted Boltzmann machine: gives the mean of its hidden units, as dense does with a sigmoid, and learns by contrastive "
        "divergence through a term that it adds to the loss, so that the job's loss is \"none\". A frozen one adds nothing. A stack of "
        "them, each trained on the one below, is a deep belief network; dense layers of the same names then go on with the weights.",
    .example = R"({"type": "rbm", "hidden": 4})",
    .example_input = "[5]",
    .schema = layer_schema(kRbmOptions, kRbmPositional),
    .build = build_rbm};

}  // namespace perigee
