// Moving elements: copy between memory orders, concatenate, pad, gather, scatter_add.
#include "kernels/ops/shape.h"

#include <cstddef>

#include "kernels/cpu/strided_copy.h"
#include "kernels/ops/index.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE {
namespace {

const char* decline_copy(const KernelCall& call) {
  return call.accumulate && call.out[0].dtype != Dtype::f32 ? "adds in f32 only" : nullptr;
}

void run_copy(const KernelCall& call) { strided_copy(call.in[0], call.out[0], call.accumulate); }

std::byte* element(const View& view, int64_t offset) {
  return view.as<std::byte>() + offset * static_cast<int64_t>(dtype_bytes(view.dtype));
}

void run_concatenate(const KernelCall& call) {
  const int axis = call.as<ConcatenateParams>().axis;
  View part = call.out[0];
  for (int i = 0; i < call.n_in; ++i) {
    part.dims[axis] = call.in[i].dims[axis];
    strided_copy(call.in[i], part, call.accumulate);
    part.data = element(part, part.dims[axis] * part.strides[axis]);
  }
}

const char* decline_pad(const KernelCall& call) {
  if (call.out[0].dtype != Dtype::f32) return "f32 only";
  if (!call.out[0].dense()) return "the output is not dense";
  if (call.accumulate && call.as<PadParams>().value != 0) return "adds to what is there only where nothing is padded";
  return nullptr;
}

void run_pad(const KernelCall& call) {
  const auto& params = call.as<PadParams>();
  View part = call.out[0];
  const float value = static_cast<float>(params.value);
  if (!call.accumulate)
    for (int64_t i = 0, n = part.elements(); i < n; ++i) part.as<float>()[i] = value;
  int64_t offset = 0;
  for (int d = 0; d < part.rank; ++d) {
    offset += params.before[d] * part.strides[d];
    part.dims[d] = call.in[0].dims[d];
    part.strides[d] *= params.interior[d] + 1;
  }
  if (part.elements() == 0) return;
  part.data = element(part, offset);
  strided_copy(call.in[0], part, call.accumulate);
}

// Outer x (A or K) x inner, all contiguous.
struct Rows {
  int64_t outer = 1, sources = 1, inner = 1;
};

Rows rows_of(const View& table, int axis) {
  Rows rows;
  for (int d = 0; d < axis; ++d) rows.outer *= table.dims[d];
  for (int d = axis + 1; d < table.rank; ++d) rows.inner *= table.dims[d];
  rows.sources = table.dims[axis];
  return rows;
}

const char* decline_index(const KernelCall& call) {
  if (call.in[0].dtype != Dtype::f32) return "f32 only";
  if (!call.in[0].contiguous() || !call.in[1].contiguous() || !call.out[0].contiguous()) return "operands are not contiguous";
  return nullptr;
}

void add_row(const float* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

void run_gather(const KernelCall& call) {
  const Rows rows = rows_of(call.in[0], call.as<IndexParams>().axis);
  const int64_t n = call.in[1].elements();
  const int64_t* indices = call.in[1].as<int64_t>();
  float* to = call.out[0].as<float>();
  for (int64_t o = 0; o < rows.outer; ++o) {
    const float* table = call.in[0].as<float>() + o * rows.sources * rows.inner;
    for (int64_t k = 0; k < n; ++k, to += rows.inner) {
      if (indices[k] < 0 || indices[k] >= rows.sources) {
        for (int64_t i = 0; i < rows.inner; ++i) to[i] = __builtin_nanf("");
      } else if (call.accumulate) {
        add_row(table + indices[k] * rows.inner, to, rows.inner);
      } else {
        std::memcpy(to, table + indices[k] * rows.inner, static_cast<size_t>(rows.inner) * sizeof(float));
      }
    }
  }
}

void run_scatter_add(const KernelCall& call) {
  const Rows rows = rows_of(call.out[0], call.as<IndexParams>().axis);
  const int64_t n = call.in[1].elements();
  const int64_t* indices = call.in[1].as<int64_t>();
  const float* from = call.in[0].as<float>();
  if (!call.accumulate) std::memset(call.out[0].data, 0, static_cast<size_t>(call.out[0].elements()) * sizeof(float));
  for (int64_t o = 0; o < rows.outer; ++o) {
    float* table = call.out[0].as<float>() + o * rows.sources * rows.inner;
    for (int64_t k = 0; k < n; ++k, from += rows.inner)
      if (indices[k] >= 0 && indices[k] < rows.sources) add_row(from, table + indices[k] * rows.inner, rows.inner);
  }
}

constexpr Isa kIsa = kLanes == 16 ? Isa::avx512 : kLanes == 8 ? Isa::avx2 : Isa::baseline;

constexpr Kernel kKernels[] = {
    {.op = "copy", .name = "blocks", .backend = Backend::cpu, .isa = kIsa, .decline = decline_copy, .run = run_copy, .accumulates = true},
    {.op = "concatenate",
     .name = "blocks",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_copy,
     .run = run_concatenate,
     .accumulates = true},
    {.op = "pad", .name = "blocks", .backend = Backend::cpu, .isa = kIsa, .decline = decline_pad, .run = run_pad, .accumulates = true},
    {.op = "gather",
     .name = "rows",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_index,
     .run = run_gather,
     .accumulates = true},
    {.op = "scatter_add",
     .name = "rows",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_index,
     .run = run_scatter_add,
     .accumulates = true},
};

}  // namespace
}  // namespace PERIGEE_CPU_NAMESPACE

extern const KernelList PERIGEE_CPU_KERNELS(shape);
const KernelList PERIGEE_CPU_KERNELS(shape) = kernel_list(PERIGEE_CPU_NAMESPACE::kKernels);

}  // namespace perigee
