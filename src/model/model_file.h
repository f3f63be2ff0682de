// A trained model in a .safetensors file, with what it takes to use it without its training data: network, job, fitted values, class
// names. Checkpoints, which also hold a run's progress, are in src/run/checkpoint.h and share the tensors' layout.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/io/safetensors.h"
#include "src/model/model.h"

namespace perigee {

// A model file without its training data: for eval, predict and describe.
struct LoadedModel {
  std::unique_ptr<Model> model;
  Json job;     // canonical; null when the file has none
  Json fitted;  // what was fitted on the training data; null when nothing was
  std::vector<std::string> class_names;
};
// A run folder stands for the model in it, wherever a model is named; any other path is itself. Error(usage) for a folder without one.
std::string file_of_model(const std::string& path, const std::string& hint = "");
LoadedModel load_model(const std::string& path);  // a model file, or a run folder
LoadedModel load_model(std::span<const std::byte> bytes, const std::string& where);

// A loaded model written again (its parameters may have been changed). save_model() writes to a temporary file, syncs and renames.
std::vector<std::byte> model_bytes(const LoadedModel& loaded);
void save_model(const LoadedModel& loaded, const std::string& path);

// The parts of the format, which checkpoints share. Each error is an Error(model) that names the file and the tensor or the key.
Metadata model_metadata(const Model& model, const Json& job, const Json& fitted, const std::vector<std::string>& class_names);
std::vector<NamedTensor> model_tensors(const Model& model);  // parameters, then states as "state/<name>"
const Tensor& wanted_tensor(const Safetensors& file, const std::string& name, const Type& type, const std::string& where);
void check_model_tensors(const Safetensors& file, const Params& params, const std::string& where);  // before anything is changed
void copy_model_tensors(const Safetensors& file, Params& params);
const std::string& required_metadata(const Safetensors& file, const std::string& key, const std::string& where);
Json json_metadata(const Safetensors& file, const std::string& key, const std::string& where);  // null when it is absent

}  // namespace perigee
