// Arrow's files and streams (IPC; Feather version 2 is the same): https://arrow.apache.org/docs/format/Columnar.html. A chunk is a record batch, which
// is read where it lies. Numbers, texts, times, decimals, dictionaries and lists of numbers are read; other nested columns are refused by name.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "src/data/table/columnar/columnar.h"

namespace perigee::tables::arrow {

std::unique_ptr<ColumnarFile> open_arrow(const std::string& name, std::span<const std::byte> content, std::shared_ptr<const void> owner);

}  // namespace perigee::tables::arrow
