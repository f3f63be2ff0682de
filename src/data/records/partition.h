// {"type": "partition", "name": "train/0", "rows": 1024, "hash": "...", "fields": [...]}: rows that one worker of a cluster holds and serves to
// the others (data.at = "partitions"). The description says all that a launcher must know of them, and their hash pins their bytes.
#pragma once

#include <string>
#include <vector>

#include "src/data/source.h"

namespace perigee {

struct PartitionAbout {
  std::string name, hash;
  int64_t rows = 0;
  std::vector<Field> fields;
};

PartitionAbout read_partition(const Config& config);  // Error(data)
// Reads every example once: 16 hex digits over the fields, the number of rows and all bytes in their order.
std::string partition_hash(const DataSource& source);
// The partition as a job names it. Error(data) for a source whose examples are other ones in each epoch.
Json describe_partition(const std::string& name, const DataSource& source);
// Is this the description of one?
bool is_partition(const Json& description);

}  // namespace perigee
