// Operands and results of sums of products (tile.cuh) that are matrices of any strides.
#pragma once

#include "kernels/cuda/tile.cuh"

namespace perigee {

// Zero where the mask is not above zero, when there is one: the gradient of relu.
template <class T>
struct MatrixLoader {
  struct Line {
    int64_t offset, mask;
  };
  using Place = Line;

  Elements of, mask;
  Index lines, depth, batches;
  Index mask_lines, mask_depth;

  bool along_k() const { return depth.last_stride() == 1 || lines.last_stride() != 1; }
  __device__ Line line(int64_t i, int64_t batch) const {
    return {batches.offset(batch) + lines.offset(i), mask.data != nullptr ? mask_lines.offset(i) : 0};
  }
  __device__ Place place(int64_t k) const { return {depth.offset(k), mask.data != nullptr ? mask_depth.offset(k) : 0}; }
  __device__ T at(const Line& line, const Place& place) const {
    if (mask.data != nullptr && !(mask.load<T>(line.mask + place.mask) > T(0))) return T(0);
    return of.load<T>(line.offset + place.offset);
  }
};

template <class T>
struct MatrixResult {
  Elements to, bias;
  Index rows, columns, batches;
  int64_t bias_stride = 0, bias_batch = 0;
  bool relu = false, accumulate = false;

  __device__ void operator()(int64_t batch, int64_t row, int64_t column, T sum) const {
    if (bias.data != nullptr) sum += bias.load<T>(batch * bias_batch + column * bias_stride);
    if (relu && !(sum > T(0)) && sum == sum) sum = 0;
    to.put<T>(batches.offset(batch) + rows.offset(row) + columns.offset(column), sum, accumulate);
  }
};

// Sums of products of matrices (matmul.cu).
struct MatrixSizes {
  int64_t rows, columns, depth, batches = 1;
};
size_t matrix_scratch(const MatrixSizes& sizes);
void run_matrix_tiles(Launches& on, const MatrixLoader<float>& a, const MatrixLoader<float>& b, const MatrixResult<float>& result,
                      const MatrixSizes& sizes, void* scratch);

// All dimensions but the last `keep` ones as one.
inline Index leading_index(const View& view, int keep) {
  Index index;
  for (int d = 0; d < view.rank - keep; ++d) index.add(view.dims[d], view.strides[d]);
  return index;
}

inline Index dimension_index(const View& view, int dimension) {
  Index index;
  index.add(view.dims[dimension], view.strides[dimension]);
  return index;
}

}  // namespace perigee
