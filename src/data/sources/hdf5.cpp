// {"type": "hdf5", "file": "data.h5", "x": "/images", "y": "/labels"}: data sets of one HDF5 file; without names, all at its root.
#include <algorithm>

#include "src/data/arrays.h"
#include "src/io/hdf5/hdf5.h"

namespace perigee {
namespace {

constexpr uint64_t kMostHdf5Bytes = uint64_t{1} << 36;
constexpr uint64_t kHdf5Block = uint64_t{16} << 20;  // bytes that are read at a time

using Kind = hdf5::Type::Kind;

Dtype dtype_of(const hdf5::Type& type) {
  if (type.kind == Kind::boolean) return Dtype::boolean;
  if (type.kind == Kind::whole) return type.size == 1 && !type.is_signed ? Dtype::u8 : Dtype::i64;
  return type.size <= 4 ? Dtype::f32 : Dtype::f64;
}

void put_hdf5(const hdf5::Type& type, Dtype dtype, const std::byte* from, Tensor& to, int64_t at, const std::string& where) {
  switch (dtype) {
    case Dtype::boolean:
    case Dtype::u8: to.data<uint8_t>()[at] = static_cast<uint8_t>(whole_of(type, from)); return;
    case Dtype::f32: to.data<float>()[at] = static_cast<float>(real_of(type, from)); return;
    case Dtype::f64: to.data<double>()[at] = real_of(type, from); return;
    default:
      if (!whole_fits(type, from)) throw Error(ErrorKind::data, {.where = where, .what = "a number does not fit 64 bits with a sign"});
      to.data<int64_t>()[at] = whole_of(type, from);
  }
}

Tensor tensor_of(const hdf5::File& file, const hdf5::DataSet& set, const std::string& where) {
  const hdf5::Type& type = set.type;
  const bool number = type.kind == Kind::whole || type.kind == Kind::real || type.kind == Kind::boolean;
  if (!set.refusal.empty() || !number || set.shape.empty() || set.shape.size() > static_cast<size_t>(kMaxRank))
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "the data set is no array of numbers that is read",
                                  .got = !set.refusal.empty() ? set.refusal
                                         : !number            ? "elements that are no numbers"
                                                              : "no rows",
                                  .expected = "integers, real numbers or booleans with 1 to " + std::to_string(kMaxRank) + " dimensions"});
  const Dtype dtype = dtype_of(type);
  uint64_t elements = 1;
  std::vector<int64_t> dims;
  for (const uint64_t dim : set.shape) {
    if (dim == 0 || dim > kMostHdf5Bytes / dtype_bytes(dtype) / elements)
      throw Error(ErrorKind::data,
                  {.where = where, .what = "the data set is empty, or larger than memory may be", .got = std::to_string(dim)});
    elements *= dim;
    dims.push_back(static_cast<int64_t>(dim));
  }
  Tensor tensor(dtype, Shape(dims));
  const uint64_t row = set.row_elements(), at_once = std::max<uint64_t>(kHdf5Block / std::max<uint64_t>(row * type.size, 1), 1);
  for (uint64_t first = 0; first < set.rows(); first += at_once) {
    const uint64_t rows = std::min(at_once, set.rows() - first);
    const Bytes bytes = file.read(set, first, rows);
    for (uint64_t i = 0; i < rows * row; ++i)
      put_hdf5(type, dtype, bytes.data() + i * type.size, tensor, static_cast<int64_t>(first * row + i), where);
  }
  return tensor;
}

SourcePtr open_hdf5_source(const Config& config, const std::string& folder) {
  const std::string path = path_in(folder, config.string("file"));
  auto content = std::make_shared<MappedFile>(path);
  const hdf5::File file(path, content->bytes(), content);
  std::vector<std::string> names;
  for (const hdf5::DataSet& set : file.sets()) names.push_back(set.path);
  std::vector<NamedArray> arrays;
  const auto add = [&](const std::string& field, const std::string& name) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end())
      config.fail(field, "names a data set that " + path + " does not have", "'" + name + "'", "", nearest_hint(name, names));
    const std::string where = path + ": " + name;
    arrays.push_back(named_array(config, field, tensor_of(file, file.sets()[static_cast<size_t>(at - names.begin())], where), where));
  };
  for (const auto& [key, value] : config.json().as_object()) {
    if (key == "type" || key == "file" || key == "classes" || key == "class_names" || key.starts_with('@')) continue;
    const std::string name = config.string(key);
    add(key, name.substr(name.starts_with('/') ? 1 : 0));
  }
  if (arrays.empty())
    for (const std::string& name : names)
      if (name.find('/') == name.npos) add(name, name);
  if (arrays.empty()) throw Error(ErrorKind::data, {.where = path, .what = "the HDF5 file has no data set at its root"});
  return arrays_source(config, "hdf5", std::move(arrays));
}

constexpr const char* kHdf5Positional[] = {"file"};
constexpr Option kHdf5Options[] = {
    {"file", "file", nullptr, "the file"},
    {"x", "string", "none", "path of the data set with the examples: \"/train/images\""},
    {"y", "string", "none", "path of the data set with the labels"},
    {"classes", "integer", "0", "number of classes of the label, whose numbers begin with 0; 0: found out", {0, 2147483648}},
    {"class_names", "any", "[]", kClassNamesDoc}};

}  // namespace

extern const SourceDef source_hdf5;
const SourceDef source_hdf5{
    .type = "hdf5",
    .doc =
        "Arrays of an HDF5 'file' (h5py, Keras, Matlab 7.3): 'x', 'y', ... are paths of data sets, the first dimension "
        "of which are the examples; arrays of Matlab 7.3 come as the file has them, their dimensions in the other order (the source "
        "'table' turns "
        "them). Options: classes, class_names",
    .schema = {.options = kHdf5Options, .positional = kHdf5Positional, .open = true},
    .open = open_hdf5_source};

}  // namespace perigee
