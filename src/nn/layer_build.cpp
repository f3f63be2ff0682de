#include "src/nn/layer_build.h"

#include <algorithm>
#include <cassert>

#include "kernels/hash.h"
#include "src/core/known_hint.h"
#include "src/core/pattern.h"
#include "src/nn/activations.h"
#include "src/nn/noise.h"
#include "src/optim/run_end.h"

namespace perigee {
namespace {

// Options of parameters, which a layer without any must not have.
constexpr const char* kParameterOptions[] = {"weight_init", "bias_init", "weight_noise", "regularization", "constraint"};

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

}  // namespace

LayerBuild::LayerBuild(NetworkBuild& build, const LayerText& text, const LayerPlace& place, LayerReport& report)
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

Value LayerBuild::parameter(const std::string& name, const Shape& shape, ParameterRole role, int64_t fan_in, int64_t fan_out,
                            const Json& fallback_init) {
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

void LayerBuild::update_rows(const std::string& name, RowUpdate rows) {
  for (ParameterSpec& spec : build_.result.parameters)
    if (spec.name == prefix_ + "." + name) spec.rows = rows;
}

Value LayerBuild::parameter_of(const std::string& layer, const std::string& name) {
  std::vector<std::string> layers;
  for (const ParameterSpec& spec : build_.result.parameters) {
    if (spec.name == place_.prefix + layer + "." + name) return build_.graph.parameter(spec.name, {dtype(), spec.shape});
    if (spec.name.starts_with(place_.prefix) && spec.name.ends_with("." + name))
      layers.push_back(spec.name.substr(place_.prefix.size(), spec.name.size() - place_.prefix.size() - name.size() - 1));
  }
  fail("no layer in front of it named '" + layer.substr(0, 100) + "' has a " + name, "", "", known_hint(layer, layers));
}

Value LayerBuild::variance_state(const std::string& name, const std::string& mean, const Shape& shape, double initial) {
  return declare(name, prefix_ + "." + mean, shape, initial);
}

Value LayerBuild::declare(const std::string& name, const std::string& mean, const Shape& shape, double initial) {
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

void LayerBuild::assign(const std::string& name, Value next) {
  if (!training() || frozen(name)) return;
  build_.states.at(prefix_ + "." + name) = next;
  build_.assigned.insert(prefix_ + "." + name);
}

Value LayerBuild::segments(Value x) {
  asked_segments_ = true;
  return build_.segments_of(x);
}

void LayerBuild::check_segments(std::span<const Value> inputs) const {
  if (asked_segments_ || has_inside_) return;
  if (std::ranges::none_of(inputs, [&](const Value& x) { return static_cast<bool>(build_.segments_of(x)); })) return;
  const auto use = text_.def->step_use;
  if (use != nullptr && use(options_, inputs) != StepUse::mixed && !asked_carried_) return;
  fail("would mix the sequences that lie in one row (a field of segments: pg.data.packed)", text_.def->name,
       "layers that look at each step alone, attention, transformer and positions", "leave the source as it is, without packed");
}

void LayerBuild::set_mask(Value y, Value mask) {
  assert(!mask || (mask.rank() == 2 && y.rank() >= 2 && mask.shape()[0] == y.shape()[0] && mask.shape()[1] == y.shape()[y.rank() - 1]));
  build_.masks[y.id()] = mask;
}

Value LayerBuild::carried(const std::string& name, const Shape& row, bool stated) {
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

Value LayerBuild::steps_before() {
  if (build_.options.carry != Carry::all || place_.folded || place_.fixed) return {};
  if (!build_.steps_before) {
    const Type one{Dtype::i64, Shape()};
    build_.result.carried.push_back({kStepsRead, one});
    build_.steps_before = build_.graph.input(carried_leaf(kStepsRead), {one.dtype, Shape{build_.options.batch}});
    build_.graph.output(carried_leaf(kStepsRead), build_.steps_before + 1.0);
  }
  return build_.steps_before;
}

Value LayerBuild::recent(const std::string& name, const Shape& row, int64_t slots) {
  std::vector<int64_t> dims = row.vector();
  dims.insert(dims.begin(), slots);
  const Value ring = carried(name, Shape(dims), false);
  if (ring) build_.result.carried.back().slots = slots;
  return ring;
}

int64_t LayerBuild::steps_at_once(bool last) {
  if (place_.fixed) return 0;
  if (last) build_.result.most_steps = build_.options.window;
  return build_.options.window;
}

void LayerBuild::carry_on(const std::string& name, Value next) {
  const bool kept = build_.options.carry == Carry::stated;
  build_.graph.output(carried_leaf(name_ + "." + name), kept ? build_.graph.apply("copy", {next}) : next);
}

void LayerBuild::add_loss(Value each, const char* weight) {
  if (place_.folded)
    fail("adds a number to the loss of each example, and here each step is an example of its own", "", "",
         "put it in front of time_distributed");
  if (build_.options.carry == Carry::all) return;  // a session has no loss
  assert(each.shape() == Shape{build_.options.batch});
  if (weight != nullptr) each = weighted(each, weight);
  if (each) build_.result.losses.push_back(each);
}

Value LayerBuild::weighted(Value each, const char* key) {
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

int64_t LayerBuild::random_stream(const std::string& purpose) {
  const uint64_t hash = fnv1a(name_ + "/" + purpose);
  return static_cast<int64_t>((hash ^ (hash >> 53)) & ((uint64_t{1} << 53) - 1));  // exact in a double
}

std::vector<Value> LayerBuild::sublayer(const Json& layer, const std::string& label, std::span<const Value> inputs) {
  std::vector<LayerText> texts = read_sequence(layer, text_.at, text_.scope);
  if (texts.size() != 1) return build_network(build_, layer, place_inside(label), inputs);
  LayerPlace place = place_inside("");
  if (texts[0].json.find("name") == nullptr) {
    texts[0].name = label;
    texts[0].scope = std::string(texts[0].def->name) + " '" + label + "' (in " + text_.scope + ")";
  }
  return build_layer(build_, texts[0], place, inputs);
}

std::vector<Value> LayerBuild::network(const Json& description, const std::string& label, std::span<const Value> inputs) {
  return build_network(build_, description, place_inside(label), inputs);
}

Value LayerBuild::activation(const Json& activation, Value x) {
  if (const Json* axis = activation.is_object() ? activation.find("axis") : nullptr;
      axis != nullptr && build_.options.carry == Carry::all && !place_.folded && !place_.fixed && *axis != Json(1))
    fail("the activation goes over an axis that is not that of the features, which a session does not have at once", axis->dump(), "1");
  return apply_activation(*this, activation, x);
}

void LayerBuild::check_steps(std::span<const Value> inputs) const {
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

void LayerBuild::check_parameter_options() const {
  if (has_parameters_ || has_inside_) return;
  for (const char* key : kParameterOptions)
    if (text_.json.find(key) != nullptr) fail(std::string("'") + key + "' has no effect: this layer has no parameters");
}

void LayerBuild::fail(std::string what, std::string got, std::string expected, std::string hint) const {
  throw Error(ErrorKind::model, {text_.where(), std::move(what), std::move(got), std::move(expected), std::move(hint)});
}

bool LayerBuild::matches_frozen(const std::string& full) const {
  return std::ranges::any_of(build_.options.freeze, [&](const std::string& pattern) { return matches_pattern(pattern, full); });
}

LayerPlace LayerBuild::place_inside(const std::string& label) {
  const std::string tail = label.empty() ? "." : "." + label + ".";
  LayerPlace place{.name = name_ + tail,
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

bool LayerBuild::claim(const std::string& name) {
  const std::string owner = share_.empty() ? "layer " + name_ : "share " + share_;
  const auto [place, fresh] = build_.owners.try_emplace(name, owner);
  if (!fresh && (place->second != owner || share_.empty()))
    fail("'" + name + "' already belongs to " + place->second, "", "", "rename the layer, or give both the same 'share'");
  return fresh;
}

void LayerBuild::check_same_shape(const ParameterSpec& spec) {
  for (const ParameterSpec& known : build_.result.parameters)
    if (known.name == spec.name && known.shape != spec.shape)
      fail("shares '" + spec.name + "' with a layer whose shape differs", spec.shape.text(), known.shape.text());
}

}  // namespace perigee
