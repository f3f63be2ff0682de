// Thrift's compact protocol, as far as the metadata of Parquet need it: structs are walked field by field, and what is not known is skipped.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/io/damaged.h"
#include "src/io/file.h"

namespace perigee::tables::parquet {

class ThriftReader {
 public:
  // `where` and `offset` are for errors.
  ThriftReader(std::span<const std::byte> bytes, std::string where, uint64_t offset)
      : bytes_(bytes), where_(std::move(where)), offset_(offset) {}

  enum Kind : uint8_t { stop, yes, no, byte, i16, i32, i64, number, binary, list, set, map, object, uuid };
  struct Field {
    Kind kind = stop;
    int16_t id = 0;
  };
  // The next field of the struct that began with last == 0; kind stop: it has ended.
  Field field(int16_t& last);
  int64_t integer();
  bool boolean(Kind kind) const { return kind == yes; }
  std::string_view text();
  struct List {
    Kind kind = stop;
    uint32_t count = 0;
  };
  List begin_list();
  void skip(Kind kind, int depth = 0);
  size_t used() const { return at_; }
  [[noreturn]] void damaged(const char* what, const char* hint = kGetAnew) const;

 private:
  uint8_t next();
  uint64_t varint();
  std::span<const std::byte> bytes_;
  std::string where_;
  uint64_t offset_;
  size_t at_ = 0;
};

}  // namespace perigee::tables::parquet
