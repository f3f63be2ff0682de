// Sources whose first field is made from encoded bytes, such as the files of pictures and recordings: who stores examples may keep these as they are.
#pragma once

#include <span>

#include "src/data/source.h"
#include "src/io/file.h"

namespace perigee {

class EncodedSource {
 public:
  virtual ~EncodedSource() = default;
  // The bytes that field 0 is decoded from, into memory that is there already, and the other fields to slots[1], ...; slots[0] is not
  // touched. Thread-safe.
  virtual void encoded(int64_t index, Bytes& bytes, std::span<std::byte* const> slots) const = 0;
};

}  // namespace perigee
