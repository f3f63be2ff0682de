// A folder of Mosaic Streaming's shards (index.json, *.mds), compressed by Zstandard, gzip or not at all. Numbers are numbers, arrays lists of them,
// texts, JSON and pictures bytes; what Python alone understands (pkl) is refused.
#pragma once

#include <memory>
#include <string>

#include "src/data/table/columnar/columnar.h"

namespace perigee::tables {

bool is_mds_folder(const std::string& path);
std::unique_ptr<ColumnarFile> open_mds(const std::string& folder);
// One shard that is not compressed, as it lies in memory: for tests. Nothing is read from disk.
std::unique_ptr<ColumnarFile> open_mds_shard(const std::string& name, std::string_view shard);

}  // namespace perigee::tables
