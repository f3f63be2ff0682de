// Examples are made once and written into record files: a folder of shards, each of as many records as fit 256 MiB. The bytes are the same for
// any number of threads; a preparation that was killed goes on with the first shard that is not whole.
#pragma once

#include <functional>
#include <string>

#include "src/data/records/record_set.h"

namespace perigee::records {

struct PrepareOptions {
  int threads = 1;
  int level = 0;              // of Zstandard; 0: blocks stay as they are
  int64_t shard_records = 0;  // of each file; 0: 256 MiB of them
  bool encoded = false;       // the first field's bytes as the source finds them
  std::function<void(int64_t done, int64_t all)> progress = {};
};

struct PreparedRecords {
  int64_t records = 0, shards = 0, kept = 0;  // shards that were there already
  uint64_t bytes = 0;
};

// `description` is what `source` was opened by, with what was fitted; it is kept with the records. Error(usage) for sources whose examples are
// others in each epoch, and for a folder that holds other records; Error(resources) when the disk is full: what is whole stays.
PreparedRecords prepare_records(const DataSource& source, const Json& description, const std::string& folder,
                                const PrepareOptions& options);

// A job's data, cut where chance begins: `stored` is a source whose examples are the same in each epoch, `around` reads records in its place,
// which `leaf` describes, and does the rest: random transforms and what comes after them. With `encoded` the innermost source is stored.
struct PreparedPart {
  Json stored, around;
};
PreparedPart prepared_part(const Json& description, const Json& leaf, bool encoded);

}  // namespace perigee::records
