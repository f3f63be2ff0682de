// A layer is a function that appends ops to a graph, and a table of its options. One file in layers/ defines one layer;
// those with a header are shared by several.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/core/config.h"
#include "src/core/row_update.h"
#include "src/core/schema.h"
#include "src/graph/build.h"

namespace perigee {

enum class ParameterRole { weight, bias, gain };  // gain: scales of normalisation layers; never regularised

// One tensor of the parameter block.
struct ParameterSpec {
  std::string name;  // "conv1.weight"
  Shape shape;
  ParameterRole role = ParameterRole::weight;
  Json init;  // a name or an object: "xavier", {"type": "constant", "value": 1}
  int64_t fan_in = 1, fan_out = 1;
  bool trainable = true;
  double lr_scale = 1.0;
  Json regularization;  // null: the job's
  Json constraint;      // null: the job's
  RowUpdate rows = RowUpdate::dense;
};

// One tensor of the state segment (running statistics, counters): no gradient, averaged by examples.
struct StateSpec {
  std::string name;  // "bn1.mean"
  Shape shape;
  Dtype dtype = Dtype::f32;
  double initial = 0;
  // Not empty: a variance, and this state is the mean that it is around. Replicas average E[x^2] in its place, in double.
  std::string mean;
  bool frozen = false;  // it stays as it is: of a layer that is not trained
};

// A weight of a term of the loss that is a schedule. A graph that trains reads it from an input [batch], the same number for each example, so that
// no plan changes with it; others have it as it is behind the run (src/optim/run_end.h).
struct LossFactor {
  std::string input;  // "@factor:vae1.kl"
  Json schedule;
  std::string where;  // begins error paths
};
inline constexpr const char* kLossFactor = "@factor:";

// The interface that a layer uses while it is built. Network creates one for each layer.
class LayerContext {
 public:
  virtual ~LayerContext() = default;
  virtual Graph& graph() = 0;
  virtual const Config& options() const = 0;
  virtual const std::string& name() const = 0;  // "conv1": unique in its network
  virtual bool training() const = 0;
  virtual Dtype dtype() const = 0;  // of floating-point values: f32, or f64 in gradient checks

  // `name` is the tensor's own ("weight"). `fallback_init` is used unless the options or the network's defaults say otherwise
  // ("weight_init", "bias_init").
  virtual Value parameter(const std::string& name, const Shape& shape, ParameterRole role, int64_t fan_in, int64_t fan_out,
                          const Json& fallback_init) = 0;
  // How the rows of the parameter `name`, which was declared before, are updated where the rest of the job allows it.
  virtual void update_rows(const std::string& name, RowUpdate rows) = 0;
  // Parameter `name` of another layer of the same network, which is built before this one.
  virtual Value parameter_of(const std::string& layer, const std::string& name) = 0;
  virtual Value state(const std::string& name, const Shape& shape, double initial) = 0;
  // The variance around the state `mean`, which was declared before.
  virtual Value variance_state(const std::string& name, const std::string& mean, const Shape& shape, double initial) = 0;
  virtual void assign(const std::string& name, Value next) = 0;  // only has an effect in training
  // The state stays as it is even in training, which then goes by it as inference does.
  virtual bool frozen(const std::string& name) const = 0;

  // A value that each row of a batch carries from one step of training or of a session to the next (src/nn/carried.h): [batch, row...], empty where
  // rows stand alone. `stated`: the job wants it; else only sessions do. Where it is not empty, carry_on() says what comes next.
  virtual Value carried(const std::string& name, const Shape& row, bool stated) = 0;
  virtual void carry_on(const std::string& name, Value next) = 0;
  // In a session, where a layer gets one step at a time; empty elsewhere: how many steps each row has read before, [batch] of i64.
  virtual Value steps_before() = 0;
  // In a session: numbers [row...] of each of the last `slots` steps, [batch, slots, row...]; that of step s is at s modulo `slots`.
  // carry_on() gives those of the step at hand.
  virtual Value recent(const std::string& name, const Shape& row, int64_t slots) = 0;
  // Where the graph gets fewer, in a session or behind a cut: the steps of the network's whole input; else 0. `last`: a session ends with them, since the layer knows no more.
  virtual int64_t steps_at_once(bool last) = 0;

  // Which steps of the last axis of `x` count: [N, T] of dtype(), 1 or 0; empty when all do. A layer's outputs have the mask of its input 0
  // where their last axis still has T steps, unless the layer sets one itself; an empty mask says that all steps count from there on.
  virtual Value mask(Value x) = 0;
  virtual void set_mask(Value y, Value mask) = 0;

  // Adds a term [N] to the loss, one number for each example: a divergence, a penalty. It counts as its example does. Loss of one example =
  // loss of the outputs + the terms of all layers; a term that is added while training() only is in no evaluation. `weight`: the option with
  // its factor, a number or a schedule (LossFactor).
  virtual void add_loss(Value each, const char* weight = nullptr) = 0;

  // A number that names a random draw of this layer: the same in every build of the same network.
  virtual int64_t random_stream(const std::string& purpose) = 0;

  // Builds another layer inside this one (wrappers), under `<name>.<label>`.
  virtual std::vector<Value> sublayer(const Json& layer, const std::string& label, std::span<const Value> inputs) = 0;
  // Builds a network inside this one: a description, a layer or a list of layers; its layers are named `<name>.conv1`, ...
  // `label`, when not empty, comes between: `<name>.<label>.conv1`.
  virtual std::vector<Value> network(const Json& description, const std::string& label, std::span<const Value> inputs) = 0;
  // Applies a named activation ("relu", or {"type": "leaky_relu", "alpha": 0.1}).
  virtual Value activation(const Json& activation, Value x) = 0;

  [[noreturn]] virtual void fail(std::string what, std::string got = "", std::string expected = "", std::string hint = "") const = 0;

  // With which step, counted from 1, the sequence begins to which each step of the last axis of `x` belongs, where several lie in a row one after
  // the other: [N, T] of dtype(), 0 for padding; empty when a row is one sequence. A layer that asks keeps them apart; of others those alone are
  // built that look at each step by itself. The numbers go on as the mask does.
  virtual Value segments(Value x) = 0;
};

// Options that every layer takes beside its own: name, share, trainable, lr_scale, regularization, constraint, dropout, and for
// layers with parameters weight_init, bias_init, weight_noise.
extern const Schema common_layer_schema;

// The options of one layer; pg.conv2d {20} is {"out": 20}: `positional` names options in order.
constexpr Schema layer_schema(std::span<const Option> options = {}, std::span<const char* const> positional = {}) {
  return {.options = options, .positional = positional, .common = &common_layer_schema};
}

// How a layer treats the steps of a sequence, the last axis of its inputs. `each`: alone, or looking back by carried values, so that a sequence
// may come in pieces. `folded`: each step is an example to the layers inside. `mixed`: neither.
enum class StepUse : uint8_t { mixed, each, folded };
inline StepUse each_step(const Config&, std::span<const Value>) { return StepUse::each; }
inline StepUse folds_steps(const Config&, std::span<const Value>) { return StepUse::folded; }
// For layers with the option "over".
inline StepUse each_over_channels(const Config& options, std::span<const Value>) {
  return options.choice("over") == "channels" ? StepUse::each : StepUse::mixed;
}

struct LayerDef {
  const char* name = nullptr;  // "conv2d"
  const char* stem = nullptr;  // of automatic names: "conv" gives conv1, conv2; null: the layer's name
  const char* doc = nullptr;
  const char* example = nullptr;        // a worked example: the layer as JSON with what surrounds it left out
  const char* example_input = nullptr;  // the input shape(s) of the example, without the batch: "[1, 28, 28]", or a list of shapes
  Schema schema = layer_schema();
  int min_inputs = 1;
  int max_inputs = 1;      // -1: any number
  bool any_dtype = false;  // takes inputs as they are (indices, whatever is only moved); else they are cast to the context's dtype
  // Dimension 0 of every input is the batch. Throws Error(model) by context.fail.
  std::vector<Value> (*build)(LayerContext& context, std::span<const Value> inputs) = nullptr;
  StepUse (*step_use)(const Config& options, std::span<const Value> inputs) = nullptr;  // null: mixed
};

std::span<const LayerDef* const> all_layers();
const LayerDef& layer_named(std::string_view name);  // Error(model) with the nearest known name

}  // namespace perigee
