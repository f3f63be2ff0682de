// svd and eigh by one-sided Jacobi rotations (Hestenes): pairs of columns are turned until all are orthogonal to rounding. n / 2 pairs at a
// time, a warp each, in the order of a tournament, some ten sweeps of n^3 operations: accurate, and the same way for every matrix. One
// block works on a matrix, so that large ones take long; LAPACK's way to the bidiagonal form has steps that depend on
// numbers, which neither a captured graph nor blocks that do not wait for each other can take.
//
// Signs are the reference's: of each column of U, and of each eigenvector, the first number of at least 0.7 of the largest is positive.
#include "kernels/cuda/linalg/linalg.cuh"

namespace perigee {
namespace {

constexpr int kSweeps = 60;  // ten will do; LAPACK's gesvj gives up after thirty
// The square of a column's length that is left alone, the largest numbers being about 1. What rounding leaves where columns depend on each
// other points anywhere, and every turn would leave less of it.
constexpr double kNothing = 0x1p-200;

// x, y = c x - s y, s x + c y
__device__ __attribute__((noinline)) void turn(double* x, double* y, int n, double c, double s) {
#pragma unroll 1
  for (int i = lane_of_warp(); i < n; i += kWarp) {
    const double before = x[i];
    x[i] = c * before - s * y[i];
    y[i] = s * before + c * y[i];
  }
}

// Makes columns a and b of w orthogonal, by one warp; v takes part. False when they were.
__device__ bool orthogonalize_pair(double* w, int rows, double* v, int v_rows, int a, int b) {
  double* const x = w + int64_t{a} * rows;
  double* const y = w + int64_t{b} * rows;
  double xx = 0, yy = 0, xy = 0;
#pragma unroll 1
  for (int i = lane_of_warp(); i < rows; i += kWarp) xx += x[i] * x[i], yy += y[i] * y[i], xy += x[i] * y[i];
  xx = warp_sum(xx), yy = warp_sum(yy), xy = warp_sum(xy);
  const double tolerance = 0x1p-52 * std::sqrt(static_cast<double>(rows));
  if (min(xx, yy) < kNothing || std::abs(xy) <= tolerance * std::sqrt(xx) * std::sqrt(yy)) return false;
  const double zeta = (yy - xx) / (2 * xy), size = std::abs(zeta);
  const double tangent = std::copysign(1 / (size + std::sqrt(1 + size * size)), zeta);
  const double cosine = 1 / std::sqrt(1 + tangent * tangent), sine = cosine * tangent;
  turn(x, y, rows, cosine, sine);
  if (v != nullptr) turn(v + int64_t{a} * v_rows, v + int64_t{b} * v_rows, v_rows, cosine, sine);
  return true;
}

// Turns the columns of w until all are orthogonal; v's take part, if there is a v. False when they do not become so, which finite numbers
// do.
__device__ bool orthogonalize(double* w, int rows, int columns, double* v, int v_rows) {
  const int players = columns + columns % 2, rounds = players - 1;
#pragma unroll 1
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double turned = 0;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
#pragma unroll 1
      for (int p = warp_of_block(); p < players / 2; p += warps_of_block()) {  // one stays, the others go round
        const int one = (round + p) % rounds, other = p == 0 ? rounds : (round + rounds - p) % rounds;
        const int a = min(one, other), b = max(one, other);
        if (b < columns && orthogonalize_pair(w, rows, v, v_rows, a, b)) turned = 1;
      }
      __syncthreads();
    }
    if (largest_of_block(turned) == 0) return true;
  }
  return false;
}

// Places of the numbers by size, by the warps of the block: order[place] = i. Of equal ones the first.
__device__ void sort(const double* numbers, int n, bool descending, double* order) {
#pragma unroll 1
  for (int i = warp_of_block(); i < n; i += warps_of_block()) {
    const double own = numbers[i];
    double before = 0;
    for (int j = lane_of_warp(); j < n; j += kWarp) before += numbers[j] == own ? j < i : (numbers[j] < own) != descending;
    before = warp_sum(before);
    if (lane_of_warp() == 0) order[static_cast<int>(before)] = i;
  }
}

// 1 or -1: with it the column's first number of at least 0.7 of the largest is positive. By one warp.
__device__ double sign_of_column(const double* x, int n) {
  double largest = 0, first = n;
#pragma unroll 1
  for (int i = lane_of_warp(); i < n; i += kWarp) largest = max(largest, std::abs(x[i]));
  largest = group_largest<kWarp>(largest);
#pragma unroll 1
  for (int i = lane_of_warp(); i < n; i += kWarp)
    if (std::abs(x[i]) >= 0.7 * largest) first = min(first, static_cast<double>(i));
  const int at = static_cast<int>(-group_largest<kWarp>(-first));
  return __ballot_sync(kAllLanes, at < n && lane_of_warp() == at % kWarp && x[at] < 0) != 0 ? -1 : 1;
}

// A power of two that scales the largest of n numbers at(i) to about 1; NaN if one is not finite. The whole block computes it.
template <class At>
__device__ double scale_of(int64_t n, At at) {
  double largest = 0;
#pragma unroll 1
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) largest = larger(largest, std::abs(at(i)));
  largest = largest_of_block(largest);
  if (!(largest <= std::numeric_limits<double>::max())) return kNoNumber;
  if (largest == 0) return 1;
  int exponent = 0;
  std::frexp(largest, &exponent);
  return std::ldexp(1.0, min(max(-exponent, -1000), 1000));
}

// Work memory: w, a tall matrix that becomes U S and then U; v; reflections; sizes; order; taus.
struct Svd {
  const LinalgCall& call;
  double* w;
  int64_t matrix;
  int rows, columns;  // of w: the matrix, or its transpose where that is tall
  bool flat;
  __device__ double* v() const { return w + int64_t{rows} * columns; }
  __device__ double* reflections() const { return v() + int64_t{columns} * columns; }
  __device__ double* sizes() const { return reflections() + int64_t{rows} * columns; }
  __device__ double* order() const { return sizes() + columns; }
  __device__ double* taus() const { return order() + columns; }

  __device__ double load() const {
    const Plane from(call.in[0], 2, matrix);
    const double scale = scale_of(int64_t{rows} * columns, [&](int64_t i) {
      const int64_t column = i / rows, row = i - column * rows;
      return w[i] = flat ? from.load(column, row) : from.load(row, column);
    });
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < int64_t{rows} * columns; i += blockDim.x) w[i] *= scale;
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < int64_t{columns} * columns; i += blockDim.x) v()[i] = i % (columns + 1) == 0;
    __syncthreads();
    return scale;
  }

  // Q of orthogonal columns of any length is the columns normalised, up to signs; where lengths are 0, Q is a completion of
  // them.
  __device__ void complete() const {
#pragma unroll 1
    for (int c = warp_of_block(); c < columns; c += warps_of_block()) {
      double sum = 0;
      const double* const x = w + int64_t{c} * rows;
#pragma unroll 1
      for (int i = lane_of_warp(); i < rows; i += kWarp) sum += x[i] * x[i];
      sum = warp_sum(sum);
      if (lane_of_warp() == 0) sizes()[c] = std::sqrt(sum);
    }
    __syncthreads();
    sort(sizes(), columns, true, order());
    __syncthreads();
#pragma unroll 1
    for (int c = warp_of_block(); c < columns; c += warps_of_block()) {
      const double* const x = w + static_cast<int64_t>(order()[c]) * rows;
#pragma unroll 1
      for (int i = lane_of_warp(); i < rows; i += kWarp) reflections()[int64_t{c} * rows + i] = x[i];
    }
    __syncthreads();
    qr_panel(reflections(), rows, 0, columns, taus());
  }

  // Column c of what is given as it is, or row c of what is given as the transpose.
  __device__ static void store(const Plane& to, bool row, const double* x, double sign, int n, int c) {
#pragma unroll 1
    for (int i = lane_of_warp(); i < n; i += kWarp) to.store(sign * x[i], row ? c : i, row ? i : c);
  }

  __device__ void finish(bool good, double scale) const {
    const Plane u(call.out[0], 2, matrix), s(call.out[1], 1, matrix), vt(call.out[2], 2, matrix);
#pragma unroll 1
    for (int c = warp_of_block(); c < columns; c += warps_of_block()) {
      const int place = good ? static_cast<int>(order()[c]) : 0;
      double* const x = w + int64_t{c} * rows;
      const double* const y = v() + int64_t{place} * columns;
      double x_sign = kNoNumber, y_sign = kNoNumber, size = kNoNumber;
      if (good) {
        q_column(reflections(), rows, columns, taus(), c, x);
        const double same = reflections()[int64_t{c} * rows + c] < 0 ? -1 : 1;
        const double sign = flat ? sign_of_column(y, columns) : same * sign_of_column(x, rows);
        x_sign = same * sign, y_sign = sign, size = sizes()[place] / scale;
      }
      if (lane_of_warp() == 0) s.store(size, c);
      store(flat ? vt : u, flat, x, x_sign, rows, c);
      store(flat ? u : vt, !flat, y, y_sign, columns, c);
    }
  }
};

__global__ void __launch_bounds__(kLinalgThreads) svd_kernel(const __grid_constant__ LinalgCall call) {
  begin_kernel();
  double* const work = call.scratch == nullptr ? linalg_room() : call.scratch + blockIdx.x * call.size;
  const bool flat = call.rows < call.columns;
#pragma unroll 1
  for (int64_t matrix = blockIdx.x; matrix < call.count; matrix += gridDim.x) {
    const Svd svd{call, work, matrix, max(call.rows, call.columns), min(call.rows, call.columns), flat};
    const double scale = svd.load();
    const bool good = scale == scale && orthogonalize(svd.w, svd.rows, svd.columns, svd.v(), svd.columns);
    if (good) svd.complete();
    svd.finish(good, scale);
    __syncthreads();
  }
}

// Eigenvectors of a symmetric matrix, shifted so far that all its eigenvalues are far from 0: the columns of A V, which Jacobi's rotations V make
// orthogonal, are the eigenvectors. Work memory: w, values, order.
struct Eigh {
  const LinalgCall& call;
  double* w;
  int64_t matrix;
  __device__ double* column(int c) const { return w + int64_t{c} * call.rows; }
  __device__ double* values() const { return column(call.rows); }
  __device__ double* order() const { return values() + call.rows; }
  // The lower half is read.
  __device__ double load(const Plane& from, int64_t i, int64_t j) const { return i >= j ? from.load(i, j) : from.load(j, i); }

  __device__ double load() const {
    const int n = call.rows;
    const Plane from(call.in[0], 2, matrix);
    const double scale = scale_of(int64_t{n} * n, [&](int64_t i) {
      const int64_t column = i / n, row = i - column * n;
      return w[i] = load(from, row, column);
    });
    // No eigenvalue is beyond the largest sum of sizes of a column.
    double bound = 0;
#pragma unroll 1
    for (int c = warp_of_block(); c < n; c += warps_of_block()) {
      double sum = 0;
#pragma unroll 1
      for (int i = lane_of_warp(); i < n; i += kWarp) sum += std::abs(column(c)[i]);
      bound = larger(bound, warp_sum(sum) * scale);
    }
    bound = largest_of_block(bound);
    const double shift = bound == 0 ? 1 : 2 * bound;
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < int64_t{n} * n; i += blockDim.x) w[i] = w[i] * scale + (i % (n + 1) == 0 ? shift : 0);
    __syncthreads();
    return scale;
  }

  // x^T A x, by one warp, of whose lanes each reads its own numbers of x.
  __device__ double value(const double* x, double scale) const {
    const int n = call.rows, lane = lane_of_warp();
    const Plane from(call.in[0], 2, matrix);
    double sum = 0;
#pragma unroll 1
    for (int rows = 0; rows < n; rows += kWarp) {
      const int i = rows + lane;
      double row = 0;
#pragma unroll 1
      for (int columns = 0; columns < n; columns += kWarp) {
        const double own = columns + lane < n ? x[columns + lane] : 0;
#pragma unroll 1
        for (int k = 0; k < min(kWarp, n - columns); ++k) {
          const double other = __shfl_sync(kAllLanes, own, k);
          if (i < n) row += load(from, i, columns + k) * scale * other;
        }
      }
      if (i < n) sum += row * x[i];
    }
    return warp_sum(sum) / scale;
  }

  __device__ void normalize(double scale) const {
    const int n = call.rows;
#pragma unroll 1
    for (int c = warp_of_block(); c < n; c += warps_of_block()) {
      double* const x = column(c);
      double sum = 0;
#pragma unroll 1
      for (int i = lane_of_warp(); i < n; i += kWarp) sum += x[i] * x[i];
      const double size = std::sqrt(warp_sum(sum)) * sign_of_column(x, n);
#pragma unroll 1
      for (int i = lane_of_warp(); i < n; i += kWarp) x[i] /= size;
      const double eigenvalue = value(x, scale);
      if (lane_of_warp() == 0) values()[c] = eigenvalue;
    }
    __syncthreads();
    sort(values(), n, false, order());
    __syncthreads();
  }

  __device__ void finish(bool good) const {
    const Plane to(call.out[0], 1, matrix), vectors(call.out[1], 2, matrix);
#pragma unroll 1
    for (int c = warp_of_block(); c < call.rows; c += warps_of_block()) {
      const int place = good ? static_cast<int>(order()[c]) : 0;
      if (lane_of_warp() == 0) to.store(good ? values()[place] : kNoNumber, c);
#pragma unroll 1
      for (int i = lane_of_warp(); i < call.rows; i += kWarp) vectors.store(good ? column(place)[i] : kNoNumber, i, c);
    }
  }
};

__global__ void __launch_bounds__(kLinalgThreads) eigh_kernel(const __grid_constant__ LinalgCall call) {
  begin_kernel();
  double* const work = call.scratch == nullptr ? linalg_room() : call.scratch + blockIdx.x * call.size;
#pragma unroll 1
  for (int64_t matrix = blockIdx.x; matrix < call.count; matrix += gridDim.x) {
    const Eigh eigh{call, work, matrix};
    const double scale = eigh.load();
    const bool good = scale == scale && orthogonalize(work, call.rows, call.rows, nullptr, 0);
    if (good) eigh.normalize(scale);
    eigh.finish(good);
    __syncthreads();
  }
}

// --- the host's side ---

LinalgCall describe(const KernelCall& call) {
  const View& a = call.in[0];
  LinalgCall all;
  all.in[0] = a;
  for (int i = 0; i < call.n_out && i < 3; ++i) all.out[i] = call.out[i];
  all.count = matrices_of(a, 2);
  all.rows = static_cast<int>(a.dims[a.rank - 2]);
  all.columns = static_cast<int>(a.dims[a.rank - 1]);
  return all;
}

LinalgCall describe_svd(const KernelCall& call) {
  LinalgCall all = describe(call);
  const int64_t least = std::min(all.rows, all.columns), most = std::max(all.rows, all.columns);
  all.size = 2 * most * least + least * least + 3 * least;
  return all;
}

LinalgCall describe_eigh(const KernelCall& call) {
  LinalgCall all = describe(call);
  all.size = int64_t{all.rows} * all.rows + 2 * all.rows;
  return all;
}

template <LinalgCall (*kDescribe)(const KernelCall&), void (*kKernel)(LinalgCall)>
void run(const KernelCall& call) {
  LinalgCall all = kDescribe(call);
  if (!fits_shared_memory(all)) all.scratch = static_cast<double*>(call.scratch);
  Launches on(*call.queue, "linear algebra");
  on.launch(kKernel, linalg_blocks(all), threads_for_linalg(std::max(all.rows, all.columns)), all);
}

const Kernel kKernels[] = {
    {.op = "svd",
     .name = "jacobi",
     .backend = Backend::cuda,
     .run = run<describe_svd, svd_kernel>,
     .scratch_bytes = linalg_scratch<describe_svd>},
    {.op = "eigh",
     .name = "jacobi",
     .backend = Backend::cuda,
     .run = run<describe_eigh, eigh_kernel>,
     .scratch_bytes = linalg_scratch<describe_eigh>},
};

}  // namespace

extern const KernelList kernels_cuda_linalg_spectra;
const KernelList kernels_cuda_linalg_spectra = kernel_list(kKernels);

}  // namespace perigee
