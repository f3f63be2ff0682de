#include "src/data/table/write_table.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "src/core/error.h"
#include "src/data/table/columnar/parquet/parquet_writer.h"
#include "src/data/table/columnar/records/tar_writer.h"
#include "src/io/archive/zip.h"
#include "src/io/codec/compress.h"
#include "src/io/codec/zstd.h"
#include "src/io/npy.h"

namespace perigee::tables {
namespace {

constexpr size_t kBuffer = size_t{4} << 20;

enum class Packing { none, gzip, zstd };
constexpr int kZstdLevel = 3;

// Blocks that are compressed one by one: members of gzip, frames of Zstandard, which follow each other.
class LinesWriter : public TableWriter {
 public:
  LinesWriter(const std::string& path, Packing packing) : file_(path), packing_(packing) {}

  void add(const Frame& frame) override {
    for (int64_t r = 0; r < frame.rows; ++r) {
      row(frame, r);
      if (buffer_.size() > kBuffer) flush();
    }
    if (packing_ == Packing::none) flush();
  }
  void finish() override {
    flush();
    file_.finish();
  }

 protected:
  virtual void row(const Frame& frame, int64_t r) = 0;
  std::string buffer_;

 private:
  void flush() {
    if (buffer_.empty()) return;
    if (packing_ == Packing::none) file_.write(as_bytes(buffer_));
    else if (packing_ == Packing::gzip) file_.write(gzip(as_bytes(buffer_)));
    else {
      Bytes packed;
      zstd_compress(as_bytes(buffer_), kZstdLevel, packed);
      file_.write(packed);
    }
    buffer_.clear();
  }
  PartFile file_;
  Packing packing_;
};

class CsvWriter : public LinesWriter {
 public:
  CsvWriter(const std::string& path, Packing packing, char delimiter) : LinesWriter(path, packing), delimiter_(delimiter) {}

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

std::unique_ptr<TableWriter> one_file(const std::string& path) {
  const Packing packing = path.ends_with(".gz") ? Packing::gzip : path.ends_with(".zst") ? Packing::zstd : Packing::none;
  const std::string plain = packing == Packing::none ? path : path.substr(0, path.rfind('.'));
  if (plain.ends_with(".csv")) return std::make_unique<CsvWriter>(path, packing, ',');
  if (plain.ends_with(".tsv")) return std::make_unique<CsvWriter>(path, packing, '\t');
  if (plain.ends_with(".jsonl") || plain.ends_with(".ndjson")) return std::make_unique<JsonWriter>(path, packing);
  if (path.ends_with(".npz")) return std::make_unique<NpzWriter>(path);
  if (path.ends_with(".parquet")) return parquet::write_parquet(path);
  if (path.ends_with(".tar")) return write_tar(path);
  throw Error(ErrorKind::usage, {.where = path,
                                 .what = "a table is not written in this format",
                                 .expected = ".csv, .tsv or .jsonl (also .gz and .zst), .parquet, .npz or .tar"});
}

constexpr int64_t kMostWriteTableShards = 100'000;

// Files of so many rows each, whose names are numbered.
class ShardedWriter : public TableWriter {
 public:
  ShardedWriter(const std::string& path, int64_t rows) : path_(path), rows_(rows), left_(rows), writer_(one_file(name(0))) {}

  void add(const Frame& frame) override {
    for (int64_t done = 0; done < frame.rows;) {
      if (left_ == 0) {
        writer_->finish();
        if (++number_ >= kMostWriteTableShards)
          throw Error(ErrorKind::usage, {.where = path_, .what = "there would be too many files", .expected = "at most 100000"});
        writer_ = one_file(name(number_));
        left_ = rows_;
      }
      const int64_t count = std::min(left_, frame.rows - done);
      if (count == frame.rows) {
        writer_->add(frame);
      } else {
        std::vector<int64_t> which(static_cast<size_t>(count));
        std::iota(which.begin(), which.end(), done);
        Frame part = frame;
        part.take(which);
        writer_->add(part);
      }
      done += count;
      left_ -= count;
    }
  }
  void finish() override { writer_->finish(); }

 private:
  // Before all suffixes: "t.csv.gz" is "t-00000.csv.gz".
  std::string name(int64_t number) const {
    const size_t slash = path_.rfind('/'), dot = path_.find('.', slash == path_.npos ? 0 : slash + 2);
    std::string digits = std::to_string(number);
    digits.insert(0, 5 - std::min<size_t>(digits.size(), 5), '0');
    return path_.substr(0, dot) + "-" + digits + (dot == path_.npos ? "" : path_.substr(dot));
  }

  std::string path_;
  int64_t rows_, left_, number_ = 0;
  std::unique_ptr<TableWriter> writer_;
};

}  // namespace

PartFile::PartFile(const std::string& path) : path_(path), temporary_(path + ".part") {
  file_ = std::fopen(temporary_.c_str(), "wb");
  if (file_ == nullptr) fail();
}

PartFile::~PartFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!done_) std::remove(temporary_.c_str());
}

void PartFile::fail() const {
  throw Error(ErrorKind::resources, {.where = path_, .what = std::string("the file cannot be written: ") + std::strerror(errno)});
}

void PartFile::write(std::span<const std::byte> bytes) {
  if (!bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail();
  size_ += bytes.size();
}

void PartFile::finish() {
  const bool good = std::fclose(file_) == 0;
  file_ = nullptr;
  if (!good || std::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
  done_ = true;
}

std::unique_ptr<TableWriter> write_table(const std::string& path, int64_t shard_rows) {
  if (shard_rows > 0) return std::make_unique<ShardedWriter>(path, shard_rows);
  return one_file(path);
}

}  // namespace perigee::tables
