#include "kernels/ops/reduce.h"

#include "kernels/ref/strided.h"
#include "kernels/registry.h"
#include "kernels/wrap.h"

namespace perigee {
namespace {

struct Sum {
  template <class T>
  static T start() {
    return T(0);
  }
  template <class T>
  static T join(T a, T b) {
    return wrapped_add(a, b);
  }
  template <class T>
  static T finish(T a, int64_t) {
    return a;
  }
};

struct Mean : Sum {
  template <class T>
  static T finish(T a, int64_t count) {
    return a / static_cast<T>(count);
  }
};

struct Prod : Sum {
  template <class T>
  static T start() {
    return T(1);
  }
  template <class T>
  static T join(T a, T b) {
    return wrapped_multiply(a, b);
  }
};

template <class T>
constexpr T lowest() {
  return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}

template <class T>
constexpr T highest() {
  return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
}

struct Max : Sum {
  template <class T>
  static T start() {
    return lowest<T>();
  }
  template <class T>
  static T join(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

struct Min : Sum {
  template <class T>
  static T start() {
    return highest<T>();
  }
  template <class T>
  static T join(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

// Splits the dimensions of `in` into kept and reduced ones, each with its strides; calls f(out offset, in offset) per kept index.
struct Split {
  int kept = 0, reduced = 0;
  int64_t kept_dims[kMaxRank], kept_in[kMaxRank], kept_out[kMaxRank];
  int64_t reduced_dims[kMaxRank], reduced_in[kMaxRank];

  Split(const View& in, const View& out, const ReduceParams& params) {
    for (int i = 0, o = 0; i < in.rank; ++i) {
      if (params.axes >> i & 1u) {
        reduced_dims[reduced] = in.dims[i];
        reduced_in[reduced++] = in.strides[i];
        o += params.keep;
      } else {
        kept_dims[kept] = in.dims[i];
        kept_in[kept] = in.strides[i];
        kept_out[kept++] = out.strides[o++];
      }
    }
  }
};

int64_t reduce_dot(int rank, const int64_t* index, const int64_t* strides) {
  int64_t offset = 0;
  for (int i = 0; i < rank; ++i) offset += index[i] * strides[i];
  return offset;
}

template <class Rule>
void run_reduce(const KernelCall& call) {
  const View &in = call.in[0], &out = call.out[0];
  const Split split(in, out, call.as<ReduceParams>());
  with_computing_type(in.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_index(split.kept, split.kept_dims, [&](const int64_t* kept) {
      const int64_t from = reduce_dot(split.kept, kept, split.kept_in), to = reduce_dot(split.kept, kept, split.kept_out);
      T total = Rule::template start<T>();
      int64_t count = 0;
      for_each_index(split.reduced, split.reduced_dims, [&](const int64_t* index) {
        total = Rule::join(total, load_as<T>(in, from + reduce_dot(split.reduced, index, split.reduced_in)));
        ++count;
      });
      const T result = Rule::finish(total, count);
      store_as<T>(out, to, call.accumulate ? load_as<T>(out, to) + result : result);
    });
  });
}

template <class Rule>
void run_arg(const KernelCall& call) {
  const View &in = call.in[0], &out = call.out[0];
  const Split split(in, out, call.as<ReduceParams>());
  with_computing_type(in.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_index(split.kept, split.kept_dims, [&](const int64_t* kept) {
      const int64_t from = reduce_dot(split.kept, kept, split.kept_in);
      T best = load_as<T>(in, from);
      int64_t place = 0;
      for (int64_t i = 1; i < split.reduced_dims[0]; ++i) {
        const T x = load_as<T>(in, from + i * split.reduced_in[0]);
        if (best != best || Rule::join(best, x) == best) continue;
        best = x;
        place = i;
      }
      store_as<int64_t>(out, reduce_dot(split.kept, kept, split.kept_out), place);
    });
  });
}

void run_cumulative_sum(const KernelCall& call) {
  const View &in = call.in[0], &out = call.out[0];
  const auto& params = call.as<CumulativeParams>();
  const int64_t length = in.dims[params.axis];
  int64_t rows[kMaxRank];
  for (int i = 0; i < in.rank; ++i) rows[i] = i == params.axis ? (length > 0) : in.dims[i];
  with_computing_type(in.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_index(in.rank, rows, [&](const int64_t* index) {
      T total = T(0);
      for (int64_t k = 0; k < length; ++k) {
        const int64_t i = params.reverse ? length - 1 - k : k;
        const T x = load_as<T>(in, offset_of(in, index) + i * in.strides[params.axis]);
        const T result = params.exclusive ? total : total + x;
        total += x;
        const int64_t to = offset_of(out, index) + i * out.strides[params.axis];
        store_as<T>(out, to, call.accumulate ? load_as<T>(out, to) + result : result);
      }
    });
  });
}

constexpr Kernel kReduceKernels[] = {
    {.op = "reduce_sum", .name = "ref", .run = run_reduce<Sum>, .accumulates = true},
    {.op = "reduce_mean", .name = "ref", .run = run_reduce<Mean>, .accumulates = true},
    {.op = "reduce_prod", .name = "ref", .run = run_reduce<Prod>},
    {.op = "reduce_max", .name = "ref", .run = run_reduce<Max>},
    {.op = "reduce_min", .name = "ref", .run = run_reduce<Min>},
    {.op = "arg_max", .name = "ref", .run = run_arg<Max>},
    {.op = "arg_min", .name = "ref", .run = run_arg<Min>},
    {.op = "cumulative_sum", .name = "ref", .run = run_cumulative_sum, .accumulates = true},
};

}  // namespace

extern const KernelList kernels_ref_reduce;
const KernelList kernels_ref_reduce = kernel_list(kReduceKernels);

}  // namespace perigee
