#include "kernels/ops/index.h"

#include "kernels/ref/strided.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

// Visits every element of `wide` (outer..., K..., inner...): f(its offset, the offset in `narrow` (outer..., A, inner...) or -1).
template <class F>
void for_each_indexed(const View& wide, const View& indices, const View& narrow, int axis, F f) {
  for_each_index(wide.rank, wide.dims, [&](const int64_t* index) {
    const int64_t chosen = load_as<int64_t>(indices, offset_of(indices, index + axis));
    if (chosen < 0 || chosen >= narrow.dims[axis]) return f(offset_of(wide, index), int64_t{-1});
    int64_t offset = chosen * narrow.strides[axis];
    for (int d = 0; d < axis; ++d) offset += index[d] * narrow.strides[d];
    for (int d = axis + 1; d < narrow.rank; ++d) offset += index[d - 1 + indices.rank] * narrow.strides[d];
    f(offset_of(wide, index), offset);
  });
}

void run_gather(const KernelCall& call) {
  const View &x = call.in[0], &out = call.out[0];
  with_computing_type(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_indexed(out, call.in[1], x, call.as<IndexParams>().axis, [&](int64_t to, int64_t from) {
      const T value = from >= 0 ? load_as<T>(x, from) : std::numeric_limits<T>::quiet_NaN();
      store_as<T>(out, to, call.accumulate ? load_as<T>(out, to) + value : value);
    });
  });
}

void run_scatter_add(const KernelCall& call) {
  const View &updates = call.in[0], &out = call.out[0];
  with_computing_type(updates.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (!call.accumulate) for_each_index(out.rank, out.dims, [&](const int64_t* index) { store_as<T>(out, offset_of(out, index), T(0)); });
    for_each_indexed(updates, call.in[1], out, call.as<IndexParams>().axis, [&](int64_t from, int64_t to) {
      if (to >= 0) store_as<T>(out, to, load_as<T>(out, to) + load_as<T>(updates, from));
    });
  });
}

void run_one_hot(const KernelCall& call) {
  const View &indices = call.in[0], &out = call.out[0];
  const auto& params = call.as<OneHotParams>();
  for_each_index(out.rank, out.dims, [&](const int64_t* index) {
    const bool hit = load_as<int64_t>(indices, offset_of(indices, index)) == index[out.rank - 1];
    store_as<double>(out, offset_of(out, index), hit ? params.on : params.off);
  });
}

constexpr Kernel kIndexKernels[] = {{.op = "gather", .name = "ref", .run = run_gather, .accumulates = true},
                                    {.op = "scatter_add", .name = "ref", .run = run_scatter_add, .accumulates = true},
                                    {.op = "one_hot", .name = "ref", .run = run_one_hot}};

}  // namespace

extern const KernelList kernels_ref_index;
const KernelList kernels_ref_index = kernel_list(kIndexKernels);

}  // namespace perigee
