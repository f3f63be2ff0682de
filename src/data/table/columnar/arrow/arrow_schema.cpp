#include "src/data/table/columnar/arrow/arrow_schema.h"

namespace perigee::tables::arrow {
namespace {

bool is_list(Kind kind) { return kind == Kind::list || kind == Kind::large_list || kind == Kind::fixed_list; }

void read_integer(const FlatTable& type, int64_t& width, bool& is_signed) {
  width = type.number<int32_t>(0, 0);
  is_signed = type.number<uint8_t>(1, 0) != 0;
}

void read_arrow_schema_type(const FlatTable& type, ArrowField& out) {
  switch (out.kind) {
    case Kind::integer: return read_integer(type, out.width, out.is_signed);
    case Kind::real: out.width = 16 << std::min<int16_t>(static_cast<int16_t>(type.number<int16_t>(0, 0) & 3), 2); return;
    case Kind::decimal:
      out.scale = type.number<int32_t>(1, 0);
      out.width = type.number<int32_t>(2, 128);
      return;
    case Kind::date: out.unit = type.number<int16_t>(0, 1); return;
    case Kind::time: out.width = type.number<int32_t>(1, 32); return;
    case Kind::timestamp: out.unit = type.number<int16_t>(0, 0); return;
    case Kind::choice: out.dense = type.number<int16_t>(0, 0) == 1; return;
    case Kind::fixed_binary:
    case Kind::fixed_list: out.width = type.number<int32_t>(0, 0); return;
    default: return;
  }
}

std::string refusal_of(const ArrowField& field) {
  switch (field.kind) {
    case Kind::null:
    case Kind::boolean:
    case Kind::date:
    case Kind::timestamp:
    case Kind::duration:
    case Kind::real:
    case Kind::binary:
    case Kind::utf8:
    case Kind::large_binary:
    case Kind::large_utf8:
    case Kind::binary_view:
    case Kind::utf8_view: return "";
    case Kind::integer:
      return field.width == 8 || field.width == 16 || field.width == 32 || field.width == 64 ? "" : "its integers have an odd size";
    case Kind::time: return field.width == 32 || field.width == 64 ? "" : "its times have an odd size";
    case Kind::decimal:
      if (field.width != 32 && field.width != 64 && field.width != 128 && field.width != 256) return "its decimals have an odd size";
      return field.scale < 0 || field.scale > 1000 ? "its decimals have a scale out of range" : "";
    case Kind::fixed_binary: return field.width < 1 || field.width > (1 << 20) ? "its values have a width out of range" : "";
    case Kind::list:
    case Kind::large_list:
    case Kind::fixed_list: {
      if (field.children.size() != 1) return "its list has no elements";
      const ArrowField& item = field.children[0];
      const bool number = item.kind == Kind::integer || item.kind == Kind::real;
      if (!number || item.dictionary >= 0 || !item.refusal.empty()) return "it is a list, and not of numbers";
      return field.kind == Kind::fixed_list && (field.width < 1 || field.width > (1 << 20)) ? "its lists have a length out of range" : "";
    }
    case Kind::structure: return "it is a struct";
    case Kind::map: return "it is a map";
    default: return "its type is not one that a table has";
  }
}

Type arrow_schema_type_of(const ArrowField& field) {
  switch (field.kind) {
    case Kind::boolean: return Type::boolean;
    case Kind::real:
    case Kind::decimal: return Type::real;
    case Kind::date:
    case Kind::timestamp: return Type::time;
    case Kind::binary:
    case Kind::utf8:
    case Kind::large_binary:
    case Kind::large_utf8:
    case Kind::binary_view:
    case Kind::utf8_view:
    case Kind::fixed_binary:
    case Kind::null: return Type::text;
    default: return is_list(field.kind) ? Type::list : Type::integer;
  }
}

}  // namespace

void finish_field(ArrowField& field) {
  field.type = arrow_schema_type_of(field);
  if (field.refusal.empty()) field.refusal = refusal_of(field);
  if (field.refusal.empty() && field.dictionary >= 0 && (field.type == Type::list || field.kind == Kind::null))
    field.refusal = "it is a dictionary of lists";
}

bool is_view(Kind kind) { return kind == Kind::binary_view || kind == Kind::utf8_view; }

ArrowField read_field(const FlatTable& field, int depth) {
  ArrowField out;
  out.name = field.text(0);
  const auto kind = field.number<uint8_t>(2, 0);
  out.kind = kind <= static_cast<uint8_t>(Kind::large_list_view) ? static_cast<Kind>(kind) : Kind::none;
  if (field.has(3)) read_arrow_schema_type(field.table(3), out);
  if (field.has(4)) {
    const FlatTable dictionary = field.table(4);
    out.dictionary = dictionary.number<int64_t>(0, 0);
    if (dictionary.has(1)) read_integer(dictionary.table(1), out.index_width, out.index_signed);
  }
  const FlatVector children = field.vector(5, 4);
  if (depth > 32 || children.count > (1 << 16)) out.refusal = "it is too deep";
  else
    for (size_t i = 0; i < children.count; ++i) out.children.push_back(read_field(children.table(i), depth + 1));
  finish_field(out);
  return out;
}

size_t buffers_of(const ArrowField& field, int16_t version) {
  if (field.dictionary >= 0) return 2;
  switch (field.kind) {
    case Kind::null:
    case Kind::run_end: return 0;
    case Kind::structure:
    case Kind::fixed_list: return 1;
    // Before version 5 (4 as it is written) they had a bitmap too.
    case Kind::choice: return (field.dense ? 2 : 1) + (version < 4 ? 1 : 0);
    case Kind::binary:
    case Kind::utf8:
    case Kind::large_binary:
    case Kind::large_utf8:
    case Kind::list_view:
    case Kind::large_list_view: return 3;
    default: return 2;
  }
}

}  // namespace perigee::tables::arrow
