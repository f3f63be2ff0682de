#include "src/data/table/columnar/parquet/thrift.h"

#include "src/core/error.h"

namespace perigee::tables::parquet {

void ThriftReader::damaged(const char* what, const char* hint) const {
  throw Error(ErrorKind::data, {.where = where_ + ": byte " + std::to_string(offset_ + at_), .what = what, .hint = hint});
}

uint8_t ThriftReader::next() {
  if (at_ >= bytes_.size()) damaged("the Parquet metadata are cut short");
  return std::to_integer<uint8_t>(bytes_[at_++]);
}

uint64_t ThriftReader::varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    const uint8_t byte = next();
    if (shift < 64) value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
  damaged("the Parquet metadata have a number that does not end");
}

ThriftReader::Field ThriftReader::field(int16_t& last) {
  const uint8_t head = next();
  if ((head & 15) == 0) return {};
  if ((head & 15) > uuid) damaged("the Parquet metadata have a type that there is not");
  if (head >> 4 != 0) last = static_cast<int16_t>(last + (head >> 4));
  else last = static_cast<int16_t>(integer());
  return {static_cast<Kind>(head & 15), last};
}

int64_t ThriftReader::integer() {
  const uint64_t value = varint();
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

std::string_view ThriftReader::text() {
  const uint64_t size = varint();
  if (size > bytes_.size() - at_) damaged("the Parquet metadata have a text that leads out of them");
  const std::string_view found = as_text(bytes_.subspan(at_, size));
  at_ += size;
  return found;
}

// Each element has a byte at least.
ThriftReader::List ThriftReader::begin_list() {
  const uint8_t head = next();
  const uint64_t count = head >> 4 == 15 ? varint() : head >> 4;
  if (count > bytes_.size() - at_) damaged("the Parquet metadata have a list that leads out of them");
  return {static_cast<Kind>(head & 15), static_cast<uint32_t>(count)};
}

void ThriftReader::skip(Kind kind, int depth) {
  if (depth > 32) damaged("the Parquet metadata are too deep");
  switch (kind) {
    case stop:
    case yes:
    case no: return;
    case byte: next(); return;
    case i16:
    case i32:
    case i64: varint(); return;
    case binary: text(); return;
    case number:
      for (int i = 0; i < 8; ++i) next();
      return;
    case uuid:
      for (int i = 0; i < 16; ++i) next();
      return;
    case list:
    case set: {
      const List inner = begin_list();
      for (uint32_t i = 0; i < inner.count; ++i) inner.kind == yes || inner.kind == no ? void(next()) : skip(inner.kind, depth + 1);
      return;
    }
    case map: {
      const uint64_t count = varint();
      if (count == 0) return;
      if (count > bytes_.size() - at_) damaged("the Parquet metadata have a map that leads out of them");
      const uint8_t kinds = next();
      for (uint64_t i = 0; i < count; ++i) {
        skip(static_cast<Kind>(kinds >> 4), depth + 1);
        skip(static_cast<Kind>(kinds & 15), depth + 1);
      }
      return;
    }
    case object: {
      int16_t last = 0;
      for (Field inner = field(last); inner.kind != stop; inner = field(last)) skip(inner.kind, depth + 1);
      return;
    }
  }
  damaged("the Parquet metadata have a type that there is not");
}

}  // namespace perigee::tables::parquet
