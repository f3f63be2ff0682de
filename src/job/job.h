// A job: network + data + optimiser + policy + seed, as one JSON document. Scripts evaluate to it, files hold it, agents receive it.
//
// {"perigee": 1, "name": "lenet-mnist",
//  "network": {...},                       see nn/network.h
//  "inputs": ["x"], "target": "y",         fields of the data source; these are the defaults
//  "loss": "cross_entropy",                or {"type": ..., options}; or {"output name": loss, ...} for several outputs
//  "optimizer": {"type": "adamw", "lr": {"type": "cosine", "from": 0.002}, "weight_decay": 0.0005},
//  "regularization": {...}, "constraint": {...}, "clip": {...},   optional
//  "data": {"train": {source}, "test": {source}, "validation": {source}, "batch": 32, "shuffle": true, "threads": 1,
//           "at": "worker", "verify": "sample", "shards": 1},
//  "epochs": 5, "steps": null, "seed": 123, "threads": null, "precision": "float32",   or "float64", "tf32", "bf16", "fp16"
//  "loss_scale": "dynamic",                or a number that stays; of "fp16" alone, see loss_scale.h
//  "recompute": "none",                    or "auto", "all", ["conv*"]: activations not kept, computed again (src/model/recompute.h)
//  "memory_limit": "8GiB",                 what a run may take, on the host or the GPU; null: what there is
//  "averaging": {"type": "periodic", "every": 5},
//  "checkpoint": {"every_epochs": 1, "keep": 3, "best": "test.accuracy"}, "early_stopping": {...}, "metrics": [...],
//  "pretrained": {"model": "file.safetensors", "freeze": ["conv*"], "skip": ["dense2.*"]}}
// Keys that start with "@" carry positions in the script and are dropped by canonical().
#pragma once

#include <optional>
#include <string>

#include "src/core/config.h"
#include "src/io/json.h"
#include "src/tensor/shape.h"

namespace perigee {

// "data": {"at": "worker" or "coordinator", "verify": "sample" or "full", "shards": 1}: where the workers of a cluster get their examples from,
// how much of them is compared at the start, and into how many parts the training data are cut, so that each worker keeps to its own. A run in
// one process reads its data itself, all of them, whatever they say.
struct DataPlacement {
  bool at_coordinator = false;
  bool verify_full = false;
  int64_t shards = 1;
};
DataPlacement read_placement(const Config& data);  // of the job's "data"; Error(model)

class Job {
 public:
  // Checks the top level: known keys, types. Throws Error(model).
  // `where` is the file's name, `folder` what relative paths in it start from.
  Job(Json description, std::string where, std::string folder = ".");
  // Reads .json or .yaml/.yml. Lua scripts are evaluated by lua/, which makes a Job of the result.
  static Job load(const std::string& path);

  const Json& json() const { return json_; }
  const std::string& where() const { return where_; }
  const std::string& folder() const { return folder_; }
  std::string name() const;
  // Of parameters and of arithmetic where half() does not say otherwise, "precision": f32 or f64. Error(model) with the nearest known name.
  Dtype precision() const;
  // "bf16", "fp16": parameters and sums in f32, products and activations in that (src/graph/passes/mixed_precision.h).
  std::optional<Dtype> half() const;
  // "tf32": everything in f32, but libraries of a GPU may round the operands of products to 10 bits. A CPU has no such products.
  bool tf32() const;

  // Sets "optimizer.lr" or "network.layers.0.out" to a value (JSON text, or else a string). Error(usage) with the nearest known
  // key when the path does not exist.
  void set(const std::string& path, const std::string& value);

  // The document without positions, keys in a fixed order: equal for equal jobs whichever front-end wrote them.
  Json canonical() const;

 private:
  Json json_;
  std::string where_;
  std::string folder_;
};

}  // namespace perigee
