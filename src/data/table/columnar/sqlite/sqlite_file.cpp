#include "src/data/table/columnar/sqlite/sqlite_file.h"

#include <algorithm>

#include "src/core/error.h"
#include "src/data/table/columnar/sqlite/create_table.h"
#include "src/data/table/columnar/sqlite/database.h"
#include "src/data/table/time_text.h"

namespace perigee::tables::sqlite {
namespace {

constexpr size_t kMostTables = 100'000;

// A row of the database's own table of tables.
struct Entry {
  std::string type, name, sql;
  int64_t root = 0;
};

// The first page of the file is the root of that table.
std::vector<Entry> entries_of(const Database& database) {
  std::vector<Entry> list;
  uint64_t sum = 0;
  for (const CellRange& range : database.ranges(1))
    sum += database.each(range, [&](int64_t, std::span<const Cell> fields) {
      if (fields.size() < 5 || list.size() >= kMostTables || sum > database.bytes())
        database.damaged("the schema of the database is damaged", 100);
      if (fields[0].text == "table" || fields[0].text == "view")
        list.push_back({std::string(fields[0].text), std::string(fields[1].text), std::string(fields[4].text), fields[3].whole});
    });
  return list;
}

// The entry that `part` names, or the only table.
Entry sqlite_file_chosen(const Database& database, const std::string& part) {
  std::vector<Entry> tables;
  std::string names;
  size_t count = 0;
  for (Entry& entry : entries_of(database)) {
    if (entry.name == part && entry.type == "view")
      throw Error(ErrorKind::data, {.where = database.name(),
                                    .what = "'" + part + "' is a view, which is not in the file",
                                    .hint = "sqlite3 FILE 'CREATE TABLE copy AS SELECT * FROM view' writes it down"});
    if (entry.type != "table" || (entry.name.starts_with("sqlite_") && entry.name != part)) continue;
    if (entry.name == part) return entry;
    if (count++ < 16) names += (names.empty() ? "'" : ", '") + entry.name.substr(0, 60) + "'";
    tables.push_back(std::move(entry));
  }
  if (part.empty() && tables.size() == 1) return tables[0];
  throw Error(ErrorKind::data, {.where = database.name(),
                                .what = part.empty() ? "the database has not one table" : "the database has no such table",
                                .got = part.empty() ? std::to_string(count) + " tables" : "'" + part.substr(0, 60) + "'",
                                .expected = tables.empty() ? "a table" : "one of " + names,
                                .hint = "FILE#NAME chooses a table"});
}

bool sqlite_file_has(const std::string& type, std::string_view word) { return type.find(word) != type.npos; }

class SqliteFile : public ColumnarFile {
 public:
  explicit SqliteFile(const ColumnarInput& input) : database_(input.name, input.content, input.owner) {
    const Entry entry = sqlite_file_chosen(database_, input.part);
    where_ = input.name + ": table '" + entry.name.substr(0, 60) + "'";
    if (entry.root <= 0 || entry.root > UINT32_MAX)
      throw Error(ErrorKind::data, {.where = where_,
                                    .what = "the table is virtual, or damaged: the file has no page of it",
                                    .hint = "sqlite3 FILE 'CREATE TABLE copy AS SELECT * FROM table' writes down a virtual one"});
    table_ = create_table(entry.sql, where_);
    place_columns();
    scan(static_cast<uint32_t>(entry.root));
  }

  const TableSchema& schema() const override { return schema_; }
  int64_t chunks() const override { return static_cast<int64_t>(chunks_.size()); }

  Frame read(int64_t chunk, std::span<const size_t> columns) const override {
    Frame frame;
    for (const size_t c : columns) {
      frame.schema.columns.push_back(schema_.columns[c]);
      frame.columns.emplace_back(schema_.columns[c].type);
    }
    for (const CellRange& range : chunks_[static_cast<size_t>(chunk)])
      database_.each(range, [&](int64_t rowid, std::span<const Cell> fields) {
        for (size_t i = 0; i < columns.size(); ++i) {
          Cell cell = value(columns[i], rowid, fields);
          if (frame.columns[i].type == Type::time && cell.kind == Cell::Kind::text) {
            int64_t ms = 0;
            parse_iso_time(cell.text, ms);
            cell = {.kind = Cell::Kind::time, .whole = ms};
          }
          add_cell(cell, frame.columns[i]);
        }
        ++frame.rows;
      });
    return frame;
  }

 private:
  // In a tree of keys the columns of the key come first.
  void place_columns() {
    std::vector<size_t> order;
    if (table_.without_rowid) order = table_.key;
    for (size_t c = 0; c < table_.columns.size(); ++c)
      if (!table_.without_rowid || std::find(order.begin(), order.end(), c) == order.end()) order.push_back(c);
    places_.resize(order.size());
    for (size_t i = 0; i < order.size(); ++i) places_[order[i]] = i;
    for (const DeclaredColumn& column : table_.columns) {
      schema_.columns.push_back({.name = column.name});
      defaults_.push_back(default_of(column));
    }
  }

  // Rows that are older than the column have this value.
  Cell default_of(const DeclaredColumn& column) const {
    const std::string& text = column.otherwise;
    if (text.empty() || text == "NULL" || text == "null") return {};
    if (text.front() == '\'') return {.kind = Cell::Kind::text, .text = std::string_view(text).substr(1, text.size() - 2)};
    Column parsed(Type::integer), reals(Type::real);
    if (add_parsed({.type = Type::integer}, text, parsed)) return {.kind = Cell::Kind::whole, .whole = parsed.whole[0]};
    if (add_parsed({.type = Type::real}, text, reals)) return {.kind = Cell::Kind::real, .real = reals.real[0]};
    if (text == "TRUE" || text == "true") return {.kind = Cell::Kind::whole, .whole = 1};
    if (text == "FALSE" || text == "false") return {.kind = Cell::Kind::whole, .whole = 0};
    return {.kind = Cell::Kind::text, .text = text};
  }

  Cell value(size_t column, int64_t rowid, std::span<const Cell> fields) const {
    const size_t place = places_[column];
    Cell cell = place < fields.size() ? fields[place] : defaults_[column];
    if (static_cast<int64_t>(column) == table_.rowid && cell.kind == Cell::Kind::none) return {.kind = Cell::Kind::whole, .whole = rowid};
    return cell;
  }

  // Every cell's kind, since the declared types bind nobody; and which rows a chunk has.
  void scan(uint32_t root) {
    const size_t count = table_.columns.size();
    std::vector<KindsSeen> kinds(count);
    std::vector<uint8_t> times(count), booleans(count);
    for (size_t c = 0; c < count; ++c) {
      const std::string& type = table_.columns[c].type;
      times[c] = sqlite_file_has(type, "DATE") || sqlite_file_has(type, "TIME");
      booleans[c] = sqlite_file_has(type, "BOOL");
    }
    const int64_t most = chunk_rows(count);
    int64_t rows = most;
    uint64_t bytes = 0;
    for (const CellRange& range : database_.ranges(root)) {
      bytes += database_.each(range, [&](int64_t rowid, std::span<const Cell> fields) {
        if (fields.size() > count) database_.damaged("a row has more values than the table has columns", 0);
        for (size_t c = 0; c < count; ++c) {
          const Cell cell = value(c, rowid, fields);
          int64_t ms = 0;
          kinds[c].add(times[c] != 0 && cell.kind == Cell::Kind::text && parse_iso_time(cell.text, ms) ? Cell::Kind::time : cell.kind);
          if (cell.kind == Cell::Kind::whole && (cell.whole < 0 || cell.whole > 1)) booleans[c] = 0;
        }
      });
      if (bytes > database_.bytes()) database_.damaged("rows of the database share bytes", 0);
      for (uint32_t from = range.from; from < range.to;) {
        if (rows >= most) chunks_.emplace_back(), rows = 0;
        const auto to = static_cast<uint32_t>(std::min<int64_t>(range.to, from + (most - rows)));
        chunks_.back().push_back({range.page, from, to});
        rows += to - from;
        from = to;
      }
    }
    for (size_t c = 0; c < count; ++c) schema_.columns[c].type = type_of(table_.columns[c].type, kinds[c], booleans[c] != 0);
  }

  static Type type_of(const std::string& declared, const KindsSeen& kinds, bool boolean) {
    const bool real = sqlite_file_has(declared, "REAL") || sqlite_file_has(declared, "FLOA") || sqlite_file_has(declared, "DOUB");
    const Type found = kinds.type(sqlite_file_has(declared, "INT") ? Type::integer : real ? Type::real : Type::text);
    if (found == Type::integer && real) return Type::real;  // 1.0 is stored as 1
    return found == Type::integer && boolean ? Type::boolean : found;
  }

  Database database_;
  std::string where_;
  DeclaredTable table_;
  TableSchema schema_;
  std::vector<size_t> places_;  // of each column in a record
  std::vector<Cell> defaults_;
  std::vector<std::vector<CellRange>> chunks_;
};

// Rows that are only in a log beside the file would be missed.
void expect_no_log(const std::string& path) {
  for (const char* end : {"-wal", "-journal"})
    if (file_exists(path + end) && !MappedFile(path + end).bytes().empty())
      throw Error(ErrorKind::data, {.where = path,
                                    .what = "a part of the database is in the file '" + path + end + "'",
                                    .expected = "a database that is closed",
                                    .hint = "sqlite3 FILE 'PRAGMA wal_checkpoint(TRUNCATE)' writes it back"});
}

}  // namespace

std::unique_ptr<ColumnarFile> open_sqlite(const ColumnarInput& input) {
  if (input.owner != nullptr) expect_no_log(input.name);
  return std::make_unique<SqliteFile>(input);
}

}  // namespace perigee::tables::sqlite
