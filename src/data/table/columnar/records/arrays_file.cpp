#include "src/data/table/columnar/records/arrays_file.h"

#include "src/core/error.h"
#include "src/io/npy.h"

namespace perigee::tables {
namespace {

constexpr int64_t kMostArraysFileSpread = 1024;  // numbers of a row that become a column each

class ArraysFile : public ColumnarFile {
 public:
  explicit ArraysFile(const ColumnarInput& input) : name_(input.name) {
    const uint64_t most = (uint64_t{16} << 20) + 32 * uint64_t{input.content.size()};
    if (as_text(input.content).starts_with("PK")) arrays_ = parse_npz(input.content, name_, most);
    else arrays_.emplace_back("x", parse_npy(input.content, name_));
    std::string shapes;
    for (size_t a = 0; a < arrays_.size(); ++a) {
      const auto& [name, tensor] = arrays_[a];
      if (a < 16) shapes += (a ? ", '" : "'") + name.substr(0, 60) + "' of " + std::to_string(rows_of(tensor)) + " rows";
      if ((!input.part.empty() && name != input.part) || tensor.shape().rank() == 0) continue;
      if (rows_ >= 0 && rows_of(tensor) != rows_) fail("the arrays have different numbers of rows", shapes, "arrays of one table");
      rows_ = rows_of(tensor);
      add(a, name);
    }
    if (sources_.empty())
      fail("the archive has no such array", input.part.empty() ? "nothing" : "'" + input.part.substr(0, 60) + "'", shapes);
    if (rows_ == 0) fail("the table has no rows", shapes, "at least one row");
    chunk_ = chunk_rows(sources_.size());
  }

  const TableSchema& schema() const override { return schema_; }
  int64_t chunks() const override { return (rows_ + chunk_ - 1) / chunk_; }

  Frame read(int64_t chunk, std::span<const size_t> columns) const override {
    const int64_t first = chunk * chunk_, rows = std::min(chunk_, rows_ - first);
    Frame frame{.rows = rows};
    Tensor part;  // these rows of one array: its columns follow each other
    size_t now = arrays_.size();
    for (const size_t c : columns) {
      const Source& source = sources_[c];
      const Tensor& tensor = arrays_[source.array].second;
      Column column(schema_.columns[c].type);
      column.reserve(rows);
      const int64_t width = tensor.elements() / rows_;
      const bool whole = column.type == Type::integer || column.type == Type::boolean;  // of all columns of an array
      if (source.array != now) part = tensor.rows(first, first + rows).to(whole ? Dtype::i64 : Dtype::f64), now = source.array;
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = r * width + source.offset;
        if (whole) column.whole.push_back(part.data<int64_t>()[at]);
        else if (column.type == Type::real) column.real.push_back(part.data<double>()[at]);
        else {
          column.items.insert(column.items.end(), part.data<double>() + at, part.data<double>() + at + width);
          column.ends.push_back(column.items.size());
        }
      }
      frame.schema.columns.push_back(schema_.columns[c]);
      frame.columns.push_back(std::move(column));
    }
    return frame;
  }

 private:
  struct Source {
    size_t array = 0;
    int64_t offset = 0;  // in a row
  };

  [[noreturn]] void fail(const std::string& what, const std::string& got, const std::string& expected) const {
    throw Error(ErrorKind::data, {.where = name_, .what = what, .got = got, .expected = expected, .hint = "FILE#NAME chooses an array"});
  }
  static int64_t rows_of(const Tensor& tensor) { return tensor.shape().rank() == 0 ? 0 : tensor.shape()[0]; }

  void add(size_t array, const std::string& name) {
    const Tensor& tensor = arrays_[array].second;
    const int64_t width = rows_ == 0 ? 1 : tensor.elements() / rows_;
    const Dtype dtype = tensor.dtype();
    const bool real = dtype == Dtype::f16 || dtype == Dtype::bf16 || dtype == Dtype::f32 || dtype == Dtype::f64;
    const Type type = real ? Type::real : dtype == Dtype::boolean ? Type::boolean : Type::integer;
    if (tensor.shape().rank() < 2 || width > kMostArraysFileSpread) {
      schema_.columns.push_back({.name = name, .type = width == 1 ? type : Type::list});
      sources_.push_back({array, 0});
      return;
    }
    for (int64_t i = 0; i < width; ++i) {
      schema_.columns.push_back({.name = name + "[" + std::to_string(i) + "]", .type = type});
      sources_.push_back({array, i});
    }
  }

  std::string name_;
  std::vector<std::pair<std::string, Tensor>> arrays_;
  std::vector<Source> sources_;
  TableSchema schema_;
  int64_t rows_ = -1, chunk_ = 1;
};

}  // namespace

std::unique_ptr<ColumnarFile> open_arrays(const ColumnarInput& input) { return std::make_unique<ArraysFile>(input); }

}  // namespace perigee::tables
