// `perigee data prepare`: the examples of a job or a source, made once and written as records.
#pragma once

#include <cstdint>
#include <string>

namespace perigee {

struct DataPrepareOptions {
  std::string input, output;
  int threads = 1, level = 0;
  int64_t shard_records = 0;
  bool encoded = false;
};

int prepare_data(const DataPrepareOptions& options);

}  // namespace perigee
