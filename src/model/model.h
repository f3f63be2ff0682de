// A network with its parameters: what is trained, evaluated, saved. It makes the graphs and plans for any batch size; who runs
// them owns threads and arenas.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/graph/plan.h"
#include "src/model/params.h"
#include "src/model/recompute.h"
#include "src/nn/network.h"

namespace perigee {

// One more output of the network with a target and a loss of its own; the losses are added, each times its weight.
struct LossHead {
  int output = 0;  // index among the network's outputs
  NetworkInput target;
  Json loss;
  double weight = 1;
};

struct ModelSpec {
  Json network;
  std::vector<NetworkInput> inputs;  // fields that the network reads
  NetworkInput target;               // the field that the loss compares with; name empty: none (inference only)
  int64_t classes = 0;               // of the target, when it is a class label
  Json loss;                         // of output `loss_output`; null: none
  int loss_output = 0;
  double loss_weight = 1;
  std::vector<LossHead> more_heads;  // of networks with several outputs
  std::string where;                 // begins error paths
  Dtype dtype = Dtype::f32;          // of parameters, states and all arithmetic: f32 or f64; fields are converted as they come in
  std::optional<Dtype> half;         // f16 or bf16: what mixed_precision (src/graph/passes) stores activations in
};

// The input [batch] of a training graph in f16: what the gradient of each example's loss begins with.
inline constexpr const char* kLossSeed = "@loss_seed";

class Model {
 public:
  // Error(model) when layers, loss and data do not fit together. Parameters are zero until initialize() or a load.
  explicit Model(ModelSpec spec);

  const ModelSpec& spec() const { return spec_; }
  Params& params() { return params_; }
  const Params& params() const { return params_; }
  const std::vector<LayerReport>& layers() const { return layers_; }
  const std::vector<Type>& output_types() const { return output_types_; }  // without the batch
  // What turns outputs into probabilities: "softmax", "sigmoid" or "".
  const std::string& link() const { return link_; }

  // Forward, loss and gradients of `batch` examples. Outputs: "output" [batch, ...], "loss" [batch], and one external output
  // "grad:<parameter>" for each trainable parameter that the loss depends on: the gradient of the sum of the losses (in f16 times kLossSeed).
  // What is fused depends on `backend`.
  Graph training_graph(int64_t batch, Backend backend = Backend::cpu) const;
  // Forward in inference mode: "output" with the link applied, "output1" ... when there are more, and "loss" where `with_loss`.
  Graph inference_graph(int64_t batch, bool with_loss, Backend backend = Backend::cpu) const;

 private:
  ModelSpec spec_;
  Network network_;
  Params params_;
  std::vector<LayerReport> layers_;
  std::vector<Type> output_types_;
  std::string link_;
};

// Names of the external gradient outputs of a training graph, in the order of `params`.
std::vector<std::string> gradient_outputs(const Graph& graph);

// Plans of one kind by batch size, and one thread's memory for them.
class PlanSet {
 public:
  enum class Kind { training, inference, inference_with_loss };
  PlanSet(const Model& model, Kind kind, Backend backend = Backend::cpu, const Tuning* tuning = nullptr);
  // Of training plans, before the first: what is computed again in the backward pass, so that arenas fit into `room` bytes. Error(model) when
  // a pattern names no layer.
  void set_recompute(const RecomputeOptions& options, size_t room);
  // Compiles on first use; thread-safe. At most 16 are kept.
  std::shared_ptr<const Plan> plan(int64_t batch) { return choice(batch).plan; }
  RecomputeChoice choice(int64_t batch);
  void drop(int64_t batch);  // it is compiled again when it is asked for
  const Model& model() const { return model_; }
  const SliceAnalysis& slices() const { return slices_; }
  size_t room() const { return room_; }  // for an arena

 private:
  const Model& model_;
  Kind kind_;
  Backend backend_;
  const Tuning* tuning_;
  SliceAnalysis slices_;
  RecomputeOptions::Mode recompute_ = RecomputeOptions::Mode::none;
  size_t room_ = SIZE_MAX;
  std::vector<std::string> scopes_;  // of the layers that may be computed again
  std::mutex mutex_;
  std::map<int64_t, RecomputeChoice> plans_;
};

// One thread's arena and bound plans. Not thread-safe.
class PlanMemory {
 public:
  // `gradient`: a block of the parameters' layout and type that gradients go to; null for inference.
  // `check`: compare every host kernel with ref.
  PlanMemory(PlanSet& plans, Params& params, std::byte* gradient, bool check = false);
  PlanRun& at(int64_t batch);
  size_t bytes() const;

 private:
  PlanSet& plans_;
  Params& params_;
  std::byte* gradient_;
  bool check_;
  std::unique_ptr<Storage> arena_;
  std::map<int64_t, std::unique_ptr<PlanRun>> runs_;
};

}  // namespace perigee
