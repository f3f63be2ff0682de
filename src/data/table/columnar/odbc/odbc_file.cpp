#include "src/data/table/columnar/odbc/odbc_file.h"

#include <algorithm>
#include <vector>

#include "src/core/error.h"
#include "src/io/module.h"

namespace perigee::tables {
namespace {

constexpr uint64_t kMostOdbcFileBytes = uint64_t{8} << 30;  // of all rows
constexpr size_t kMostCell = size_t{64} << 20;
constexpr int kMostOdbcFileColumns = 65536;
constexpr int64_t kRows = 65536;  // of a chunk

// The part of ODBC 3 (ISO/IEC 9075-3) that is used here, for 64 bits.
using Handle = void*;
using Small = int16_t;
using Length = int64_t;
enum : Small { kEnvironment = 1, kConnection = 2, kStatement = 3 };
enum : Small { kSuccess = 0, kWithInfo = 1, kNoData = 100 };
enum : Small { kAsText = 1, kAsReal = 8, kAsWhole = -25 };
constexpr Length kNull = -1;
constexpr Small kNulTerminated = -3;

struct Odbc {
  Module module{{"libodbc.so.2", "libodbc.so.1", "libodbc.2.dylib"}, "databases by ODBC", "unixodbc"};
  Small (*allocate)(Small kind, Handle from, Handle* out) = nullptr;
  Small (*release)(Small kind, Handle handle) = nullptr;
  Small (*set_environment)(Handle environment, int32_t key, void* value, int32_t length) = nullptr;
  Small (*connect)(Handle connection, Handle window, const char* text, Small length, char* out, Small room, Small* made,
                   uint16_t how) = nullptr;
  Small (*disconnect)(Handle connection) = nullptr;
  Small (*information)(Handle connection, uint16_t key, void* out, Small room, Small* made) = nullptr;
  Small (*execute)(Handle statement, const char* text, int32_t length) = nullptr;
  Small (*columns)(Handle statement, Small* out) = nullptr;
  Small (*describe)(Handle statement, uint16_t number, char* name, Small room, Small* made, Small* type, uint64_t* size, Small* digits,
                    Small* nullable) = nullptr;
  Small (*fetch)(Handle statement) = nullptr;
  Small (*data)(Handle statement, uint16_t number, Small as, void* out, Length room, Length* made) = nullptr;
  Small (*diagnose)(Small kind, Handle handle, Small record, char* state, int32_t* native, char* text, Small room, Small* made) = nullptr;
  Odbc() {
    module.symbol("SQLAllocHandle", allocate);
    module.symbol("SQLFreeHandle", release);
    module.symbol("SQLSetEnvAttr", set_environment);
    module.symbol("SQLDriverConnect", connect);
    module.symbol("SQLDisconnect", disconnect);
    module.symbol("SQLGetInfo", information);
    module.symbol("SQLExecDirect", execute);
    module.symbol("SQLNumResultCols", columns);
    module.symbol("SQLDescribeCol", describe);
    module.symbol("SQLFetch", fetch);
    module.symbol("SQLGetData", data);
    module.symbol("SQLGetDiagRec", diagnose);
  }
};

const Odbc& odbc() {
  static const Odbc loaded;
  return loaded;
}

// Environment, connection and statement, which are given back in turn.
class Session {
 public:
  explicit Session(const OdbcPlace& place) : place_(place) {
    make(kEnvironment, nullptr, environment_);
    check(odbc().set_environment(environment_, 200, reinterpret_cast<void*>(intptr_t{3}), 0), kEnvironment, environment_,
          "ODBC 3 is refused");
    make(kConnection, environment_, connection_);
    check(odbc().connect(connection_, nullptr, place.connection.c_str(), kNulTerminated, nullptr, 0, nullptr, 0), kConnection, connection_,
          "the database cannot be reached by ODBC");
    connected_ = true;
    make(kStatement, connection_, statement_);
  }
  ~Session() {
    if (statement_ != nullptr) odbc().release(kStatement, statement_);
    if (connected_) odbc().disconnect(connection_);
    if (connection_ != nullptr) odbc().release(kConnection, connection_);
    if (environment_ != nullptr) odbc().release(kEnvironment, environment_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void execute(const std::string& query) {
    check(odbc().execute(statement_, query.c_str(), kNulTerminated), kStatement, statement_, "the database refuses the query");
  }

  // The character around names; a blank: there is none.
  std::string quote() const {
    char text[8] = {};
    Small made = 0;
    const Small status = odbc().information(connection_, 29, text, sizeof text, &made);
    return status == kSuccess && text[0] != ' ' ? std::string(text) : "";
  }

  TableSchema describe() {
    Small count = 0;
    check(odbc().columns(statement_, &count), kStatement, statement_, "the query has no columns");
    if (count < 1 || count > kMostOdbcFileColumns - 1)
      throw Error(ErrorKind::data, {.where = place_.shown, .what = "the query gives no rows", .expected = "a table, or a SELECT"});
    TableSchema schema;
    for (Small c = 0; c < count; ++c) {
      char name[512] = {};
      Small made = 0, type = 0, digits = 0, nullable = 0;
      uint64_t size = 0;
      check(odbc().describe(statement_, static_cast<uint16_t>(c + 1), name, sizeof name, &made, &type, &size, &digits, &nullable),
            kStatement, statement_, "a column of the query cannot be described");
      std::string column(name);
      while (column.empty() || schema.find(column) >= 0) column += "_" + std::to_string(c);
      schema.columns.push_back({.name = column, .type = type_of(type, digits)});
    }
    return schema;
  }

  bool next() {
    const Small status = odbc().fetch(statement_);
    if (status == kNoData) return false;
    check(status, kStatement, statement_, "the next row cannot be read");
    return true;
  }

  // Bytes that were added.
  uint64_t add(size_t number, const ColumnSpec& spec, Column& column) {
    Length made = 0;
    if (spec.type == Type::real || spec.type == Type::integer || spec.type == Type::boolean) {
      double real = 0;
      int64_t whole = 0;
      const bool is_real = spec.type == Type::real;
      get(number, is_real ? kAsReal : kAsWhole, is_real ? static_cast<void*>(&real) : &whole, 8, &made);
      if (made == kNull) column.add_missing();
      else if (is_real) column.add_real(real);
      else column.add_whole(spec.type == Type::boolean ? whole != 0 : whole);
      return kCellBytes;
    }
    if (!read_text(number)) column.add_missing();
    else if (!add_parsed(spec, text_, column))
      throw Error(ErrorKind::data, {.where = place_.shown + ": column '" + spec.name + "', row " + std::to_string(column.size() + 1),
                                    .what = "the value is not of the column's type",
                                    .got = "'" + text_.substr(0, 40) + "'",
                                    .expected = std::string("a ") + type_text(spec.type),
                                    .hint = "CAST(... AS TEXT) in a SELECT gives it as text"});
    return kCellBytes + text_.size();
  }

 private:
  static Type type_of(Small type, Small digits) {
    switch (type) {
      case 4:
      case 5:
      case -5:
      case -6: return Type::integer;
      case 2:
      case 3: return digits == 0 ? Type::integer : Type::real;  // exact numbers
      case 6:
      case 7:
      case 8: return Type::real;
      case -7: return Type::boolean;
      case 9:
      case 11:
      case 91:
      case 93: return Type::time;
      default: return Type::text;
    }
  }

  void make(Small kind, Handle from, Handle& out) {
    const Small status = odbc().allocate(kind, from, &out);
    if (status != kSuccess && status != kWithInfo)
      throw Error(ErrorKind::resources, {.where = place_.shown, .what = "ODBC gives no handle", .got = std::to_string(status)});
  }

  void get(size_t number, Small as, void* out, Length room, Length* made) {
    check(odbc().data(statement_, static_cast<uint16_t>(number + 1), as, out, room, made), kStatement, statement_, "a cell cannot be read");
  }

  // Into text_, part by part; false: there is no value.
  bool read_text(size_t number) {
    text_.clear();
    char part[4096];
    for (;;) {
      Length made = 0;
      const Small status = odbc().data(statement_, static_cast<uint16_t>(number + 1), kAsText, part, sizeof part, &made);
      if (status == kNoData) return true;
      check(status, kStatement, statement_, "a cell cannot be read");
      if (made == kNull) return false;
      const bool more = made < 0 || made >= static_cast<Length>(sizeof part);  // the last byte is a zero
      text_.append(part, more ? sizeof part - 1 : static_cast<size_t>(made));
      if (text_.size() > kMostCell)
        throw Error(ErrorKind::resources, {.where = place_.shown, .what = "a cell is too long", .expected = "at most 64 MiB"});
      if (!more) return true;
    }
  }

  void check(Small status, Small kind, Handle handle, const char* what) const {
    if (status == kSuccess || status == kWithInfo) return;
    char state[6] = {}, text[512] = {};
    int32_t native = 0;
    Small made = 0;
    odbc().diagnose(kind, handle, 1, state, &native, text, sizeof text, &made);
    throw Error(ErrorKind::data, {.where = place_.shown, .what = what, .got = std::string(state) + ": " + text});
  }

  const OdbcPlace& place_;
  Handle environment_ = nullptr, connection_ = nullptr, statement_ = nullptr;
  bool connected_ = false;
  std::string text_;
};

bool begins_with(std::string_view text, std::string_view word) {
  return text.size() > word.size() && std::equal(word.begin(), word.end(), text.begin(), [](char a, char b) { return a == (b | 32); });
}

// A SELECT stays as it is; a table's name, with its schema before a dot, is put into quotes.
std::string query_of(const std::string& part, const std::string& quote) {
  if (begins_with(part, "select ") || begins_with(part, "with ") || begins_with(part, "values ")) return part;
  std::string query = "SELECT * FROM " + quote;
  for (const char c : part) {
    if (c == '.') query += quote + "." + quote;
    else if (quote.size() == 1 && c == quote[0]) query += quote + quote;
    else query += c;
  }
  return query + quote;
}

// The end of a KEY=VALUE pair in a connection string: the next semicolon outside braces.
size_t end_of_pair(std::string_view text, size_t at) {
  bool braced = false;
  for (; at < text.size() && (braced || text[at] != ';'); ++at) braced = text[at] == '{' || (braced && text[at] != '}');
  return at;
}

bool is_secret(std::string_view key) {
  std::string small(key);
  for (char& c : small) c = static_cast<char>(c | 32);
  const std::initializer_list<const char*> words = {"pwd", "password", "token", "secret"};
  return std::any_of(words.begin(), words.end(), [&](const char* word) { return small.find(word) != small.npos; });
}

class OdbcTable : public ColumnarFile {
 public:
  explicit OdbcTable(const OdbcPlace& place) {
    Session session(place);
    session.execute(query_of(place.part, session.quote()));
    schema_ = session.describe();
    uint64_t bytes = 0;
    while (session.next()) {
      if (frames_.empty() || frames_.back().rows == kRows) frames_.push_back(empty_frame(schema_));
      Frame& frame = frames_.back();
      for (size_t c = 0; c < schema_.columns.size(); ++c) bytes += session.add(c, schema_.columns[c], frame.columns[c]);
      ++frame.rows;
      if (bytes > kMostOdbcFileBytes)
        throw Error(ErrorKind::resources, {.where = place.shown,
                                           .what = "the query gives more rows than memory may hold",
                                           .expected = "at most " + std::to_string(kMostOdbcFileBytes >> 30) + " GiB",
                                           .hint = "a SELECT with fewer columns, or with WHERE"});
    }
  }

  const TableSchema& schema() const override { return schema_; }
  int64_t chunks() const override { return static_cast<int64_t>(frames_.size()); }
  Frame read(int64_t chunk, std::span<const size_t> columns) const override {
    const Frame& all = frames_[static_cast<size_t>(chunk)];
    Frame frame;
    frame.rows = all.rows;
    for (const size_t c : columns) frame.add(schema_.columns[c], all.columns[c]);
    return frame;
  }

 private:
  TableSchema schema_;
  std::vector<Frame> frames_;
};

}  // namespace

OdbcPlace odbc_place(std::string_view path) {
  path.remove_prefix(std::string_view("odbc:").size());
  const size_t hash = path.find('#');
  OdbcPlace place{.connection = std::string(path.substr(0, hash)),
                  .part = hash == path.npos ? "" : std::string(path.substr(hash + 1)),
                  .shown = "odbc:"};
  for (size_t at = 0; at < place.connection.size();) {
    const size_t end = end_of_pair(place.connection, at);
    const std::string_view pair = std::string_view(place.connection).substr(at, end - at);
    const std::string_view key = pair.substr(0, pair.find('='));
    place.shown += std::string(at > 0 ? ";" : "") + (is_secret(key) ? std::string(key) + "=***" : std::string(pair));
    at = end + 1;
  }
  if (place.part.empty())
    throw Error(ErrorKind::usage, {.where = place.shown,
                                   .what = "there is no table behind the database",
                                   .expected = "odbc:DSN=shop#orders, or a SELECT behind the #"});
  return place;
}

std::unique_ptr<ColumnarFile> open_odbc(const OdbcPlace& place) { return std::make_unique<OdbcTable>(place); }

}  // namespace perigee::tables
