// Any op of the registry at once.
#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/convert.h"
#include "src/core/error.h"
#include "src/eager/eager.h"
#include "src/eager/kernels.h"
#include "src/graph/choosing.h"
#include "src/graph/lapack.h"

namespace perigee {
namespace {

bool is_integer(Dtype dtype) { return dtype == Dtype::boolean || dtype == Dtype::u8 || dtype == Dtype::i32 || dtype == Dtype::i64; }
Dtype real(Dtype dtype) { return dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

// Dtypes of the results' rows when dimension 0 of the operands in question counts rows that do not depend on each other.
RowSplit split_rows(const OpDef& op, const OpCall& call, const std::vector<Type>& outputs) {
  RowSplit split;
  if (op.collective || outputs[0].shape.rank() == 0 || outputs[0].shape[0] < 2 || op.random) return split;
  const int64_t rows = outputs[0].shape[0];
  for (const Type& type : outputs)
    if (type.shape.rank() == 0 || type.shape[0] != rows) return split;
  // First what stands for a batch in a network: the first operand alone, then all that have as many rows.
  for (const bool all : {false, true}) {
    std::vector<Sliced> sliced;
    std::vector<int> dims;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const bool has = call.present[i] && call.inputs[i].shape.rank() > 0 && call.inputs[i].shape[0] == rows && (all || i == 0);
      sliced.push_back(has ? Sliced::batch : Sliced::whole);
      dims.push_back(has ? 0 : -1);
    }
    if (op.sliced(call, sliced) != Sliced::batch) continue;
    split.rows = rows;
    split.in = dims;
    split.out.assign(outputs.size(), 0);
    return split;
  }
  return split;
}

Array channels_last(const Array& x) {
  if (x.view.rank != 4 || x.view.channels_last()) return x;
  Array result = new_array(x.view);
  const int64_t c = x.view.dims[1], h = x.view.dims[2], w = x.view.dims[3];
  const int64_t strides[4] = {c * h * w, 1, w * c, c};
  std::copy(strides, strides + 4, result.view.strides);
  copy_into(x, result);
  return result;
}

Array new_output(const OpDef& op, const Type& type) {
  Array result = new_array(type);
  if (!op.image || op.gives_weight || type.shape.rank() != 4) return result;
  const int64_t c = type.shape[1], h = type.shape[2], w = type.shape[3];
  const int64_t strides[4] = {c * h * w, 1, w * c, c};
  std::copy(strides, strides + 4, result.view.strides);
  return result;
}

std::vector<View> views_of(std::span<const Array> in, std::span<const Array> out) {
  std::vector<View> views;
  for (const Array& x : in) views.push_back(x.view);
  for (const Array& x : out) views.push_back(x.view);
  return views;
}

void compute(const OpDef& op, const OpCall& call, std::vector<Array>& in, const std::vector<Type>& types, std::vector<Array>& out,
             const StepInfo& step) {
  for (const Type& type : types) out.push_back(new_output(op, type));
  alignas(8) std::byte params[kMaxParamsBytes];
  if (op.params) op.params(call, params);
  std::vector<View> views = views_of(in, out);
  KernelCall kernel_call;
  const auto bind = [&] {
    kernel_call.in = views.data();
    kernel_call.n_in = static_cast<int>(in.size());
    kernel_call.out = views.data() + in.size();
    kernel_call.n_out = static_cast<int>(out.size());
    kernel_call.params = params;
    kernel_call.step = &step;
  };
  bind();
  const auto kernels = host_kernels(op.name);
  const Kernel* kernel = &kernel_for(kernels, kernel_call, op.name);
  if (kernel->backend == Backend::ref &&
      std::any_of(in.begin(), in.end(), [](const Array& x) { return x.defined() && !x.view.contiguous(); })) {
    // Perhaps a host kernel takes the call when its operands lie in canonical order.
    for (Array& x : in)
      if (x.defined()) x = contiguous(x);
    views = views_of(in, out);
    bind();
    kernel = &kernel_for(kernels, kernel_call, op.name);
  }
  const double work = op.flops ? op.flops(call) : static_cast<double>(types[0].shape.elements());
  run_kernel(*kernel, kernel_call, op.elementwise ? split_elementwise(kernel_call) : split_rows(op, call, types), work);
}

}  // namespace

void check_choices(const std::string& op, const Array& numbers, int64_t low, int64_t count, bool labels) {
  if (!is_integer(numbers.view.dtype) || numbers.view.dtype == Dtype::boolean) return;
  const Array dense = contiguous(numbers);
  const int64_t at = first_outside(dense.view, dense.view.elements(), low, count);
  if (at < 0) return;
  int64_t value = 0;
  convert(dense.view.dtype, dense.view.as<std::byte>() + static_cast<size_t>(at) * dtype_bytes(dense.view.dtype), Dtype::i64, &value, 1);
  const std::string name = labels ? "label " : "index ", range = std::to_string(low) + " to " + std::to_string(low + count - 1);
  throw Error(ErrorKind::model, {.where = op,
                                 .what = name + std::to_string(at + 1) + " of " + numbers.text() + " is out of range",
                                 .got = std::to_string(value),
                                 .expected = count > 0 ? range : "none: there is nothing to choose from"});
}

std::vector<Dtype> operand_dtypes(const OpDef& op, std::span<const Dtype> dtypes) {
  std::vector<Dtype> wanted(dtypes.begin(), dtypes.end());
  if (wanted.empty()) return wanted;
  Dtype common = wanted[0];
  for (Dtype dtype : wanted) common = promote(common, dtype);
  switch (op.operand_dtypes) {
    case OperandDtypes::own: break;
    case OperandDtypes::common: std::fill(wanted.begin(), wanted.end(), common); break;
    case OperandDtypes::real: std::fill(wanted.begin(), wanted.end(), real(common)); break;
    case OperandDtypes::order:
      if (wanted[0] == Dtype::i32 || wanted[0] == Dtype::u8) break;
      [[fallthrough]];
    case OperandDtypes::sums: wanted[0] = is_integer(wanted[0]) ? Dtype::i64 : real(wanted[0]); break;
    case OperandDtypes::labels:
      wanted[0] = real(wanted[0]);
      if (wanted.size() > 1) wanted[1] = is_integer(wanted[1]) ? Dtype::i64 : wanted[0];
      break;
    case OperandDtypes::indices:
      if (is_integer(wanted.back())) wanted.back() = Dtype::i64;
      break;
  }
  return wanted;
}

// "2", "1 to 3", "at least 1".
static std::string operand_count(const OpDef& op) {
  const std::string least = std::to_string(op.min_inputs);
  if (op.max_inputs < 0) return "at least " + least;
  return op.max_inputs == op.min_inputs ? least : least + " to " + std::to_string(op.max_inputs);
}

std::vector<Array> eager_apply(const OpDef& op, std::span<const Array* const> inputs, const Json& attrs, const StepInfo& step) {
  std::vector<Type> types;
  const auto present = std::make_unique<bool[]>(inputs.size() + 1);
  std::vector<Array> in, out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    present[i] = inputs[i] != nullptr;
    in.push_back(inputs[i] ? *inputs[i] : Array());
    types.push_back(inputs[i] ? inputs[i]->type() : Type{});
  }
  const int given = static_cast<int>(inputs.size());
  if (given < op.min_inputs || (op.max_inputs >= 0 && given > op.max_inputs))
    throw Error(
        ErrorKind::model,
        {.where = op.name, .what = "takes another number of operands", .got = std::to_string(given), .expected = operand_count(op)});
  const OpCall call{types, {present.get(), types.size()}, attrs};
  std::vector<Type> results;
  try {
    check_attributes(op.attributes, attrs);
    results = op.infer(call);
  } catch (const Error& error) {
    throw error.within(op.name);
  }
  if (op.chooses)
    if (const ChoosingOperand choice = op.chooses(call); choice.operand >= 0)
      check_choices(op.name, in[static_cast<size_t>(choice.operand)], 0, choice.count, op.operand_dtypes == OperandDtypes::labels);
  View window;
  if (op.alias && op.alias(call, in[0].view, &window)) return {Array(in[0].storage, window)};
  if (op.alias) {
    in[0] = contiguous(in[0]);
    if (op.alias(call, in[0].view, &window)) return {Array(in[0].storage, window)};
  }
  if (!op.elementwise)  // kernels of the graph meet transposes and slices, but nothing that runs backwards or stands still
    for (Array& x : in)
      if (x.defined() && std::any_of(x.view.strides, x.view.strides + x.view.rank, [](int64_t stride) { return stride <= 0; }))
        x = contiguous(x);
  if (op.image)
    for (size_t i = 0; i < in.size(); ++i)
      if (present[i] && (op.parameters >> i & 1) == 0) in[i] = channels_last(in[i]);
  take_linear_algebra_failure();  // drops failures of earlier calls
  compute(op, call, in, results, out, step);
  if (const std::exception_ptr failure = take_linear_algebra_failure()) std::rethrow_exception(failure);
  return out;
}

}  // namespace perigee
