// An LMDB database as two columns of bytes, `key` and `value`; Caffe's (each value a Datum) as `key`, `label` and `data`. Read by our own reader: pages,
// one tree, no lock file, nothing of the C library's trust in the file. https://github.com/LMDB/lmdb (mdb.c describes the pages).
#pragma once

#include <memory>

#include "src/data/table/columnar/columnar.h"

namespace perigee::tables {

bool begins_as_lmdb(std::string_view head);
std::unique_ptr<ColumnarFile> open_lmdb(const ColumnarInput& input);

}  // namespace perigee::tables
