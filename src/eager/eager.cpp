#include "src/eager/eager.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>

#include "kernels/convert.h"
#include "kernels/ops/fused.h"
#include "src/core/error.h"
#include "src/eager/kernels.h"

namespace perigee {
namespace {

using E = Elementwise;
constexpr int kElementwiseOps = static_cast<int>(E::where) + 1;

[[noreturn]] void refuse_eager(std::string what, std::string got, std::string expected = "", std::string hint = "") {
  throw Error(ErrorKind::model, {.what = std::move(what), .got = std::move(got), .expected = std::move(expected), .hint = std::move(hint)});
}

bool eager_is_real(Dtype dtype) { return dtype == Dtype::f32 || dtype == Dtype::f64; }
bool is_comparison(E op) { return op >= E::equal && op <= E::greater_equal; }
bool is_logic(E op) { return op == E::logical_not || op == E::logical_and || op == E::logical_or || op == E::is_finite; }
// Functions that leave the integers.
bool wants_real(E op) { return op == E::div || (op >= E::reciprocal && op <= E::softplus) || op == E::erf; }

Dtype working_dtype(E op, Dtype common) {
  if (common == Dtype::f16 || common == Dtype::bf16) common = Dtype::f32;
  if (is_comparison(op) || is_logic(op) || op == E::where) return common;
  if (wants_real(op) && !eager_is_real(common)) return Dtype::f32;
  return common == Dtype::boolean ? Dtype::i64 : common;
}

Dtype common_dtype(E op, std::span<const OperandDtype> operands) {
  std::optional<Dtype> common;
  const size_t first = op == E::where ? 1 : 0;
  for (size_t i = first; i < operands.size(); ++i)
    if (operands[i].dtype) common = common ? promote(*common, *operands[i].dtype) : *operands[i].dtype;
  for (size_t i = first; i < operands.size(); ++i) {
    if (operands[i].dtype) continue;
    // A comparison with a fraction must not round it to f32.
    const Dtype with = promote(common.value_or(Dtype::f32), operands[i].number);
    const bool widened = common && !eager_is_real(*common) && eager_is_real(with) && is_comparison(op);
    common = widened ? Dtype::f64 : with;
  }
  return common.value_or(Dtype::f32);
}

Dtype dtype_for(E op, std::span<const EagerOperand> operands) {
  OperandDtype dtypes[3];
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].array) dtypes[i].dtype = operands[i].array->view.dtype;
    dtypes[i].number = operands[i].number;
  }
  return elementwise_dtype(op, std::span(dtypes, operands.size()));
}

std::string shapes_of(std::span<const EagerOperand> operands) {
  std::string text;
  for (const EagerOperand& operand : operands) text += (text.empty() ? "" : " and ") + (operand.array ? operand.array->text() : "a number");
  return text;
}

// Integers have no remainder by 0, as reals have NaN.
void check_divisor(E op, const View& divisor) {
  if (op != E::mod || eager_is_real(divisor.dtype)) return;
  const Array dense = contiguous(Array(nullptr, divisor));
  std::vector<int64_t> values(static_cast<size_t>(dense.view.elements()));
  convert(dense.view.dtype, dense.view.data, Dtype::i64, values.data(), dense.view.elements());
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] == 0)
      throw Error(ErrorKind::model, {.where = "mod",
                                     .what = "the divisor is 0, by which whole numbers have no remainder",
                                     .got = values.size() == 1 ? "0" : "0 as number " + std::to_string(i + 1) + " of its elements",
                                     .hint = "x:to \"f32\" has NaN there"});
}

// Operands of a call in one dtype; numbers lie in `bytes`, what had to be converted in `converted`.
struct Prepared {
  View views[3];
  std::unique_ptr<Array[]> converted;
  alignas(8) std::byte bytes[3][8];

  Prepared(E op, std::span<const EagerOperand> operands, Dtype dtype) {
    for (size_t i = 0; i < operands.size(); ++i) {
      const Dtype wanted = op == E::where && i == 0 ? Dtype::boolean : dtype;
      if (!operands[i].array) {
        views[i].dtype = wanted;
        views[i].data = bytes[i];
        convert(Dtype::f64, &operands[i].number, wanted, bytes[i], 1);
      } else if (operands[i].array->view.dtype == wanted) {
        views[i] = operands[i].array->view;
      } else {
        replace(i, cast(*operands[i].array, wanted));
      }
    }
  }
  bool is_converted(size_t i) const { return converted && converted[i].defined(); }
  void replace(size_t i, Array array) {
    if (!converted) converted = std::make_unique<Array[]>(3);
    views[i] = array.view;
    converted[i] = std::move(array);
  }
};

void broadcast_dims(std::span<const View> views, std::span<const EagerOperand> operands, const char* op, View& out) {
  bool same = true;
  for (const View& view : views.subspan(1)) same = same && same_shape(view, views[0]);
  if (same) {
    out.rank = views[0].rank;
    std::copy(views[0].dims, views[0].dims + out.rank, out.dims);
    return;
  }
  out.rank = 0;
  for (const View& view : views) out.rank = std::max(out.rank, view.rank);
  for (int d = 0; d < out.rank; ++d) {
    int64_t size = 1;
    for (const View& view : views) {
      const int own = d - (out.rank - view.rank);
      if (own < 0 || view.dims[own] == 1 || view.dims[own] == size) continue;
      if (size != 1)
        throw Error(ErrorKind::model, {.where = op,
                                       .what = "shapes do not fit together",
                                       .got = shapes_of(operands),
                                       .expected = "each dimension, from the last, equal or 1"});
      size = view.dims[own];
    }
    out.dims[d] = size;
  }
}

std::span<const Kernel* const> elementwise_kernels(E op) {
  static const auto table = [] {
    std::array<std::span<const Kernel* const>, kElementwiseOps> kernels;
    for (int i = 0; i < kElementwiseOps; ++i) kernels[static_cast<size_t>(i)] = host_kernels(elementwise_name(static_cast<E>(i)));
    return kernels;
  }();
  return table[static_cast<size_t>(op)];
}

// `view` as one number or dense in the shape of `out`.
Array flat_as(const View& view, const View& out) {
  if (view.elements() == 1 || (same_shape(view, out) && view.contiguous())) return Array(nullptr, view);
  View shape = out;
  shape.dtype = view.dtype;
  Array dense = new_array(shape);
  const View wide = broadcast_to_shape_of(view, out);
  move_elements(wide, dense.view);
  return dense;
}

void run(std::span<const Kernel* const> kernels, const char* op, std::span<const View> in, const View& out, const void* params) {
  KernelCall call;
  call.in = in.data();
  call.n_in = static_cast<int>(in.size());
  call.out = &out;
  call.n_out = 1;
  call.params = params;
  const int64_t elements = out.elements();
  constexpr int64_t kTiny = 32, kOneThread = 1 << 14, kWorthCopies = 256;
  // The plainest loop is listed after those for long operands.
  for (size_t i = kernels.size(); elements <= kTiny && i-- > 0;)
    if (kernels[i]->backend == Backend::cpu && kernels[i]->isa == Isa::baseline && kernels[i]->decline && !kernels[i]->decline(call))
      return kernels[i]->run(call);
  const Kernel& kernel = kernel_for(kernels, call, op);
  if (kernel.backend == Backend::ref && elements >= kWorthCopies && out.contiguous()) {
    // Perhaps a host kernel takes the call when its operands lie as the result does.
    std::vector<Array> dense;
    std::vector<View> views;
    for (const View& view : in) {
      dense.push_back(flat_as(view, out));
      views.push_back(dense.back().view);
    }
    call.in = views.data();
    const Kernel& flat = kernel_for(kernels, call, op);
    return run_kernel(flat, call, split_elementwise(call), static_cast<double>(elements));
  }
  if (elements < kOneThread) return kernel.run(call);  // element-wise kernels need no scratch
  run_kernel(kernel, call, split_elementwise(call), static_cast<double>(elements));
}

constexpr int64_t kFew = 256;

// By op: the kernel that takes operands of one dense shape of f32.
const Kernel& few_kernel(E op) {
  static const auto table = [] {
    std::array<const Kernel*, kElementwiseOps> kernels{};
    for (int i = 0; i < kElementwiseOps; ++i) {
      const View x = contiguous_view(nullptr, Dtype::f32, Shape{kFew}), in[] = {x, x, x};
      KernelCall call;
      call.in = in;
      call.n_in = elementwise_arity(static_cast<E>(i));
      call.out = &x;
      call.n_out = 1;
      if (!elementwise_gives_truth(static_cast<E>(i)))
        kernels[static_cast<size_t>(i)] = &kernel_for(elementwise_kernels(static_cast<E>(i)), call, elementwise_name(static_cast<E>(i)));
    }
    return kernels;
  }();
  return *table[static_cast<size_t>(op)];
}

}  // namespace

Dtype elementwise_dtype(Elementwise op, std::span<const OperandDtype> operands) { return working_dtype(op, common_dtype(op, operands)); }

bool find_elementwise(std::string_view name, Elementwise* op) {
  for (int i = 0; i < kElementwiseOps; ++i)
    if (name == elementwise_name(static_cast<E>(i))) {
      *op = static_cast<E>(i);
      return true;
    }
  return false;
}

Array eager_elementwise(Elementwise op, std::span<const EagerOperand> operands) {
  if (operands.size() <= 2 && operands[0].array && operands.back().array) {  // nothing to convert or to repeat, as most often
    const View &a = operands[0].array->view, &b = operands.back().array->view;
    if (eager_is_real(a.dtype) && a.dtype == b.dtype && same_shape(a, b)) {
      Array result = new_array(a, elementwise_gives_truth(op) ? Dtype::boolean : a.dtype);
      const View in[] = {a, b};
      run(elementwise_kernels(op), elementwise_name(op), std::span(in, operands.size()), result.view, nullptr);
      return result;
    }
  }
  const Dtype dtype = dtype_for(op, operands);
  const Prepared in(op, operands, dtype);
  const std::span<const View> views(in.views, operands.size());
  View out;
  out.dtype = elementwise_gives_truth(op) ? Dtype::boolean : dtype;
  broadcast_dims(views, operands, elementwise_name(op), out);
  check_divisor(op, views.back());
  Array result = new_array(out);
  run(elementwise_kernels(op), elementwise_name(op), views, result.view, nullptr);
  return result;
}

// The fast path of most calls on small tensors: it converts, repeats and chooses nothing, and copies no handle.
bool eager_few(Elementwise op, const Array& a, const Array* b, double number, std::span<std::byte> room, Array* out) {
  const View& x = a.view;
  if (x.dtype != Dtype::f32 || elementwise_gives_truth(op) || elementwise_arity(op) > 2 || !x.contiguous() || x.elements() > kFew)
    return false;
  const bool second = elementwise_arity(op) == 2;
  if (b && (b->view.dtype != Dtype::f32 || !same_shape(x, b->view) || !b->view.contiguous())) return false;
  float value = static_cast<float>(number);
  View in[2];
  in[0] = x;
  if (b) in[1] = b->view;
  else in[1].data = &value;
  if (static_cast<size_t>(x.elements()) * sizeof(float) <= room.size()) {
    out->view = x;
    out->view.data = room.data();
  } else {
    new_array_at(out, x);
  }
  KernelCall call;
  call.in = in;
  call.n_in = second ? 2 : 1;
  call.out = &out->view;
  call.n_out = 1;
  few_kernel(op).run(call);
  return true;
}

void eager_elementwise_into(Elementwise op, std::span<const EagerOperand> operands, const Array& target) {
  for (int d = 0; d < target.view.rank; ++d)
    if (target.view.strides[d] == 0 && target.view.dims[d] > 1)
      refuse_eager(std::string(elementwise_name(op)) + "_ writes elements that are one and the same", target.text(),
                   "a tensor that was not expanded", "clone it first");
  const Dtype natural = dtype_for(op, operands), own = target.view.dtype;
  const bool half = own == Dtype::f16 || own == Dtype::bf16;
  if (!eager_is_real(own) && !half && (eager_is_real(natural) || (own == Dtype::boolean && !elementwise_gives_truth(op))))
    refuse_eager(std::string(elementwise_name(op)) + "_ would lose what its result has", target.text(), dtype_name(natural),
                 "write x = x:" + std::string(elementwise_name(op)) + "(...), or convert x first");
  const Dtype dtype = elementwise_gives_truth(op) || half ? natural : own;
  Prepared in(op, operands, dtype);
  for (size_t i = 0; i < operands.size(); ++i) {
    const Array* array = operands[i].array;
    if (!array || in.is_converted(i) || !array->storage || array->storage != target.storage)
      continue;  // none: elements that nothing else sees
    if (array->view.data == target.view.data && same_layout(array->view, target.view)) continue;
    Array copy = new_array(array->view);
    copy_into(*array, copy);
    in.replace(i, copy);
  }
  const std::span<const View> views(in.views, operands.size());
  View out;
  out.dtype = elementwise_gives_truth(op) ? Dtype::boolean : dtype;
  broadcast_dims(views, operands, elementwise_name(op), out);
  if (!same_shape(out, target.view))
    refuse_eager(std::string(elementwise_name(op)) + "_ cannot change the shape of its target", shapes_of(operands), target.text());
  check_divisor(op, views.back());
  if (out.dtype == own) return run(elementwise_kernels(op), elementwise_name(op), views, target.view, nullptr);
  const Array beside = new_array(out);
  run(elementwise_kernels(op), elementwise_name(op), views, beside.view, nullptr);
  copy_into(beside, target);
}

void eager_add_scaled(const Array& target, const Array& x, double scale) {
  const EagerOperand product[] = {{&x, 0}, {nullptr, scale}};
  const bool apart = x.storage != target.storage || (x.view.data == target.view.data && same_layout(x.view, target.view));
  if (target.view.dtype != Dtype::f32 || x.view.dtype != Dtype::f32 || !apart || !same_shape(target.view, x.view)) {
    const Array scaled = eager_elementwise(E::mul, product);
    const EagerOperand sum[] = {{&target, 0}, {&scaled, 0}};
    return eager_elementwise_into(E::add, sum, target);
  }
  FusedParams params{};
  params.constants[0] = scale;
  params.code[0] = {E::mul, kFusedTemporaryBase, {1, kFusedConstantBase, 0}};
  params.code[1] = {E::add, kFusedTemporaryBase, {0, kFusedTemporaryBase, 0}};
  params.n_inputs = 2;
  params.n_constants = 1;
  params.n_instructions = 2;
  params.n_outputs = 1;
  params.outputs[0] = kFusedTemporaryBase;
  const View in[] = {target.view, x.view};
  run(host_kernels("fused"), "fused", in, target.view, &params);
}

void move_elements(const View& from, const View& to) {
  constexpr int64_t kWorthCopy = 256;
  const bool copies = from.dtype == to.dtype;
  if (!copies && to.contiguous() && (from.contiguous() || to.elements() >= kWorthCopy)) {
    const Array dense = from.elements() == 1 && to.elements() > 1 ? flat_as(broadcast_to_shape_of(from, to), to) : flat_as(from, to);
    return convert(dense.view.dtype, dense.view.data, to.dtype, to.data, to.elements());
  }
  const char* op = copies ? "copy" : "cast";
  run(host_kernels(op), op, std::span(&from, 1), to, nullptr);
}

View broadcast_to_shape_of(const View& from, const View& to) {
  View wide = to;
  wide.data = from.data;
  wide.dtype = from.dtype;
  for (int i = 0; i < to.rank || i < from.rank; ++i) {
    const int own = from.rank - 1 - i, at = to.rank - 1 - i;  // from the last
    if (at < 0 || (own >= 0 && from.dims[own] != to.dims[at] && from.dims[own] != 1)) {
      const auto text = [](const View& v) { return Type{v.dtype, Shape(std::vector<int64_t>(v.dims, v.dims + v.rank))}.text(); };
      refuse_eager("a value does not fit the shape that it is put into", text(from), text(to));
    }
    wide.strides[at] = own < 0 || from.dims[own] == 1 ? 0 : from.strides[own];
  }
  return wide;
}

}  // namespace perigee
