// A job: network + data + optimiser + policy + seed, as one JSON document. Scripts evaluate to it, files hold it, agents receive it.
// Its keys are in job_schema.cpp, and `perigee schema` prints them:
//   {"perigee": 1, "name": "lenet-mnist", "network": {...}, "loss": "cross_entropy", "optimizer": {...}, "data": {...}, "epochs": 5}
// Keys that start with "@" carry positions in the script and are dropped by canonical().
#pragma once

#include <optional>
#include <string>

#include "src/core/config.h"
#include "src/core/json.h"
#include "src/data/stored_arrays.h"
#include "src/tensor/shape.h"

namespace perigee {

// "data": {"at": "worker", "coordinator" or "partitions", "verify": "sample" or "full", "shards": 1}: where the workers of a cluster get their examples from,
// how much of them is compared at the start, and into how many parts the training data are cut, so that each worker keeps to its own. A run in
// one process reads its data itself, all of them, whatever they say.
struct DataPlacement {
  bool at_coordinator = false;  // it sends examples, at least those that no worker holds
  bool in_partitions = false;   // workers hold parts of the data and serve them to each other
  bool verify_full = false;
  int64_t shards = 1;
};
DataPlacement read_placement(const Config& data);  // of the job's "data"; Error(model)

class Job {
 public:
  // Checks the top level: known keys, types. Throws Error(model). Large arrays in the data become names (src/data/stored_arrays.h); those
  // that are in memory stay there as long as the job, or a copy of it, lives.
  // `where` is the file's name, `folder` what relative paths in it start from.
  Job(Json description, std::string where, std::string folder = ".");
  // Reads .json or .yaml/.yml. Lua scripts are evaluated by lua/, which makes a Job of the result.
  static Job load(const std::string& path);

  const Json& json() const { return json_; }
  const std::string& where() const { return where_; }
  const std::string& folder() const { return folder_; }
  std::string name() const;
  // The dtype of parameters, and of arithmetic unless half() is set; "precision": f32 or f64. Error(model) with the nearest known name.
  Dtype precision() const;
  // "bf16", "fp16": parameters and sums in f32, products and activations in that (src/graph/passes/mixed_precision.h).
  std::optional<Dtype> half() const;
  // "tf32": everything in f32, but libraries of a GPU may round the operands of products to 10 bits. A CPU has no such products.
  bool tf32() const;

  // Sets "optimizer.lr" or "network.layers.1.out" (places count from 1, as in messages) to a value (JSON text, or else a string).
  // Error(usage) with the nearest known key when the path does not exist.
  void set(const std::string& path, const std::string& value);

  // The same error with the line of the script in front, where it is about a key of this job whose line pg.experiment has noted ("@places").
  Error placed(const Error& error) const;

  // The document without positions, keys in a fixed order: equal for equal jobs whichever front-end wrote them.
  Json canonical() const;

 private:
  void hold_arrays();

  Json json_;
  std::string where_;
  std::string folder_;
  HeldArrays arrays_;
};

// "accumulate": the batches of one step.
int64_t accumulate_of(const Job& job);

}  // namespace perigee
