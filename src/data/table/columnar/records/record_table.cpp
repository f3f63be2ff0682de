#include "src/data/table/columnar/records/record_table.h"

#include <algorithm>

#include "src/core/error.h"
#include "src/io/damaged.h"

namespace perigee::tables {
namespace {

constexpr size_t kMostRecordTableColumns = 4096;
constexpr uint64_t kChunkBytes = uint64_t{4} << 20;

void add_field(const RecordField& field, Column& column) {
  if (column.type != Type::list) {
    if (!field.is_list) return add_cell(field.cell, column);
    // A list of one number among lists of one number.
    if (field.list.empty()) return column.add_missing();
    return add_cell({.kind = Cell::Kind::real, .real = field.list[0]}, column);
  }
  if (field.is_list) column.items.insert(column.items.end(), field.list.begin(), field.list.end());
  else if (field.cell.kind == Cell::Kind::none) return column.add_missing();
  else column.items.push_back(field.cell.kind == Cell::Kind::real ? field.cell.real : static_cast<double>(field.cell.whole));
  column.ends.push_back(column.items.size());
  if (!column.missing.empty()) column.missing.push_back(0);
}

}  // namespace

void RecordTable::find_columns(const std::string& name, uint64_t bytes, uint64_t stored) {
  struct Found {
    KindsSeen kinds;
    bool list = false;
    std::string refusal;
  };
  name_ = name;
  stored_ = stored;
  std::vector<Found> found;
  each(0, records(), [&](std::span<const RecordField> fields) {
    for (const RecordField& field : fields) {
      auto at = numbers_.find(field.name);
      if (at == numbers_.end()) {
        if (found.size() >= kMostRecordTableColumns)
          throw Error(ErrorKind::data, {.where = name,
                                        .what = "the records have too many fields",
                                        .expected = "at most " + std::to_string(kMostRecordTableColumns)});
        at = numbers_.emplace(std::string(field.name), found.size()).first;
        found.emplace_back();
        schema_.columns.push_back({.name = at->first});
      }
      Found& column = found[at->second];
      if (field.is_list) column.list = true;
      else column.kinds.add(field.cell.kind);
      if (!field.refusal.empty()) column.refusal = field.refusal;
    }
  });
  if (found.empty()) throw Error(ErrorKind::data, {.where = name, .what = "the table has no rows", .expected = "at least one record"});
  for (size_t c = 0; c < found.size(); ++c) {
    const Type type = found[c].kinds.type(Type::list);
    if (!found[c].list) schema_.columns[c].type = found[c].kinds.type();
    else if (type == Type::list || type == Type::integer || type == Type::real) schema_.columns[c].type = Type::list;
    else if (found[c].refusal.empty()) found[c].refusal = "it has lists in some records and texts in others";
    refusals_.push_back(found[c].refusal);
  }
  // Chunks of a few MiB, so that records with pictures do not fill the memory.
  const uint64_t each_bytes = std::max<uint64_t>(bytes / std::max<uint64_t>(records(), 1), 8 * found.size());
  chunk_ = std::clamp<uint64_t>(kChunkBytes / each_bytes, 1, 65536);
}

Frame RecordTable::read(int64_t chunk, std::span<const size_t> columns) const {
  Frame frame;
  std::vector<int64_t> place(schema_.columns.size(), -1);
  for (const size_t c : columns) {
    place[c] = static_cast<int64_t>(frame.columns.size());
    frame.schema.columns.push_back(schema_.columns[c]);
    frame.columns.emplace_back(schema_.columns[c].type);
  }
  const uint64_t first = static_cast<uint64_t>(chunk) * chunk_, count = std::min(chunk_, records() - first);
  uint64_t made = 0;
  each(first, count, [&](std::span<const RecordField> fields) {
    for (const RecordField& field : fields) {
      const auto number = numbers_.find(field.name);
      const int64_t to = number == numbers_.end() ? -1 : place[number->second];
      if (to < 0 || frame.columns[static_cast<size_t>(to)].size() > frame.rows) continue;  // a field that comes twice counts once
      made += field.cell.text.size() + 8 * field.list.size();
      if (made > (uint64_t{12} << 20) + 8 * stored_)
        throw Error(ErrorKind::data, {.where = name_,
                                      .what = "the records are far larger than their file",
                                      .got = std::to_string(made >> 20) + " MiB",
                                      .hint = kGetAnew});
      add_field(field, frame.columns[static_cast<size_t>(to)]);
    }
    ++frame.rows;
    for (Column& column : frame.columns)
      if (column.size() < frame.rows) column.add_missing();
  });
  return frame;
}

}  // namespace perigee::tables
