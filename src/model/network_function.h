// A network as a function of tensors: what scripts apply to their own values, alone or inside functions that they differentiate. Its
// parameters are tensors that share the model's memory. It reads values as they are: no preprocessing of a job is applied.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/eager/recorder.h"
#include "src/model/model_file.h"
#include "src/model/steps/step_model.h"

namespace perigee {

class NetworkFunction {
 public:
  // A description and the types of its inputs. Error(model) when they do not fit. Parameters are drawn with `seed`.
  NetworkFunction(Json network, std::vector<NetworkInput> inputs, uint64_t seed, const std::string& where);
  // A model file, a checkpoint, or the folder of a run. Error(usage) when there is none.
  explicit NetworkFunction(const std::string& path);

  // One step of the network with the parameters that it has now. Those who ask before they change share it.
  std::shared_ptr<StepModel> step_model(int64_t rows);

  const LoadedModel& loaded() const { return loaded_; }
  Model& model() { return *loaded_.model; }
  const std::vector<std::string>& outputs() const { return outputs_; }  // their names; "output" of a sequence

  // Appends the forward pass to what is being recorded, as evaluation makes it: without dropout, with running statistics. One value for each
  // output, in order. `parameters`: values in the order of the model's; none: the model's own numbers, read at each run. `linked`: as
  // prediction gives it, with the function of the loss (softmax, sigmoid) applied.
  std::vector<int> record(Recorder& recorder, std::span<const int> inputs, std::span<const int> parameters, bool linked);

 private:
  void name_outputs();
  Value linked_value(Value output, int index) const;

  LoadedModel loaded_;
  std::unique_ptr<Network> network_;
  std::vector<std::string> outputs_;
  std::shared_ptr<StepModel> step_;  // the last one
};

}  // namespace perigee
