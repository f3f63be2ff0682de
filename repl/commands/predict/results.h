// Where `perigee predict` puts its results: lines for people, JSON Lines, or a file: .csv, .jsonl, .npy.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/core/json.h"
#include "src/model/prediction.h"

namespace perigee {

class Results {
 public:
  virtual ~Results() = default;
  // `result`: Predictions::json() of an example with "file" in front; of a row that cannot be read "file", "index" and "error". `single`: its
  // number says nothing.
  virtual void add(const Json& result, bool single) = 0;
  virtual void finish() {}  // after the last one; without it a file stays as it was
};

// {"file": ..., "index": ..., ...}
Json with_file(const std::string& file, const Json& result);

// `outputs` outlives the results, here and below.
std::unique_ptr<Results> results_as_text(const std::vector<PredictedOutput>& outputs, int64_t top);
std::unique_ptr<Results> results_as_json();  // on standard output
// By the name of `path`, which is written whole or not at all. In a table a value of the main output that stands alone is called `target`, if that is
// not empty. Error(usage) for another name, or outputs that the format cannot hold.
std::unique_ptr<Results> results_in_file(const std::string& path, const std::vector<PredictedOutput>& outputs,
                                         const std::string& target = "");

}  // namespace perigee
