// solve, inv, det, slogdet (LU with partial pivoting), cholesky and qr (Householder), each by panels of 32 columns: a block factorizes a
// panel, and a warp brings a later column, or a right side, up to date with it. One block does all of a matrix, in shared memory where that
// is enough. Where few matrices are large the parts are launches of their own, so that all multiprocessors share the columns: two for each
// panel, and one that finishes column by column (back substitution, Q). Panels are a part of 32 / n of the work. No launch depends on
// numbers.
#include "kernels/cuda/linalg/linalg.cuh"

namespace perigee {
namespace {

constexpr int kPanel = kWarp;
enum Stage : unsigned { kLoad = 1, kFactor = 2, kUpdate = 4, kFinish = 8, kAllStages = 15 };
enum Job : int { kSolve, kInv, kDet, kSlogdet };

// x[begin, end) -= a[begin, end)[0, width) * u, where u_k is what lane k has. begin is a multiple of 32.
__device__ __attribute__((noinline)) void subtract_products(const double* a, int rows, int width, double own, double* x, int begin,
                                                            int end) {
#pragma unroll 1
  for (int base = begin; base < end; base += kWarp) {
    const int i = base + lane_of_warp();
    double sum = i < end ? x[i] : 0;
#pragma unroll 4
    for (int k = 0; k < width; ++k) {
      const double u = __shfl_sync(kAllLanes, own, k);
      if (i < end) sum -= a[int64_t{k} * rows + i] * u;
    }
    if (i < end) x[i] = sum;
  }
}

// One matrix, for a thread of one of its blocks. Columns of the matrix, then the right sides; pivots behind them. LU is below the diagonal
// (of ones) and above.
struct Lu {
  const LinalgCall& call;
  double* a;
  int64_t matrix;
  __device__ int steps() const { return call.rows; }
  __device__ int width() const { return call.rows + call.sides; }
  __device__ double* column(int c) const { return a + int64_t{c} * call.rows; }
  __device__ double* pivots() const { return column(width()); }

  __device__ void load(int first, int step) const {
    const int n = call.rows;
    const Plane from(call.in[0], 2, matrix);
#pragma unroll 1
    for (int c = first; c < n; c += step)
#pragma unroll 1
      for (int i = lane_of_warp(); i < n; i += kWarp) column(c)[i] = from.load(i, c);
    if (call.job == kInv) {
#pragma unroll 1
      for (int c = first; c < n; c += step)
#pragma unroll 1
        for (int i = lane_of_warp(); i < n; i += kWarp) column(n + c)[i] = i == c;
    } else if (call.job == kSolve) {
      const Plane sides(call.in[1], call.in[1].rank == call.in[0].rank ? 2 : 1, matrix);
#pragma unroll 1
      for (int c = first; c < call.sides; c += step)
#pragma unroll 1
        for (int i = lane_of_warp(); i < n; i += kWarp) column(n + c)[i] = sides.load(i, c);
    }
  }

  // The row from k on with the largest number in column k; the first among equals.
  __device__ int pivot(int k) const {
    const int self = k + static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    double largest = 0, place = -std::numeric_limits<double>::infinity();
#pragma unroll 1
    for (int i = self; i < call.rows; i += threads) largest = larger(largest, std::abs(column(k)[i]));
    largest = largest_of_block(largest);
#pragma unroll 1
    for (int i = self; i < call.rows; i += threads)
      if (std::abs(column(k)[i]) == largest) place = larger(place, -i);
    place = largest_of_block(place);
    return place > -call.rows ? static_cast<int>(-place) : k;
  }

  __device__ void factor(int begin, int end) const {
    const int n = call.rows, self = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
#pragma unroll 1
    for (int k = begin; k < end; ++k) {
      const int p = pivot(k);
      if (self == 0) pivots()[k] = p;
#pragma unroll 1
      for (int c = begin + self; c < end && p != k; c += threads) {
        const double upper = column(c)[k];
        column(c)[k] = column(c)[p];
        column(c)[p] = upper;
      }
      __syncthreads();
      const double by = column(k)[k];
#pragma unroll 1
      for (int i = k + 1 + self; i < n && by != 0; i += threads) column(k)[i] /= by;
      __syncthreads();
#pragma unroll 1
      for (int c = k + 1 + warp_of_block(); c < end; c += warps_of_block()) {
        const double u = column(c)[k];
#pragma unroll 1
        for (int i = k + 1 + lane_of_warp(); i < n; i += kWarp) column(c)[i] -= column(k)[i] * u;
      }
      __syncthreads();
    }
  }

  // Numbers that change rows do so by way of other lanes.
  __device__ void exchange_rows(double* x, int k, int p) const {
    const int lane = lane_of_warp();
    const double upper = __shfl_sync(kAllLanes, lane == k % kWarp ? x[k] : 0.0, k % kWarp);
    const double lower = __shfl_sync(kAllLanes, lane == p % kWarp ? x[p] : 0.0, p % kWarp);
    if (lane == k % kWarp) x[k] = lower;
    if (lane == p % kWarp) x[p] = upper;
  }

  __device__ void update(int begin, int end, int c) const {
    double* const x = column(c);
    const int lane = lane_of_warp(), width = end - begin;
#pragma unroll 1
    for (int k = begin; k < end; ++k)
      if (const int p = static_cast<int>(pivots()[k]); p != k) exchange_rows(x, k, p);
    double own = lane < width ? x[begin + lane] : 0;
#pragma unroll 1
    for (int k = 0; k < width; ++k) {
      const double u = __shfl_sync(kAllLanes, own, k);
      if (lane > k && lane < width) own -= column(begin + k)[begin + lane] * u;
    }
    if (lane < width) x[begin + lane] = own;
    subtract_products(column(begin), call.rows, width, own, x, end, call.rows);
  }

  // x = U^-1 x
  __device__ void substitute(double* x) const {
    const int lane = lane_of_warp();
#pragma unroll 1
    for (int begin = (call.rows - 1) / kPanel * kPanel; begin >= 0; begin -= kPanel) {
      const int width = min(kPanel, call.rows - begin);
      double own = lane < width ? x[begin + lane] : 0;
#pragma unroll 1
      for (int k = width - 1; k >= 0; --k) {
        const double* const u = column(begin + k) + begin;
        if (lane == k) own /= u[k];
        const double known = __shfl_sync(kAllLanes, own, k);
        if (lane < k) own -= u[lane] * known;
      }
      if (lane < width) x[begin + lane] = own;
      subtract_products(column(begin), call.rows, width, own, x, 0, begin);
    }
  }

  // In the order of the rows, by one thread.
  __device__ void determinant() const {
    double sign = 1, product = 1, logarithm = 0;
#pragma unroll 1
    for (int k = 0; k < call.rows; ++k) {
      const double u = column(k)[k];
      if (pivots()[k] != k) sign = -sign, product = -product;
      if (call.job == kDet) product *= u;
      else sign *= u > 0 ? 1 : u < 0 ? -1 : u, logarithm += std::log(std::abs(u));
    }
    Plane(call.out[0], 0, matrix).store(call.job == kDet ? product : sign + 0.0);  // no -0
    if (call.job == kSlogdet) Plane(call.out[1], 0, matrix).store(logarithm);
  }

  __device__ void finish(int first, int step) const {
    if (call.job == kDet || call.job == kSlogdet) {
      if (first == 0 && lane_of_warp() == 0) determinant();
      return;
    }
    bool singular = false;
#pragma unroll 1
    for (int i = lane_of_warp(); i < call.rows; i += kWarp) singular |= column(i)[i] == 0;
    singular = __ballot_sync(kAllLanes, singular) != 0;
    const Plane to(call.out[0], call.out[0].rank == call.in[0].rank ? 2 : 1, matrix);
#pragma unroll 1
    for (int c = first; c < call.sides; c += step) {
      double* const x = column(call.rows + c);
      if (!singular) substitute(x);
#pragma unroll 1
      for (int i = lane_of_warp(); i < call.rows; i += kWarp) to.store(singular ? kNoNumber : x[i], i, c);
    }
  }
};

// The lower half becomes L; what is above the diagonal is not read.
struct Cholesky {
  const LinalgCall& call;
  double* a;
  int64_t matrix;
  __device__ int steps() const { return call.rows; }
  __device__ int width() const { return call.rows; }
  __device__ double* column(int c) const { return a + int64_t{c} * call.rows; }

  __device__ void load(int first, int step) const {
    const Plane from(call.in[0], 2, matrix);
#pragma unroll 1
    for (int c = first; c < call.rows; c += step)
#pragma unroll 1
      for (int i = lane_of_warp(); i < call.rows; i += kWarp) column(c)[i] = i < c ? 0 : from.load(i, c);
  }

  __device__ void factor(int begin, int end) const {
    const int n = call.rows;
#pragma unroll 1
    for (int k = begin; k < end; ++k) {
      const double pivot = column(k)[k], root = pivot > 0 ? std::sqrt(pivot) : kNoNumber;
      __syncthreads();
#pragma unroll 1
      for (int i = k + static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
        column(k)[i] = i == k ? root : column(k)[i] / root;
      __syncthreads();
#pragma unroll 1
      for (int c = k + 1 + warp_of_block(); c < end; c += warps_of_block()) {
        const double l = column(k)[c];
#pragma unroll 1
        for (int i = c + lane_of_warp(); i < n; i += kWarp) column(c)[i] -= column(k)[i] * l;
      }
      __syncthreads();
    }
  }

  __device__ void update(int begin, int end, int c) const {
    const double own = column(begin + min(lane_of_warp(), end - begin - 1))[c];
    subtract_products(column(begin), call.rows, end - begin, own, column(c), c / kWarp * kWarp, call.rows);
  }

  __device__ void finish(int first, int step) const {
    bool broken = false;
#pragma unroll 1
    for (int i = lane_of_warp(); i < call.rows; i += kWarp) broken |= column(i)[i] != column(i)[i];
    broken = __ballot_sync(kAllLanes, broken) != 0;
    const Plane to(call.out[0], 2, matrix);
#pragma unroll 1
    for (int c = first; c < call.rows; c += step)
#pragma unroll 1
      for (int i = lane_of_warp(); i < call.rows; i += kWarp) to.store(broken ? kNoNumber : i < c ? 0 : column(c)[i], i, c);
  }
};

// The reflections and R, then Q, then taus.
struct Qr {
  const LinalgCall& call;
  double* a;
  int64_t matrix;
  __device__ int steps() const { return min(call.rows, call.columns); }
  __device__ int width() const { return call.columns; }
  __device__ double* column(int c) const { return a + int64_t{c} * call.rows; }
  __device__ double* taus() const { return column(call.columns + steps()); }

  __device__ void load(int first, int step) const {
    const Plane from(call.in[0], 2, matrix);
#pragma unroll 1
    for (int c = first; c < call.columns; c += step)
#pragma unroll 1
      for (int i = lane_of_warp(); i < call.rows; i += kWarp) column(c)[i] = from.load(i, c);
  }
  __device__ void factor(int begin, int end) const { qr_panel(a, call.rows, begin, end, taus()); }
  __device__ void update(int begin, int end, int c) const {
#pragma unroll 1
    for (int k = begin; k < end; ++k) reflect(column(k), taus()[k], column(c), k, call.rows);
  }
  __device__ void finish(int first, int step) const {
    const Plane q(call.out[0], 2, matrix), r(call.out[1], 2, matrix);
#pragma unroll 1
    for (int c = first; c < call.columns; c += step)
#pragma unroll 1
      for (int i = lane_of_warp(); i < steps(); i += kWarp) r.store(i > c ? 0 : column(c)[i], i, c);
#pragma unroll 1
    for (int c = first; c < steps(); c += step) {
      double* const x = column(call.columns + c);
      q_column(a, call.rows, steps(), taus(), c, x);
#pragma unroll 1
      for (int i = lane_of_warp(); i < call.rows; i += kWarp) q.store(x[i], i, c);
    }
  }
};

template <class Factors>
__global__ void __launch_bounds__(kLinalgThreads) factors_kernel(const __grid_constant__ LinalgCall call) {
  begin_kernel();
  const int part = static_cast<int>(blockIdx.x) % call.parts, block = static_cast<int>(blockIdx.x) / call.parts;
  const int first = part * warps_of_block() + warp_of_block(), step = call.parts * warps_of_block();
  double* const work = call.scratch == nullptr ? linalg_room() : call.scratch + block * call.size;
#pragma unroll 1
  for (int64_t matrix = block; matrix < call.count; matrix += gridDim.x / static_cast<unsigned>(call.parts)) {
    const Factors factors{call, work, matrix};
    if ((call.stages & kLoad) != 0) factors.load(first, step);
    __syncthreads();
#pragma unroll 1
    for (int begin = call.first; begin < call.last; begin += kPanel) {
      const int end = min(begin + kPanel, factors.steps());
      if ((call.stages & kFactor) != 0) factors.factor(begin, end);
      if ((call.stages & kUpdate) == 0) continue;
#pragma unroll 1
      for (int c = end + first; c < factors.width(); c += step) factors.update(begin, end, c);
      __syncthreads();
    }
    if ((call.stages & kFinish) != 0) factors.finish(first, step);
    __syncthreads();
  }
}

// --- the host's side ---

constexpr int kLarge = 128, kFew = 64;  // columns and matrices: from so many columns, and up to so many matrices, several blocks share one

LinalgCall describe(const KernelCall& call, int job, int width) {
  const View& a = call.in[0];
  LinalgCall all;
  for (int i = 0; i < call.n_in && i < 2; ++i) all.in[i] = call.in[i];
  for (int i = 0; i < call.n_out && i < 2; ++i) all.out[i] = call.out[i];
  all.count = matrices_of(a, 2);
  all.rows = static_cast<int>(a.dims[a.rank - 2]);
  all.columns = static_cast<int>(a.dims[a.rank - 1]);
  all.job = job;
  const int warps = kLinalgThreads / kWarp;
  if (std::min(all.rows, all.columns) > kLarge && all.count > 0 && all.count <= kFew)
    all.parts = static_cast<int>(std::min(ceil_divide(width, warps), ceil_divide(kLinalgBlocks, all.count)));
  return all;
}

template <int kJob>
LinalgCall describe_lu(const KernelCall& call) {
  const View &a = call.in[0], &out = call.out[0];
  const int64_t n = a.dims[a.rank - 1];
  const int64_t sides = kJob == kSolve ? (out.rank == a.rank ? out.dims[a.rank - 1] : 1) : kJob == kInv ? n : 0;
  LinalgCall all = describe(call, kJob, static_cast<int>(n + sides));
  all.sides = static_cast<int>(sides);
  all.size = n * (n + sides) + n;
  return all;
}

LinalgCall describe_cholesky(const KernelCall& call) {
  LinalgCall all = describe(call, 0, static_cast<int>(call.in[0].dims[call.in[0].rank - 1]));
  all.size = int64_t{all.rows} * all.rows;
  return all;
}

LinalgCall describe_qr(const KernelCall& call) {
  LinalgCall all = describe(call, 0, static_cast<int>(call.in[0].dims[call.in[0].rank - 1]));
  const int64_t least = std::min(all.rows, all.columns);
  all.size = all.rows * (all.columns + least) + least;
  return all;
}

template <class Factors>
void run_factors(const KernelCall& call, LinalgCall all) {
  const int steps = std::min(all.rows, all.columns);
  const int64_t blocks = linalg_blocks(all);
  if (!fits_shared_memory(all)) all.scratch = static_cast<double*>(call.scratch);
  Launches on(*call.queue, "linear algebra");
  const auto launch = [&](unsigned stages, int first, int last, bool shared) {
    LinalgCall part = all;
    part.stages = stages, part.first = first, part.last = last;
    if (!shared) part.parts = 1;
    on.launch(factors_kernel<Factors>, blocks * part.parts, threads_for_linalg(std::max(all.rows, all.columns)), part);
  };
  if (all.parts == 1) return launch(kAllStages, 0, steps, false);
  launch(kLoad, 0, 0, true);
  for (int begin = 0; begin < steps; begin += kPanel) {
    launch(kFactor, begin, begin + 1, false);
    launch(kUpdate, begin, begin + 1, true);
  }
  launch(kFinish, 0, 0, true);
}

template <class Factors, LinalgCall (*kDescribe)(const KernelCall&)>
constexpr Kernel factors(const char* op, const char* name) {
  return {.op = op,
          .name = name,
          .backend = Backend::cuda,
          .run = [](const KernelCall& call) { run_factors<Factors>(call, kDescribe(call)); },
          .scratch_bytes = linalg_scratch<kDescribe>};
}

const Kernel kKernels[] = {
    factors<Lu, describe_lu<kSolve>>("solve", "lu"),
    factors<Lu, describe_lu<kInv>>("inv", "lu"),
    factors<Lu, describe_lu<kDet>>("det", "lu"),
    factors<Lu, describe_lu<kSlogdet>>("slogdet", "lu"),
    factors<Cholesky, describe_cholesky>("cholesky", "panels"),
    factors<Qr, describe_qr>("qr", "householder"),
};

}  // namespace

extern const KernelList kernels_cuda_linalg_factors;
const KernelList kernels_cuda_linalg_factors = kernel_list(kKernels);

}  // namespace perigee
