// Arrays that a job names instead of holding them. {"hash": 32 digits, "dtype": "f32", "shape": [60000, 784]} stands where the numbers would:
// the XXH3-128 of the array as a .npy file. The content lies in the memory of this process, while somebody holds it, or in the file "file":
// arrays/<hash>.npy in the folder of a run.
#pragma once

#include <string>
#include <vector>

#include "src/core/config.h"
#include "src/tensor/tensor.h"

namespace perigee {

// A source of more numbers than this has them stored; fewer stay in the job, where people can read them.
constexpr int64_t kInlineNumbers = 8192;

// Keeps arrays in memory, so that they are found by their names. A job has one; copies share the arrays.
class HeldArrays {
 public:
  // Returns the array's name for a job. Nobody may change `values` afterwards. bf16, which .npy files lack, is held as f32.
  Json hold(const Tensor& values);
  // Every array that a description of data names and that is in memory.
  void hold_named(const Json& data);
  // Takes the numbers out of the sources of type "arrays" that have more than kInlineNumbers, and puts names there. `where` is the
  // description's path. Error(model) for lists that are no array.
  void take_numbers(Json* data, const std::string& where);

 private:
  std::vector<Tensor> arrays_;
};

bool names_array(const Json& value);

// The array that `name` names: from memory, or else from its file, whose size and hash are checked. `folder` is what a relative "file" starts
// from. Error(data) for a file that is missing, damaged or another one, and for a path that leads elsewhere than to an array of a run.
Tensor open_named_array(const Config& name, const std::string& folder);

// Writes every array that the job's data name to arrays/ in the folder `run`, unless it is there. `folder` is the job's. Error(resources).
void store_arrays(const Json& job, const std::string& folder, const std::string& run);

// The job with the names' files as they lie in a run folder, which other processes and a later resume can open; and as job.json and model files
// say it, relative to that folder.
Json with_array_files(const Json& job, const std::string& run);
Json with_relative_array_files(const Json& job);

}  // namespace perigee
