// TFRecord: records with a length and two checksums. Where the first is a tf.train.Example its features are columns (one number, numbers as a
// list, bytes as text); others are one column, `record`.
#pragma once

#include <memory>

#include "src/data/table/columnar/columnar.h"

namespace perigee::tables {

// Whether the first record's length and its checksum stand there.
bool begins_as_tfrecord(std::string_view head);
std::unique_ptr<ColumnarFile> open_tfrecord(const ColumnarInput& input);

}  // namespace perigee::tables
