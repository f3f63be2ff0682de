// A file of rows that is read in chunks on several threads, in bounded memory: CSV and its dialects, or JSON Lines, compressed or not; or columns
// that have types of their own (columnar.h).
// Which rows a chunk has depends on the file alone, so that what is computed from chunks in their order is the same for any threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/data/table/columnar/columnar.h"
#include "src/data/table/frame.h"
#include "src/data/table/reading/byte_stream.h"
#include "src/data/table/reading/csv_parser.h"
#include "src/data/table/reading/documents.h"

namespace perigee::tables {

struct ReadOptions {
  std::optional<TableSchema> schema = {};  // none: found out
  Dialect dialect = {};
  bool find_delimiter = true;  // unless it is given
  OnMisfit on_misfit = OnMisfit::stop;
  int threads = 1;
  std::string may_lack = {};  // a column that need not be there: all missing then
  bool tells_guess = true;    // a header that is a guess: in a warning
  size_t chunk_bytes = size_t{2} << 20;
};

// The options that a schema as JSON holds; its dialect too.
ReadOptions options_of_schema(const Json& json, const std::string& where);

class TableFile {
 public:
  // Error(data) when it is not there, empty, or has no rows that can be read. FILE#NAME chooses one of several tables: a sheet, a data set.
  TableFile(const std::string& path, ReadOptions options);
  // For a file's content that is in memory, which `name` stands for.
  TableFile(const std::string& name, ReadOptions options, std::string content);
  // For columns that are there already.
  TableFile(const std::string& name, ReadOptions options, std::shared_ptr<const ColumnarFile> columns);

  const TableSchema& schema() const { return schema_; }
  const Dialect& dialect() const { return options_.dialect; }
  // The first line has words alone, as all others: that it has names is a guess.
  bool header_is_guess() const { return header_is_guess_; }
  // Or otherwise of columns that have names: how the file is written says nothing of another one.
  bool is_json() const { return json_ || document_ || (columnar_ && !several_); }

  // `work` runs on one of options.threads threads, rank 0 .. threads - 1; then `in_order`, one at a time, in the chunks' order. False: a value did not fit the
  // schema that was found out, which is wider now: what was computed is to be forgotten, and each() called again.
  struct Chunk {
    CsvBlock block;
    int64_t number = 0, first_row = 0, first_line = 1;  // the last two are known when it is its turn
    int rank = 0;
  };
  bool each(const std::function<void(Chunk&)>& work, const std::function<void(Chunk&)>& in_order);
  // All of it. Error(resources) beyond `most_bytes` of content.
  // With a schema that is given and OnMisfit::keep, `misfit` gets each cell that does not fit, rows from 0 and lines from 1 of the file.
  // Error(data) where a block has more than most_misfits() of them.
  using UseMisfit = std::function<void(const Misfit& cell)>;
  Frame all(uint64_t most_bytes = uint64_t{1} << 36, const UseMisfit& misfit = {});
  // None: it has more; then not all of it was read.
  std::optional<Frame> all_within(uint64_t most_bytes, const UseMisfit& misfit = {});
  // Why such a cell is refused.
  Error refusal_of(const Misfit& cell) const;

 private:
  class Reading;
  void open();
  void open_document(DocumentKind kind, std::string& head);
  void plan_columnar();
  void read_columnar(int64_t number, CsvBlock& block) const;
  void each_columnar(const std::function<void(Chunk&)>& work, const std::function<void(Chunk&)>& in_order);
  std::unique_ptr<ByteStream> stream() const;
  void look(const std::string& head);
  // The rows that are looked at; `first_end`: where the first ends in `text`.
  std::vector<std::vector<std::string>> first_rows(std::string_view text, size_t* first_end) const;
  bool by_sequences() const { return !options_.dialect.sequences.empty(); }
  std::vector<std::string> names_of(const std::vector<std::string>& first, bool header) const;
  void plan(const std::vector<std::string>& names);
  void widen(const Misfit& misfit);
  void use_misfits(Chunk& chunk, const UseMisfit& misfit) const;
  void parse(std::string_view text, int64_t first_line, OnMisfit on_misfit, CsvBlock* out) const;

  std::string path_, content_, part_;  // path_ without the part
  bool in_memory_ = false;
  ReadOptions options_;
  TableSchema schema_;
  CsvPlan plan_;
  std::shared_ptr<const ColumnarFile> columnar_;
  std::vector<int64_t> columns_;  // of the columnar file, for each of the schema; -1: there is none
  bool json_ = false, guessed_ = false, made_csv_ = false /* by stream(), of lines */, several_ = false, document_ = false;
  bool header_is_guess_ = false;
  size_t skip_bytes_ = 0;  // before the first row
  int64_t skip_lines_ = 0;
};

// A large number where it cannot be told.
uint64_t bytes_of_file(const std::string& path);

// A whole table, its schema found out.
Frame read_table(const std::string& path);

}  // namespace perigee::tables
