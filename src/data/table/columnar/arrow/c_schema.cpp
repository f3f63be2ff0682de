#include "src/data/table/columnar/arrow/c_schema.h"

#include <charconv>
#include <string_view>

#include "src/core/error.h"

namespace perigee::tables::arrow {
namespace {

constexpr int64_t kMostChildren = 1 << 16;
constexpr size_t kMostLeaves = size_t{1} << 17;
constexpr int kDeepest = 32;

[[noreturn]] void wrong_schema(const std::string& where, const char* what, const std::string& got = "", const char* expected = "") {
  throw Error(ErrorKind::data, {.where = where,
                                .what = what,
                                .got = got,
                                .expected = expected,
                                .hint = "the program that made the ArrowSchema does not follow Arrow's C data interface"});
}

// The numbers behind a format: "d:10,2".
std::vector<int64_t> numbers_behind(std::string_view text) {
  std::vector<int64_t> numbers;
  while (!text.empty() && numbers.size() < 4) {
    int64_t number = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (status != std::errc()) return {};
    numbers.push_back(number);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty()) return numbers;
    if (text[0] != ',') return {};
    text.remove_prefix(1);
  }
  return numbers;
}

int64_t unit_of(char letter) {
  const size_t unit = std::string_view("smun").find(letter);
  return unit == std::string_view::npos ? -1 : static_cast<int64_t>(unit);
}

struct Simple {
  std::string_view format;
  Kind kind;
  int64_t width = 0;
  bool is_signed = true;
};
constexpr Simple kSimple[] = {{"n", Kind::null},
                              {"b", Kind::boolean},
                              {"c", Kind::integer, 8},
                              {"C", Kind::integer, 8, false},
                              {"s", Kind::integer, 16},
                              {"S", Kind::integer, 16, false},
                              {"i", Kind::integer, 32},
                              {"I", Kind::integer, 32, false},
                              {"l", Kind::integer, 64},
                              {"L", Kind::integer, 64, false},
                              {"e", Kind::real, 16},
                              {"f", Kind::real, 32},
                              {"g", Kind::real, 64},
                              {"z", Kind::binary},
                              {"Z", Kind::large_binary},
                              {"vz", Kind::binary_view},
                              {"u", Kind::utf8},
                              {"U", Kind::large_utf8},
                              {"vu", Kind::utf8_view},
                              {"+l", Kind::list},
                              {"+L", Kind::large_list},
                              {"+vl", Kind::list_view},
                              {"+vL", Kind::large_list_view},
                              {"+s", Kind::structure},
                              {"+m", Kind::map},
                              {"+r", Kind::run_end}};

// Dates, times and durations: a letter for what they are, one for the unit.
bool read_temporal(std::string_view format, ArrowField& out) {
  if (format.size() < 3 || format[0] != 't') return false;
  const char kind = format[1];
  if (kind == 'd' && format.size() == 3 && (format[2] == 'D' || format[2] == 'm')) {
    out.kind = Kind::date, out.unit = format[2] == 'm';
    return true;
  }
  if (kind == 'i') {
    out.kind = Kind::interval;
    return true;
  }
  out.unit = unit_of(format[2]);
  if (out.unit < 0) return false;
  if (kind == 's') out.kind = Kind::timestamp;  // a zone behind it says how to show it, and not when it is
  else if (kind == 'D') out.kind = Kind::duration;
  else if (kind == 't') out.kind = Kind::time, out.width = out.unit < 2 ? 32 : 64;
  else return false;
  return kind == 's' ? format.size() > 3 && format[3] == ':' : format.size() == 3;
}

bool read_format(std::string_view format, ArrowField& out) {
  for (const Simple& simple : kSimple)
    if (format == simple.format) {
      out.kind = simple.kind, out.width = simple.width, out.is_signed = simple.is_signed;
      return true;
    }
  if (read_temporal(format, out)) return true;
  if (format.starts_with("+ud:") || format.starts_with("+us:")) {
    out.kind = Kind::choice;
    return true;
  }
  const bool decimal = format.starts_with("d:"), list = format.starts_with("+w:");
  if (!decimal && !list && !format.starts_with("w:")) return false;
  const std::vector<int64_t> numbers = numbers_behind(format.substr(list ? 3 : 2));
  if (decimal) {
    if (numbers.size() < 2 || numbers.size() > 3) return false;
    out.kind = Kind::decimal, out.scale = numbers[1], out.width = numbers.size() == 3 ? numbers[2] : 128;
    return true;
  }
  if (numbers.size() != 1) return false;
  out.kind = list ? Kind::fixed_list : Kind::fixed_binary, out.width = numbers[0];
  return true;
}

std::string name_of(const ArrowSchema& schema) { return schema.name == nullptr ? "" : std::string(schema.name).substr(0, 1000); }

std::string format_of_schema(const ArrowSchema& schema, const std::string& where) {
  if (schema.release == nullptr) wrong_schema(where, "the ArrowSchema has been released");
  if (schema.format == nullptr) wrong_schema(where, "the ArrowSchema has no format", "a null pointer");
  return schema.format;
}

void check_children(const ArrowSchema& schema, const std::string& where) {
  if (schema.n_children < 0 || schema.n_children > kMostChildren)
    wrong_schema(where, "the ArrowSchema's number of children is out of range", std::to_string(schema.n_children), "0 to 65536");
  if (schema.n_children > 0 && schema.children == nullptr) wrong_schema(where, "the ArrowSchema's children are a null pointer");
  for (int64_t i = 0; i < schema.n_children; ++i)
    if (schema.children[i] == nullptr) wrong_schema(where, "a child of the ArrowSchema is a null pointer", "child " + std::to_string(i));
}

ArrowField field_of(const ArrowSchema& schema, const std::string& where, int depth) {
  ArrowField out;
  out.name = name_of(schema);
  const std::string here = where + ": column '" + out.name.substr(0, 60) + "'";
  const std::string format = format_of_schema(schema, here);
  check_children(schema, here);
  if (!read_format(format, out))
    wrong_schema(here, "the format of the column is none of Arrow's", "'" + format.substr(0, 40) + "'", "such as 'g', 'l' or 'u'");
  if (schema.dictionary != nullptr) {
    if (out.kind != Kind::integer) wrong_schema(here, "places in a dictionary are no integers", "'" + format.substr(0, 40) + "'");
    ArrowField values;
    const std::string inner = format_of_schema(*schema.dictionary, here);
    check_children(*schema.dictionary, here);
    if (!read_format(inner, values))
      wrong_schema(here, "the format of the dictionary is none of Arrow's", "'" + inner.substr(0, 40) + "'", "such as 'u'");
    values.index_width = out.width, values.index_signed = out.is_signed;
    values.name = std::move(out.name);
    values.dictionary = 0;
    if (schema.dictionary->dictionary != nullptr) values.refusal = "it is a dictionary of dictionaries";
    out = std::move(values);
  } else if (depth >= kDeepest) {
    out.refusal = "it is too deep";
  } else if (out.kind != Kind::structure) {
    for (int64_t i = 0; i < schema.n_children; ++i) out.children.push_back(field_of(*schema.children[i], here, depth + 1));
  }
  finish_field(out);
  return out;
}

void add_leaves(const ArrowSchema& schema, const std::string& prefix, std::vector<size_t>& path, const std::string& where,
                std::vector<Leaf>& out) {
  for (int64_t i = 0; i < schema.n_children; ++i) {
    const ArrowSchema& child = *schema.children[i];
    path.push_back(static_cast<size_t>(i));
    ArrowField field = field_of(child, where, 1);
    field.name = prefix + field.name;
    if (field.kind == Kind::structure && field.dictionary < 0 && path.size() < kDeepest)
      add_leaves(child, field.name + ".", path, where, out);
    else out.push_back({std::move(field), path});
    path.pop_back();
    if (out.size() > kMostLeaves) wrong_schema(where, "the ArrowSchema has more columns than a table may have");
  }
}

}  // namespace

std::vector<Leaf> leaves_of(const ArrowSchema& schema, const std::string& where) {
  const std::string format = format_of_schema(schema, where);
  check_children(schema, where);
  if (format != "+s")
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "the ArrowSchema is of one column and not of a table",
                                  .got = "the format '" + format.substr(0, 40) + "'",
                                  .expected = "a struct, '+s'",
                                  .hint = "hand over a table, a data frame or a record batch"});
  std::vector<Leaf> leaves;
  std::vector<size_t> path;
  add_leaves(schema, "", path, where, leaves);
  if (leaves.empty()) throw Error(ErrorKind::data, {.where = where, .what = "the table has no columns"});
  return leaves;
}

}  // namespace perigee::tables::arrow
