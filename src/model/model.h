// A network with its parameters: what is trained, evaluated, saved. It makes the graphs and plans for any batch size; the caller that runs
// them owns threads and arenas.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/graph/choosing.h"
#include "src/graph/plan.h"
#include "src/model/params.h"
#include "src/nn/network.h"

namespace perigee {

// One more output of the network with a target and a loss of its own; the losses are added, each times its weight.
struct LossHead {
  int output = 0;  // index among the network's outputs
  NetworkInput target;
  Json loss;
  double weight = 1;
  Json schedule = {};                         // of the weight, where it is one; `weight` is then what evaluations take
  std::vector<std::string> class_names = {};  // of the target, where it is a class label that has them
};

struct ModelSpec {
  Json network;
  std::vector<NetworkInput> inputs;  // fields that the network reads, and those that say which of their steps count
  NetworkInput target;               // the field that the loss compares with; name empty: none (inference only)
  int64_t classes = 0;               // of the target, when it is a class label
  Json loss;                         // of output `loss_output`; null: none
  int loss_output = 0;
  double loss_weight = 1;
  Json loss_schedule = {};
  std::vector<LossHead> more_heads;  // of networks with several outputs
  // Fields that say which steps of a target count, and how much. A target of the steps of an input takes over that input's.
  std::vector<NetworkInput> target_roles = {};
  std::string where;                     // begins error paths
  Dtype dtype = Dtype::f32;              // of parameters, states and all arithmetic: f32 or f64; fields are converted as they come in
  std::vector<std::string> freeze = {};  // patterns of parameters and states that training leaves as they are
  std::optional<Dtype> half;             // f16 or bf16: what mixed_precision (src/graph/passes) stores activations in
};

// The fields that a plan reads: the inputs, and with loss the targets, the main one first, then what else says how much they count.
std::vector<NetworkInput> fields_of(const ModelSpec& spec, bool with_loss);

// An array that an inference plan computes for each example.
struct ModelOutput {
  std::string name;                           // the node's in a graph network, else "output"; of a layer inside, the layer's
  std::string plan;                           // its name in the plan
  Type type;                                  // without the batch
  std::string link;                           // what made it probabilities: "softmax", "sigmoid" or ""
  bool label = false;                         // its target is a class label
  std::vector<std::string> class_names = {};  // of the target; the main output's stand in LoadedModel
};

// The input [batch] of a training graph in f16: what the gradient of each example's loss begins with.
inline constexpr const char* kLossSeed = "@loss_seed";

// Stands for a layer in the lists of layers that plans are asked for: the main output before its loss's link, which is the scores of classes.
inline constexpr const char* kUnlinkedOutput = "@unlinked";
// Likewise: how many steps of the main output are there, i64 [batch]; of a network whose main_output_ends().
inline constexpr const char* kOutputSteps = "@steps";
// Likewise, with a number behind it: the loss of one of several heads without its weight, [batch]. 0 is the main one.
inline constexpr const char* kHeadLoss = "@loss";

class Model {
 public:
  // Error(model) when layers, loss and data do not fit together. Parameters are zero until initialize() or a load.
  explicit Model(ModelSpec spec);

  const ModelSpec& spec() const { return spec_; }
  Params& params() { return params_; }
  const Params& params() const { return params_; }
  const std::vector<LayerReport>& layers() const { return layers_; }
  const std::vector<Type>& output_types() const { return output_types_; }  // without the batch
  // The fields whose numbers choose: targets of a loss that takes classes, inputs of an embedding.
  const std::vector<ChoosingInput>& choosing() const { return choosing_; }
  // Weights of the loss that are schedules: inputs of the training graph.
  const std::vector<LossFactor>& factors() const { return factors_; }
  // Values that rows carry from step to step, where the network's layers carry anything.
  const std::vector<CarriedSpec>& carried() const { return carried_; }
  // The network's outputs, that of the main loss first.
  std::vector<ModelOutput> outputs() const;
  // The output of the layer `name` of describe's table; "name:1" is the second of several. Error(usage) with the nearest names.
  ModelOutput layer_output(const std::string& name) const;
  // Whether lengths or masks of an input say where the main output ends; the output of an inference plan that tells it.
  bool main_output_ends() const { return main_output_ends_; }
  ModelOutput steps_output() const;
  ModelOutput head_loss(size_t head) const;  // of networks with several outputs
  // The function that turns outputs into probabilities: "softmax", "sigmoid" or "".
  const std::string& link() const { return link_; }

  // Forward, loss and gradients of `batch` examples. Outputs: "output" [batch, ...], "loss" [batch] (a sum of weighted terms where the target
  // has lengths, masks or weights; StepWeights knows what to divide by), and one external output
  // "grad:<parameter>" for each trainable parameter that the loss depends on: the gradient of the sum of the losses (in f16 times kLossSeed).
  // The fusions depend on `backend`.
  // `carry`: as Network::BuildOptions has it; here and below. `steps`: of the timed fields (timed_fields.h), 0: all.
  Graph training_graph(int64_t batch, Backend backend = Backend::cpu, Carry carry = Carry::none, int64_t steps = 0) const;
  // Whether the network and its losses can be built with so many steps of the timed fields, and have the same parameters.
  bool fits(int64_t steps) const;
  // Forward in inference mode: "output", "output1" ... when there are more, each with its loss's link applied, "loss" where `with_loss`, and
  // "layer:NAME" for each of `layers`, names as layer_output() takes them, or kUnlinkedOutput. `steps` as training_graph() has it.
  Graph inference_graph(int64_t batch, bool with_loss, Backend backend = Backend::cpu, std::span<const std::string> layers = {},
                        Carry carry = Carry::none, int64_t steps = 0) const;

 private:
  ModelSpec spec_;
  Network network_;
  Params params_;
  std::vector<LayerReport> layers_;
  std::vector<Type> output_types_;
  std::vector<ChoosingInput> choosing_;
  std::vector<LossFactor> factors_;
  std::vector<CarriedSpec> carried_;
  std::vector<std::vector<Type>> layer_types_;  // of each of layers_, with a batch of 2
  std::string link_;
  bool main_output_ends_ = false;
};

// Names of the external gradient outputs of a training graph, in the order of `params`.
std::vector<std::string> gradient_outputs(const Graph& graph);

}  // namespace perigee
