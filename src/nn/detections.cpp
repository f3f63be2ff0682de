#include "src/nn/detections.h"

#include <algorithm>
#include <cmath>

namespace perigee {
namespace {

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// The numbers of one cell's box lie `plane` apart.
struct CellBox {
  const View& output;
  int64_t first, plane;
  double operator[](int64_t i) const {
    const int64_t at = first + i * plane;
    return output.dtype == Dtype::f64 ? output.as<double>()[at] : static_cast<double>(output.as<float>()[at]);
  }
};

void add_classes(const CellBox& numbers, int64_t classes, const Box& box, double threshold, std::vector<Detection>* found) {
  double largest = numbers[5], sum = 0;
  for (int64_t c = 1; c < classes; ++c) largest = std::max(largest, numbers[5 + c]);
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(numbers[5 + c] - largest);
  const double confidence = sigmoid_of(numbers[4]);
  for (int64_t c = 0; c < classes; ++c)
    if (const double score = confidence * std::exp(numbers[5 + c] - largest) / sum; score >= threshold) found->push_back({box, c, score});
}

// The best first; of equals the one that was found first.
std::vector<Detection> suppressed(std::vector<Detection> found, double overlap) {
  std::stable_sort(found.begin(), found.end(), [](const Detection& a, const Detection& b) { return a.score > b.score; });
  std::vector<Detection> kept;
  for (const Detection& each : found)
    if (std::none_of(kept.begin(), kept.end(), [&](const Detection& better) {
          return better.kind == each.kind && intersection_over_union(better.box, each.box) > overlap;
        }))
      kept.push_back(each);
  return kept;
}

}  // namespace

double intersection_over_union(const Box& a, const Box& b) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (width <= 0 || height <= 0) return 0;
  const double both = width * height;
  return both / ((a.right - a.left) * (a.bottom - a.top) + (b.right - b.left) * (b.bottom - b.top) - both);
}

std::vector<std::array<double, 2>> read_grid_boxes(const Config& options) {
  const Json* list = options.raw("boxes");
  const auto positive = [](const Json& side) { return side.is_number() && side.as_number() > 0 && std::isfinite(side.as_number()); };
  const auto is_box = [&](const Json& box) {
    return box.is_array() && box.as_array().size() == 2 && positive(box.as_array()[0]) && positive(box.as_array()[1]);
  };
  if (list == nullptr || !list->is_array() || list->as_array().empty() || list->as_array().size() > 64)
    options.fail("boxes", "must name 1 to 64 boxes", "", "{ { 1.5, 2 }, { 3, 3 } }");
  std::vector<std::array<double, 2>> boxes;
  for (const Json& box : list->as_array()) {
    if (!is_box(box)) options.fail("boxes", "are pairs of a width and a height above 0", box.dump());
    boxes.push_back({box.as_array()[0].as_number(), box.as_array()[1].as_number()});
  }
  return boxes;
}

std::vector<Detection> grid_detections(const View& output, int64_t example, const std::vector<std::array<double, 2>>& boxes,
                                       double threshold, double overlap) {
  const int64_t channels = output.dims[1], rows = output.dims[2], columns = output.dims[3], plane = rows * columns;
  const auto count = static_cast<int64_t>(boxes.size());
  const int64_t classes = channels / count - 5;
  std::vector<Detection> found;
  for (int64_t b = 0; b < count; ++b)
    for (int64_t cell = 0; cell < plane; ++cell) {
      const CellBox numbers{output, (example * channels + b * (5 + classes)) * plane + cell, plane};
      const double x = static_cast<double>(cell % columns) + sigmoid_of(numbers[0]);
      const double y = static_cast<double>(cell / columns) + sigmoid_of(numbers[1]);
      const double width = std::exp(numbers[2]) * boxes[static_cast<size_t>(b)][0];
      const double height = std::exp(numbers[3]) * boxes[static_cast<size_t>(b)][1];
      if (!std::isfinite(x + y + width + height)) continue;
      add_classes(numbers, classes, {x - width / 2, y - height / 2, x + width / 2, y + height / 2}, threshold, &found);
    }
  return suppressed(std::move(found), overlap);
}

}  // namespace perigee
