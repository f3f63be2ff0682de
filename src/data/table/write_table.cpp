#include "src/data/table/write_table.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "src/core/error.h"
#include "src/io/archive/zip.h"
#include "src/io/npy.h"

namespace perigee::tables {
namespace {

constexpr size_t kBuffer = size_t{4} << 20;

// A temporary file beside the one that it becomes.
class LinesWriter : public TableWriter {
 public:
  LinesWriter(const std::string& path) : path_(path), temporary_(path + ".part") {
    file_ = std::fopen(temporary_.c_str(), "wb");
    if (file_ == nullptr) fail();
  }
  ~LinesWriter() override {
    if (file_ != nullptr) std::fclose(file_);
    if (!done_) std::remove(temporary_.c_str());
  }
  LinesWriter(const LinesWriter&) = delete;
  LinesWriter& operator=(const LinesWriter&) = delete;

  void add(const Frame& frame) override {
    for (int64_t r = 0; r < frame.rows; ++r) {
      row(frame, r);
      if (buffer_.size() > kBuffer) flush();
    }
    flush();
  }
  void finish() override {
    flush();
    const bool good = std::fclose(file_) == 0;
    file_ = nullptr;
    if (!good || std::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
    done_ = true;
  }

 protected:
  virtual void row(const Frame& frame, int64_t r) = 0;
  std::string buffer_;

 private:
  void flush() {
    if (std::fwrite(buffer_.data(), 1, buffer_.size(), file_) != buffer_.size()) fail();
    buffer_.clear();
  }
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::resources, {.where = path_, .what = std::string("the file cannot be written: ") + std::strerror(errno)});
  }
  std::string path_, temporary_;
  std::FILE* file_ = nullptr;
  bool done_ = false;
};

class CsvWriter : public LinesWriter {
 public:
  CsvWriter(const std::string& path, char delimiter) : LinesWriter(path), delimiter_(delimiter) {}

 protected:
  void row(const Frame& frame, int64_t r) override {
    if (!headed_)
      for (size_t c = 0; c < frame.columns.size(); ++c) {
        const size_t begin = buffer_.size();
        buffer_ += frame.schema.columns[c].name;
        end_field(begin, c + 1 == frame.columns.size());
      }
    headed_ = true;
    for (size_t c = 0; c < frame.columns.size(); ++c) {
      const size_t begin = buffer_.size();
      append_cell(frame.columns[c], frame.schema.columns[c], r, buffer_);
      const Type type = frame.columns[c].type;
      // An empty text is in quotes: what is missing is not.
      if (type == Type::text && buffer_.size() == begin && !frame.columns[c].is_missing(r))
        buffer_ += "\"\"", buffer_ += c + 1 == frame.columns.size() ? '\n' : delimiter_;
      else if (type == Type::real || type == Type::integer) buffer_ += c + 1 == frame.columns.size() ? '\n' : delimiter_;
      else end_field(begin, c + 1 == frame.columns.size());
    }
  }

 private:
  void end_field(size_t begin, bool last) {
    const std::string_view field = std::string_view(buffer_).substr(begin);
    const bool plain = field.find_first_of("\"\r\n") == field.npos && field.find(delimiter_) == field.npos &&
                       (field.empty() || (field.front() != ' ' && field.back() != ' '));
    if (!plain) {
      std::string quoted = "\"";
      for (const char c : field) quoted += c == '"' ? "\"\"" : std::string(1, c);
      buffer_.replace(begin, buffer_.size() - begin, quoted + "\"");
    }
    buffer_ += last ? '\n' : delimiter_;
  }
  char delimiter_;
  bool headed_ = false;
};

class JsonWriter : public LinesWriter {
 public:
  using LinesWriter::LinesWriter;

 protected:
  void row(const Frame& frame, int64_t r) override {
    Json::Object object;
    for (size_t c = 0; c < frame.columns.size(); ++c)
      object.emplace_back(frame.schema.columns[c].name, cell_json(frame.columns[c], frame.schema.columns[c], r));
    buffer_ += Json(std::move(object)).dump() + "\n";
  }
};

// Numbers, times and numbers of categories as i64 or f64 (NaN where a value is missing). Texts are refused: ragged arrays would need
// Python objects.
class NpzWriter : public TableWriter {
 public:
  explicit NpzWriter(const std::string& path) : path_(path) {}

  void add(const Frame& frame) override {
    for (size_t c = 0; c < frame.columns.size(); ++c)
      if (frame.columns[c].type == Type::text || frame.columns[c].type == Type::list)
        throw Error(ErrorKind::data, {.where = path_,
                                      .what = "the column '" + frame.schema.columns[c].name + "' is no array of numbers",
                                      .got = type_text(frame.columns[c].type),
                                      .hint = "--steps makes numbers of texts: [{\"index\": \"" + frame.schema.columns[c].name + "\"}]"});
    if (whole_.columns.empty()) whole_ = frame;
    else whole_.append(frame);
  }

  void finish() override {
    std::vector<std::pair<std::string, Bytes>> files;
    for (size_t c = 0; c < whole_.columns.size(); ++c) {
      const Column& column = whole_.columns[c];
      bool gaps = false;
      for (int64_t r = 0; r < whole_.rows && !gaps; ++r) gaps = column.is_missing(r);
      std::vector<double> reals;
      for (int64_t r = 0; (gaps || column.type == Type::real) && r < whole_.rows; ++r) reals.push_back(column.number(r));
      const Shape shape({whole_.rows});
      std::string name = whole_.schema.columns[c].name;
      for (char& letter : name)
        if (letter == '/' || letter == '\\') letter = '_';
      files.emplace_back(name + ".npy", npy_bytes(gaps || column.type == Type::real ? Tensor::from<double>(shape, reals)
                                                                                    : Tensor::from<int64_t>(shape, column.whole)));
    }
    write_file(path_, zip_bytes(files));
  }

 private:
  std::string path_;
  Frame whole_;
};

}  // namespace

std::unique_ptr<TableWriter> write_table(const std::string& path) {
  if (path.ends_with(".csv")) return std::make_unique<CsvWriter>(path, ',');
  if (path.ends_with(".tsv")) return std::make_unique<CsvWriter>(path, '\t');
  if (path.ends_with(".jsonl") || path.ends_with(".ndjson")) return std::make_unique<JsonWriter>(path);
  if (path.ends_with(".npz")) return std::make_unique<NpzWriter>(path);
  throw Error(ErrorKind::usage, {.where = path, .what = "a table is not written in this format", .expected = ".csv, .tsv, .jsonl or .npz"});
}

}  // namespace perigee::tables
