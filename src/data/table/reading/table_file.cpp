#include "src/data/table/reading/table_file.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/data/table/columnar/odbc/odbc_file.h"
#include "src/data/table/columnar/text/lines.h"
#include "src/data/table/columnar/text/sequences.h"
#include "src/data/table/reading/byte_stream.h"
#include "src/data/table/reading/csv_rows.h"
#include "src/data/table/reading/documents.h"
#include "src/data/table/reading/files_table.h"
#include "src/data/table/reading/guess.h"
#include "src/data/table/reading/json_lines.h"
#include "src/io/codec/compress.h"
#include "src/io/codec/encoding.h"
#include "src/io/csv.h"
#include "src/io/file.h"

namespace perigee::tables {
namespace {

constexpr size_t kTableFileHead = size_t{1} << 20;

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

ReadOptions options_of_schema(const Json& json, const std::string& where) {
  ReadOptions options;
  options.schema = schema_of(json, where, &options.dialect);
  options.find_delimiter = json.find("delimiter") == nullptr;
  return options;
}

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
  if (made_csv_ && by_sequences()) raw = stream_of_sequences(std::move(raw), options_.dialect, path_);
  else if (made_csv_) raw = stream_of_lines(std::move(raw), options_.dialect.lines, options_.dialect.skip, path_);
  return raw;
}

void TableFile::open() {
  if (!in_memory_ && is_odbc(path_)) {
    const OdbcPlace place = odbc_place(path_);
    path_ = place.shown;
    columnar_ = open_odbc(place);
    return plan_columnar();
  }
  if (!in_memory_ && names_several(path_)) {
    columnar_ = open_files(path_, options_);
    several_ = true;
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
  made_csv_ = !options_.dialect.lines.empty() || by_sequences();
  if (!made_csv_) columnar_ = in_memory_ ? open_columnar_content(path_, part_, as_bytes(content_)) : open_columnar(path_, part_, head);
  if (columnar_) return plan_columnar();
  if (const DocumentKind kind = kind_of_document(head, path_); kind != DocumentKind::none && !made_csv_) {
    options_.dialect.encoding = encoding.empty() ? marked_encoding(head) : encoding;
    return open_document(kind, head);
  }
  if (!part_.empty())
    throw Error(ErrorKind::data, {.where = path_, .what = "the file has one table and no parts", .got = "#" + part_.substr(0, 60)});
  options_.dialect.encoding = encoding.empty() ? marked_encoding(head) : encoding;
  if (by_sequences()) {
    if (!options_.dialect.lines.empty())
      throw Error(ErrorKind::data, {.where = path_, .what = "'lines' and 'sequences' are both given", .expected = "one of both"});
    if (options_.dialect.sequences != "rows") options_.dialect.header = false;
    else options_.dialect.header = options_.dialect.header.value_or(false);
    options_.find_delimiter = false;
  } else if (made_csv_) {
    names_of_groups(options_.dialect.lines, path_);  // refuses a pattern before a line is
    options_.dialect.delimiter = ',', options_.dialect.quote = '"';
    options_.dialect.header = options_.dialect.trim = false;
    options_.find_delimiter = false;
  }
  if (!options_.dialect.encoding.empty() || made_csv_) read_head();
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

// A document is as a whole in memory, and then its rows as lines.
void TableFile::open_document(DocumentKind kind, std::string& head) {
  if (kind == DocumentKind::xml && options_.dialect.encoding.empty()) options_.dialect.encoding = encoding_of_xml(head);
  const uint64_t bytes = in_memory_ ? content_.size() : bytes_of_file(path_), most = (uint64_t{4} << 20) + 8 * bytes;
  std::string text;
  const std::unique_ptr<ByteStream> from = stream();
  for (size_t got = kTableFileHead; got == kTableFileHead;) {
    const size_t before = text.size();
    if (before > most) decompressed_too_large(path_, most);
    text.resize(before + kTableFileHead);
    got = from->read(text.data() + before, kTableFileHead);
    text.resize(before + got);
  }
  content_ = lines_of_document(kind, text, part_, path_, (size_t{1} << 19) + bytes / 2);
  in_memory_ = true;
  options_.dialect = {.header = kind == DocumentKind::xml ? std::optional(true) : std::nullopt,
                      .trim = false,
                      .missing = std::move(options_.dialect.missing)};
  options_.find_delimiter = false;
  head = content_.substr(0, kTableFileHead);
  if (head.size() == kTableFileHead) {
    size_t whole = whole_rows(head, kind == DocumentKind::xml ? '"' : '\0');
    if (whole == 0 && kind != DocumentKind::xml) whole = std::min(content_.find('\n'), content_.size() - 1) + 1;  // one long row
    if (whole == 0)
      throw Error(ErrorKind::data,
                  {.where = path_, .what = "the names of the document's columns are longer than 1 MiB", .expected = "shorter names"});
    head = content_.substr(0, whole);
  }
  document_ = true;
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
    if (fields.size() > kMostFields)
      throw Error(ErrorKind::data, {.where = path_,
                                    .what = "the first row has too many fields",
                                    .got = std::to_string(fields.size()),
                                    .expected = "at most " + std::to_string(kMostFields)});
    rows.push_back(fields);
    if (rows.size() == 1) *first_end = at;
  }
  if (rows.empty()) throw Error(ErrorKind::data, {.where = path_, .what = "the table has no rows", .expected = "at least one row"});
  return rows;
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
  json_ = !made_csv_ && text[first] == '{';
  if (json_) {
    guessed_ = !options_.schema;
    const TableSchema found = json_lines_schema(text, path_, skip_lines_);
    schema_ = options_.schema ? *options_.schema : found;
    return;
  }
  if (options_.find_delimiter) options_.dialect.delimiter = found_delimiter(text, options_.dialect, path_);
  if (!options_.dialect.trim) options_.dialect.trim = blanks_follow(text.substr(0, size_t{1} << 16), options_.dialect.delimiter);
  size_t first_end = 0;
  const std::vector<std::vector<std::string>> rows = first_rows(text, &first_end);
  // A header has only words, and below it something else, or none of them again in its column; or it has names that the schema knows.
  const size_t columns = rows[0].size();
  std::vector<Type> types(columns, Type::text);
  std::vector<std::string_view> values;
  bool below = false, words = true, known = false, again = false;
  for (size_t c = 0; c < columns; ++c) {
    values.clear();
    for (size_t r = 1; r < rows.size(); ++r)
      if (c < rows[r].size()) values.push_back(rows[r][c]);
    types[c] = narrowest(values, options_.dialect);
    below |= types[c] != Type::text;
    again |= std::find(values.begin(), values.end(), rows[0][c]) != values.end();
    words &= !rows[0][c].empty() && !reads_as(Type::real, rows[0][c]) && !reads_as(Type::time, rows[0][c]);
    known |= options_.schema && options_.schema->find(rows[0][c]) >= 0;
  }
  header_is_guess_ = !options_.schema && words && !below && !again && rows.size() > 1 && !options_.dialect.header;
  if (header_is_guess_ && options_.tells_guess)
    warn(path_ + ": all columns are texts: the first line is taken for their names; with header = false it is a row");
  const bool header = options_.dialect.header.value_or(known || header_is_guess_ || (words && below && rows.size() > 1));
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
  const std::vector<std::string> names = names_of(rows[0], header);
  guessed_ = !options_.schema;
  if (std::vector<std::string> given = rows[0]; guessed_ && header)
    if (const std::string equal = tell_apart(given); !equal.empty()) warn(line_of_equal_names(path_, equal));
  if (options_.schema) schema_ = *options_.schema;
  else
    for (size_t c = 0; c < columns; ++c) schema_.columns.push_back({.name = names[c], .type = types[c]});
  plan(names);
}

std::vector<std::string> TableFile::names_of(const std::vector<std::string>& first, bool header) const {
  if (made_csv_ && !by_sequences()) return names_of_groups(options_.dialect.lines, path_);
  if (!by_sequences() || header) return column_names(first, header);
  std::vector<std::string> names = column_names({first.begin() + 1, first.end()}, false);
  names.insert(names.begin(), kSequenceColumn);
  return names;
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

void TableFile::use_misfits(Chunk& chunk, const UseMisfit& misfit) const {
  const int64_t count = std::accumulate(chunk.block.misfits.begin(), chunk.block.misfits.end(), int64_t{0});
  for (Misfit& cell : chunk.block.misfit_cells) {
    cell.line += chunk.first_line;
    cell.row += chunk.first_row;
    misfit(cell);
  }
  if (count > std::ssize(chunk.block.misfit_cells)) throw refusal_of(chunk.block.misfit_cells.back());
}

Error TableFile::refusal_of(const Misfit& cell) const {
  const std::string place = path_ + (columnar_ ? ": row " + std::to_string(cell.row + 1) : ":" + std::to_string(cell.line));
  if (columnar_ || json_) return misfit_error(place, schema_.columns[cell.column], cell.text, kWriteNull);
  return misfit_error(place, schema_.columns[cell.column], cell.text);
}

std::optional<Frame> TableFile::all_within(uint64_t most_bytes, const UseMisfit& misfit) {
  struct TooMuch {};
  Frame whole;
  uint64_t bytes = 0;
  do {
    whole = empty_frame(schema_);
    bytes = 0;
    try {
      if (each([](Chunk&) {},
               [&](Chunk& chunk) {
                 if (misfit) use_misfits(chunk, misfit);
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

Frame TableFile::all(uint64_t most_bytes, const UseMisfit& misfit) {
  if (std::optional<Frame> whole = all_within(most_bytes, misfit)) return std::move(*whole);
  throw Error(ErrorKind::resources, {.where = path_,
                                     .what = "the table is too large for the memory that it may have",
                                     .expected = "at most " + std::to_string(most_bytes >> 20) + " MiB"});
}

Frame read_table(const std::string& path) { return TableFile(path, {}).all(uint64_t{1} << 33); }

}  // namespace perigee::tables
