// A folder of record files and what its records are: fields, statistics, and the description of the data that they were made from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/data/source.h"
#include "src/io/record/shard.h"

namespace perigee::records {

inline constexpr const char* kManifest = "records.json";
inline constexpr int kFormat = 1;

// A field as it lies in a record.
struct StoredField {
  Field field;
  bool encoded = false;  // its bytes are a piece of their own, to be decoded
  size_t bytes = 0, offset = 0;
};

struct RecordFields {
  std::vector<StoredField> fields;
  ShardLayout layout;
};
// `per_block` is left to the caller. Error(resources) for records that are too large.
RecordFields lay_out(const std::vector<Field>& fields, bool encoded);
Json fields_json(const RecordFields& fields);
// Error(data) at `where`.
RecordFields fields_of(const Json& json, const std::string& where);

// Figures of the numbers of a field, over all examples; parts are merged in their order.
struct FieldStatistics {
  int64_t count = 0, not_finite = 0;
  double mean = 0, squares = 0, least = 0, most = 0;  // squares: sum of squared deviations from the mean
  std::vector<int64_t> classes = {};                  // how often each label occurs
  void add(const StoredField& stored, const std::byte* values);
  void merge(const FieldStatistics& other);
  Json json() const;
};
FieldStatistics statistics_of(const Json& json, const std::string& where);

std::string shard_name(int64_t number);  // "00003.pgr"

struct RecordSet {
  std::string folder;
  RecordFields fields;
  Json prepared, statistics;
  int64_t records = 0, per_shard = 0;
  double rate = 0;  // steps a second of recordings
  std::vector<std::unique_ptr<Shard>> shards;
};
// Error(data) that names file and offset; for a folder whose preparation has not ended it says how to go on.
RecordSet open_records(const std::string& folder);

// The description of data with every source "records" whose fitted values are there replaced by what its records were made from: how
// anything else becomes such examples.
Json with_prepared(const Json& description);

}  // namespace perigee::records
