#include "src/nn/network.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

#include "kernels/dtype_kinds.h"
#include "kernels/hash.h"
#include "src/core/known_hint.h"
#include "src/core/pattern.h"
#include "src/graph/op.h"
#include "src/nn/activations.h"
#include "src/nn/describe.h"
#include "src/nn/noise.h"
#include "src/optim/run_end.h"

namespace perigee {
namespace {

// "x", "z": as a script writes them.
std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text;
}

Shape without_batch(const Shape& shape) {
  std::vector<int64_t> dims = shape.vector();
  if (!dims.empty()) dims.erase(dims.begin());
  return Shape(dims);
}

// The known names that are near, or else all of them when they are few.
constexpr const char* kParameterOptions[] = {"weight_init", "bias_init", "weight_noise", "regularization", "constraint"};

// Shared by all layers of one build.
struct Build {
  Graph& graph;
  const Network::BuildOptions& options;
  BuiltNetwork& result;
  std::map<std::string, std::string> owners;  // parameter or state -> "share word" or "layer name"
  std::map<std::string, Value> states;        // as the next reader sees them
  std::set<std::string> assigned;
  Value steps_before = {};           // of the rows of a session, where a layer has asked
  std::set<std::string> fixed = {};  // inputs of a session that are there from its beginning
  std::vector<bool> stepped = {};    // by node, as far as was asked: it depends on what a session reads step by step
  // By the value that it belongs to. An empty one: it has none, whatever the layers around would give it.
  std::map<ValueId, Value> masks = {};
  std::map<ValueId, Value> segments = {};  // likewise

  // Whether a value of a session is another one in each step.
  bool by_step(Value value) {
    for (size_t i = stepped.size(); i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      bool any = node.op->leaf == LeafOp::input && !fixed.contains(attr_string(node, "name"));
      for (const ValueId& id : node.inputs) any = any || (id.node >= 0 && stepped[static_cast<size_t>(id.node)]);
      stepped.push_back(any);
    }
    return stepped[static_cast<size_t>(value.id().node)];
  }

  Value mask(Value x) const {
    const auto found = masks.find(x.id());
    return found == masks.end() ? Value() : found->second;
  }
  Value segments_of(Value x) const {
    const auto found = segments.find(x.id());
    return found == segments.end() ? Value() : found->second;
  }
  // `y` is `x` in another form: converted, with noise.
  void follow(Value x, Value y) {
    for (auto* each : {&masks, &segments})
      if (const auto found = each->find(x.id()); found != each->end()) each->try_emplace(y.id(), found->second);
  }
};

// Where in the tree of networks a layer is built.
struct Place {
  std::string name, prefix;  // of the layers around it, with a dot at the end; prefix names parameters ("share" changes it)
  std::string share;         // the word, of it or of a layer around it
  std::string inside;        // "residual 'block1'"
  std::string where;
  Json defaults;
  bool trainable = true;
  bool folded = false;  // each step is an example of its own
  bool fixed = false;   // of a session: it sees what is there from the beginning alone, whole
  int depth = 0;
};

std::vector<Value> build_network(Build& build, const Json& description, const Place& place, std::span<const Value> inputs);
std::vector<Value> build_layer(Build& build, const LayerText& text, const Place& place, std::span<const Value> inputs);

// The layer's own options, with the defaults for those that it knows and leaves out.
Json with_defaults(const LayerText& text, const Json& defaults) {
  Json options = text.json;
  if (defaults.is_null()) return options;
  for (const Option* option : text.def->schema.all()) {
    const Json* value = defaults.find(option->name);
    if (value != nullptr && options.find(option->name) == nullptr) options.set(option->name, *value);
  }
  return options;
}

class Context final : public LayerContext {
 public:
  Context(Build& build, const LayerText& text, const Place& place, LayerReport& report)
      : build_(build),
        text_(text),
        place_(place),
        json_(with_defaults(text, place.defaults)),
        options_(json_, text.def->schema, text.where()),
        report_index_(static_cast<size_t>(&report - build.result.layers.data())),
        name_(place.name + text.name) {
    share_ = options_.string("share", "");
    prefix_ = share_.empty() ? place.prefix + text.name : share_;
    if (share_.empty()) share_ = place.share;
    trainable_ = place.trainable && options_.boolean("trainable", true);
    lr_scale_ = options_.number_in("lr_scale", 0, 1e6, 1);
  }

  Graph& graph() override { return build_.graph; }
  const Config& options() const override { return options_; }
  const std::string& name() const override { return name_; }
  bool training() const override { return build_.options.training; }
  Dtype dtype() const override { return build_.options.dtype; }

  Value parameter(const std::string& name, const Shape& shape, ParameterRole role, int64_t fan_in, int64_t fan_out,
                  const Json& fallback_init) override {
    has_parameters_ = true;
    ParameterSpec spec{.name = prefix_ + "." + name,
                       .shape = shape,
                       .role = role,
                       .init = fallback_init,
                       .fan_in = fan_in,
                       .fan_out = fan_out,
                       .trainable = trainable_ && !matches_frozen(prefix_ + "." + name),
                       .lr_scale = lr_scale_};
    const char* init_key = role == ParameterRole::weight ? "weight_init" : role == ParameterRole::bias ? "bias_init" : nullptr;
    // A layer may have an option for one of its tensors: that of "recurrent_2" is recurrent_init.
    const std::string own_key = name.substr(0, name.find('_')) + "_init";
    if (text_.def->schema.find(own_key) != nullptr) init_key = own_key.c_str();
    if (init_key != nullptr && options_.has(init_key)) spec.init = *options_.raw(init_key);
    if (const Json* own = options_.raw("regularization")) spec.regularization = *own;
    if (const Json* own = options_.raw("constraint")) spec.constraint = *own;
    if (claim(spec.name)) {
      shape.elements();  // Error when the product overflows
      report().parameters += shape.elements();
      build_.result.parameters.push_back(spec);
    } else {
      check_same_shape(spec);
    }
    const Value value = build_.graph.parameter(spec.name, {dtype(), shape});
    return training() ? noisy_parameter(*this, value, role, name) : value;
  }

  void update_rows(const std::string& name, RowUpdate rows) override {
    for (ParameterSpec& spec : build_.result.parameters)
      if (spec.name == prefix_ + "." + name) spec.rows = rows;
  }

  Value parameter_of(const std::string& layer, const std::string& name) override {
    std::vector<std::string> layers;
    for (const ParameterSpec& spec : build_.result.parameters) {
      if (spec.name == place_.prefix + layer + "." + name) return build_.graph.parameter(spec.name, {dtype(), spec.shape});
      if (spec.name.starts_with(place_.prefix) && spec.name.ends_with("." + name))
        layers.push_back(spec.name.substr(place_.prefix.size(), spec.name.size() - place_.prefix.size() - name.size() - 1));
    }
    fail("no layer in front of it named '" + layer.substr(0, 100) + "' has a " + name, "", "", known_hint(layer, layers));
  }

  Value state(const std::string& name, const Shape& shape, double initial) override { return declare(name, "", shape, initial); }

  Value variance_state(const std::string& name, const std::string& mean, const Shape& shape, double initial) override {
    return declare(name, prefix_ + "." + mean, shape, initial);
  }

  Value declare(const std::string& name, const std::string& mean, const Shape& shape, double initial) {
    const std::string full = prefix_ + "." + name;
    if (claim(full)) {
      build_.result.states.push_back(
          {.name = full, .shape = shape, .dtype = dtype(), .initial = initial, .mean = mean, .frozen = frozen(name)});
      build_.states[full] = build_.graph.state(full, {dtype(), shape});
    }
    const Value value = build_.states.at(full);
    if (value.shape() != shape) fail("shares '" + full + "' with a layer of another shape", shape.text(), value.shape().text());
    return value;
  }

  bool frozen(const std::string& name) const override { return !trainable_ || matches_frozen(prefix_ + "." + name); }

  // A layer that shares the state and comes later goes on from this value.
  void assign(const std::string& name, Value next) override {
    if (!training() || frozen(name)) return;
    build_.states.at(prefix_ + "." + name) = next;
    build_.assigned.insert(prefix_ + "." + name);
  }

  Value mask(Value x) override { return build_.mask(x); }

  Value segments(Value x) override {
    asked_segments_ = true;
    return build_.segments_of(x);
  }

  // A layer that joins steps, or hands something on from one to the next, would mix the sequences of a row, unless it asks which is which.
  void check_segments(std::span<const Value> inputs) const {
    if (asked_segments_ || has_inside_) return;
    if (std::ranges::none_of(inputs, [&](const Value& x) { return static_cast<bool>(build_.segments_of(x)); })) return;
    const auto use = text_.def->step_use;
    if (use != nullptr && use(options_, inputs) != StepUse::mixed && !asked_carried_) return;
    fail("would mix the sequences that lie in one row (a field of segments: pg.data.packed)", text_.def->name,
         "layers that look at each step alone, attention, transformer and positions", "leave the source as it is, without packed");
  }

  void set_mask(Value y, Value mask) override {
    assert(!mask || (mask.rank() == 2 && y.rank() >= 2 && mask.shape()[0] == y.shape()[0] && mask.shape()[1] == y.shape()[y.rank() - 1]));
    build_.masks[y.id()] = mask;
  }

  Value carried(const std::string& name, const Shape& row, bool stated) override {
    asked_carried_ = true;
    const Carry carry = build_.options.carry;
    if (stated && place_.folded)
      fail("carries no state where each step is an example of its own", "", "", "put it in front of time_distributed");
    if (place_.folded || place_.fixed || (!stated && carry != Carry::all)) return {};
    const std::string full = name_ + "." + name;
    build_.result.carried.push_back({full, {dtype(), row}});
    if (carry == Carry::none) return {};
    std::vector<int64_t> dims = row.vector();
    dims.insert(dims.begin(), build_.options.batch);
    return build_.graph.input(carried_leaf(full), {dtype(), Shape(dims)});
  }

  Value steps_before() override {
    if (build_.options.carry != Carry::all || place_.folded || place_.fixed) return {};
    if (!build_.steps_before) {
      const Type one{Dtype::i64, Shape()};
      build_.result.carried.push_back({kStepsRead, one});
      build_.steps_before = build_.graph.input(carried_leaf(kStepsRead), {one.dtype, Shape{build_.options.batch}});
      build_.graph.output(carried_leaf(kStepsRead), build_.steps_before + 1.0);
    }
    return build_.steps_before;
  }

  Value recent(const std::string& name, const Shape& row, int64_t slots) override {
    std::vector<int64_t> dims = row.vector();
    dims.insert(dims.begin(), slots);
    const Value ring = carried(name, Shape(dims), false);
    if (ring) build_.result.carried.back().slots = slots;
    return ring;
  }

  int64_t steps_at_once(bool last) override {
    if (place_.fixed) return 0;
    if (last) build_.result.most_steps = build_.options.window;
    return build_.options.window;
  }

  // A device takes what a plan gives where it lies: that must be a whole value, no window of another one.
  void carry_on(const std::string& name, Value next) override {
    const bool kept = build_.options.carry == Carry::stated;
    build_.graph.output(carried_leaf(name_ + "." + name), kept ? build_.graph.apply("copy", {next}) : next);
  }

  void add_loss(Value each, const char* weight) override {
    if (place_.folded)
      fail("adds a number to the loss of each example, and here each step is an example of its own", "", "",
           "put it in front of time_distributed");
    if (build_.options.carry == Carry::all) return;  // a session has no loss
    assert(each.shape() == Shape{build_.options.batch});
    if (weight != nullptr) each = weighted(each, weight);
    if (each) build_.result.losses.push_back(each);
  }

  // Empty where nothing is left of the term.
  Value weighted(Value each, const char* key) {
    const Json* given = options_.raw(key);
    if (given == nullptr || !given->is_object()) {
      const double number = options_.number(key);
      return number == 0 ? Value() : number == 1 ? each : each * number;
    }
    const std::string where = options_.where() + ": " + key;
    if (!training()) return each * at_run_end(*given, where);
    const std::string input = kLossFactor + name_ + "." + key;
    build_.result.factors.push_back({.input = input, .schedule = *given, .where = where});
    return each * build_.graph.input(input, each.type());
  }

  // FNV-1a of the layer's name and the purpose: independent of how many other draws there are.
  int64_t random_stream(const std::string& purpose) override {
    const uint64_t hash = fnv1a(name_ + "/" + purpose);
    return static_cast<int64_t>((hash ^ (hash >> 53)) & ((uint64_t{1} << 53) - 1));  // exact in a double
  }

  std::vector<Value> sublayer(const Json& layer, const std::string& label, std::span<const Value> inputs) override {
    std::vector<LayerText> texts = read_sequence(layer, text_.at, text_.scope);
    if (texts.size() != 1) return build_network(build_, layer, place_inside(label), inputs);
    Place place = place_inside("");
    if (texts[0].json.find("name") == nullptr) {
      texts[0].name = label;
      texts[0].scope = std::string(texts[0].def->name) + " '" + label + "' (in " + text_.scope + ")";
    }
    return build_layer(build_, texts[0], place, inputs);
  }

  std::vector<Value> network(const Json& description, const std::string& label, std::span<const Value> inputs) override {
    return build_network(build_, description, place_inside(label), inputs);
  }

  Value activation(const Json& activation, Value x) override {
    if (const Json* axis = activation.is_object() ? activation.find("axis") : nullptr;
        axis != nullptr && build_.options.carry == Carry::all && !place_.folded && !place_.fixed && *axis != Json(1))
      fail("the activation goes over an axis that is not that of the features, which a session does not have at once", axis->dump(), "1");
    return apply_activation(*this, activation, x);
  }

  // A session gives a layer the steps of a sequence one by one. Inputs that are there as a whole are empty for a layer that knows what to do with
  // them; another one joins its steps with rows of features alone.
  void check_steps(std::span<const Value> inputs) const {
    std::vector<Value> seen;
    bool sequences = false;
    for (const Value& input : inputs) {
      const bool steps = build_.by_step(input);
      seen.push_back(steps ? input : Value());
      sequences = sequences || (!steps && input.rank() > 2);
    }
    const auto use = text_.def->step_use;
    const bool alike = use != nullptr && use(options_, inputs) != StepUse::mixed;
    if (alike && sequences)
      fail("joins a step with a sequence that is there as a whole", text_.def->name, "steps, or rows of features",
           "attention(x, memory) looks at a whole sequence");
    if (use == nullptr || (!alike && (!seen[0] || use(options_, seen) == StepUse::mixed)))
      fail("does not go step by step: it needs other steps than the one at hand", text_.def->name, "",
           "a session is for layers that look back by their state, or at one step alone");
  }

  // An option on parameters where there are none would silently do nothing.
  void check_parameter_options() const {
    if (has_parameters_ || has_inside_) return;
    for (const char* key : kParameterOptions)
      if (text_.json.find(key) != nullptr) fail(std::string("'") + key + "' has no effect: this layer has no parameters");
  }

  [[noreturn]] void fail(std::string what, std::string got = "", std::string expected = "", std::string hint = "") const override {
    throw Error(ErrorKind::model, {text_.where(), std::move(what), std::move(got), std::move(expected), std::move(hint)});
  }

 private:
  bool matches_frozen(const std::string& full) const {
    return std::ranges::any_of(build_.options.freeze, [&](const std::string& pattern) { return matches_pattern(pattern, full); });
  }

  LayerReport& report() { return build_.result.layers[report_index_]; }

  Place place_inside(const std::string& label) {
    const std::string tail = label.empty() ? "." : "." + label + ".";
    Place place{.name = name_ + tail,
                .prefix = prefix_ + tail,
                .share = share_,
                .inside = std::string(text_.def->name) + " '" + name_ + "'",
                .where = text_.at,
                .defaults = place_.defaults,
                .trainable = trainable_,
                .folded = place_.folded || text_.def->step_use == &folds_steps,
                .depth = place_.depth + 1};
    // A wrapper's options of parameters hold for the layers inside, unless they have their own.
    for (const char* key : kParameterOptions)
      if (const Json* value = json_.find(key)) {
        if (place.defaults.is_null()) place.defaults = Json::object();
        place.defaults.set(key, *value);
      }
    has_inside_ = true;
    if (place.depth > kMaxNesting) fail("is nested too deeply", std::to_string(place.depth), "at most " + std::to_string(kMaxNesting), "");
    return place;
  }

  // True when the tensor is new; false when it is shared with an earlier layer, as both said.
  bool claim(const std::string& name) {
    const std::string owner = share_.empty() ? "layer " + name_ : "share " + share_;
    const auto [place, fresh] = build_.owners.try_emplace(name, owner);
    if (!fresh && (place->second != owner || share_.empty()))
      fail("'" + name + "' already belongs to " + place->second, "", "", "rename the layer, or give both the same 'share'");
    return fresh;
  }

  void check_same_shape(const ParameterSpec& spec) {
    for (const ParameterSpec& known : build_.result.parameters)
      if (known.name == spec.name && known.shape != spec.shape)
        fail("shares '" + spec.name + "' with a layer whose shape differs", spec.shape.text(), known.shape.text());
  }

  Build& build_;
  const LayerText& text_;
  const Place& place_;
  const Json json_;
  const Config options_;
  const size_t report_index_;
  const std::string name_;
  std::string prefix_, share_;
  bool trainable_ = true, has_parameters_ = false, has_inside_ = false, asked_segments_ = false, asked_carried_ = false;
  double lr_scale_ = 1;
};

std::string count_text(int low, int high) {
  if (high < 0) return std::to_string(low) + " or more";
  return low == high ? std::to_string(low) : std::to_string(low) + " to " + std::to_string(high);
}

// Steps are carried along where the time axis is still there. What a layer inside has decided stays.
void carry_masks(Build& build, std::span<const Value> inputs, std::span<const Value> outputs) {
  const auto carry = [&](Value steps, std::map<ValueId, Value>& into) {
    for (const Value& output : outputs) {
      if (!steps) continue;
      const Shape& shape = output.shape();
      const bool kept = shape.rank() >= 2 && shape[0] == steps.shape()[0] && shape[shape.rank() - 1] == steps.shape()[1];
      into.try_emplace(output.id(), kept ? steps : Value());
    }
  };
  if (inputs.empty()) return;
  carry(build.mask(inputs[0]), build.masks);
  carry(build.segments_of(inputs[0]), build.segments);
}

// An embedding takes one index of an example for no list of them. In a session it is a list of one step.
std::vector<Value> with_steps(std::span<const Value> inputs, std::vector<Value> outputs) {
  if (inputs.size() != 1 || is_floating(inputs[0].dtype()) || inputs[0].rank() != 2) return outputs;
  for (Value& y : outputs)
    if (is_floating(y.dtype()) && y.rank() == 2) y = reshape(y, Shape{y.shape()[0], y.shape()[1], 1});
  return outputs;
}

std::vector<Value> build_layer(Build& build, const LayerText& text, const Place& around, std::span<const Value> inputs) {
  const LayerDef& def = *text.def;
  Place place = around;
  place.fixed = build.options.carry == Carry::all && std::ranges::none_of(inputs, [&](Value input) { return build.by_step(input); });
  const int given = static_cast<int>(inputs.size());
  const std::string outer_scope = build.graph.scope();
  build.graph.set_scope(text.scope);
  const size_t index = build.result.layers.size();
  build.result.layers.push_back(
      {.name = place.name + text.name, .type = def.name, .scope = text.scope, .first_node = static_cast<int>(build.graph.nodes().size())});
  Context context(build, text, place, build.result.layers.back());
  if (given < def.min_inputs || (def.max_inputs >= 0 && given > def.max_inputs))
    context.fail("has the wrong number of inputs", std::to_string(given), count_text(def.min_inputs, def.max_inputs),
                 given > def.max_inputs ? "join them with concat, add, ... first" : "");
  std::vector<Value> outputs;
  try {
    std::vector<Value> values;
    for (const Value& input : inputs)
      values.push_back(def.any_dtype || is_floating(input.dtype()) ? input : cast(input, build.options.dtype));
    if (build.options.training)
      for (size_t i = 0; i < values.size(); ++i) values[i] = drop_input(context, values[i], i);
    for (size_t i = 0; i < values.size(); ++i) build.follow(inputs[i], values[i]);
    const bool by_step = build.options.carry == Carry::all && !place.folded && !place.fixed;
    if (by_step) context.check_steps(values);
    outputs = def.build(context, values);
    if (by_step) outputs = with_steps(values, outputs);
    carry_masks(build, values, outputs);
    context.check_segments(values);
    context.check_parameter_options();
  } catch (const Error& error) {
    // An op names the graph's scope, a layer its full position.
    if (error.parts().where.starts_with(text.scope) && !text.at.empty()) throw error.within(text.at);
    if (error.parts().where.empty()) throw error.within(text.where());
    throw;
  }
  LayerReport& report = build.result.layers[index];
  report.last_node = static_cast<int>(build.graph.nodes().size());
  for (const Value& output : outputs) report.outputs.push_back(without_batch(output.shape()));
  build.result.layer_outputs.resize(build.result.layers.size());
  build.result.layer_outputs[index] = outputs;
  build.graph.set_scope(outer_scope);
  return outputs;
}

std::vector<Value> build_graph(Build& build, const Json& description, const Place& place, std::span<const Value> inputs) {
  const GraphText text = read_graph(description, place.where, place.inside);
  if (text.inputs.size() != inputs.size())
    throw Error(ErrorKind::model, {.where = place.where,
                                   .what = "a graph network gets another number of inputs than it names",
                                   .got = std::to_string(inputs.size()),
                                   .expected = std::to_string(text.inputs.size())});
  std::map<std::string, std::vector<Value>> known;
  for (size_t i = 0; i < inputs.size(); ++i) known[text.inputs[i]] = {inputs[i]};
  const auto take = [&](const std::string& reference, const std::string& where, std::vector<Value>& into) {
    const auto [name, output] = node_reference(reference);
    const std::vector<Value>& values = known.at(name);
    if (output >= static_cast<int>(values.size()))
      throw Error(ErrorKind::model, {.where = where,
                                     .what = "'" + name + "' has no output " + std::to_string(output),
                                     .got = "'" + reference + "'",
                                     .expected = "0 to " + std::to_string(values.size() - 1)});
    if (output >= 0) into.push_back(values[static_cast<size_t>(output)]);
    else into.insert(into.end(), values.begin(), values.end());
  };
  for (const NodeText& node : text.nodes) {
    std::vector<Value> operands;
    for (const std::string& input : node.inputs) take(input, node.layer.where(), operands);
    known[node.layer.name] = build_layer(build, node.layer, place, operands);
  }
  std::vector<Value> outputs;
  for (const std::string& output : text.outputs) take(output, place.where, outputs);
  return outputs;
}

std::vector<Value> build_network(Build& build, const Json& description, const Place& outer, std::span<const Value> inputs) {
  Place place = outer;
  if (Json defaults = read_defaults(description, place.where); !defaults.is_null()) {
    if (place.defaults.is_null()) place.defaults = Json::object();
    for (const auto& [key, value] : defaults.as_object()) place.defaults.set(key, value);
  }
  if (is_graph(description)) return build_graph(build, description, place, inputs);
  std::vector<Value> values(inputs.begin(), inputs.end());
  for (const LayerText& text : read_sequence(description, place.where, place.inside)) values = build_layer(build, text, place, values);
  return values;
}

}  // namespace

Network::Network(const Json& description, std::string where) : description_(description), where_(std::move(where)) {
  read_defaults(description_, where_);
  if (is_graph(description_)) read_graph(description_, where_, "");
  else read_sequence(description_, where_, "");
}

std::vector<std::string> Network::input_names() const {
  return is_graph(description_) ? read_graph(description_, where_, "").inputs : std::vector<std::string>{};
}

std::vector<std::string> Network::output_names() const {
  return is_graph(description_) ? read_graph(description_, where_, "").outputs : std::vector<std::string>{};
}

Value steps_mask(FieldRole role, Value given, int64_t steps, Dtype dtype) {
  Graph& graph = given.graph();
  const Value zero = graph.constant(0, {dtype, Shape()}), one = graph.constant(1, {dtype, Shape()});
  if (role == FieldRole::mask) return where(not_equal(cast(given, dtype), zero), one, zero);
  std::vector<double> numbers(static_cast<size_t>(steps));
  for (size_t t = 0; t < numbers.size(); ++t) numbers[t] = static_cast<double>(t);
  const Value index = graph.constant(Tensor::from(Shape{1, steps}, numbers).to(dtype));
  return where(greater(reshape(cast(given, dtype), Shape{given.shape()[0], 1}), index), one, zero);
}

BuiltNetwork Network::build(Graph& graph, const std::vector<NetworkInput>& inputs, const BuildOptions& options) const {
  BuiltNetwork result;
  std::map<std::string, Value> by_name;
  std::vector<Value> operands;
  Build build{.graph = graph, .options = options, .result = result, .owners = {}, .states = {}, .assigned = {}};
  for (const NetworkInput& input : inputs) {
    std::vector<int64_t> dims = input.type.shape.vector();
    dims.insert(dims.begin(), options.batch);
    result.inputs.push_back(graph.input(input.name, {input.type.dtype, Shape(dims)}));
    if (input.role != FieldRole::none) continue;
    operands.push_back(is_floating(input.type.dtype) ? cast(result.inputs.back(), options.dtype) : result.inputs.back());
    by_name[input.name] = operands.back();
  }
  const auto plain = std::ranges::count(inputs, FieldRole::none, &NetworkInput::role);
  for (const NetworkInput& input : inputs) {  // a session reads the one that has one step
    const NetworkInput& of = input.role == FieldRole::none ? input : *std::ranges::find(inputs, input.of, &NetworkInput::name);
    if (plain > 1 && (of.type.shape.rank() == 0 || of.type.shape.at(-1) != 1)) build.fixed.insert(input.name);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].role == FieldRole::none) continue;
    const Value of = by_name.at(inputs[i].of);
    if (inputs[i].role == FieldRole::segment) {
      build.segments[of.id()] = cast(result.inputs[i], options.dtype);
      continue;
    }
    const Value mask = steps_mask(inputs[i].role, result.inputs[i], of.shape()[of.rank() - 1], options.dtype);
    const Value before = build.mask(of);
    build.masks[of.id()] = before ? before * mask : mask;
  }
  for (const NetworkInput& input : inputs)
    if (input.role == FieldRole::none)
      if (const Value mask = build.mask(by_name.at(input.name))) result.input_masks.emplace_back(input.name, mask);
  // A graph names its inputs; their order in the data does not matter.
  if (const std::vector<std::string> names = input_names(); !names.empty()) {
    operands.clear();
    std::vector<std::string> known;
    for (const NetworkInput& input : inputs)
      if (input.role == FieldRole::none) known.push_back(input.name);
    for (const std::string& name : names) {
      const std::string hint = by_name.contains(name) ? "" : nearest_hint(name, known);
      if (!by_name.contains(name))
        throw Error(ErrorKind::model, {.where = input_place(description_, name, where_),
                                       .what = "'" + name + "', which the network takes as input, is not among the job's inputs",
                                       .got = quoted(known),
                                       .hint = hint.empty() ? "write inputs = { " + quoted(names) + " } in the job" : hint});
      operands.push_back(by_name.at(name));
    }
  }
  result.outputs = build_network(build, description_, {.where = where_}, operands);
  for (const Value& output : result.outputs) result.masks.push_back(build.mask(output));
  for (const std::string& name : build.assigned) graph.assign(name, build.states.at(name));
  return result;
}

}  // namespace perigee
