#include "kernels/ops/order.h"

#include <algorithm>
#include <numeric>

#include "kernels/ref/strided.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

// Calls f(index) for the first element of each line.
template <class F>
void for_each_line(const View& x, int axis, F f) {
  int64_t lines[kMaxRank];
  for (int d = 0; d < x.rank; ++d) lines[d] = d == axis ? std::min<int64_t>(x.dims[d], 1) : x.dims[d];
  for_each_index(x.rank, lines, f);
}

bool is_real(Dtype dtype) { return dtype == Dtype::f32 || dtype == Dtype::f64 || dtype == Dtype::f16 || dtype == Dtype::bf16; }

template <class T>
void sort_lines(const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  const auto& params = call.as<SortParams>();
  const int64_t size = x.dims[params.axis], count = y.dims[params.axis];
  T* keys = static_cast<T*>(call.scratch);
  auto* order = reinterpret_cast<int64_t*>(keys + size);
  const auto before = [&](int64_t a, int64_t b) {
    const T p = keys[a], q = keys[b];
    if (p == q || (p != p && q != q)) return a < b;  // of equal ones the first
    if (p != p || q != q) return q != q;
    return params.descending ? q < p : p < q;
  };
  if (count == 0) return;
  for_each_line(x, params.axis, [&](const int64_t* index) {
    const int64_t from = offset_of(x, index), to = offset_of(y, index);
    for (int64_t k = 0; k < size; ++k) keys[k] = load_as<T>(x, from + k * x.strides[params.axis]);
    std::iota(order, order + size, int64_t{0});
    if (count == size) std::sort(order, order + size, before);
    else std::partial_sort(order, order + count, order + size, before);
    for (int64_t k = 0; k < count; ++k) y.as<int64_t>()[to + k * y.strides[params.axis]] = order[k];
  });
}

void run_arg_sort(const KernelCall& call) { is_real(call.in[0].dtype) ? sort_lines<double>(call) : sort_lines<int64_t>(call); }

size_t sort_scratch(const KernelCall& call) {
  return static_cast<size_t>(call.in[0].dims[call.as<SortParams>().axis]) * 2 * sizeof(int64_t);
}

// f(offset in `wide`, which has the places' dims, offset in `line`, or -1 where the place lies outside)
template <class F>
void for_each_place(const View& wide, const View& places, const View& line, int axis, F f) {
  for_each_index(places.rank, places.dims, [&](const int64_t* index) {
    const int64_t place = places.as<int64_t>()[offset_of(places, index)];
    const bool inside = place >= 0 && place < line.dims[axis];
    f(offset_of(wide, index), inside ? offset_of(line, index) + (place - index[axis]) * line.strides[axis] : int64_t{-1});
  });
}

void run_take_along(const KernelCall& call) {
  const View &x = call.in[0], &out = call.out[0];
  with_computing_type(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_place(out, call.in[1], x, call.as<AlongParams>().axis, [&](int64_t to, int64_t from) {
      const T value = from >= 0 ? load_as<T>(x, from) : std::numeric_limits<T>::quiet_NaN();
      store_as<T>(out, to, call.accumulate ? load_as<T>(out, to) + value : value);
    });
  });
}

void run_put_along(const KernelCall& call) {
  const View &updates = call.in[0], &out = call.out[0];
  with_computing_type(updates.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (!call.accumulate) for_each_index(out.rank, out.dims, [&](const int64_t* index) { store_as<T>(out, offset_of(out, index), T(0)); });
    for_each_place(updates, call.in[1], out, call.as<AlongParams>().axis, [&](int64_t from, int64_t to) {
      if (to >= 0) store_as<T>(out, to, load_as<T>(out, to) + load_as<T>(updates, from));
    });
  });
}

constexpr Kernel kOrderKernels[] = {{.op = "arg_sort", .name = "ref", .run = run_arg_sort, .scratch_bytes = sort_scratch},
                                    {.op = "take_along", .name = "ref", .run = run_take_along, .accumulates = true},
                                    {.op = "put_along", .name = "ref", .run = run_put_along, .accumulates = true}};

}  // namespace

extern const KernelList kernels_ref_order;
const KernelList kernels_ref_order = kernel_list(kOrderKernels);

}  // namespace perigee
