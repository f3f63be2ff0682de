#include "src/core/error.h"
#include "src/nn/detections.h"
#include "src/nn/losses/common.h"

namespace perigee {
namespace {

constexpr Option kYolo2Options[] = {
    {"boxes", "list", nullptr, "{ width, height } of each box that a cell may have, in cells"},
    {"coordinates", "number", "5", "factor of the places and sizes", {0, 1e6}},
    {"rescore", "boolean", "true", "the confidence that is wanted is the overlap with the object; false: 1"},
    {"no_object", "number", "0.5", "factor of the confidence of boxes that stand for nothing", {0, 1e6}}};

Value part(Value x, int axis, int64_t from, int64_t to) {
  std::vector<int64_t> start(static_cast<size_t>(x.rank()), 0), stop = x.shape().vector();
  start[static_cast<size_t>(axis)] = from;
  stop[static_cast<size_t>(axis)] = to;
  return slice(x, start, stop);
}

// The boxes of a grid of cells: [N, B, H, W] each, in cells; of labels B is 1.
struct Boxes {
  Value x, y, width, height;
};

// Corners and areas of both; [N, B, H, W].
Value overlap(const Boxes& a, const Boxes& b) {
  const auto side = [](Value x, Value width, Value other, Value other_width) {
    return relu(minimum(x + width * 0.5, other + other_width * 0.5) - maximum(x - width * 0.5, other - other_width * 0.5));
  };
  const Value both = side(a.x, a.width, b.x, b.width) * side(a.y, a.height, b.y, b.height);
  return both / (a.width * a.height + b.width * b.height - both + 1e-9);
}

class Yolo {
 public:
  Yolo(const Config& options, Value output, Value target) : options_(options) {
    read_boxes();
    const int64_t boxes = static_cast<int64_t>(widths_.size());
    if (output.rank() != 4 || target.rank() != 4 || output.shape()[1] % boxes != 0 || output.shape()[1] / boxes < 6) misfit(output, target);
    n_ = output.shape()[0], rows_ = output.shape()[2], columns_ = output.shape()[3], classes_ = output.shape()[1] / boxes - 5;
    if (target.shape() != Shape{n_, 4 + classes_, rows_, columns_}) misfit(output, target);
    cells_ = reshape(output, Shape{n_, boxes, 5 + classes_, rows_, columns_});
    target_ = cast(target, output.dtype());
  }

  // Redmon & Farhadi 2017 (arXiv:1612.08242), with squared errors throughout.
  Value loss() {
    const Boxes wanted = labels(), made = predictions();
    const Value there = greater(reduce_sum(part(target_, 1, 4, 4 + classes_), {1}, true), number(0));  // [N, 1, H, W]
    const Value iou = overlap(made, wanted);
    // The box that fits best answers for the object whose middle is in the cell.
    const Value best = greater_equal(iou, reduce_max(iou, {1}, true));
    const Value answers = where(graph().apply("logical_and", {best, broadcast_to(there, best.shape())}), number(1), number(0));
    const Value confidence = sigmoid(field(4));
    const auto root = [&](Value size) { return sqrt(maximum(size, number(1e-9))); };
    const Value places = square(made.x - wanted.x) + square(made.y - wanted.y) + square(root(made.width) - root(wanted.width)) +
                         square(root(made.height) - root(wanted.height));
    const Value wished = options_.boolean("rescore") ? stop_gradient(iou) : number(1);
    const Value sure = square(confidence - wished), empty = square(confidence) * options_.number("no_object");
    const Value kinds = softmax(part(cells_, 2, 5, 5 + classes_), 2);
    const Value right = reshape(part(target_, 1, 4, 4 + classes_), Shape{n_, 1, classes_, rows_, columns_});
    const Value classes = reduce_sum(square(kinds - right), {2});
    const Value terms = answers * (places * options_.number("coordinates") + sure + classes) + (1.0 - answers) * empty;
    return reduce_sum(terms, {1, 2, 3});
  }

 private:
  Graph& graph() { return cells_.graph(); }
  Value number(double value) { return graph().constant(value, {cells_.dtype(), Shape()}); }

  [[noreturn]] void misfit(Value output, Value target) {
    const std::string boxes = std::to_string(widths_.size());
    throw Error(ErrorKind::model, {.where = options_.where(),
                                   .what = "outputs and targets are no grids of boxes",
                                   .got = output.shape().text() + " and " + target.shape().text(),
                                   .expected = "outputs N x " + boxes + "*(5 + classes) x H x W, targets N x (4 + classes) x H x W",
                                   .hint = "end the network with conv2d { " + boxes + " * (5 + classes), kernel = 1 }"});
  }

  void read_boxes() {
    for (const auto& [width, height] : read_grid_boxes(options_)) {
      widths_.push_back(width);
      heights_.push_back(height);
    }
  }

  // Number `place` of each box: [N, B, H, W].
  Value field(int64_t place) {
    const Value one = part(cells_, 2, place, place + 1);
    return reshape(one, Shape{n_, cells_.shape()[1], rows_, columns_});
  }

  Value table(const Shape& shape, const std::vector<double>& values) {
    return graph().constant(Tensor::from(shape, values).to(cells_.dtype()));
  }

  Boxes predictions() {
    std::vector<double> left, top;
    for (int64_t i = 0; i < columns_; ++i) left.push_back(static_cast<double>(i));
    for (int64_t i = 0; i < rows_; ++i) top.push_back(static_cast<double>(i));
    const int64_t boxes = cells_.shape()[1];
    return {sigmoid(field(0)) + table(Shape{1, 1, 1, columns_}, left), sigmoid(field(1)) + table(Shape{1, 1, rows_, 1}, top),
            exp(field(2)) * table(Shape{1, boxes, 1, 1}, widths_), exp(field(3)) * table(Shape{1, boxes, 1, 1}, heights_)};
  }

  Boxes labels() {
    const auto side = [&](int64_t i) { return part(target_, 1, i, i + 1); };
    const Value left = side(0), top = side(1), right = side(2), bottom = side(3);
    return {(left + right) * 0.5, (top + bottom) * 0.5, right - left, bottom - top};
  }

  const Config& options_;
  std::vector<double> widths_, heights_;
  int64_t n_ = 0, rows_ = 0, columns_ = 0, classes_ = 0;
  Value cells_, target_;
};

Value build_yolo2(Graph&, const Config& options, Value output, Value target) { return Yolo(options, output, target).loss(); }

}  // namespace

extern const LossDef loss_yolo2;
const LossDef loss_yolo2{
    .name = "yolo2",
    .doc =
        "Of a grid of cells that each have boxes (Redmon & Farhadi 2017). Outputs B*(5 + classes) x H x W: of each box the logits of its "
        "middle in the cell, the logarithms of its size in that of `boxes`, the logit of its confidence, the logits of classes. Targets "
        "(4 + classes) x H x W: left, top, right, bottom in cells and the class as one 1, in the cell where the middle is; else 0.",
    .schema = {.options = kYolo2Options},
    .build = build_yolo2,
    .example = R"({"type": "yolo2", "boxes": [[1, 2], [2, 1]], "rescore": false})",
    .example_output = "[14, 2, 2]",
    .example_target = "boxes",
    .example_low = -1,
    .example_high = 1};

}  // namespace perigee
