#include "src/data/table/reading/files_table.h"

#include <algorithm>
#include <map>

#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/data/table/reading/csv_rows.h"
#include "src/io/confined.h"
#include "src/io/file.h"

namespace perigee::tables {
namespace {

constexpr size_t kMostFiles = 1'000'000;
constexpr uint64_t kMostOfAFile = uint64_t{1} << 33;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// * stands for any letters, ? for one.
bool matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = pattern.npos, from = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') star = p++, from = n;
    else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) ++p, ++n;
    else if (star != pattern.npos) p = star + 1, n = ++from;
    else return false;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// day_2.csv comes before day_10.csv.
bool comes_before(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i, ++j;
      continue;
    }
    const auto number = [](std::string_view text, size_t& at) {
      while (at < text.size() && text[at] == '0') ++at;
      const size_t begin = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      return text.substr(begin, at - begin);
    };
    const std::string_view x = number(a, i), y = number(b, j);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
  }
  const bool a_ends = i == a.size(), b_ends = j == b.size();
  return a_ends != b_ends ? a_ends : a < b;
}

Type common(Type a, Type b) {
  if (a == b) return a;
  const bool numbers = (a == Type::integer || a == Type::real) && (b == Type::integer || b == Type::real);
  return numbers ? Type::real : Type::text;
}

class FilesTable : public ColumnarFile {
 public:
  FilesTable(const std::string& pattern, const ReadOptions& options) : pattern_(pattern), options_(options) {
    options_.tells_guess = false;
    const size_t slash = pattern.rfind('/');
    folder_ = slash == pattern.npos ? "" : pattern.substr(0, slash + 1);
    const std::string wanted = pattern.substr(folder_.size());
    for (const FolderEntry& entry : list_folder(folder_.empty() ? "." : folder_))
      if (entry.file && matches(wanted, entry.name) && (wanted[0] == '.' || entry.name[0] != '.')) files_.push_back({.name = entry.name});
    if (files_.empty() || files_.size() > kMostFiles)
      throw Error(ErrorKind::data, {.where = pattern,
                                    .what = files_.empty() ? "no file has such a name" : "too many files have such names",
                                    .got = files_.empty() ? "" : std::to_string(files_.size()),
                                    .expected = "1 to " + std::to_string(kMostFiles) + " files; * stands for any letters, ? for one"});
    std::sort(files_.begin(), files_.end(), [](const Part& a, const Part& b) { return comes_before(a.name, b.name); });
    options_.threads = 1;
    schema_.columns.push_back({.name = "file", .type = Type::text});
    if (options_.schema) take_given(*options_.schema);
    else find_columns();
  }

  const TableSchema& schema() const override { return schema_; }
  int64_t chunks() const override { return static_cast<int64_t>(files_.size()); }

  Frame read(int64_t chunk, std::span<const size_t> columns) const override {
    const Part& part = files_[static_cast<size_t>(chunk)];
    ReadOptions options = options_;
    options.schema = TableSchema{};
    options.dialect.header = part.header;
    for (size_t c = 1; c < schema_.columns.size(); ++c)
      if (options_.schema || part.has.contains(schema_.columns[c].name)) options.schema->columns.push_back(schema_.columns[c]);
    Frame all = TableFile(folder_ + part.name, options).all(kMostOfAFile), frame{.rows = all.rows};
    for (const size_t c : columns) {
      const ColumnSpec& spec = schema_.columns[c];
      Column column(spec.type);
      if (const int64_t found = c == 0 ? -1 : all.schema.find(spec.name); found >= 0) {
        column = all.columns[static_cast<size_t>(found)];
      } else {
        for (int64_t r = 0; r < all.rows; ++r)
          if (c == 0) column.add_text(part.name);
          else column.add_missing();
      }
      frame.schema.columns.push_back(spec);
      frame.columns.push_back(std::move(column));
    }
    return frame;
  }

 private:
  struct Part {
    std::string name;
    std::map<std::string, Type, std::less<>> has = {};  // columns, where none are given
    std::optional<bool> header = {};
    bool is_guess = false;  // that it has a header
    int64_t rows = 0;
  };

  void take_given(const TableSchema& given) {
    for (const ColumnSpec& spec : given.columns)
      if (spec.name != "file") schema_.columns.push_back(spec);
    for (Part& part : files_) part.header = options_.dialect.header;
  }

  TableSchema schema_of_part(Part& part) const {
    ReadOptions options = options_;
    options.dialect.header = part.header;
    TableFile file(folder_ + part.name, options);
    do part.rows = 0;  // later rows may ask for wider types
    while (!file.each([](TableFile::Chunk&) {}, [&](TableFile::Chunk& chunk) { part.rows += chunk.block.frame.rows; }));
    part.header = file.dialect().header;
    part.is_guess = file.header_is_guess();
    return file.schema();
  }

  // A first line of words above words is taken for names only where all files have the same one.
  void settle_headers(std::vector<TableSchema>& schemas) {
    const TableSchema* first = nullptr;
    bool same = true;
    for (size_t i = 0; i < files_.size(); ++i) {
      if (files_[i].is_guess && first == nullptr) first = &schemas[i];
      if (files_[i].is_guess) same &= schemas[i].names() == first->names();
      else same &= files_[i].header.value_or(true) || files_[i].rows < 2;  // one line alone says nothing
    }
    if (first == nullptr) return;
    warn(pattern_ + ": all columns are texts" +
         (same ? ": the first line is taken for their names; with header = false it is a row"
               : ", and the files begin with different lines: these are rows; with header = true they are names"));
    for (size_t i = 0; i < files_.size() && !same; ++i)
      if (files_[i].is_guess) files_[i].header = false, schemas[i] = schema_of_part(files_[i]);
  }

  void find_columns() {
    std::vector<TableSchema> schemas;
    for (Part& part : files_) {
      part.header = options_.dialect.header;
      schemas.push_back(schema_of_part(part));
    }
    settle_headers(schemas);
    std::map<std::string, size_t, std::less<>> number_of;
    for (size_t i = 0; i < files_.size(); ++i) {
      Part& part = files_[i];
      for (const ColumnSpec& spec : schemas[i].columns) {
        if (spec.name == "file")
          throw Error(ErrorKind::data, {.where = folder_ + part.name,
                                        .what = "the file has a column 'file', as the table of several files has",
                                        .hint = "a schema with the other columns reads those"});
        part.has.emplace(spec.name, spec.type);
        const auto [found, fresh] = number_of.emplace(spec.name, schema_.columns.size());
        if (schema_.columns.size() > kMostFields)
          throw Error(ErrorKind::data, {.where = folder_ + part.name,
                                        .what = "the files have too many columns together",
                                        .expected = "at most " + std::to_string(kMostFields)});
        if (fresh) schema_.columns.push_back({.name = spec.name, .type = spec.type});
        else schema_.columns[found->second].type = common(schema_.columns[found->second].type, spec.type);
      }
    }
  }

  const std::string pattern_;
  ReadOptions options_;
  std::string folder_;
  std::vector<Part> files_;
  TableSchema schema_;
};

}  // namespace

bool names_several(const std::string& path) {
  const size_t slash = path.rfind('/');
  return path.find_first_of("*?", slash == path.npos ? 0 : slash) != path.npos && !file_exists(path) && !folder_exists(path);
}

std::unique_ptr<ColumnarFile> open_files(const std::string& pattern, const ReadOptions& options) {
  return std::make_unique<FilesTable>(pattern, options);
}

}  // namespace perigee::tables
