#include "kernels/ops/shape.h"

#include "kernels/ref/strided.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

void run_concatenate(const KernelCall& call) {
  const int axis = call.as<ConcatenateParams>().axis;
  const View& out = call.out[0];
  int64_t begin = 0;
  for (int i = 0; i < call.n_in; ++i) {
    const View& in = call.in[i];
    with_computing_type(in.dtype, [&](auto zero) {
      using T = decltype(zero);
      for_each_index(in.rank, in.dims, [&](const int64_t* index) {
        const T x = load_as<T>(in, offset_of(in, index));
        const int64_t to = offset_of(out, index) + begin * out.strides[axis];
        store_as<T>(out, to, call.accumulate ? load_as<T>(out, to) + x : x);
      });
    });
    begin += in.dims[axis];
  }
}

// Which index of `in` lies at `to`; false where there is padding.
bool source_index(const PadParams& params, const View& in, const int64_t* to, int64_t* from) {
  for (int d = 0; d < in.rank; ++d) {
    const int64_t distance = to[d] - params.before[d], step = params.interior[d] + 1;
    if (distance < 0 || distance % step != 0 || distance / step >= in.dims[d]) return false;
    from[d] = distance / step;
  }
  return true;
}

void run_pad(const KernelCall& call) {
  const auto& params = call.as<PadParams>();
  const View &in = call.in[0], &out = call.out[0];
  with_computing_type(in.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T value = convert<T>(params.value);
    for_each_index(out.rank, out.dims, [&](const int64_t* index) {
      int64_t from[kMaxRank];
      const T x = source_index(params, in, index, from) ? load_as<T>(in, offset_of(in, from)) : value;
      const int64_t to = offset_of(out, index);
      store_as<T>(out, to, call.accumulate ? load_as<T>(out, to) + x : x);
    });
  });
}

constexpr Kernel kShapeKernels[] = {{.op = "concatenate", .name = "ref", .run = run_concatenate, .accumulates = true},
                                    {.op = "pad", .name = "ref", .run = run_pad, .accumulates = true}};

}  // namespace

extern const KernelList kernels_ref_shape;
const KernelList kernels_ref_shape = kernel_list(kShapeKernels);

}  // namespace perigee
