#include "src/data/table/reading/table_file.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/data/table/columnar/odbc/odbc_file.h"
#include "src/data/table/columnar/text/lines.h"
#include "src/data/table/reading/byte_stream.h"
#include "src/data/table/reading/csv_rows.h"
#include "src/data/table/time_text.h"
#include "src/io/codec/encoding.h"
#include "src/io/csv.h"
#include "src/io/file.h"

namespace perigee::tables {
namespace {

constexpr size_t kTableFileHead = size_t{1} << 20, kMostTableFileColumns = kMostFields;
constexpr size_t kRowsLooked = 10'000;

// Bytes of a row, which is there twice or three times while it is read: a small file that unpacks to a large one has no large rows.
size_t most_row(uint64_t file_bytes) {
  return static_cast<size_t>(std::min<uint64_t>(uint64_t{64} << 20, (uint64_t{12} << 20) + 4 * file_bytes));
}

std::string_view table_file_trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool table_file_is_missing(std::string_view text, const Dialect& dialect) {
  return std::find(dialect.missing.begin(), dialect.missing.end(), table_file_trimmed(text)) != dialect.missing.end();
}

bool is_a(Type type, std::string_view text) {
  Column column(type);
  text = table_file_trimmed(text);
  // 0 and 1 are numbers; zeros in front make a number of a house, a telephone or an article.
  if (type == Type::boolean) return text.size() > 1 && add_parsed({.type = type}, text, column);
  if ((type == Type::integer || type == Type::real) && text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9') return false;
  return add_parsed({.type = type}, text, column);
}

Type wider(Type type, std::string_view text) {
  if (type == Type::integer && is_a(Type::real, text)) return Type::real;
  return Type::text;
}

uint64_t bytes_of_file(const std::string& path) {
  std::error_code status;
  const auto size = std::filesystem::file_size(path, status);
  return status ? uint64_t{1} << 40 : size;
}

size_t line_end(std::string_view text, size_t at) {
  const size_t end = text.find('\n', at);
  return end == text.npos ? text.size() : end + 1;
}

char found_delimiter(std::string_view text, const Dialect& dialect, const std::string& path) {
  char best = dialect.delimiter;
  size_t most = 0;
  for (const char candidate : {',', ';', '\t', '|'}) {
    Dialect other = dialect;
    other.delimiter = candidate;
    std::vector<std::string> fields;
    size_t at = 0, first = 0, rows = 0;
    while (rows < 20 && at < text.size() && next_row(text, other, &at, &fields)) {
      if (fields.size() == 1 && fields[0].empty()) continue;
      if (first == 0) first = fields.size();
      if (fields.size() != first && at < text.size()) break;
      ++rows;
    }
    if (first > 1 && rows * first > most && (rows >= 20 || at >= text.size())) most = rows * first, best = candidate;
  }
  if (most == 0 && path.ends_with(".tsv")) return '\t';
  return best;
}

// Whether a blank follows each delimiter: then it belongs to that.
bool blanks_follow(std::string_view text, char delimiter) {
  size_t seen = 0;
  for (size_t at = text.find(delimiter); at != text.npos && at + 1 < text.size() && seen < 1000; at = text.find(delimiter, at + 1), ++seen)
    if (text[at + 1] != ' ') return false;
  return seen > 0;
}

}  // namespace

Type narrowest(const std::vector<std::string_view>& values, const Dialect& dialect) {
  const auto fits = [&](Type type) {
    return std::all_of(values.begin(), values.end(), [&](auto v) { return table_file_is_missing(v, dialect) || is_a(type, v); });
  };
  if (std::all_of(values.begin(), values.end(), [&](auto v) { return table_file_is_missing(v, dialect); })) return Type::text;
  for (const Type type : {Type::boolean, Type::integer, Type::real, Type::time})
    if (fits(type)) return type;
  return Type::text;
}

ReadOptions options_of_schema(const Json& json, const std::string& where) {
  ReadOptions options;
  options.schema = schema_of(json, where, &options.dialect);
  options.find_delimiter = json.find("delimiter") == nullptr;
  return options;
}

namespace {

class MemoryStream : public ByteStream {
 public:
  explicit MemoryStream(std::string_view text) : text_(text) {}
  size_t read(char* out, size_t size) override {
    const size_t count = text_.copy(out, size);
    text_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view text_;
};

}  // namespace

TableFile::TableFile(const std::string& path, ReadOptions options) : path_(path), options_(std::move(options)) { open(); }

TableFile::TableFile(const std::string& name, ReadOptions options, std::string content)
    : path_(name), content_(std::move(content)), in_memory_(true), options_(std::move(options)) {
  open();
}

TableFile::TableFile(const std::string& name, ReadOptions options, std::shared_ptr<const ColumnarFile> columns)
    : path_(name), in_memory_(true), options_(std::move(options)), columnar_(std::move(columns)) {
  plan_columnar();
}

std::unique_ptr<ByteStream> TableFile::stream() const {
  std::unique_ptr<ByteStream> raw = in_memory_ ? std::make_unique<MemoryStream>(content_) : open_stream(path_);
  if (!options_.dialect.encoding.empty()) raw = decoded_stream(std::move(raw), options_.dialect.encoding, path_);
  if (by_lines_) raw = stream_of_lines(std::move(raw), options_.dialect.lines, options_.dialect.skip, path_);
  return raw;
}

void TableFile::open() {
  if (!in_memory_ && is_odbc(path_)) {
    const OdbcPlace place = odbc_place(path_);
    path_ = place.shown;
    columnar_ = open_odbc(place);
    return plan_columnar();
  }
  if (const size_t hash = path_.rfind('#'); hash != path_.npos && !in_memory_ && !file_exists(path_) && !folder_exists(path_)) {
    part_ = path_.substr(hash + 1);
    path_.resize(hash);
  }
  if (!in_memory_) columnar_ = open_columnar_folder(path_);
  if (columnar_) return plan_columnar();
  const std::string encoding = std::exchange(options_.dialect.encoding, "");
  std::string head(kTableFileHead, '\0');
  const auto read_head = [&] {
    head.resize(kTableFileHead);
    head.resize(stream()->read(head.data(), head.size()));
  };
  read_head();
  by_lines_ = !options_.dialect.lines.empty();
  if (!by_lines_) columnar_ = in_memory_ ? open_columnar_content(path_, part_, as_bytes(content_)) : open_columnar(path_, part_, head);
  if (columnar_) return plan_columnar();
  if (!part_.empty())
    throw Error(ErrorKind::data, {.where = path_, .what = "the file has one table and no parts", .got = "#" + part_.substr(0, 60)});
  options_.dialect.encoding = encoding.empty() ? marked_encoding(head) : encoding;
  if (by_lines_) {                                   // stream() makes CSV of them
    names_of_groups(options_.dialect.lines, path_);  // refuses a pattern before a line is
    options_.dialect.delimiter = ',', options_.dialect.quote = '"';
    options_.dialect.header = options_.dialect.trim = false;
    options_.find_delimiter = false;
  }
  if (!options_.dialect.encoding.empty() || by_lines_) read_head();
  if (head.size() == kTableFileHead) {  // whole rows
    const size_t whole = whole_rows(head, options_.dialect.quote);
    if (whole == 0)
      throw Error(ErrorKind::data, {.where = path_ + ":1",
                                    .what = "the first row is longer than 1 MiB",
                                    .expected = "line feeds between rows",
                                    .hint = "a quote that is not closed may be the reason"});
    head.resize(whole);
  }
  look(head);
}

std::vector<std::vector<std::string>> TableFile::first_rows(std::string_view text, size_t* first_end) const {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> fields;
  size_t at = 0;
  while (at < text.size() && rows.size() < kRowsLooked) {
    if (!next_row(text, options_.dialect, &at, &fields)) {
      if (rows.empty())
        throw Error(ErrorKind::data,
                    {.where = path_ + ":" + std::to_string(skip_lines_ + 1), .what = "the first row has quotes that do not match"});
      break;
    }
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (fields.size() > kMostTableFileColumns)
      throw Error(ErrorKind::data, {.where = path_,
                                    .what = "the first row has too many fields",
                                    .got = std::to_string(fields.size()),
                                    .expected = "at most " + std::to_string(kMostTableFileColumns)});
    rows.push_back(fields);
    if (rows.size() == 1) *first_end = at;
  }
  if (rows.empty()) throw Error(ErrorKind::data, {.where = path_, .what = "the table has no rows", .expected = "at least one row"});
  return rows;
}

std::vector<std::string> TableFile::names_of(const std::vector<std::string>& first, bool header) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (size_t c = 0; c < first.size(); ++c) {
    std::string name = header && !first[c].empty() ? first[c] : "c" + std::to_string(c);
    while (!taken.insert(name).second) name += "_" + std::to_string(c);
    names.push_back(std::move(name));
  }
  return names;
}

void TableFile::look(const std::string& head) {
  std::string_view text = head;
  if (text.starts_with("\xef\xbb\xbf")) skip_bytes_ = 3;
  for (int64_t i = 0; i < options_.dialect.skip; ++i, ++skip_lines_) skip_bytes_ = line_end(text, skip_bytes_);
  while (options_.dialect.comment != 0 && skip_bytes_ < text.size() && text[skip_bytes_] == options_.dialect.comment)
    skip_bytes_ = line_end(text, skip_bytes_), ++skip_lines_;
  text.remove_prefix(std::min(skip_bytes_, text.size()));
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) throw Error(ErrorKind::data, {.where = path_, .what = "the table has no rows", .expected = "at least one row"});
  json_ = !by_lines_ && text[first] == '{';
  if (json_) return look_at_json(text);
  if (options_.find_delimiter) options_.dialect.delimiter = found_delimiter(text, options_.dialect, path_);
  if (!options_.dialect.trim) options_.dialect.trim = blanks_follow(text.substr(0, size_t{1} << 16), options_.dialect.delimiter);
  size_t first_end = 0;
  const std::vector<std::vector<std::string>> rows = first_rows(text, &first_end);
  // A header has only words, and something below it that is none; or it has names that the schema knows.
  const size_t columns = rows[0].size();
  std::vector<Type> types(columns, Type::text);
  std::vector<std::string_view> values;
  bool below = false, words = true, known = false;
  for (size_t c = 0; c < columns; ++c) {
    values.clear();
    for (size_t r = 1; r < rows.size(); ++r)
      if (c < rows[r].size()) values.push_back(rows[r][c]);
    types[c] = narrowest(values, options_.dialect);
    below |= types[c] != Type::text;
    words &= !rows[0][c].empty() && !is_a(Type::real, rows[0][c]) && !is_a(Type::time, rows[0][c]);
    known |= options_.schema && options_.schema->find(rows[0][c]) >= 0;
  }
  const bool header = options_.dialect.header.value_or(known || (words && below && rows.size() > 1));
  options_.dialect.header = header;
  if (header) {
    skip_lines_ += std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(first_end), '\n');
    skip_bytes_ += first_end;
  } else {
    for (size_t c = 0; c < columns; ++c) {
      values.clear();
      for (const auto& row : rows)
        if (c < row.size()) values.push_back(row[c]);
      types[c] = narrowest(values, options_.dialect);
    }
  }
  const std::vector<std::string> names = by_lines_ ? names_of_groups(options_.dialect.lines, path_) : names_of(rows[0], header);
  guessed_ = !options_.schema;
  if (std::vector<std::string> given = rows[0]; guessed_ && header)
    if (const std::string equal = tell_apart(given); !equal.empty()) warn(line_of_equal_names(path_, equal));
  if (options_.schema) schema_ = *options_.schema;
  else
    for (size_t c = 0; c < columns; ++c) schema_.columns.push_back({.name = names[c], .type = types[c]});
  plan(names);
}

// Columns of a schema are found by name; in a table without names by position.
void TableFile::plan(const std::vector<std::string>& names) {
  plan_ = {.schema = &schema_, .dialect = &options_.dialect, .column_of = std::vector<int64_t>(names.size(), -1)};
  std::string lacking;
  if (!*options_.dialect.header && names.size() == schema_.columns.size()) {
    for (size_t c = 0; c < names.size(); ++c) plan_.column_of[c] = static_cast<int64_t>(c);
    return;
  }
  const int64_t gone = schema_.find(options_.may_lack);
  if (!*options_.dialect.header && gone >= 0 && names.size() + 1 == schema_.columns.size()) {
    for (size_t c = 0; c < names.size(); ++c) plan_.column_of[c] = static_cast<int64_t>(c) + (static_cast<int64_t>(c) >= gone);
    return;
  }
  std::map<std::string_view, size_t> number_of;
  for (size_t c = 0; c < names.size(); ++c) number_of.emplace(names[c], c);
  for (size_t c = 0; c < schema_.columns.size(); ++c) {
    const auto found = number_of.find(schema_.columns[c].name);
    if (found != number_of.end()) plan_.column_of[found->second] = static_cast<int64_t>(c);
    else if (static_cast<int64_t>(c) != gone) lacking += (lacking.empty() ? "'" : ", '") + schema_.columns[c].name.substr(0, 60) + "'";
  }
  if (lacking.empty()) return;
  std::string have;
  for (size_t c = 0; c < names.size() && c < 16; ++c) have += (c ? ", '" : "'") + names[c].substr(0, 40) + "'";
  throw Error(ErrorKind::data,
              {.where = path_,
               .what = "columns of the schema are missing: " + lacking,
               .got = have,
               .hint = *options_.dialect.header ? "" : "the table has no header line, and not as many columns as the schema"});
}

void TableFile::widen(const Misfit& misfit) {
  if (misfit.column == SIZE_MAX) {  // a key of JSON that the first lines do not have
    schema_.columns.push_back({.name = misfit.text, .type = Type::text});
    return;
  }
  Type& type = schema_.columns[misfit.column].type;
  type = wider(type, misfit.text);
}

void TableFile::parse(std::string_view text, int64_t first_line, OnMisfit on_misfit, CsvBlock* out) const {
  if (json_) parse_json_lines(text, schema_, path_, first_line, on_misfit, out);
  else parse_csv_block(text, plan_, path_, first_line, on_misfit, out);
}

// The state that the threads of each() share.
class TableFile::Reading {
 public:
  // Bytes that are not filled again before they are read into.
  struct Text {
    std::vector<char> bytes;
    size_t size = 0;
    std::string_view view() const { return {bytes.data(), size}; }
    void reserve(size_t count) {
      if (bytes.size() < count + kCsvPadding) bytes.resize(count + kCsvPadding);
    }
  };

  explicit Reading(TableFile& file) : file_(file), stream_(file.stream()) {
    std::string skipped(file.skip_bytes_, '\0');
    stream_->read(skipped.data(), skipped.size());
  }

  void run(int rank, const std::function<void(Chunk&)>& work, const std::function<void(Chunk&)>& in_order) {
    Chunk chunk{.rank = rank};
    Text text;
    for (;;) {
      if (!next(text, &chunk.number)) return;
      std::exception_ptr error;
      // A guessed type that does not hold is no error: the table is read again.
      try {
        file_.parse(text.view(), 1, file_.guessed_ ? OnMisfit::missing : file_.options_.on_misfit, &chunk.block);
        if (!file_.guessed_ || chunk.block.first.line < 0) work(chunk);
      } catch (...) {
        error = std::current_exception();
      }
      std::unique_lock lock(turn_mutex_);
      turned_.wait(lock, [&] { return turn_ == chunk.number || stopped_; });
      if (stopped_) return;
      chunk.first_line = line_;
      chunk.first_row = row_;
      try {
        if (error) {
          again(text, error);
        } else if (file_.guessed_ && chunk.block.first.line >= 0) {
          widened_ = chunk.block.first;
          stopped_ = true;
        } else {
          in_order(chunk);
        }
      } catch (...) {
        error_ = std::current_exception();
        stopped_ = true;
      }
      line_ += chunk.block.lines;
      row_ += chunk.block.frame.rows;
      ++turn_;
      turned_.notify_all();
      if (stopped_) return;
    }
  }

  void stop(std::exception_ptr error) {
    const std::lock_guard lock(turn_mutex_);
    if (!error_) error_ = std::move(error);
    stopped_ = true;
    turned_.notify_all();
  }

  std::exception_ptr error_;
  Misfit widened_;

 private:
  // The next whole rows, with zeros behind them. False: there are none.
  bool next(Text& text, int64_t* number) {
    const std::lock_guard lock(read_mutex_);
    if (ended_) return false;
    const size_t wanted = file_.options_.chunk_bytes;
    text.reserve(rest_.size() + wanted);
    text.size = rest_.copy(text.bytes.data(), rest_.size());
    rest_.clear();
    for (;;) {
      text.reserve(text.size + wanted);
      const size_t got = stream_->read(text.bytes.data() + text.size, wanted);
      text.size += got;
      if (got < wanted) {
        ended_ = true;
        break;
      }
      const size_t whole = whole_rows(text.view(), file_.json_ ? '\0' : file_.options_.dialect.quote);
      if (whole > 0) {
        rest_.assign(text.view().substr(whole));
        text.size = whole;
        break;
      }
      if (text.size > most_row_)
        throw Error(ErrorKind::data, {.where = file_.path_,
                                      .what = "a row does not end",
                                      .got = std::to_string(text.size >> 20) + " MiB",
                                      .expected = "at most " + std::to_string(most_row_ >> 20) + " MiB, and line feeds between rows",
                                      .hint = "a quote that is not closed may be the reason"});
    }
    if (text.size == 0) return false;
    std::memset(text.bytes.data() + text.size, 0, kCsvPadding);
    *number = next_++;
    return true;
  }

  // With the right line number, that of the block being known now.
  void again(const Text& text, const std::exception_ptr& error) {
    CsvBlock ignored;
    file_.parse(text.view(), line_, file_.options_.on_misfit, &ignored);
    std::rethrow_exception(error);
  }

  TableFile& file_;
  const size_t most_row_ = most_row(file_.in_memory_ ? file_.content_.size() : bytes_of_file(file_.path_));
  std::mutex read_mutex_, turn_mutex_;
  std::condition_variable turned_;
  std::unique_ptr<ByteStream> stream_;
  std::string rest_;
  bool ended_ = false, stopped_ = false;
  int64_t next_ = 0, turn_ = 0, row_ = 0;
  int64_t line_ = file_.skip_lines_ + 1;
};

bool TableFile::each(const std::function<void(Chunk&)>& work, const std::function<void(Chunk&)>& in_order) {
  if (columnar_) return each_columnar(work, in_order), true;
  Reading reading(*this);
  const auto run = [&](int rank) {
    try {
      reading.run(rank, work, in_order);
    } catch (...) {
      reading.stop(std::current_exception());
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < options_.threads; ++rank) threads.emplace_back(run, rank);
  run(0);
  for (std::thread& thread : threads) thread.join();
  if (reading.error_) std::rethrow_exception(reading.error_);
  if (reading.widened_.line < 0) return true;
  widen(reading.widened_);
  return false;
}

std::optional<Frame> TableFile::all_within(uint64_t most_bytes) {
  struct TooMuch {};
  Frame whole;
  uint64_t bytes = 0;
  do {
    whole = empty_frame(schema_);
    bytes = 0;
    try {
      if (each([](Chunk&) {},
               [&](Chunk& chunk) {
                 whole.append(chunk.block.frame);
                 for (const Column& column : chunk.block.frame.columns)
                   bytes += column.bytes.size() + 8 * static_cast<uint64_t>(column.size());
                 if (bytes > most_bytes) throw TooMuch();
               }))
        return whole;
    } catch (const TooMuch&) {
      return std::nullopt;
    }
  } while (true);
}

Frame TableFile::all(uint64_t most_bytes) {
  if (std::optional<Frame> whole = all_within(most_bytes)) return std::move(*whole);
  throw Error(ErrorKind::resources, {.where = path_,
                                     .what = "the table is too large for the memory that it may have",
                                     .expected = "at most " + std::to_string(most_bytes >> 20) + " MiB"});
}

Frame read_table(const std::string& path) { return TableFile(path, {}).all(uint64_t{1} << 33); }

// --- JSON Lines ----------------------------------------------------------------------------------------------------------------

namespace {

bool for_each_line(std::string_view text, const std::function<void(std::string_view line, int64_t number)>& use) {
  int64_t number = 0;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = line_end(text, at);
    const std::string_view line = text.substr(at, end - at);
    if (line.find_first_not_of(" \t\r\n") != line.npos) use(line, number);
    at = end;
  }
  return true;
}

Json parsed_line(std::string_view line, const std::string& where) {
  try {
    return Json::parse(line, where);
  } catch (const Error& error) {
    throw Error(ErrorKind::data, error.parts());
  }
}

std::string table_file_text_of(const Json& value) { return value.is_string() ? value.as_string() : value.dump(); }

}  // namespace

void TableFile::look_at_json(std::string_view head) {
  std::vector<std::string> names;
  std::unordered_map<std::string, size_t> places;  // of names
  std::vector<std::vector<std::string>> texts;
  std::vector<std::vector<Type>> kinds;
  for_each_line(head, [&](std::string_view line, int64_t number) {
    const std::string where = path_ + ":" + std::to_string(skip_lines_ + number + 1);
    const Json json = parsed_line(line, where);
    if (!json.is_object())
      throw Error(
          ErrorKind::data,
          {.where = where, .what = "the line has no object", .got = json.type_name(), .expected = R"({"age": 41, "city": "Rome"})"});
    for (const auto& [key, value] : json.as_object()) {
      const auto [found, fresh] = places.emplace(key, names.size());
      if (fresh) {
        if (names.size() >= kMostTableFileColumns)
          throw Error(
              ErrorKind::data,
              {.where = where, .what = "the objects have too many keys", .expected = "at most " + std::to_string(kMostTableFileColumns)});
        names.push_back(key);
        texts.emplace_back();
        kinds.emplace_back();
      }
      const size_t c = found->second;
      if (value.is_null() || texts[c].size() >= kRowsLooked) continue;
      texts[c].push_back(table_file_text_of(value));
      kinds[c].push_back(value.is_bool()     ? Type::boolean
                         : value.is_int()    ? Type::integer
                         : value.is_number() ? Type::real
                         : value.is_array()  ? Type::list
                                             : Type::text);
    }
  });
  guessed_ = !options_.schema;
  if (options_.schema) schema_ = *options_.schema;
  else
    for (size_t c = 0; c < names.size(); ++c) {
      Type type = kinds[c].empty() ? Type::text : kinds[c][0];
      for (const Type kind : kinds[c])
        if (kind != type)
          type = (kind == Type::integer || kind == Type::real) && (type == Type::integer || type == Type::real) ? Type::real : Type::text;
      if (type == Type::text && !kinds[c].empty() &&
          std::all_of(texts[c].begin(), texts[c].end(), [](const std::string& t) { return is_a(Type::time, t); }))
        type = Type::time;
      if (type == Type::list && !std::all_of(texts[c].begin(), texts[c].end(), [&](const std::string& t) {
            const Json list = Json::parse(t, path_);
            return std::all_of(list.as_array().begin(), list.as_array().end(), [](const Json& item) { return item.is_number(); });
          }))
        type = Type::text;
      schema_.columns.push_back({.name = names[c], .type = type});
    }
}

void parse_json_lines(std::string_view block, const TableSchema& schema, const std::string& where, int64_t first_line, OnMisfit on_misfit,
                      CsvBlock* out) {
  out->frame = empty_frame(schema);
  out->first = {};
  out->misfit_cells.clear();
  out->misfits.clear();
  out->lines = std::count(block.begin(), block.end(), '\n');
  for_each_line(block, [&](std::string_view line, int64_t number) {
    const std::string at = where + ":" + std::to_string(first_line + number);
    const Json json = parsed_line(line, at);
    if (!json.is_object())
      throw Error(ErrorKind::data,
                  {.where = at, .what = "the line has no object", .got = json.type_name(), .expected = R"({"age": 41, "city": "Rome"})"});
    std::vector<uint8_t> done(schema.columns.size());
    const auto misfit = [&](size_t c, const std::string& text) {
      if (out->first.line < 0) out->first = {.line = number, .column = c, .text = text.substr(0, 60)};
      if (c == SIZE_MAX) return;
      if (on_misfit == OnMisfit::stop)
        throw Error(ErrorKind::data,
                    {.where = at,
                     .what = "the value does not fit the column '" + schema.columns[c].name + "'",
                     .got = "'" + text.substr(0, 40) + "'",
                     .expected = std::string(schema.columns[c].type == Type::integer ? "an " : "a ") + type_text(schema.columns[c].type)});
      if (out->misfits.empty()) out->misfits.assign(schema.columns.size(), 0);
      ++out->misfits[c];
      if (out->misfit_cells.size() < kMostMisfits) out->misfit_cells.push_back({number, out->frame.rows, c, text.substr(0, 60)});
    };
    for (const auto& [key, value] : json.as_object()) {
      const int64_t found = schema.find(key);
      if (found < 0) {
        if (out->first.line < 0) out->first = {.line = number, .column = SIZE_MAX, .text = key};
        continue;
      }
      const auto c = static_cast<size_t>(found);
      Column& column = out->frame.columns[c];
      if (value.is_null()) continue;
      if (column.type == Type::list && value.is_array()) {
        for (const Json& item : value.as_array()) column.items.push_back(item.is_number() ? item.as_number() : 0);
        column.ends.push_back(column.items.size());
        if (!column.missing.empty()) column.missing.push_back(0);
        done[c] = 1;
      } else if (const std::string text = table_file_text_of(value); add_parsed(schema.columns[c], text, column)) {
        done[c] = 1;
      } else {
        misfit(c, text);
      }
    }
    for (size_t c = 0; c < done.size(); ++c)
      if (!done[c]) out->frame.columns[c].add_missing();
    ++out->frame.rows;
  });
}

}  // namespace perigee::tables
