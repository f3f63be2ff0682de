#include "src/nn/program_forms.h"

#include <algorithm>
#include <cmath>

#include "kernels/dtype_kinds.h"
#include "src/eager/einsum.h"
#include "src/graph/build.h"
#include "src/graph/op.h"

namespace perigee {
namespace {

constexpr Option kFormAxis = {"axis", "integer", "0", "below 0 from the end"};
constexpr Option kIndexOptions[] = {kFormAxis, {"entries", "list", nullptr, "by dimension from axis on: a place, a range, [] or \"new\""}};
constexpr Option kUnsqueezeOptions[] = {kFormAxis};
constexpr Option kSqueezeOptions[] = {{"axis", "integer", "all of size 1", "below 0 from the end"}};
constexpr Option kSwapOptions[] = {{"first", "integer", nullptr, "below 0 from the end"}, {"second", "integer", nullptr, "the same"}};
constexpr Option kTriangleOptions[] = {{"diagonal", "integer", "0", "from the main one, upwards"}};
constexpr Option kEinsumOptions[] = {{"formula", "string", nullptr, "\"ij,jk->ik\""}};
constexpr Option kClassLossOptions[] = {{"label_smoothing", "number", "0", "so much of each class goes to all alike", {0, 1}}};

[[noreturn]] void refuse_program_forms(std::string what, std::string got, std::string expected = "", std::string hint = "") {
  throw Error(ErrorKind::model, {.what = std::move(what), .got = std::move(got), .expected = std::move(expected), .hint = std::move(hint)});
}

int axis_in(int64_t axis, int rank, Value x) {
  const int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank)
    refuse_program_forms("there is no such axis", std::to_string(axis) + " of " + x.type().text(), "", "counted from 0 here");
  return static_cast<int>(at);
}

// The places of a dimension that an entry of an index keeps: from 0, steps upwards, and whether they are read backwards.
struct Kept {
  int64_t start = 0, stop = 0, step = 1, count = 0;
  bool backwards = false, dimension = true;
};

int64_t whole(const Json& number, const char* what) {
  if (!number.is_number() || number.as_number() != std::floor(number.as_number()) || std::abs(number.as_number()) > 1e15)
    refuse_program_forms(std::string(what) + " of an index is no whole number", number.dump());
  return static_cast<int64_t>(number.as_number());
}

// Places count from 1, or from the end with -1; both ends are included.
Kept kept(const Json& entry, int64_t size, Value x) {
  if (!entry.is_array() && !entry.is_number()) refuse_program_forms("an index has places, ranges, [] and \"new\"", entry.dump());
  const bool place = entry.is_number();
  const Json::Array list = place ? Json::Array{entry, entry} : entry.as_array();
  if (list.size() > 3) refuse_program_forms("a range has a first place, a last one and a step", entry.dump());
  const auto at = [&](size_t i, int64_t fallback) {
    const int64_t number = i < list.size() ? whole(list[i], "a place") : fallback;
    return number < 0 ? number + size + 1 : number;
  };
  const int64_t first = at(0, 1), last = at(1, -1), step = list.size() > 2 ? whole(list[2], "the step") : 1;
  if (step == 0) refuse_program_forms("a range's step cannot be 0", entry.dump());
  const int64_t distance = step > 0 ? last - first : first - last;
  if (distance < 0) return {.dimension = !place};
  if (std::min(first, last) < 1 || std::max(first, last) > size)
    refuse_program_forms("an index leaves a dimension of " + x.type().text(), entry.dump(), "places from 1 to " + std::to_string(size));
  const int64_t width = std::abs(step), count = distance / width + 1;
  if (step > 0) return {.start = first - 1, .stop = last, .step = width, .count = count, .dimension = !place};
  return {
      .start = first - 1 - (count - 1) * width, .stop = first, .step = width, .count = count, .backwards = count > 1, .dimension = true};
}

Value backwards(Value x, int axis) {
  const int64_t count = x.shape()[axis];
  std::vector<int64_t> places;
  for (int64_t i = count - 1; i >= 0; --i) places.push_back(i);
  return gather(x, x.graph().constant(Tensor::from(Shape{count}, places)), axis);
}

Value index_form(std::span<const Value> operands, const Config& attrs) {
  const Value x = operands[0];
  int axis = axis_in(attrs.integer("axis"), x.rank(), x);
  std::vector<int64_t> start, stop, step, result;
  std::vector<int> turned;
  for (int i = 0; i < x.rank(); ++i) {
    start.push_back(0), stop.push_back(x.shape()[i]), step.push_back(1);
    if (i < axis) result.push_back(x.shape()[i]);
  }
  for (const Json& entry : attrs.raw("entries")->as_array()) {
    if (entry.is_string() && entry.as_string() == "new") {
      result.push_back(1);
      continue;
    }
    if (axis >= x.rank()) refuse_program_forms("an index has more entries than the value has dimensions", x.type().text());
    const Kept part = kept(entry, x.shape()[axis], x);
    const auto i = static_cast<size_t>(axis);
    start[i] = part.start, stop[i] = part.stop, step[i] = part.step;
    if (part.backwards) turned.push_back(axis);
    if (part.dimension) result.push_back(part.count);
    ++axis;
  }
  for (; axis < x.rank(); ++axis) result.push_back(x.shape()[axis]);
  Value part = slice(x, start, stop, step);
  for (const int each : turned) part = backwards(part, each);
  return reshape(part, Shape(result));
}

Value unsqueeze_form(std::span<const Value> operands, const Config& attrs) {
  std::vector<int64_t> dims = operands[0].shape().vector();
  dims.insert(dims.begin() + axis_in(attrs.integer("axis"), operands[0].rank() + 1, operands[0]), 1);
  return reshape(operands[0], Shape(dims));
}

Value squeeze_form(std::span<const Value> operands, const Config& attrs) {
  const Value x = operands[0];
  const int only = attrs.has("axis") ? axis_in(attrs.integer("axis"), x.rank(), x) : -1;
  std::vector<int64_t> dims;
  for (int i = 0; i < x.rank(); ++i)
    if (x.shape()[i] != 1 || i == 0 || (only >= 0 && i != only))
      dims.push_back(x.shape()[i]);  // dimension 0 is the batch, of one example, too
  return reshape(x, Shape(dims));
}

Value swap_form(std::span<const Value> operands, const Config& attrs) {
  const Value x = operands[0];
  std::vector<int64_t> order;
  for (int i = 0; i < x.rank(); ++i) order.push_back(i);
  std::swap(order[static_cast<size_t>(axis_in(attrs.integer("first"), x.rank(), x))],
            order[static_cast<size_t>(axis_in(attrs.integer("second"), x.rank(), x))]);
  return transpose(x, order);
}

template <bool kLower>
Value triangle_form(std::span<const Value> operands, const Config& attrs) {
  const Value x = operands[0];
  if (x.rank() < 2) refuse_program_forms("triangles are of matrices, the last two dimensions", x.type().text());
  const int64_t rows = x.shape()[x.rank() - 2], columns = x.shape()[x.rank() - 1], diagonal = attrs.integer("diagonal");
  std::vector<uint8_t> mask(static_cast<size_t>(rows * columns));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      mask[static_cast<size_t>(row * columns + column)] = kLower ? column - row <= diagonal : column - row >= diagonal;
  const Value inside = x.graph().constant(Tensor::from(Shape{rows, columns}, mask).to(Dtype::boolean));
  return where(inside, x, x.graph().constant(0, {x.dtype(), Shape()}));
}

Value diagonal_form(std::span<const Value> operands, const Config&) {
  const Value x = operands[0];
  if (x.rank() < 2) refuse_program_forms("diagonals are of matrices, the last two dimensions", x.type().text());
  const int64_t columns = x.shape()[x.rank() - 1], count = std::min(x.shape()[x.rank() - 2], columns);
  std::vector<int64_t> dims = x.shape().vector();
  dims.pop_back();
  dims.back() *= columns;
  const size_t last = dims.size() - 1;
  const Value lines = reshape(x, Shape(dims));
  std::vector<int64_t> start(dims.size(), 0), step(dims.size(), 1);
  step[last] = columns + 1;
  dims[last] = count == 0 ? 0 : (count - 1) * (columns + 1) + 1;
  return slice(lines, start, dims, step);
}

Value einsum_form(std::span<const Value> operands, const Config& attrs) { return einsum(attrs.string("formula"), operands); }

// cross_entropy with class numbers that count from 1, as tensors have it, or with distributions.
Value class_loss_form(std::span<const Value> operands, const Config& attrs) {
  const Value logits = operands[0], labels = operands[1];
  Json smoothing = Json::object();
  smoothing.set("label_smoothing", attrs.number("label_smoothing"));
  if (is_floating(labels.dtype()) && labels.shape() == logits.shape())
    return logits.graph().apply("cross_entropy", {logits, cast(labels, logits.dtype())}, std::move(smoothing));
  const Value classes = cast(labels, Dtype::i64);
  const Value from_0 = classes - logits.graph().constant(1, {Dtype::i64, Shape()});
  return logits.graph().apply("cross_entropy", {logits, from_0}, std::move(smoothing));
}

constexpr ProgramForm kForms[] = {
    {.name = "index", .attributes = {.options = kIndexOptions}, .build = index_form},
    {.name = "unsqueeze", .attributes = {.options = kUnsqueezeOptions}, .build = unsqueeze_form},
    {.name = "squeeze", .attributes = {.options = kSqueezeOptions}, .build = squeeze_form},
    {.name = "swap_axes", .attributes = {.options = kSwapOptions}, .build = swap_form},
    {.name = "tril", .attributes = {.options = kTriangleOptions}, .build = triangle_form<true>},
    {.name = "triu", .attributes = {.options = kTriangleOptions}, .build = triangle_form<false>},
    {.name = "diagonal", .build = diagonal_form},
    {.name = "einsum", .attributes = {.options = kEinsumOptions}, .operands = -1, .build = einsum_form},
    {.name = "class_loss", .attributes = {.options = kClassLossOptions}, .operands = 2, .build = class_loss_form},
};

}  // namespace

std::span<const ProgramForm> program_forms() { return kForms; }

const ProgramForm* find_program_form(std::string_view name) {
  for (const ProgramForm& form : kForms)
    if (name == form.name) return &form;
  return nullptr;
}

}  // namespace perigee
