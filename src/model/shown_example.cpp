#include "src/model/shown_example.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/io/base64.h"
#include "src/io/plot/png.h"
#include "src/tensor/tensor.h"

namespace perigee {
namespace {

constexpr int64_t kLongestSide = 64;  // pixels of a thumbnail
constexpr size_t kMostColumns = 40, kMostValues = 12;

// The field as f32; empty where it holds something else.
std::vector<float> read_field(const DataSource& source, size_t field, int64_t index) {
  std::vector<std::vector<std::byte>> values;
  std::vector<std::byte*> slots;
  for (const Field& each : source.fields()) {
    values.emplace_back((static_cast<size_t>(each.shape.elements()) * dtype_bytes(each.dtype) + 63) / 64 * 64);
    slots.push_back(values.back().data());
  }
  source.read({.index = index}, slots);
  const Field& wanted = source.fields()[field];
  std::vector<float> numbers(static_cast<size_t>(wanted.shape.elements()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::byte* data = values[field].data();
    if (wanted.dtype == Dtype::f32) numbers[i] = reinterpret_cast<const float*>(data)[i];
    else if (wanted.dtype == Dtype::f64) numbers[i] = static_cast<float>(reinterpret_cast<const double*>(data)[i]);
    else if (wanted.dtype == Dtype::i64) numbers[i] = static_cast<float>(reinterpret_cast<const int64_t*>(data)[i]);
    else if (wanted.dtype == Dtype::u8) numbers[i] = std::to_integer<uint8_t>(data[i]);
    else return {};
  }
  return numbers;
}

bool is_image(const Shape& shape) { return shape.rank() == 3 && (shape[0] == 1 || shape[0] == 3) && shape[1] >= 4 && shape[2] >= 4; }

// [channels, height, width], from its least value as black to its greatest as white; a large one is made smaller by means of squares.
std::string png_of(const std::vector<float>& values, const Shape& shape) {
  const int64_t channels = shape[0], height = shape[1], width = shape[2];
  const int64_t square = (std::max(height, width) + kLongestSide - 1) / kLongestSide;
  const int64_t rows = (height + square - 1) / square, columns = (width + square - 1) / square;
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  const double from = *least, range = *greatest > *least ? *greatest - *least : 1;
  std::vector<uint8_t> pixels;
  pixels.reserve(static_cast<size_t>(rows * columns * 3));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      for (int64_t c = 0; c < 3; ++c) {
        double sum = 0, count = 0;
        for (int64_t y = row * square; y < std::min(height, (row + 1) * square); ++y)
          for (int64_t x = column * square; x < std::min(width, (column + 1) * square); ++x)
            sum += values[static_cast<size_t>(((c % channels) * height + y) * width + x)], ++count;
        const double share = (sum / count - from) / range;
        pixels.push_back(static_cast<uint8_t>(std::lround(255 * (share >= 0 && share <= 1 ? share : 0))));
      }
  return png_file(static_cast<uint32_t>(columns), static_cast<uint32_t>(rows), pixels);
}

Json image_of(const std::vector<float>& values, const Shape& shape) {
  return Json(Json::Object{{"image", "data:image/png;base64," + base64(png_of(values, shape))}, {"width", shape[2]}, {"height", shape[1]}});
}

const Field* find_field(const DataSource& source, const std::string& name) {
  const auto& fields = source.fields();
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

size_t number_of(const DataSource& source, const Field* field) { return static_cast<size_t>(field - source.fields().data()); }

// Undoes the one transform that changed the numbers by what it measured, if there is one.
bool undo_transforms(const Json& transforms, std::vector<float>* x) {
  for (const Json& fitted : transforms.as_array()) {
    if (fitted.is_null()) continue;
    const Json *mean = fitted.find("mean"), *deviation = fitted.find("std");
    if (!mean || !deviation || !mean->is_array() || !deviation->is_array() || mean->as_array().size() != x->size() ||
        deviation->as_array().size() != x->size())
      return false;
    for (size_t i = 0; i < x->size(); ++i) {
      const double scale = deviation->as_array()[i].as_number();
      (*x)[i] = static_cast<float>((*x)[i] * (scale > 0 ? scale : 1) + mean->as_array()[i].as_number());
    }
  }
  return true;
}

}  // namespace

Json table_row(const Json& fitted, std::span<const float> values) {
  std::vector<float> x(values.begin(), values.end());
  const Json* at = &fitted;
  for (; at && at->find("source"); at = at->find("source"))
    if (const Json* transforms = at->find("transforms"); transforms && transforms->is_array() && !undo_transforms(*transforms, &x))
      return {};
  const Json* columns = at ? at->find("columns") : nullptr;
  if (!columns || !columns->is_array()) return {};
  Json row = Json::object();
  size_t place = 0;
  for (const Json& column : columns->as_array()) {
    const Json *name = column.find("name"), *categories = column.find("categories");
    const size_t width = categories && categories->is_array() ? categories->as_array().size() : 1;
    if (!name || !name->is_string() || place + width > x.size()) return {};
    if (row.as_object().size() < kMostColumns) {
      if (categories && categories->is_array()) {
        const auto begin = x.begin() + static_cast<std::ptrdiff_t>(place), end = begin + static_cast<std::ptrdiff_t>(width);
        const auto best = std::max_element(begin, end);
        const bool known = best != end && *best > .5f;
        row.set(name->as_string(), known ? categories->as_array()[static_cast<size_t>(best - begin)] : Json());
      } else {
        const double rounded = std::round(x[place] * 1e4) / 1e4;  // float32 that went to and fro
        row.set(name->as_string(), std::fabs(x[place]) < 1e9f ? rounded : static_cast<double>(x[place]));
      }
    }
    place += width;
  }
  return place == x.size() ? row : Json();
}

std::string example_png(const DataSource& source, const std::string& name, int64_t index) {
  const Field* found = find_field(source, name);
  if (found == nullptr || !is_image(found->shape)) return "";
  const std::vector<float> values = read_field(source, number_of(source, found), index);
  return values.empty() ? "" : png_of(values, found->shape);
}

Json shown_example(const DataSource& source, const std::string& name, int64_t index) {
  const Field* found = find_field(source, name);
  if (found == nullptr) return {};
  const std::vector<float> values = read_field(source, number_of(source, found), index);
  if (values.empty()) return {};
  if (is_image(found->shape)) return image_of(values, found->shape);
  if (Json row = table_row(source.traits().fitted, values); !row.is_null()) return Json(Json::Object{{"columns", std::move(row)}});
  Json list = Json::array();
  for (size_t i = 0; i < std::min(values.size(), kMostValues); ++i) list.push(static_cast<double>(values[i]));
  return Json(Json::Object{{"values", std::move(list)}, {"of", static_cast<int64_t>(values.size())}});
}

}  // namespace perigee
