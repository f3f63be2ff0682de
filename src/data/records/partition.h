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

// The error where rows are read that lie with another process.
class AbsentRows final : public Error {
 public:
  using Error::Error;
};

// Kept where data are opened for their shape alone, such as by the launcher of a run whose workers hold the rows: on this thread transforms that
// are fitted to absent rows get values that mean nothing, in place of an error. Where the data are read, transforms are fitted to the rows themselves.
class FitsLater {
 public:
  FitsLater();
  ~FitsLater();
  FitsLater(const FitsLater&) = delete;
  FitsLater& operator=(const FitsLater&) = delete;
  bool any() const { return any_; }  // some transform has such values
  static bool postpone();            // true: there is one of these, and it knows

 private:
  FitsLater* const outer_;
  bool any_ = false;
};

}  // namespace perigee
