// How reductions go through memory. Only for files that are compiled once per instruction set.
#pragma once

#include "kernels/ops/reduce.h"
#include "kernels/registry.h"
#include "kernels/view.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE {

// The input's dimensions in memory order, merged; where the output has stride 0, the dimension is reduced.
struct Walk {
  int rank = 0;
  int64_t dims[kMaxRank] = {}, in[kMaxRank] = {}, out[kMaxRank] = {};
  int64_t inputs = 1, outputs = 1;

  Walk(const View& x, const View& y, const ReduceParams& params) {
    int64_t out_strides[kMaxRank];
    int order[kMaxRank], n = 0;
    for (int d = 0, o = 0; d < x.rank; ++d) {
      const bool reduced = params.axes >> d & 1u;
      out_strides[d] = reduced ? 0 : y.strides[o];
      if (!reduced || params.keep) ++o;
      inputs *= x.dims[d];
      if (!reduced) outputs *= x.dims[d];
      if (x.dims[d] == 1) continue;
      int at = n++;
      for (; at > 0 && x.strides[order[at - 1]] < x.strides[d]; --at) order[at] = order[at - 1];
      order[at] = d;
    }
    for (int k = 0; k < n; ++k) {
      const int d = order[k], last = rank - 1;
      const bool merges = last >= 0 && in[last] == x.strides[d] * x.dims[d] && out[last] == out_strides[d] * x.dims[d];
      if (!merges) dims[rank++] = 1;
      dims[rank - 1] *= x.dims[d];
      in[rank - 1] = x.strides[d];
      out[rank - 1] = out_strides[d];
    }
  }
};

// Joins the whole input into the output, which holds starting values: row(x, n, out) joins n neighbours into one, matrix(x, rows, stride,
// out, columns) rows into a row.
template <class T, class Row, class Matrix>
void join_walk(const Walk& whole, const T* x, T* y, Row row, Matrix matrix) {
  if (whole.inputs == 0) return;
  if (whole.rank == 0) return row(x, 1, y);
  // In a thread's own part of a call the dense dimension may be missing.
  Walk walk = whole;
  if (walk.in[walk.rank - 1] != 1) {
    const int last = walk.rank++;
    walk.dims[last] = walk.in[last] = walk.out[last] = 1;
  }
  const int inner = walk.rank - 1;
  const bool reduced = walk.out[inner] == 0;
  const bool rows = !reduced && inner > 0 && walk.out[inner - 1] == 0;
  const int outer = rows ? inner - 1 : inner;
  int64_t index[kMaxRank] = {};
  while (true) {
    int64_t from = 0, to = 0;
    for (int d = 0; d < outer; ++d) {
      from += index[d] * walk.in[d];
      to += index[d] * walk.out[d];
    }
    if (reduced) row(x + from, walk.dims[inner], y + to);
    else matrix(x + from, rows ? walk.dims[inner - 1] : 1, rows ? walk.in[inner - 1] : 0, y + to, walk.dims[inner]);
    int d = outer - 1;
    while (d >= 0 && ++index[d] == walk.dims[d]) index[d--] = 0;
    if (d < 0) return;
  }
}

}  // namespace PERIGEE_CPU_NAMESPACE
}  // namespace perigee
