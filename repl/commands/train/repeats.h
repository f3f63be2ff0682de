// `perigee train --folds K`, `--seeds N`: which runs one job becomes, on other parts of its data or with other seeds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/data/source.h"
#include "src/job/job.h"

namespace perigee {

struct Repeat {
  std::string name;          // of its folder: "fold-1-seed-7"
  int64_t fold = 0;          // from 1; 0: there are none
  int64_t seed = 0, of = 0;  // of: the folds
};

class Repeats {
 public:
  Repeats() = default;
  // `folds` 0: none. `seeds`: "" for none, "3" for the job's seed and the two after it, "1,2,7" for these. Error(usage).
  Repeats(const Job& job, int64_t folds, const std::string& seeds);
  static Repeats read(const std::string& folder);  // that the runs in this folder were begun with; none in any other folder

  bool any() const { return folds_ > 0 || !seeds_.empty(); }
  bool operator==(const Repeats& other) const { return folds_ == other.folds_ && seeds_ == other.seeds_; }
  int64_t folds() const { return folds_; }
  // Folds get their share of each class of the target, where `source` gives it as one class.
  void stratify(const Job& job, const DataSource& source);

  std::vector<Repeat> runs(const Job& job) const;
  // The job of one of them: with folds, its training data without the fold, which becomes its test data.
  Job job_of(const Job& job, const Repeat& repeat) const;
  void write(const std::string& folder) const;
  std::string arguments() const;  // of the command line: " --folds 5 --seeds 3,4"

 private:
  Json fold_of(const Json& source, const Repeat& repeat, const char* part) const;

  int64_t folds_ = 0;
  std::vector<int64_t> seeds_;
  std::string label_;  // the field that folds are stratified by; empty: by chance alone
};

}  // namespace perigee
