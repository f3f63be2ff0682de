#include "src/data/table/columnar/parquet/metadata.h"

#include <algorithm>
#include <cstring>

#include "src/core/error.h"
#include "src/data/table/columnar/columnar.h"
#include "src/data/table/columnar/parquet/thrift.h"

namespace perigee::tables::parquet {
namespace {

using T = ThriftReader;
constexpr size_t kMostMetadataColumns = 1 << 16;

struct Element {
  std::string name;
  int64_t physical = -1, width = 0, repetition = 0, children = 0, converted = -1, scale = 0;
  int64_t logical = -1, unit = 0, bits = 0;
  bool is_signed = true;
};

// A union's or a struct's fields, for each of which `use` reads the value or leaves it.
template <class Use>
void walk(T& in, Use&& use) {
  int16_t last = 0;
  for (T::Field field = in.field(last); field.kind != T::stop; field = in.field(last))
    if (!use(field)) in.skip(field.kind);
}

bool is_integer(T::Kind kind) { return kind == T::i16 || kind == T::i32 || kind == T::i64; }

void read_unit(T& in, Element& element) {
  walk(in, [&](T::Field field) {
    element.unit = field.id;
    return false;
  });
}

void read_logical(T& in, Element& element) {
  walk(in, [&](T::Field field) {
    element.logical = field.id;
    if (field.kind != T::object) return false;
    const int16_t which = field.id;
    walk(in, [&](T::Field inner) {
      if (which == 5 && inner.id == 1 && is_integer(inner.kind)) return element.scale = in.integer(), true;
      if ((which == 7 || which == 8) && inner.id == 2 && inner.kind == T::object) return read_unit(in, element), true;
      if (which == 10 && inner.id == 2 && (inner.kind == T::yes || inner.kind == T::no)) element.is_signed = inner.kind == T::yes;
      return false;
    });
    return true;
  });
}

Element read_element(T& in) {
  Element element;
  walk(in, [&](T::Field field) {
    if (field.id == 4 && field.kind == T::binary) return element.name = in.text(), true;
    if (field.id == 10 && field.kind == T::object) return read_logical(in, element), true;
    if (!is_integer(field.kind)) return false;
    int64_t* const places[] = {nullptr, &element.physical, &element.width,     &element.repetition,
                               nullptr, &element.children, &element.converted, &element.scale};
    if (field.id < 1 || field.id > 7 || places[field.id] == nullptr) return false;
    *places[field.id] = in.integer();
    return true;
  });
  return element;
}

Meaning meaning_of(const Element& e, Physical physical) {
  const bool bytes = physical == Physical::bytes || physical == Physical::fixed;
  const bool whole = physical == Physical::int32 || physical == Physical::int64;
  if (e.logical == 5 || e.converted == 5) return Meaning::decimal;
  if (physical == Physical::int96) return Meaning::nanoseconds;
  if (physical == Physical::fixed && e.logical == 15 && e.width == 2) return Meaning::half;
  if (physical == Physical::fixed && e.logical == 14 && e.width == 16) return Meaning::uuid;
  if (bytes) return Meaning::text;
  if (physical == Physical::int32 && (e.logical == 6 || e.converted == 6)) return Meaning::date;
  if (physical == Physical::int64 && e.logical == 8)
    return e.unit == 1 ? Meaning::milliseconds : e.unit == 2 ? Meaning::microseconds : Meaning::nanoseconds;
  if (physical == Physical::int64 && (e.converted == 9 || e.converted == 10))
    return e.converted == 9 ? Meaning::milliseconds : Meaning::microseconds;
  const bool is_unsigned = (e.logical == 10 && !e.is_signed) || (e.logical < 0 && e.converted >= 11 && e.converted <= 14);
  return whole && is_unsigned ? Meaning::unsigned_integer : Meaning::plain;
}

Type metadata_type_of(const Leaf& leaf) {
  switch (leaf.meaning) {
    case Meaning::text:
    case Meaning::uuid: return Type::text;
    case Meaning::decimal:
    case Meaning::half: return Type::real;
    case Meaning::date:
    case Meaning::milliseconds:
    case Meaning::microseconds:
    case Meaning::nanoseconds: return Type::time;
    default: break;
  }
  if (leaf.physical == Physical::boolean) return Type::boolean;
  return leaf.physical == Physical::float32 || leaf.physical == Physical::float64 ? Type::real : Type::integer;
}

// Depth first, as the columns stand in the row groups.
void collect(T& in, const std::vector<Element>& elements, size_t& at, const std::string& path, int depth, int lists, int list_depth,
             int level, bool only, std::vector<Leaf>& leaves) {
  if (at >= elements.size() || level > 64) in.damaged("the Parquet schema is no tree");
  const Element& e = elements[at++];
  if (e.repetition < 0 || e.repetition > 2) in.damaged("the Parquet schema has a repetition that there is not");
  // A list has the name of its column: not that of what it is made of.
  const bool list = level > 0 && e.repetition == 2 && e.children == 1 && !path.empty();
  const std::string name = level == 0 ? "" : path.empty() ? e.name : list || only ? path : path + "." + e.name;
  if (level > 0) depth += e.repetition != 0;
  if (level > 0 && e.repetition == 2) ++lists, list_depth = depth;
  if (e.children > 0 || level == 0) {
    for (int64_t i = 0; i < e.children; ++i) collect(in, elements, at, name, depth, lists, list_depth, level + 1, list, leaves);
    return;
  }
  if (e.physical < 0 || e.physical > 7) in.damaged("the Parquet schema has a type that there is not");
  const auto physical = static_cast<Physical>(e.physical);
  if (physical == Physical::fixed && (e.width < 1 || e.width > (1 << 20))) in.damaged("the Parquet schema has a width out of range");
  if (e.scale < 0 || e.scale > 1000) in.damaged("the Parquet schema has a scale out of range");
  Leaf leaf{.name = name,
            .physical = physical,
            .meaning = meaning_of(e, physical),
            .width = e.width,
            .scale = e.scale,
            .depth = depth,
            .lists = lists,
            .list_depth = list_depth};
  if (leaf.meaning == Meaning::decimal && (physical == Physical::float32 || physical == Physical::float64 || physical == Physical::boolean))
    in.damaged("the Parquet schema has a decimal of a type that it cannot have");
  leaf.type = metadata_type_of(leaf);
  if (lists == 1 && (leaf.type == Type::integer || leaf.type == Type::real)) leaf.type = Type::list;
  leaves.push_back(std::move(leaf));
}

Chunk read_chunk(T& in, uint64_t most) {
  Chunk chunk{.values = -1};
  int64_t data = -1, dictionary = -1, codec = 0;
  bool elsewhere = false;
  walk(in, [&](T::Field field) {
    elsewhere |= field.id == 1 && field.kind == T::binary;
    if (field.id != 3 || field.kind != T::object) return false;
    walk(in, [&](T::Field inner) {
      if (!is_integer(inner.kind)) return false;
      const int64_t value = in.integer();
      if (inner.id == 4) codec = value;
      else if (inner.id == 5) chunk.values = value;
      else if (inner.id == 7) chunk.bytes = value;
      else if (inner.id == 9) data = value;
      else if (inner.id == 11) dictionary = value;
      return true;
    });
    return true;
  });
  if (elsewhere) in.damaged("columns of the Parquet file lie in another file, which is not read", "write them into one file");
  if (chunk.values < 0)
    in.damaged("a column of the Parquet file has no metadata: it may be encrypted, which is not read", "write it again without encryption");
  if (codec < 0 || codec > 7) in.damaged("the Parquet file has a compression that there is not");
  chunk.codec = static_cast<Codec>(codec);
  if (chunk.values == 0) return chunk;  // there is no page
  const int64_t begin = dictionary > 0 && dictionary < data ? dictionary : data;
  if (begin < 4 || chunk.bytes < 0 || static_cast<uint64_t>(begin) > most ||
      static_cast<uint64_t>(chunk.bytes) > most - static_cast<uint64_t>(begin))
    in.damaged("a column of the Parquet file does not lie in it");
  chunk.begin = static_cast<uint64_t>(begin);
  return chunk;
}

RowGroup read_group(T& in, uint64_t most, size_t leaves) {
  RowGroup group;
  walk(in, [&](T::Field field) {
    if (field.id == 3 && is_integer(field.kind)) return group.rows = in.integer(), true;
    if (field.id != 1 || field.kind != T::list) return false;
    const T::List list = in.begin_list();
    if (list.kind != T::object || list.count != leaves) in.damaged("a row group of the Parquet file has another number of columns");
    for (uint32_t i = 0; i < list.count; ++i) group.chunks.push_back(read_chunk(in, most));
    return true;
  });
  if (group.rows < 0 || group.chunks.size() != leaves) in.damaged("a row group of the Parquet file has no columns");
  return group;
}

}  // namespace

Metadata read_metadata(std::span<const std::byte> file, const std::string& where) {
  const auto refuse = [&](const char* what, uint64_t at, const char* hint = kGetAnew) {
    throw Error(ErrorKind::data, {.where = where + ": byte " + std::to_string(at), .what = what, .hint = hint});
  };
  if (file.size() < 12 || std::memcmp(file.data() + file.size() - 4, "PAR1", 4) != 0) {
    if (file.size() >= 12 && std::memcmp(file.data() + file.size() - 4, "PARE", 4) == 0)
      refuse("the Parquet file is encrypted", file.size() - 4, "write it again without encryption");
    refuse("the Parquet file is cut short: its end is missing", file.size());
  }
  uint32_t size = 0;
  std::memcpy(&size, file.data() + file.size() - 8, 4);
  if (size > file.size() - 12) refuse("the Parquet metadata do not lie in the file", file.size() - 8);
  const uint64_t at = file.size() - 8 - size;
  T in(file.subspan(at, size), where, at);
  Metadata metadata;
  std::vector<Element> elements;
  walk(in, [&](T::Field field) {
    if ((field.id != 2 && field.id != 4) || field.kind != T::list) return false;
    const T::List list = in.begin_list();
    if (list.kind != T::object || list.count > std::min<uint64_t>(kMostMetadataColumns, most_columns(file.size())))
      in.damaged("the Parquet metadata have a list of another kind");
    if (field.id == 2) {
      for (uint32_t i = 0; i < list.count; ++i) elements.push_back(read_element(in));
      size_t next = 0;
      metadata.leaves.clear();
      collect(in, elements, next, "", 0, 0, 0, 0, false, metadata.leaves);
    } else {
      if (elements.empty()) in.damaged("the Parquet metadata have row groups and no schema before them");
      for (uint32_t i = 0; i < list.count; ++i) metadata.groups.push_back(read_group(in, at, metadata.leaves.size()));
    }
    return true;
  });
  if (metadata.leaves.empty()) refuse("the Parquet file has no columns", at);
  return metadata;
}

PageHead read_page_head(std::span<const std::byte> bytes, const std::string& where, uint64_t offset) {
  T in(bytes, where, offset);
  PageHead head;
  int64_t kind = -1;
  walk(in, [&](T::Field field) {
    if (is_integer(field.kind)) {
      const int64_t value = in.integer();
      if (field.id == 1) kind = value;
      else if (field.id == 2) head.plain = value;
      else if (field.id == 3) head.stored = value;
      else if (field.id == 4) head.sum = static_cast<uint32_t>(value), head.has_sum = true;
      return true;
    }
    const int16_t which = field.id;
    if (field.kind != T::object || (which != 5 && which != 7 && which != 8)) return false;
    walk(in, [&](T::Field inner) {
      if (which == 8 && inner.id == 7) head.compressed = inner.kind != T::no;
      if (!is_integer(inner.kind)) return false;
      const int64_t value = in.integer();
      if (inner.id == 1) head.values = value;
      else if (inner.id == (which == 8 ? 4 : 2)) head.encoding = value;
      else if (which == 5 && inner.id == 3) head.levels = value;
      else if (which == 8 && inner.id == 5) head.depth_bytes = value;
      else if (which == 8 && inner.id == 6) head.repeat_bytes = value;
      return true;
    });
    return true;
  });
  head.kind = kind >= 0 && kind <= 3 ? static_cast<PageHead::Kind>(kind) : PageHead::Kind::other;
  head.head_bytes = in.used();
  if (head.plain < 0 || head.stored < 0 || head.values < 0 || head.depth_bytes < 0 || head.repeat_bytes < 0)
    in.damaged("a page of the Parquet file has a negative size");
  return head;
}

}  // namespace perigee::tables::parquet
