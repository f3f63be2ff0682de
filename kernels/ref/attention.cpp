#include "kernels/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ref/strided.h"
#include "kernels/ref/widened.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

// One query of one head: its row of scores and probabilities, key by key.
template <class T>
struct AttentionRow {
  const KernelCall& call;
  const AttentionParams& p;
  const View &q, &k, &v, &mask;
  int64_t n, i, h, g;
  KeyRange range;

  AttentionRow(const KernelCall& from, const AttentionOperands& x, const View& of, int64_t example, int64_t head, int64_t query)
      : call(from),
        p(from.as<AttentionParams>()),
        q(x.q),
        k(x.k),
        v(x.v),
        mask(of),
        n(example),
        i(query),
        h(head),
        g(head / (x.q.dims[2] / x.k.dims[2])),
        range(keys_of(p, query, x.k.dims[1])) {}

  static T& at(const View& x, int64_t a, int64_t b, int64_t c, int64_t d) {
    return x.as<T>()[a * x.strides[0] + b * x.strides[1] + c * x.strides[2] + d * x.strides[3]];
  }

  T mask_at(int64_t step) const { return mask.as<T>()[n * mask.strides[0] + step * mask.strides[1]]; }
  bool sees(int64_t j) const { return mask.data == nullptr || mask_allows(p, p.segments ? mask_at(i) : T(0), mask_at(j)); }

  double score(int64_t j) const {
    double sum = 0;
    for (int64_t c = 0; c < q.dims[3]; ++c) sum += static_cast<double>(at(q, n, i, h, c)) * static_cast<double>(at(k, n, j, g, c));
    sum *= p.scale;
    if (p.alibi) sum -= std::exp2(alibi_exponent(h, q.dims[2])) * static_cast<double>(std::abs(i + p.shift - j));
    return sum;
  }

  // 1 after dropout.
  double kept(int64_t j) const {
    if (p.dropout == 0) return 1;
    const StepInfo step = call.step ? *call.step : StepInfo{};
    const uint64_t example = static_cast<uint64_t>(step.example_ids ? step.example_ids[n] : n);
    const int64_t block = (h * q.dims[1] + i) * attention_blocks(k.dims[1]) + j / 4;
    const PhiloxBlock draw = philox_for_example(philox_key(step.seed, p.stream), step.epoch, example, static_cast<uint32_t>(block));
    return uniform_from_bits(draw.lane[j % 4]) < static_cast<float>(p.dropout) ? 0 : 1 / (1 - p.dropout);
  }
};

template <class T, class F>
void attention_for_rows(const KernelCall& call, const View* qkv, const View& mask, F f) {
  const AttentionOperands x(qkv, call.as<AttentionParams>());
  for (int64_t n = 0; n < x.q.dims[0]; ++n)
    for (int64_t h = 0; h < x.q.dims[2]; ++h)
      for (int64_t i = 0; i < x.q.dims[1]; ++i) f(AttentionRow<T>(call, x, mask, n, h, i));
}

template <class T>
T& per_row(const View& x, const AttentionRow<T>& row) {
  return x.as<T>()[row.n * x.strides[0] + row.h * x.strides[1] + row.i * x.strides[2]];
}

template <class T>
void forward_attention_typed(const KernelCall& call) {
  const View &o = call.out[0], mask = call.n_in > 3 ? call.in[3] : View{};
  attention_for_rows<T>(call, call.in, mask, [&](const AttentionRow<T>& row) {
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = row.range.first; j < row.range.end; ++j)
      if (row.sees(j)) most = std::max(most, row.score(j));
    for (int64_t j = row.range.first; j < row.range.end; ++j)
      if (row.sees(j)) sum += std::exp(row.score(j) - most);
    for (int64_t c = 0; c < o.dims[3]; ++c) {
      double value = 0;
      for (int64_t j = row.range.first; j < row.range.end; ++j)
        if (row.sees(j))
          value += std::exp(row.score(j) - most) / sum * row.kept(j) * static_cast<double>(row.at(row.v, row.n, j, row.g, c));
      row.at(o, row.n, row.i, row.h, c) = static_cast<T>(value);
    }
    per_row(call.out[1], row) = static_cast<T>(sum > 0 ? most + std::log(sum) : -std::numeric_limits<double>::infinity());
  });
}

template <class T>
void fill_zero(const View& x) {
  for_each_index(x.rank, x.dims, [&](const int64_t* index) { x.as<T>()[offset_of(x, index)] = 0; });
}

template <class T>
void backward_attention_typed(const KernelCall& call) {
  const AttentionParams& p = call.as<AttentionParams>();
  const AttentionOperands to(call.out, p);
  const View &d_out = call.in[0], &o = call.in[5];
  for (int i = 0; i < (p.groups > 0 ? 1 : 3); ++i) fill_zero<T>(call.out[i]);
  attention_for_rows<T>(call, call.in + 1, call.in[4], [&](const AttentionRow<T>& row) {
    const double total = static_cast<double>(per_row(call.in[6], row));
    double mean = 0;
    for (int64_t c = 0; c < o.dims[3]; ++c)
      mean += static_cast<double>(row.at(d_out, row.n, row.i, row.h, c)) * static_cast<double>(row.at(o, row.n, row.i, row.h, c));
    for (int64_t j = row.range.first; j < row.range.end; ++j) {
      if (!row.sees(j)) continue;
      const double weight = std::exp(row.score(j) - total), kept = row.kept(j);
      double slope = 0;
      for (int64_t c = 0; c < o.dims[3]; ++c) {
        const double d = static_cast<double>(row.at(d_out, row.n, row.i, row.h, c));
        slope += d * static_cast<double>(row.at(row.v, row.n, j, row.g, c));
        row.at(to.v, row.n, j, row.g, c) += static_cast<T>(weight * kept * d);
      }
      const double ds = weight * (slope * kept - mean) * p.scale;
      for (int64_t c = 0; c < row.q.dims[3]; ++c) {
        row.at(to.q, row.n, row.i, row.h, c) += static_cast<T>(ds * static_cast<double>(row.at(row.k, row.n, j, row.g, c)));
        row.at(to.k, row.n, j, row.g, c) += static_cast<T>(ds * static_cast<double>(row.at(row.q, row.n, row.i, row.h, c)));
      }
    }
  });
}

void forward_attention(const KernelCall& call) {
  call.in[0].dtype == Dtype::f64 ? forward_attention_typed<double>(call) : forward_attention_typed<float>(call);
}
void backward_attention(const KernelCall& call) {
  call.in[0].dtype == Dtype::f64 ? backward_attention_typed<double>(call) : backward_attention_typed<float>(call);
}

const Kernel kAttentionKernels[] = {
    {.op = "attention", .name = "ref", .run = widened<forward_attention>, .scratch_bytes = widened_scratch<>},
    {.op = "attention_grad", .name = "ref", .run = widened<backward_attention>, .scratch_bytes = widened_scratch<>},
};

}  // namespace

extern const KernelList kernels_ref_attention;
const KernelList kernels_ref_attention = kernel_list(kAttentionKernels);

}  // namespace perigee
