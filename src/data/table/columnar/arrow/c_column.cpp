#include "src/data/table/columnar/arrow/c_column.h"

#include <limits>

#include "src/core/error.h"
#include "src/data/table/columnar/arrow/arrow_numbers.h"

namespace perigee::tables::arrow {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;  // so that no product of them, and of what a list has, overflows
constexpr int64_t kMostEmpty = int64_t{1} << 28;     // rows of a column that has no memory of its own

std::span<const std::byte> bytes_at(const void* begin, uint64_t size) { return {static_cast<const std::byte*>(begin), size}; }

bool is_number(const ArrowField& field) { return field.kind == Kind::integer || field.kind == Kind::real; }

int64_t children_of(const ArrowField& field) {
  if (field.dictionary >= 0) return 0;
  return field.kind == Kind::structure ? -1 : static_cast<int64_t>(field.children.size());
}

}  // namespace

void CColumn::wrong(const char* what, const std::string& got, const std::string& expected) const {
  throw Error(ErrorKind::data, {.where = where_,
                                .what = what,
                                .got = got,
                                .expected = expected,
                                .hint = "the program that made the ArrowArray does not follow Arrow's C data interface"});
}

void CColumn::check(const ArrowArray* array, const ArrowField& field, int64_t least) const {
  if (array == nullptr) wrong("the ArrowArray is a null pointer");
  if (array->release == nullptr) wrong("the ArrowArray has been released");
  if (array->length < 0 || array->length > kMostElements || array->offset < 0 || array->offset > kMostElements)
    wrong("the ArrowArray's length or offset is out of range", std::to_string(array->length) + " from " + std::to_string(array->offset));
  if (array->length < least)
    wrong("the ArrowArray is shorter than what holds it", std::to_string(array->length), "at least " + std::to_string(least));
  if (array->null_count < -1 || array->null_count > array->length)
    wrong("the ArrowArray's count of missing values is out of range", std::to_string(array->null_count));
  const auto buffers = static_cast<int64_t>(buffers_of(field, 5));
  const bool views = field.dictionary < 0 && is_view(field.kind);
  if (views ? array->n_buffers < 3 || array->n_buffers > kMostElements : array->n_buffers != buffers)
    wrong("the ArrowArray has another number of buffers than its type", std::to_string(array->n_buffers),
          views ? "3 or more" : std::to_string(buffers));
  if (array->n_buffers > 0 && array->buffers == nullptr) wrong("the ArrowArray's buffers are a null pointer");
  const int64_t children = children_of(field);
  if (children >= 0 && array->n_children != children)
    wrong("the ArrowArray has another number of children than its schema", std::to_string(array->n_children), std::to_string(children));
  if (array->n_children > 0 && array->children == nullptr) wrong("the ArrowArray's children are a null pointer");
  if ((field.dictionary >= 0) != (array->dictionary != nullptr))
    wrong("the ArrowArray has a dictionary where its schema has none, or none where that has one");
}

CColumn::CColumn(const ArrowArray& batch, const Leaf& leaf, const std::string& where) : field_(&leaf.field), where_(where) {
  const ArrowField group{.kind = Kind::structure};
  array_ = &batch;
  check(array_, group, 0);
  rows_ = batch.length;
  first_ = batch.offset;
  where_ += ": column '" + leaf.field.name.substr(0, 60) + "'";
  for (size_t level = 0; level < leaf.path.size(); ++level) {
    add_missing(*array_, first_, rows_, missing_);
    if (static_cast<uint64_t>(array_->n_children) <= leaf.path[level])
      wrong("the ArrowArray has another number of children than its schema", std::to_string(array_->n_children),
            "more than " + std::to_string(leaf.path[level]));
    array_ = array_->children[leaf.path[level]];
    check(array_, level + 1 < leaf.path.size() ? group : *field_, first_ + rows_);
    first_ += array_->offset;  // a group's elements count from its children's own beginning
    if (first_ > kMostElements) wrong("the ArrowArray's length or offset is out of range", std::to_string(first_));
  }
  if (field_->kind != Kind::null) add_missing(*array_, first_, rows_, missing_);
}

const void* CColumn::buffer(const ArrowArray& array, int64_t number, bool any) const {
  const void* found = array.buffers[number];
  if (found == nullptr && any) wrong("a buffer of the ArrowArray is a null pointer", "buffer " + std::to_string(number));
  return found;
}

void CColumn::add_missing(const ArrowArray& array, int64_t first, int64_t rows, std::vector<uint8_t>& missing) const {
  if (array.null_count == 0 || array.n_buffers == 0 || rows == 0) return;
  const auto* bits = static_cast<const uint8_t*>(array.buffers[0]);
  if (bits == nullptr && array.null_count > 0)
    wrong("the ArrowArray has missing values, and its bitmap is a null pointer", std::to_string(array.null_count) + " missing");
  if (bits == nullptr) return;
  for (int64_t r = 0; r < rows; ++r) {
    if ((bits[(first + r) / 8] >> ((first + r) % 8) & 1) != 0) continue;
    if (missing.empty()) missing.resize(static_cast<size_t>(rows));
    missing[static_cast<size_t>(r)] = 1;
  }
}

// --- Values --------------------------------------------------------------------------------------------------------------------

Column CColumn::values() const {
  if (field_->dictionary < 0) return plain(*array_, *field_, first_, rows_, missing_);
  return dictionary().rows(places());
}

Column CColumn::dictionary() const {
  ArrowField entries = *field_;
  entries.dictionary = -1;
  const ArrowArray& values = *array_->dictionary;
  check(&values, entries, 0);
  std::vector<uint8_t> missing;
  add_missing(values, values.offset, values.length, missing);
  return plain(values, entries, values.offset, values.length, std::move(missing));
}

std::vector<int64_t> CColumn::places() const {
  const auto bytes =
      bytes_at(buffer(*array_, 1, rows_ > 0), static_cast<uint64_t>(first_ + rows_) * static_cast<uint64_t>(field_->index_width / 8));
  const int64_t entries = array_->dictionary->length;
  std::vector<int64_t> places(static_cast<size_t>(rows_), -1);
  for (int64_t r = 0; r < rows_; ++r) {
    if (!missing_.empty() && missing_[static_cast<size_t>(r)] != 0) continue;
    const int64_t place = whole_at(bytes, field_->index_width, field_->index_signed, first_ + r);
    if (place < 0 || place >= entries)
      wrong("the column has a place beyond its dictionary", std::to_string(place), "0 to " + std::to_string(entries - 1));
    places[static_cast<size_t>(r)] = place;
  }
  return places;
}

Column CColumn::plain(const ArrowArray& array, const ArrowField& field, int64_t first, int64_t rows, std::vector<uint8_t> missing) const {
  Column column(field.type);
  if (field.kind == Kind::null) {
    if (rows > kMostEmpty) wrong("a column without any value has more rows than a table may have", std::to_string(rows));
    for (int64_t r = 0; r < rows; ++r) column.add_missing();
    return column;
  }
  column.missing = std::move(missing);
  if (column.type == Type::list) read_lists(array, field, first, column, rows);
  else if (is_view(field.kind)) read_views(array, first, column, rows);
  else if (column.type == Type::text) read_texts(array, field, first, column, rows);
  else read_numbers(array, field, first, column, rows);
  return column;
}

void CColumn::read_numbers(const ArrowArray& array, const ArrowField& field, int64_t first, Column& column, int64_t rows) const {
  const auto bytes = bytes_at(buffer(array, 1, rows > 0), (static_cast<uint64_t>(first + rows) * width_of(field) + 7) / 8);
  const auto count = static_cast<size_t>(rows);
  if (column.type == Type::real) {
    column.real.resize(count);
    for (int64_t r = 0; r < rows; ++r)
      column.real[static_cast<size_t>(r)] = column.is_missing(r)          ? std::numeric_limits<double>::quiet_NaN()
                                            : field.kind == Kind::decimal ? decimal_at(bytes, field.width, field.scale, first + r)
                                                                          : real_at(bytes, field.width, first + r);
    return;
  }
  column.whole.resize(count);
  for (int64_t r = 0; r < rows; ++r) {
    if (column.is_missing(r)) continue;
    int64_t& value = column.whole[static_cast<size_t>(r)];
    const int64_t at = first + r;
    if (field.kind == Kind::boolean) value = std::to_integer<int64_t>(bytes[static_cast<size_t>(at) / 8] >> (at % 8)) & 1;
    else value = whole_at(bytes, static_cast<int64_t>(width_of(field)), field.is_signed, at);
    if (column.type == Type::time) value = milliseconds_of(field, value);
    if (!field.is_signed && value < 0)
      throw Error(ErrorKind::data, {.where = where_,
                                    .what = "the column has an unsigned number beyond 2^63, which a column cannot have",
                                    .got = std::to_string(static_cast<uint64_t>(value)),
                                    .hint = "hand it over as text, or as float64"});
  }
}

void CColumn::read_texts(const ArrowArray& array, const ArrowField& field, int64_t first, Column& column, int64_t rows) const {
  column.ends.reserve(static_cast<size_t>(rows));
  if (field.kind == Kind::fixed_binary) {
    const auto* bytes = static_cast<const char*>(buffer(array, 1, rows > 0));
    const auto width = static_cast<size_t>(field.width);
    for (int64_t r = 0; r < rows; ++r) {
      if (!column.is_missing(r)) column.bytes.append(bytes + static_cast<size_t>(first + r) * width, width);
      column.ends.push_back(column.bytes.size());
    }
    return;
  }
  const int64_t width = field.kind == Kind::large_binary || field.kind == Kind::large_utf8 ? 64 : 32;
  const auto ends = bytes_at(buffer(array, 1, rows > 0), static_cast<uint64_t>(first + rows + 1) * static_cast<uint64_t>(width / 8));
  const auto* bytes = static_cast<const char*>(buffer(array, 2, false));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t begin = whole_at(ends, width, true, first + r), end = whole_at(ends, width, true, first + r + 1);
    if (begin < 0 || end < begin || end > kMostElements)
      wrong("the places of the column's texts are not in order", std::to_string(begin) + " to " + std::to_string(end));
    if (end > begin && bytes == nullptr) wrong("a buffer of the ArrowArray is a null pointer", "buffer 2");
    if (!column.is_missing(r) && end > begin) column.bytes.append(bytes + begin, static_cast<size_t>(end - begin));
    column.ends.push_back(column.bytes.size());
  }
}

// 16 bytes each: the length, then the text itself, or its first four bytes, a buffer and a place there. The sizes of these buffers come last.
void CColumn::read_views(const ArrowArray& array, int64_t first, Column& column, int64_t rows) const {
  column.ends.reserve(static_cast<size_t>(rows));
  const auto views = bytes_at(buffer(array, 1, rows > 0), static_cast<uint64_t>(first + rows) * 16);
  const int64_t count = array.n_buffers - 3;
  const auto* sizes = static_cast<const int64_t*>(buffer(array, array.n_buffers - 1, count > 0));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = 4 * (first + r);
    const int64_t size = column.is_missing(r) ? 0 : value_at<int32_t>(views, at);
    if (size < 0) wrong("a text of the column has a length below 0", std::to_string(size));
    if (size > 12) {
      const int64_t number = value_at<int32_t>(views, at + 2), place = value_at<int32_t>(views, at + 3);
      if (number < 0 || number >= count)
        wrong("the column has a text in a buffer that there is not", std::to_string(number), "0 to " + std::to_string(count - 1));
      if (place < 0 || place + size > value_at<int64_t>(bytes_at(sizes, static_cast<uint64_t>(count) * 8), number))
        wrong("the column has a text that leads out of its buffer", std::to_string(size) + " bytes from " + std::to_string(place));
      column.bytes.append(static_cast<const char*>(buffer(array, 2 + number, true)) + place, static_cast<size_t>(size));
    } else if (size > 0) {
      column.bytes += as_text(views.subspan(static_cast<size_t>(4 * at + 4), static_cast<size_t>(size)));
    }
    column.ends.push_back(column.bytes.size());
  }
}

void CColumn::read_lists(const ArrowArray& array, const ArrowField& field, int64_t first, Column& column, int64_t rows) const {
  const bool fixed = field.kind == Kind::fixed_list;
  const int64_t width = field.kind == Kind::large_list ? 64 : 32;
  const auto ends = fixed
                        ? bytes_at(nullptr, 0)
                        : bytes_at(buffer(array, 1, rows > 0), static_cast<uint64_t>(first + rows + 1) * static_cast<uint64_t>(width / 8));
  const auto begin_of = [&](int64_t r) { return fixed ? (first + r) * field.width : whole_at(ends, width, true, first + r); };
  const int64_t from = rows == 0 ? 0 : begin_of(0), to = rows == 0 ? 0 : begin_of(rows);
  if (from < 0 || to < from || to > kMostElements)
    wrong("the places of the column's lists are not in order", std::to_string(from) + " to " + std::to_string(to));
  const ArrowArray* items = array.children[0];
  check(items, field.children[0], to);
  std::vector<uint8_t> missing;
  add_missing(*items, items->offset + from, to - from, missing);
  const Column numbers = plain(*items, field.children[0], items->offset + from, to - from, std::move(missing));
  column.ends.reserve(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t begin = begin_of(r), end = begin_of(r + 1);
    if (begin < from || end < begin || end > to)
      wrong("the places of the column's lists are not in order", std::to_string(begin) + " to " + std::to_string(end));
    for (int64_t i = begin; i < end && !column.is_missing(r); ++i) column.items.push_back(numbers.number(i - from));
    column.ends.push_back(column.items.size());
  }
}

// --- In place ------------------------------------------------------------------------------------------------------------------

ArrowField CColumn::number_field() const {
  if (field_->dictionary >= 0) return {.kind = Kind::integer, .width = field_->index_width, .is_signed = field_->index_signed};
  return field_->kind == Kind::fixed_list ? field_->children[0] : *field_;
}

const std::byte* CColumn::numbers() const {
  const ArrowField numbers = number_field();
  if (!is_number(numbers) || any_missing() || rows_ == 0) return nullptr;
  const auto size = static_cast<size_t>(numbers.width / 8);
  if (field_->kind != Kind::fixed_list || field_->dictionary >= 0)
    return static_cast<const std::byte*>(buffer(*array_, 1, true)) + static_cast<size_t>(first_) * size;
  const ArrowArray* items = array_->children[0];
  const int64_t from = first_ * field_->width, count = rows_ * field_->width;
  check(items, numbers, from + count);
  std::vector<uint8_t> missing;
  add_missing(*items, items->offset + from, count, missing);
  if (!missing.empty()) return nullptr;
  return static_cast<const std::byte*>(buffer(*items, 1, true)) + static_cast<size_t>(items->offset + from) * size;
}

}  // namespace perigee::tables::arrow
