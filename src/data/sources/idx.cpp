// {"type": "idx", "x": "images.idx.gz", "y": "labels.idx.gz"}: any arrays in IDX files, plain or compressed.
#include "src/io/idx.h"

#include <algorithm>

#include "src/data/array_source.h"
#include "src/io/codec/compress.h"

namespace perigee {
namespace {

constexpr uint64_t kIdxLimit = uint64_t{1} << 36;

struct IdxLoaded {
  std::string path;
  FileContent content;
  IdxArray array;
};

IdxLoaded load_idx(const std::string& path) {
  IdxLoaded loaded{path, FileContent::open(path, kIdxLimit), {}};
  loaded.array = parse_idx(loaded.content.bytes(), path);
  return loaded;
}

// One example: the array without its first dimension; images without channels get one.
Shape example_shape(const IdxArray& array) {
  std::vector<int64_t> dims = array.shape.vector();
  if (dims.size() == 3 && array.dtype == Dtype::u8) dims[0] = 1;
  else dims.erase(dims.begin());
  return Shape(dims);
}

Column x_column(const Config& config, const IdxLoaded& x) {
  const bool bytes = x.array.dtype == Dtype::u8;
  Column column{
      .field = {.name = "x", .dtype = Dtype::f32, .shape = example_shape(x.array)}, .stored = x.array.dtype, .data = x.array.data.data()};
  if (bytes) column.scale = static_cast<float>(config.number("scale", 1.0 / 255));
  return column;
}

Column y_column(const Config& config, const IdxLoaded& y, int64_t size) {
  if (y.array.shape[0] != size)
    throw Error(ErrorKind::data, {.where = y.path,
                                  .what = "the labels are not as many as the examples",
                                  .got = std::to_string(y.array.shape[0]),
                                  .expected = std::to_string(size)});
  Column column{
      .field = {.name = "y", .dtype = Dtype::i64, .shape = example_shape(y.array)}, .stored = y.array.dtype, .data = y.array.data.data()};
  const bool whole = y.array.dtype == Dtype::u8 || y.array.dtype == Dtype::i32;
  if (y.array.shape.rank() != 1 || !whole) {  // not labels, but values to be learned
    column.field.dtype = Dtype::f32;
    return column;
  }
  int64_t highest = -1;
  for (int64_t i = 0; i < size; ++i)
    highest = std::max<int64_t>(highest, y.array.dtype == Dtype::u8 ? std::to_integer<int64_t>(y.array.data[i])
                                                                    : reinterpret_cast<const int32_t*>(y.array.data.data())[i]);
  column.field.classes = config.integer_in("classes", 1, int64_t{1} << 31, std::max<int64_t>(highest + 1, 1));
  check_labels(column, size, y.path);
  return column;
}

SourcePtr open_idx(const Config& config, const std::string& folder) {
  const IdxLoaded x = load_idx(path_in(folder, config.string("x")));
  const int64_t size = x.array.shape[0];
  std::vector<Column> columns{x_column(config, x)};
  std::vector<std::shared_ptr<const void>> owners{std::make_shared<IdxLoaded>(x)};
  if (config.has("y")) {
    const IdxLoaded y = load_idx(path_in(folder, config.string("y")));
    columns.push_back(y_column(config, y, size));
    owners.push_back(std::make_shared<IdxLoaded>(y));
  }
  return std::make_shared<ArraySource>("idx (" + std::to_string(size) + " examples, " + x.path + ")", size, std::move(columns),
                                       std::move(owners));
}

constexpr const char* kIdxPositional[] = {"x", "y"};
constexpr Option kIdxOptions[] = {{"x", "file", nullptr, "the examples"},
                                  {"y", "file", "none", "their labels"},
                                  {"scale", "number", "1/255 for bytes", "factor on each value"},
                                  {"classes", "integer", "the highest label + 1", "number of classes", {1, 2147483648}}};

}  // namespace

extern const SourceDef source_idx;
const SourceDef source_idx{.type = "idx",
                           .doc = "IDX files: 'x' the examples, 'y' (optional) their labels. Options: scale (1/255 for bytes), classes",
                           .schema = {.options = kIdxOptions, .positional = kIdxPositional},
                           .open = open_idx};

}  // namespace perigee
