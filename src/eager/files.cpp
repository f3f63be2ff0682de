#include "src/eager/files.h"

#include <algorithm>
#include <cstdio>

#include "src/core/error.h"
#include "src/io/archive/zip.h"
#include "src/io/csv.h"
#include "src/io/image.h"
#include "src/io/npy.h"
#include "src/io/safetensors.h"

namespace perigee {
namespace {

constexpr uint64_t kLargestText = uint64_t{1} << 32;

std::string extension_of(const std::string& path) {
  const size_t dot = path.rfind('.');
  std::string extension = dot == std::string::npos || path.find('/', dot) != std::string::npos ? "" : path.substr(dot);
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return extension;
}

[[noreturn]] void unknown_format(const std::string& path, const char* known) {
  throw Error(ErrorKind::usage,
              {.where = path, .what = "tensors have no such format", .got = "'" + extension_of(path) + "'", .expected = known});
}

bool is_header(const CsvTable& table) {
  double value = 0;
  for (int64_t column = 0; table.rows > 0 && column < table.columns; ++column)
    if (!csv_number(table.cell(0, column), value)) return true;
  return false;
}

ArrayFile read_csv(const std::string& path) {
  const Bytes bytes = read_file(path, kLargestText);
  CsvTable table = parse_csv(as_text(bytes), path, ',', false);
  ArrayFile file;
  const int64_t first = is_header(table) ? 1 : 0;
  for (int64_t column = 0; first == 1 && column < table.columns; ++column) file.header.emplace_back(table.cell(0, column));
  Array array = new_array(Type{Dtype::f32, Shape{table.rows - first, table.columns}});
  float* to = array.view.as<float>();
  for (int64_t row = first; row < table.rows; ++row)
    for (int64_t column = 0; column < table.columns; ++column) {
      double value = 0;
      if (!csv_number(table.cell(row, column), value))
        throw Error(ErrorKind::data, {.where = path + ":" + std::to_string(table.lines[static_cast<size_t>(row)]),
                                      .what = "column " + std::to_string(column + 1) + " is no number",
                                      .got = "'" + std::string(table.cell(row, column).substr(0, 40)) + "'",
                                      .hint = "pg.data.csv reads columns of names"});
      *to++ = static_cast<float>(value);
    }
  file.arrays.emplace_back("", array);
  return file;
}

void write_csv(const std::string& path, const ArrayFile& file) {
  const Array& x = file.arrays[0].second;
  if (x.view.rank < 1 || x.view.rank > 2)
    throw Error(ErrorKind::model, {.where = path, .what = "a CSV file holds one or two dimensions", .got = x.text()});
  const Array values = contiguous(cast(x, Dtype::f64));
  const int64_t columns = x.view.rank == 2 ? x.view.dims[1] : 1, rows = x.view.dims[0];
  const char* format = x.view.dtype == Dtype::f64 ? "%.17g" : "%.9g";
  std::string text;
  for (size_t i = 0; i < file.header.size(); ++i) text += (i ? "," : "") + file.header[i];
  if (!file.header.empty()) text += "\n";
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      char number[40];
      std::snprintf(number, sizeof number, format, values.view.as<double>()[row * columns + column]);
      text += number;
      text += column + 1 < columns ? ',' : '\n';
    }
  write_file(path, as_bytes(text));
}

// Pixels lie channels together in files and apart in arrays.
ArrayFile read_image(const std::string& path) {
  Picture picture;
  decode_image(read_file(path, kLargestText), path, 3, picture);
  Array together = new_array(Type{Dtype::u8, Shape{picture.height, picture.width, picture.channels}});
  std::copy(picture.pixels.begin(), picture.pixels.end(), together.view.as<std::byte>());
  View planes = together.view;
  const int order[] = {2, 0, 1};
  for (int d = 0; d < 3; ++d) {
    planes.dims[d] = together.view.dims[order[d]];
    planes.strides[d] = together.view.strides[order[d]];
  }
  ArrayFile file;
  file.arrays.emplace_back("", contiguous(Array(together.storage, planes)));
  return file;
}

void write_png(const std::string& path, const Array& x) {
  const int64_t channels = x.view.rank == 3 ? x.view.dims[0] : 1;
  if ((x.view.rank != 2 && x.view.rank != 3) || (channels != 1 && channels != 3) || x.view.dtype != Dtype::u8 || x.view.elements() == 0)
    throw Error(ErrorKind::model, {.where = path,
                                   .what = "an image is u8 of height x width, or 1 or 3 channels of that",
                                   .got = x.text(),
                                   .hint = "(x * 255):clamp(0, 255):to 'u8'"});
  View pixels = x.view;
  pixels.rank = 3;
  const int offset = x.view.rank - 2;
  pixels.dims[0] = x.view.dims[offset];
  pixels.strides[0] = x.view.strides[offset];
  const int64_t width = x.view.dims[offset + 1], step = x.view.strides[offset + 1];
  pixels.dims[2] = channels;
  pixels.strides[2] = x.view.rank == 3 ? x.view.strides[0] : 1;
  pixels.dims[1] = width;
  pixels.strides[1] = step;
  const Array together = contiguous(Array(x.storage, pixels));
  Picture picture{.width = width, .height = pixels.dims[0], .channels = channels};
  const auto* first = together.view.as<std::byte>();
  picture.pixels.assign(first, first + together.view.elements());
  write_file(path, encode_png(picture, path));
}

}  // namespace

ArrayFile read_arrays(const std::string& path) {
  const std::string extension = extension_of(path);
  expect_there(path);
  ArrayFile file;
  if (extension == ".npy") {
    file.arrays.emplace_back("", parse_npy(read_file(path), path));
  } else if (extension == ".npz") {
    file.named = true;
    for (auto& [name, tensor] : parse_npz(read_file(path), path)) file.arrays.emplace_back(name, tensor);
  } else if (extension == ".safetensors") {
    file.named = true;
    Safetensors content = read_safetensors(path);
    file.metadata = std::move(content.metadata);
    for (const NamedTensor& each : content.tensors) file.arrays.emplace_back(each.name, each.tensor);
  } else if (extension == ".csv") {
    file = read_csv(path);
  } else if (extension == ".png" || extension == ".jpg" || extension == ".jpeg") {
    file = read_image(path);
  } else {
    unknown_format(path, ".npy, .npz, .safetensors, .csv, .png or .jpg");
  }
  return file;
}

void write_arrays(const std::string& path, const ArrayFile& file) {
  const std::string extension = extension_of(path);
  const bool many = extension == ".npz" || extension == ".safetensors";
  if (many != file.named || (!many && file.arrays.size() != 1))
    throw Error(ErrorKind::usage, {.where = path, .what = many ? "this format holds tensors by name" : "this format holds one tensor"});
  if (extension == ".npy") {
    write_file(path, npy_bytes(to_tensor(file.arrays[0].second)));
  } else if (extension == ".npz") {
    std::vector<std::pair<std::string, Bytes>> parts;
    for (const auto& [name, array] : file.arrays) parts.emplace_back(name + ".npy", npy_bytes(to_tensor(array)));
    write_file(path, zip_bytes(parts));
  } else if (extension == ".safetensors") {
    std::vector<NamedTensor> tensors;
    for (const auto& [name, array] : file.arrays) tensors.push_back({name, to_tensor(array)});
    write_safetensors(path, tensors, file.metadata);
  } else if (extension == ".csv") {
    write_csv(path, file);
  } else if (extension == ".png") {
    write_png(path, file.arrays[0].second);
  } else {
    unknown_format(path, ".npy, .npz, .safetensors, .csv or .png");
  }
}

}  // namespace perigee
