// Operands and results of sums of products (tile.cuh) that are matrices of any strides.
#pragma once

#include "kernels/cuda/product/tile.cuh"
#include "kernels/ops/linear.h"

namespace perigee {

template <class T>
struct MatrixLoader {
  using Line = int64_t;
  using Place = int64_t;
  using Read = uint32_t;

  Elements of;
  Index lines, depth, batches;

  bool along_k() const { return depth.last_stride() == 1 || lines.last_stride() != 1; }
  __device__ Line line(int64_t i, int64_t batch) const { return batches.offset(batch) + lines.offset(i); }
  __device__ Place place(int64_t k) const { return depth.offset(k); }
  __device__ Read read(Line line, Place place) const { return bits_of(of, line + place); }
  __device__ T number(Read read) const { return number_of(of, read); }
};

// With a line of ones, number `ones`, behind those in memory: what is multiplied with it is summed up.
template <class T>
struct MatrixLoaderWithOnes : MatrixLoader<T> {
  using Base = MatrixLoader<T>;
  static constexpr int64_t kOnes = INT64_MIN;
  int64_t ones = -1;

  __device__ int64_t line(int64_t i, int64_t batch) const { return i == ones ? kOnes : Base::line(i, batch); }
  __device__ uint32_t read(int64_t line, int64_t place) const { return line == kOnes ? one_of(this->of) : Base::read(line, place); }
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

// A dense layer's further steps on the sums (kernels/ops/linear.h).
template <class T>
struct LinearResult : MatrixResult<T> {
  enum class Gelu : uint8_t { none, value, slope } gelu = Gelu::none;
  bool masked = false;  // by what was kept, the slope of relu
  Elements kept;        // read for a slope, written beside a value
  Index kept_rows;
  int64_t kept_stride = 0;
  Elements sums;  // of column `sums_column`, which belongs to the line of ones
  int64_t sums_column = -1, sums_stride = 0;

  __device__ void operator()(int64_t batch, int64_t row, int64_t column, T sum) const {
    if (column == sums_column) return sums.put<T>(row * sums_stride, sum, this->accumulate);
    if (gelu != Gelu::none || masked) return activated(row, column, sum);
    MatrixResult<T>::operator()(batch, row, column, sum);
  }

 private:
  __device__ __attribute__((noinline)) void activated(int64_t row, int64_t column, T sum) const {
    const int64_t at = kept_rows.offset(row) + column * kept_stride;
    if (gelu == Gelu::value) {
      if (this->bias.data != nullptr) sum += this->bias.template load<T>(column * this->bias_stride);
      if (kept.data != nullptr) kept.put<T>(at, sum, this->accumulate);
      sum = gelu_value<T>(sum, tanh(gelu_argument(sum)));
    } else {
      const T value = kept.load<T>(at);
      if (gelu == Gelu::slope) sum *= gelu_slope<T>(value, tanh(gelu_argument(value)));
      else if (!(value > T(0))) sum = 0;
    }
    this->to.template put<T>(this->rows.offset(row) + this->columns.offset(column), sum, this->accumulate);
  }
};

// Sums of products of matrices (matmul.cu).
struct MatrixSizes {
  int64_t rows, columns, depth, batches = 1;
};
size_t matrix_scratch(const MatrixSizes& sizes);
void run_matrix_tiles(Launches& on, const MatrixLoader<float>& a, const MatrixLoaderWithOnes<float>& b, const LinearResult<float>& result,
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
