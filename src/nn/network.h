// A JSON-serialisable description of a network and the graph it lowers to. Not the parameters' values: those are in Params.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/core/field_role.h"
#include "src/nn/carried.h"
#include "src/nn/layer.h"

namespace perigee {

// {"type": "sequential", "layers": [{"type": "conv2d", "out": 20, "kernel": 5, "name": "conv1"}, ...], "defaults": {...}} or
// {"type": "graph", "inputs": ["a", "b"], "nodes": [{"name": "n", "layer": {...}, "inputs": ["a"]}, ...], "outputs": ["n"]}.
// A layer's "@" is where the script wrote it ("lenet.lua:7"): used in errors, never stored.
// An input of a node is a network input, a node, or one of a node's several outputs ("parts:1"). Nodes may come in any order.
// Layers with the same "share" name use the same parameters (siamese networks).
// "defaults" stand in for options that a layer leaves out: {"activation": "relu", "weight_init": "he_normal", "padding": "same"}.
struct NetworkInput {
  std::string name;  // a field of the data source: "x"
  Type type;         // of one example, without the batch dimension
  // Not none: it is no operand of the network, but says which steps of the field `of` count.
  FieldRole role = FieldRole::none;
  std::string of = {};
};

struct LayerReport {
  std::string name, type, scope;      // "conv1", "conv2d", "conv2d 'conv1' (layer 1 of 6)"
  std::vector<Shape> outputs;         // without the batch
  int64_t parameters = 0;             // elements of its own, without those of layers inside it and of a layer it shares with
  int first_node = 0, last_node = 0;  // the graph nodes that it appended: [first, last)
};

struct BuiltNetwork {
  std::vector<Value> inputs;                               // batch first
  std::vector<Value> outputs;                              // batch first
  std::vector<Value> masks;                                // of each output, as LayerContext::mask() gives them
  std::vector<std::pair<std::string, Value>> input_masks;  // of the fields that have one
  std::vector<ParameterSpec> parameters;
  std::vector<StateSpec> states;
  std::vector<CarriedSpec> carried;
  std::vector<Value> losses;  // [batch] each: the terms that layers add to the loss
  std::vector<LossFactor> factors;
  int64_t most_steps = 0;  // that a session may have; 0: any number
  std::vector<LayerReport> layers;
  std::vector<std::vector<Value>> layer_outputs;  // of each of `layers`
};

// The mask [N, steps] that a field of lengths [N] or masks [N, steps] gives.
Value steps_mask(FieldRole role, Value given, int64_t steps, Dtype dtype);

class Network {
 public:
  // Checks the description as far as it can be without input shapes; keeps a copy. `where` begins error paths ("job.json: network").
  Network(const Json& description, std::string where);

  const Json& description() const { return description_; }

  // The names of a graph network's inputs; empty for a sequence, which takes what it is given.
  std::vector<std::string> input_names() const;
  // Likewise its outputs: nodes, or "parts:1".
  std::vector<std::string> output_names() const;

  struct BuildOptions {
    int64_t batch = 1;
    bool training = true;
    Dtype dtype = Dtype::f32;                  // of all floating-point values; inputs of another type are converted
    std::span<const std::string> freeze = {};  // patterns: parameters and states that stay as they are
    Carry carry = Carry::none;                 // values that carry on are inputs, their next ones outputs (carried_leaf)
    int64_t window = 0;                        // steps of the whole input where the graph gets fewer: a session's, or those of a cut
  };
  // Appends the network to `graph` for one batch size. Parameters and states become leaves named as in the specs.
  BuiltNetwork build(Graph& graph, const std::vector<NetworkInput>& inputs, const BuildOptions& options) const;

 private:
  Json description_;
  std::string where_;
};

}  // namespace perigee
