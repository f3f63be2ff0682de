#include "src/data/table/examples/prepared.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "src/core/error.h"
#include "src/data/sources/host.h"
#include "src/data/table/columnar/arrow/handed_source.h"
#include "src/data/table/columnar/odbc/odbc_file.h"
#include "src/data/table/examples/sequence_source.h"
#include "src/data/table/examples/table_reader.h"
#include "src/data/table/reading/table_file.h"
#include "src/data/table/spill/chunk_store.h"
#include "src/data/table/spill/run_table.h"
#include "src/data/table/steps.h"
#include "src/io/file.h"

namespace perigee::tables {
namespace {

class PreparedSource : public DataSource {
 public:
  PreparedSource(SourcePtr inner, Json fitted) : inner_(std::move(inner)), fitted_(std::move(fitted)) {}
  int64_t size() const override { return inner_->size(); }
  const std::vector<Field>& fields() const override { return inner_->fields(); }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override { inner_->read(key, slots); }
  SourceTraits traits() const override {
    SourceTraits traits = inner_->traits();
    traits.fitted = fitted_;
    traits.description = "table " + traits.description.substr(traits.description.find(' ') + 1);
    return traits;
  }

 private:
  SourcePtr inner_;
  Json fitted_;
};

Json json_file(const std::string& path) {
  try {
    return Json::parse(as_text(read_file(path, uint64_t{64} << 20)), path);
  } catch (const Error& error) {
    throw Error(ErrorKind::data, error.parts());
  }
}

const Json* fitted_of(const Config& config) { return config.has("fitted") ? config.raw("fitted") : nullptr; }

// The schema is the fitted one, the given one, or one that is inferred; the options of the source say more.
ReadOptions reading(const Config& config, const std::string& folder, const std::string& target) {
  ReadOptions options;
  const Json* fitted = fitted_of(config);
  if (fitted != nullptr && fitted->find("schema") == nullptr) config.fail("fitted", "has no schema", shown(*fitted));
  if (fitted != nullptr) {
    options = options_of_schema(*fitted->find("schema"), config.where() + ": fitted: schema");
    // Another file may have other lines before its table.
    if (options.dialect.sequences.empty()) options.dialect.header.reset();
  } else if (const Json* schema = config.raw("schema"); schema != nullptr && !schema->is_null()) {
    options = schema->is_string() ? options_of_schema(json_file(path_in(folder, schema->as_string())), schema->as_string())
                                  : options_of_schema(*schema, config.where() + ": schema");
  }
  if (config.has("delimiter")) {
    const std::string delimiter = config.string("delimiter");
    if (delimiter.size() != 1 || delimiter[0] == '"' || delimiter[0] == '\n' || delimiter[0] == '\r')
      config.fail("delimiter", "must be one character", "'" + delimiter + "'");
    options.dialect.delimiter = delimiter[0];
    options.find_delimiter = false;
  }
  if (config.has("lines")) options.dialect.lines = config.string("lines");
  if (config.has("sequences")) options.dialect.sequences = config.string("sequences");
  if (config.has("separator")) options.dialect.separator = config.string("separator");
  if (config.has("encoding")) options.dialect.encoding = config.string("encoding");
  if (config.has("header")) options.dialect.header = config.boolean("header", false);
  if (config.has("missing_values")) options.dialect.missing = config.string_list("missing_values");
  options.may_lack = target;
  return options;
}

// The column that need not be there when records are to be predicted.
std::string target_of(const Config& config, TableUse use) {
  const Json* fitted = fitted_of(config);
  const Json* target = fitted != nullptr && use == TableUse::records ? fitted->find("target") : nullptr;
  const Json* name = target != nullptr ? target->find("name") : nullptr;
  return name != nullptr && name->is_string() ? name->as_string() : "";
}

// The column as numbers, which it gives away; null where a text would say more: an integer that no double has, an infinite number.
std::shared_ptr<const TableNumbers> numbers_of(Column& column) {
  constexpr int64_t kExact = int64_t{1} << 53;
  TableNumbers numbers{.whole = column.type == Type::integer};
  if (column.type == Type::real) {
    if (std::any_of(column.real.begin(), column.real.end(), [](double value) { return std::isinf(value); })) return nullptr;
    numbers.values = std::move(column.real);
  } else if (column.type == Type::integer) {
    if (std::any_of(column.whole.begin(), column.whole.end(), [](int64_t value) { return value > kExact || value < -kExact; }))
      return nullptr;
    numbers.values.assign(column.whole.begin(), column.whole.end());
  } else {
    return nullptr;
  }
  for (size_t r = 0; r < column.missing.size(); ++r)
    if (column.missing[r] != 0) numbers.values[r] = std::numeric_limits<double>::quiet_NaN();
  return std::make_shared<const TableNumbers>(std::move(numbers));
}

// The cells of chunks on the disk, as text_table() has them of a frame.
class StoredCells : public CellStore {
 public:
  StoredCells(ChunkStore&& rows, const TableRoom& room) : rows_(std::move(rows)), room_(room), columns_(rows_.schema().columns.size()) {
    for (size_t chunk = 0; chunk < rows_.size(); ++chunk) begins_.push_back(begins_.back() + rows_.rows_of(chunk));
  }

  std::string_view cell(int64_t row, int64_t column) override {
    Cells& cells = columns_[static_cast<size_t>(column)];
    if (row < cells.begin || row >= cells.end) load(cells, chunk_of(row), static_cast<size_t>(column));
    const auto i = static_cast<size_t>(row - cells.begin);
    const size_t begin = i == 0 ? 0 : cells.ends[i - 1];
    return std::string_view(cells.text).substr(begin, cells.ends[i] - begin);
  }
  int64_t number(int64_t row) override {
    const size_t chunk = chunk_of(row);
    return rows_.read(chunk, {}).numbers[static_cast<size_t>(row - begins_[chunk])];
  }
  Tensor tensor(Dtype dtype, const Shape& shape, const std::function<void(int64_t row, std::byte* out)>& fill) override {
    ScratchFile file(room_);
    const size_t bytes = static_cast<size_t>(shape.elements() / shape[0]) * dtype_bytes(dtype),
                 most = std::max<size_t>(1, (size_t{1} << 20) / bytes);
    Bytes block;
    for (int64_t row = 0; row < shape[0];) {
      const auto count = static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(most), shape[0] - row));
      block.assign(count * bytes, std::byte(0));
      for (size_t i = 0; i < count; ++i) fill(row++, block.data() + i * bytes);
      file.append(block);
    }
    struct Mapped {
      std::shared_ptr<std::byte> memory;
      Storage storage;
    };
    const auto memory = file.mapped();
    const auto mapped = std::make_shared<Mapped>(Mapped{memory, Storage::borrow(memory.get(), static_cast<size_t>(shape[0]) * bytes)});
    return Tensor(std::shared_ptr<Storage>(mapped, &mapped->storage), 0, dtype, shape);
  }

 private:
  // A column of the chunk whose rows are begin .. end.
  struct Cells {
    int64_t begin = 0, end = 0;
    std::string text;
    std::vector<size_t> ends;
  };

  size_t chunk_of(int64_t row) const {
    return static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), row) - begins_.begin()) - 1;
  }
  void load(Cells& cells, size_t chunk, size_t column) {
    const Frame frame = rows_.read(chunk, {column});
    cells.text.clear();
    cells.ends.clear();
    for (int64_t r = 0; r < frame.rows; ++r) {
      append_cell(frame.columns[0], frame.schema.columns[0], r, cells.text);
      cells.ends.push_back(cells.text.size());
    }
    cells.begin = begins_[chunk];
    cells.end = begins_[chunk + 1];
  }

  ChunkStore rows_;
  TableRoom room_;
  std::vector<int64_t> begins_ = {0};
  std::vector<Cells> columns_;
};

// The rows that steps leave: in memory, or on the disk where it is larger.
class PreparedRows {
 public:
  explicit PreparedRows(const TableRoom& room) : room_(room) {}
  void add(Frame&& frame) {
    rows_ += frame.rows;
    // A sequence is an example: they are filled up in memory.
    const bool held = store_ == nullptr && (bytes_of(whole_) + bytes_of(frame) <= room_.part() || !frame.sequences.empty());
    if (held) return append_chunk(whole_, std::move(frame));
    if (store_ == nullptr) {
      store_ = std::make_unique<ChunkStore>(std::make_shared<ScratchFile>(room_));
      if (whole_.rows > 0) keep(std::move(whole_));
      whole_ = empty_frame(frame.schema);
    }
    keep(std::move(frame));
  }
  int64_t rows() const { return rows_; }
  const Frame& whole() const { return whole_; }
  bool is_stored() const { return store_ != nullptr; }
  Table table(const std::string& where) {
    if (store_ == nullptr) return text_table(std::move(whole_), where);
    const TableSchema& schema = store_->schema();
    Table table{.where = where,
                .names = schema.names(),
                .named = true,
                .columns = static_cast<int64_t>(schema.columns.size()),
                .rows = rows_,
                .of_records = true};
    table.stored = std::make_shared<StoredCells>(std::move(*store_), room_);
    return table;
  }

 private:
  void keep(Frame&& frame) {
    each_piece(std::move(frame), uint64_t{1} << 20, [&](Frame&& piece) { store_->add(piece); });
  }
  TableRoom room_;
  Frame whole_;
  std::unique_ptr<ChunkStore> store_;
  int64_t rows_ = 0;
};

Steps steps_of(const Config& config, const std::string& folder, const TableRoom& room) {
  const Json* fitted = fitted_of(config);
  const Json* states = fitted != nullptr ? fitted->find("steps") : nullptr;
  const Json* list = config.raw("steps");
  return Steps(list != nullptr ? *list : Json(), config.where() + ": steps", folder, states != nullptr ? *states : Json(), room);
}

using RefusedRows = std::map<int64_t, std::string>;

bool is_letter(char c) { return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c & 0x80) != 0; }

// Whether a text in `json` has the name as a word, as in "2 * size" and "city=Rome", or is "*".
bool mentions(const Json& json, const std::string& name) {
  const auto has = [&](const std::string& text) {
    if (text == "*") return true;
    for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
      const size_t end = at + name.size();
      if ((at == 0 || !is_letter(text[at - 1])) && (end == text.size() || !is_letter(text[end]))) return true;
    }
    return false;
  };
  if (json.is_string()) return has(json.as_string());
  if (json.is_array())
    return std::any_of(json.as_array().begin(), json.as_array().end(), [&](const Json& item) { return mentions(item, name); });
  if (!json.is_object()) return false;
  return std::any_of(json.as_object().begin(), json.as_object().end(),
                     [&](const Json::Member& member) { return has(member.first) || mentions(member.second, name); });
}

// The records of a prediction whose cells do not fit the schema.
class Refusals {
 public:
  Refusals(const Config& config, const TableSchema& schema, const std::string& target)
      : config_(config), schema_(schema), target_(target), reads_(schema.columns.size()) {}
  // A cell of the target, or of a column that neither steps nor features read, may be anything.
  bool reads(size_t column) {
    if (!reads_[column]) {
      const Json* fitted = fitted_of(config_);
      const Json *features = fitted != nullptr ? fitted->find("columns") : nullptr, *steps = config_.raw("steps");
      const std::string& name = schema_.columns[column].name;
      reads_[column] =
          name != target_ && (features == nullptr || mentions(*features, name) || (steps != nullptr && mentions(*steps, name)));
    }
    return *reads_[column];
  }
  void add(int64_t row, const Error& why) {
    if (rows_.size() >= kMostBadRows) throw Error(why);
    rows_.emplace(row, why.what());
  }
  RefusedRows take() { return std::move(rows_); }

 private:
  const Config& config_;
  const TableSchema& schema_;
  const std::string target_;
  std::vector<std::optional<bool>> reads_;
  RefusedRows rows_;
};

SourcePtr source_of(const Config& config, PreparedRows& rows, const Steps& steps, const TableFile* file, const std::string& name,
                    TableUse use, RefusedRows refused = {}) {
  const Json* fitted = fitted_of(config);
  const Frame& frame = rows.whole();
  if (rows.rows() == 0) throw Error(ErrorKind::data, {.where = name, .what = "the steps leave no row"});
  Json inner = Json::object();
  for (const char* key : {"target", "weight", "features", "drop", "categorical", "missing", "task", "targets", "target_steps"})
    if (const Json* value = config.raw(key); value != nullptr) inner.set(key, *value);
  if (fitted != nullptr) inner.set("fitted", *fitted);
  const Config options(inner, config.where(), ErrorKind::data);
  if (frame.sequences.empty() && (config.has("targets") || config.has("target_steps")))
    config.fail(config.has("targets") ? "targets" : "target_steps", "is of sequences, and the steps make none", "",
                "a step 'sequence' or 'slide'");
  const bool sequences = !frame.sequences.empty();
  if (sequences && !refused.empty()) throw Error(ErrorKind::data, {.what = refused.begin()->second});
  Table table = sequences ? Table() : rows.table(name);
  table.refused = std::move(refused);
  const SourcePtr source = sequences ? sequence_source(options, frame, name, use) : table_source(options, table, use);
  if (fitted != nullptr) return std::make_shared<PreparedSource>(source, *fitted);
  Json all = source->traits().fitted;
  all.set("type", "table");
  all.set("schema", schema_json(file->schema(), file->is_json() ? nullptr : &file->dialect()));
  all.set("steps", steps.states());
  return std::make_shared<PreparedSource>(source, std::move(all));
}

// A table that answers are wanted for: in memory.
SourcePtr prepared(const Config& config, Frame frame, const TableFile* file, const std::string& name, TableUse use,
                   RefusedRows refused = {}) {
  const Json* fitted = fitted_of(config);
  // The number of each row stays with it through the steps, for errors.
  frame.numbers.resize(static_cast<size_t>(frame.rows));
  std::iota(frame.numbers.begin(), frame.numbers.end(), 1);
  TableRoom room = room_for_tables();
  room.memory = UINT64_MAX;
  const Steps steps = steps_of(config, ".", room);
  [[maybe_unused]] const int64_t count = frame.rows;
  const bool sequences = fitted != nullptr && fitted->find("sequences") != nullptr;
  if (sequences) steps.apply_to_sequences(frame);  // an answer for each sequence
  else steps.apply_to_each(frame);
  assert(sequences || frame.rows == count);  // a record, an answer: apply_to_each() refuses what makes other rows
  PreparedRows rows(room);
  rows.add(std::move(frame));
  return source_of(config, rows, steps, file, name, use, std::move(refused));
}

// Where answers are wanted, a row that does not fit the schema ends nothing but itself.
OnMisfit on_misfit_of(const ReadOptions& options, TableUse use) {
  return use == TableUse::records && options.schema ? OnMisfit::keep : OnMisfit::stop;
}

SourcePtr prepared_all(const Config& config, TableFile& file, const std::string& name, TableUse use) {
  Refusals refusals(config, file.schema(), target_of(config, use));
  Frame frame = file.all(uint64_t{1} << 35, [&](const Misfit& cell) {
    if (refusals.reads(cell.column)) refusals.add(cell.row, file.refusal_of(cell));
  });
  return prepared(config, std::move(frame), &file, name, use, refusals.take());
}

// The rows of a job's table.
SourcePtr prepared_rows(const Config& config, const std::string& folder, TableFile& file, const std::string& name) {
  const TableRoom room = room_for_tables();
  for (;;) {
    Steps steps = steps_of(config, folder, room);
    PreparedRows rows(room);
    if (run_table(file, steps, room, true, [&](Frame&& frame) { rows.add(std::move(frame)); }))
      return source_of(config, rows, steps, &file, name, TableUse::examples);
  }
}

// A table that the program has handed over.
SourcePtr prepared_host(const Config& config, const std::string& folder) {
  const std::string name = config.string("host");
  for (const char* key : {"file", "delimiter", "lines", "sequences", "separator", "encoding", "header"})
    if (config.has(key)) config.fail(key, "is of a file, and 'host' names a table of the program", "", "one of both");
  const SourcePtr found = host_source(name, config.where());
  const auto* handed = dynamic_cast<const HandedSource*>(found.get());
  if (handed == nullptr)
    config.fail("host", "names data of the program that are no table", "'" + name + "'", "one from perigee_source_from_arrow",
                R"(its fields are read by {"type": "host", "name": ")" + name + "\"}");
  const std::string where = "table '" + name + "'";
  TableFile file(where, reading(config, folder, ""), handed->table());
  return prepared_rows(config, folder, file, where);
}

}  // namespace

Table text_table(Frame frame, const std::string& where) {
  // Rows of the file and not lines: steps know no lines.
  Table table{.where = where,
              .names = frame.schema.names(),
              .named = true,
              .columns = static_cast<int64_t>(frame.columns.size()),
              .rows = frame.rows,
              .of_records = true};
  table.lines = std::move(frame.numbers);
  std::vector<size_t> with_cells;
  for (size_t c = 0; c < frame.columns.size(); ++c) {
    table.numbers.push_back(numbers_of(frame.columns[c]));
    table.places.push_back(static_cast<int64_t>(with_cells.size()));
    if (table.numbers.back() == nullptr) with_cells.push_back(c);
  }
  table.places.push_back(static_cast<int64_t>(with_cells.size()));
  auto text = std::make_shared<std::string>();
  std::vector<size_t> ends;
  ends.reserve(static_cast<size_t>(frame.rows) * with_cells.size());
  for (int64_t r = 0; r < frame.rows; ++r)
    for (const size_t c : with_cells) {
      append_cell(frame.columns[c], frame.schema.columns[c], r, *text);
      ends.push_back(text->size());
    }
  size_t begin = 0;
  table.cells.reserve(ends.size());
  for (const size_t end : ends) table.cells.push_back(std::string_view(*text).substr(begin, end - begin)), begin = end;
  table.owner = std::move(text);
  return table;
}

SourcePtr prepared_file(const Config& config, const std::string& folder) {
  if (config.has("host")) return prepared_host(config, folder);
  if (!config.has("file"))
    config.fail("file", "is missing", "", "a file, or \"host\": the name of a table that the program has handed over");
  const std::string name = config.string("file");
  const std::string path = is_odbc(name) ? name : path_in(folder, name);
  TableFile file(path, reading(config, folder, ""));
  return prepared_rows(config, folder, file, is_odbc(name) ? odbc_place(name).shown : path);
}

SourcePtr prepared_table(const Config& config, std::shared_ptr<const ColumnarFile> table, const std::string& name, TableUse use) {
  ReadOptions options = reading(config, ".", target_of(config, use));
  options.on_misfit = on_misfit_of(options, use);
  TableFile file(name, std::move(options), std::move(table));
  return prepared_all(config, file, name, use);
}

SourcePtr prepared_text(const Config& config, std::string_view text, const std::string& name, TableUse use) {
  ReadOptions options = reading(config, ".", target_of(config, use));
  options.on_misfit = on_misfit_of(options, use);
  TableFile file(name, std::move(options), std::string(text));
  return prepared_all(config, file, name, use);
}

SourcePtr prepared_records(const Config& config, const Table& records, TableUse use) {
  const std::string target = target_of(config, use);
  const ReadOptions options = reading(config, ".", target);
  if (!options.schema) config.fail("fitted", "is needed to read records");
  Frame frame = empty_frame(*options.schema);
  frame.rows = records.rows;
  Refusals refusals(config, *options.schema, target);
  const auto refuse = [&](int64_t row, const Error& why) {
    if (use != TableUse::records) throw Error(why);
    refusals.add(row, why);
  };
  for (size_t c = 0; c < frame.columns.size(); ++c) {
    const ColumnSpec& spec = frame.schema.columns[c];
    const int64_t from = records.find(spec.name);
    for (int64_t r = 0; r < records.rows; ++r) {
      const std::string_view cell = from < 0 ? std::string_view() : records.cell(r, from);
      const bool lacks = from < 0 || is_no_cell(cell);
      if (lacks && spec.name != target)
        refuse(r, Error(ErrorKind::data, {.where = records.place(r),
                                          .what = "the record lacks '" + spec.name + "'",
                                          .hint = "null says that a value is not known"}));
      const bool gone = lacks || cell.data() == nullptr ||
                        std::find(options.dialect.missing.begin(), options.dialect.missing.end(), cell) != options.dialect.missing.end();
      if (!gone && add_parsed(spec, cell, frame.columns[c])) continue;
      frame.columns[c].add_missing();
      if (!gone && refusals.reads(c)) refuse(r, misfit_error(records.place(r), spec, cell));
    }
  }
  return prepared(config, std::move(frame), nullptr, records.where, use, refusals.take());
}

}  // namespace perigee::tables
