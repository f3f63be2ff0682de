#include "src/data/table/columnar/matlab/mat_file.h"

#include "src/core/error.h"
#include "src/data/table/columnar/matlab/mat_elements.h"

namespace perigee::tables::matlab {
namespace {

// No text begins with bytes of 0 or with such small ones.
bool begins_as_mat_4(std::string_view head) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(head[i]); };
  return head.size() >= 20 && ((byte(0) < 60 && byte(1) == 0 && byte(2) == 0 && byte(3) == 0) ||
                               (byte(0) == 0 && byte(1) == 0 && (byte(2) << 8 | byte(3)) - 1000u < 60));
}

class MatFile : public ColumnarFile {
 public:
  explicit MatFile(const ColumnarInput& input)
      : name_(input.name),
        owner_(input.owner),
        content_(begins_as_mat(as_text(input.content))     ? read_content(input)
                 : begins_as_mat_4(as_text(input.content)) ? read_content_4(input)
                                                           : read_text_matrix(input)) {
    for (Array& array : content_.arrays)  // a vector may lie or stand
      if (array.rows == 1 && array.kind == Array::Kind::numbers) array.rows = array.columns, array.columns = 1;
    int64_t most = 0;
    for (const Array& array : content_.arrays)
      if (is_chosen(array, input.part) && array.kind != Array::Kind::other) most = std::max(most, array.rows);
    for (size_t a = 0; a < content_.arrays.size(); ++a) {
      const Array& array = content_.arrays[a];
      // Single numbers and empty texts beside longer arrays say something of them and are no columns.
      if (!is_chosen(array, input.part) || array.kind == Array::Kind::other || (array.rows <= 1 && array.rows < most)) continue;
      if (rows_ >= 0 && array.rows != rows_) fail("the arrays have different numbers of rows", "arrays of one table");
      rows_ = array.rows;
      add(a);
    }
    if (schema_.columns.empty())
      fail(input.part.empty() ? "the file has no array of numbers or texts" : "the file has no such array of numbers or texts",
           input.part.substr(0, 60));
    if (rows_ == 0) fail("the table has no rows", "at least one row");
    chunk_ = chunk_rows(schema_.columns.size());
  }

  const TableSchema& schema() const override { return schema_; }
  int64_t chunks() const override { return (rows_ + chunk_ - 1) / chunk_; }

  Frame read(int64_t chunk, std::span<const size_t> columns) const override {
    const int64_t first = chunk * chunk_, end = std::min(first + chunk_, rows_);
    Frame frame{.rows = end - first};
    for (const size_t c : columns) {
      const Array& array = content_.arrays[sources_[c].array];
      const int64_t begin = sources_[c].column * array.rows;
      Column column(schema_.columns[c].type);
      for (int64_t r = first; r < end; ++r)
        if (column.type == Type::text) column.add_text(array.texts[static_cast<size_t>(r)]);
        else if (column.type == Type::real) column.add_real(number_at(array, content_.swapped, begin + r));
        else if (column.type == Type::boolean) column.add_whole(number_at(array, content_.swapped, begin + r) != 0);
        else column.add_whole(whole_at(array, content_.swapped, begin + r));
      frame.schema.columns.push_back(schema_.columns[c]);
      frame.columns.push_back(std::move(column));
    }
    return frame;
  }

 private:
  struct Source {
    size_t array = 0;
    int64_t column = 0;
  };

  static bool is_chosen(const Array& array, const std::string& part) { return part.empty() || array.name == part; }

  [[noreturn]] void fail(const std::string& what, const std::string& expected) const {
    std::string found;
    for (size_t a = 0; a < content_.arrays.size() && a < 16; ++a) {
      const Array& array = content_.arrays[a];
      found += (a ? ", '" : "'") + array.name.substr(0, 60) + "' (" +
               (array.refusal.empty() ? std::to_string(array.rows) + " x " + std::to_string(array.columns) : array.refusal) + ")";
    }
    throw Error(ErrorKind::data, {.where = name_, .what = what, .got = found, .expected = expected, .hint = "FILE#NAME chooses an array"});
  }

  void add(size_t a) {
    const Array& array = content_.arrays[a];
    const Type type = array.kind == Array::Kind::texts ? Type::text
                      : array.logical                  ? Type::boolean
                      : array.real                     ? Type::real
                                                       : Type::integer;
    if (static_cast<uint64_t>(array.columns) + schema_.columns.size() > 65536) fail("the arrays have too many columns", "at most 65536");
    for (int64_t c = 0; c < array.columns; ++c) {
      const std::string name = array.name.empty() ? "x" : array.name;
      schema_.columns.push_back({.name = array.columns == 1 ? name : name + "[" + std::to_string(c) + "]", .type = type});
      sources_.push_back({a, c});
    }
  }

  std::string name_;
  std::shared_ptr<const void> owner_;  // of the bytes that arrays lie in
  Content content_;
  TableSchema schema_;
  std::vector<Source> sources_;
  int64_t rows_ = -1, chunk_ = 1;
};

}  // namespace

bool begins_as_mat(std::string_view head) {
  return head.size() >= 128 && head.starts_with("MATLAB 5.0 MAT-file") &&
         (head.substr(124, 4) == std::string_view("\0\1IM", 4) || head.substr(124, 4) == std::string_view("\1\0MI", 4));
}

std::unique_ptr<ColumnarFile> open_mat(const ColumnarInput& input) { return std::make_unique<MatFile>(input); }

}  // namespace perigee::tables::matlab
