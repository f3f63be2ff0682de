// Batch normalisation of rows of channels (channels last, or N x C). Bound by memory: forward reads x twice, backward reads dy and x
// twice; the second pass runs from the end, where the first one has just been. Rows are taken in groups whose width is a multiple
// of a vector (parameters are repeated accordingly), so that no number of channels needs masks.
#include "kernels/ops/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/registry.h"
#include "kernels/round_up.h"
#include "kernels/team_gather.h"

namespace perigee {
namespace {

#if defined(__AVX512F__)
constexpr int64_t kLanes = 16;
#elif defined(__AVX2__)
constexpr int64_t kLanes = 8;
#else
constexpr int64_t kLanes = 4;
#endif
typedef float Vec __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

constexpr int64_t kChunk = 4 * kLanes;  // sums of this many columns stay in registers
constexpr int64_t kFlush = 128;         // groups that are summed in float before they are added in double

Vec load(const float* p) { return *reinterpret_cast<const Vec*>(p); }
void store(float* p, Vec v) { *reinterpret_cast<Vec*>(p) = v; }
Vec positive(Vec v) { return v > 0 ? v : Vec{}; }
Vec where_positive(Vec condition, Vec v) { return condition > 0 ? v : Vec{}; }

// The rows of an operand, in groups of `repeat` rows: `width` = repeat * channels floats, a multiple of kChunk where that is cheap.
struct Rows {
  int64_t channels, repeat, width, groups, tail;

  explicit Rows(const View& x) : channels(x.dims[1]) {
    repeat = kLanes / std::gcd(channels, kLanes);
    const int64_t columns = repeat * channels;
    if (columns > 0 && columns < kChunk) repeat *= std::max<int64_t>(1, kChunk / columns);
    width = repeat * channels;
    const int64_t rows = channels == 0 ? 0 : x.elements() / channels;
    groups = rows / repeat;
    tail = (rows % repeat) * channels;  // floats after the last group
  }
  int64_t count() const { return groups * repeat + (channels == 0 ? 0 : tail / channels); }
};

int64_t padded(int64_t n) { return round_up(n, int64_t{16}); }

// Float and double arrays inside the scratch memory.
struct Scratch {
  std::byte* at;
  explicit Scratch(const KernelCall& call) : at(static_cast<std::byte*>(call.scratch)) {}
  template <class T>
  T* take(int64_t n) {
    T* array = reinterpret_cast<T*>(at);
    at += static_cast<size_t>(padded(n)) * sizeof(T);
    return array;
  }
};

void repeat_into(float* to, const Rows& rows) {
  for (int64_t i = rows.channels; i < rows.width; ++i) to[i] = to[i - rows.channels];
}

float at(const View& view, int64_t c, float absent) { return view.data == nullptr ? absent : view.as<float>()[c]; }

// --- sums over columns: `term(pointer offset, column)` gives two vectors, whose sums are added to doubles ---

template <int V, class Term>
void sum_chunk(const Rows& rows, int64_t column, double* first, double* second, Term term) {
  for (int64_t start = 0; start < rows.groups; start += kFlush) {
    const int64_t stop = std::min(rows.groups, start + kFlush);
    Vec a[V] = {}, b[V] = {};
    for (int64_t g = start; g < stop; ++g)
      for (int v = 0; v < V; ++v) term(g * rows.width + column + v * kLanes, column + v * kLanes, a[v], b[v]);
    for (int v = 0; v < V; ++v)
      for (int64_t l = 0; l < kLanes; ++l) {
        const int64_t c = (column + v * kLanes + l) % rows.channels;
        first[c] += static_cast<double>(a[v][l]);
        second[c] += static_cast<double>(b[v][l]);
      }
  }
}

template <class Term, class Single>
void sum_columns(const Rows& rows, double* first, double* second, Term term, Single single) {
  std::fill_n(first, rows.channels, 0.0);
  std::fill_n(second, rows.channels, 0.0);
  int64_t column = 0;
  for (; column + kChunk <= rows.width; column += kChunk) sum_chunk<4>(rows, column, first, second, term);
  for (; column < rows.width; column += kLanes) sum_chunk<1>(rows, column, first, second, term);
  const int64_t base = rows.groups * rows.width;
  for (int64_t i = 0; i < rows.tail; ++i) single(base + i, i, first[i % rows.channels], second[i % rows.channels]);
}

// Last group first: it is what the cache holds.
template <class Term, class Single>
void map_rows_back(const Rows& rows, Term term, Single single) {
  const int64_t base = rows.groups * rows.width;
  for (int64_t i = 0; i < rows.tail; ++i) single(base + i, i);
  for (int64_t g = rows.groups - 1; g >= 0; --g)
    for (int64_t column = 0; column < rows.width; column += kLanes) term(g * rows.width + column, column);
}

// --- forward ---

size_t forward_scratch(const KernelCall& call) {
  const Rows rows(call.in[0]);
  return static_cast<size_t>(padded(2 * rows.channels)) * sizeof(double) + static_cast<size_t>(3 * padded(rows.width)) * sizeof(float);
}

// Mean and sum of squared deviations of this slice. Deviations from the first row, so that a large mean costs no digits.
void slice_moments(const View& x, const Rows& rows, float* origin, double* moments) {
  const float* data = x.as<float>();
  const int64_t channels = rows.channels;
  const double count = static_cast<double>(rows.count());
  for (int64_t c = 0; c < channels; ++c) origin[c] = rows.count() > 0 ? data[c] : 0.0f;
  repeat_into(origin, rows);
  sum_columns(
      rows, moments, moments + channels,
      [=](int64_t i, int64_t c, Vec& sum, Vec& squares) {
        const Vec d = load(data + i) - load(origin + c);
        sum += d;
        squares += d * d;
      },
      [=](int64_t i, int64_t c, double& sum, double& squares) {
        const double d = static_cast<double>(data[i]) - static_cast<double>(origin[c]);
        sum += d;
        squares += d * d;
      });
  for (int64_t c = 0; c < channels && count > 0; ++c) {
    const double mean = moments[c] / count;
    moments[channels + c] = std::max(0.0, moments[channels + c] - count * mean * mean);
    moments[c] = mean + static_cast<double>(origin[c]);
  }
}

template <bool Residual, bool Relu>
void apply(const KernelCall& call, const Rows& rows, const float* mean, const float* scale, const float* shift) {
  const float* x = call.in[0].as<float>();
  const float* residual = Residual ? call.in[3].as<float>() : nullptr;
  float* y = call.out[0].as<float>();
  map_rows_back(
      rows,
      [=](int64_t i, int64_t c) {
        Vec value = (load(x + i) - load(mean + c)) * load(scale + c) + load(shift + c);
        if (Residual) value += load(residual + i);
        store(y + i, Relu ? positive(value) : value);
      },
      [=](int64_t i, int64_t c) {
        float value = (x[i] - mean[c]) * scale[c] + shift[c];
        if (Residual) value += residual[i];
        y[i] = Relu ? (value > 0 ? value : 0.0f) : value;
      });
}

void forward(const KernelCall& call) {
  const auto& params = call.as<BatchNormParams>();
  const Rows rows(call.in[0]);
  const View gamma = call.n_in > 1 ? call.in[1] : View{}, beta = call.n_in > 2 ? call.in[2] : View{};
  const bool residual = call.n_in > 3 && call.in[3].data != nullptr;
  Scratch scratch(call);
  auto* moments = scratch.take<double>(2 * rows.channels);
  auto* mean = scratch.take<float>(rows.width);
  auto* scale = scratch.take<float>(rows.width);
  auto* shift = scratch.take<float>(rows.width);
  slice_moments(call.in[0], rows, mean, moments);
  team_moments(call.team, static_cast<double>(rows.count()), moments, rows.channels);
  for (int64_t c = 0; c < rows.channels; ++c) {
    const double variance = moments[rows.channels + c];
    call.out[1].as<float>()[c] = mean[c] = static_cast<float>(moments[c]);
    call.out[2].as<float>()[c] = static_cast<float>(variance);
    // From the float variance, as backward sees it: both must find the same sign of the result.
    scale[c] = static_cast<float>(static_cast<double>(at(gamma, c, 1)) /
                                  std::sqrt(static_cast<double>(static_cast<float>(variance)) + params.epsilon));
    shift[c] = at(beta, c, 0);
  }
  for (float* array : {mean, scale, shift}) repeat_into(array, rows);
  if (residual) params.relu ? apply<true, true>(call, rows, mean, scale, shift) : apply<true, false>(call, rows, mean, scale, shift);
  else params.relu ? apply<false, true>(call, rows, mean, scale, shift) : apply<false, false>(call, rows, mean, scale, shift);
}

// --- backward ---

enum class Mask { none, from_x, from_y };

size_t backward_scratch(const KernelCall& call) {
  const Rows rows(call.in[1]);
  return static_cast<size_t>(padded(2 * rows.channels)) * sizeof(double) + static_cast<size_t>(5 * padded(rows.width)) * sizeof(float);
}

double inverse_deviation(const KernelCall& call, int64_t channel) {
  return 1 / std::sqrt(static_cast<double>(call.in[6].as<float>()[channel]) + call.as<BatchNormParams>().epsilon);
}

// z = (x - mean) scale + shift, as forward has computed it.
void normal_terms(const KernelCall& call, const Rows& rows, float* mean, float* scale, float* shift) {
  const auto& params = call.as<BatchNormParams>();
  for (int64_t c = 0; c < rows.channels; ++c) {
    mean[c] = call.in[5].as<float>()[c];
    scale[c] = static_cast<float>(static_cast<double>(at(call.in[3], c, 1)) /
                                  std::sqrt(static_cast<double>(call.in[6].as<float>()[c]) + params.epsilon));
    shift[c] = at(call.in[4], c, 0);
  }
  for (float* array : {mean, scale, shift}) repeat_into(array, rows);
}

// dx = scale (dz - sum / M - normal product / M), as scale dz + slope (x - mean) + offset.
void gradient_terms(const KernelCall& call, const double* sums, double count, int64_t channels, float* slope, float* offset) {
  for (int64_t c = 0; c < channels; ++c) {
    const double inverse = inverse_deviation(call, c), factor = static_cast<double>(at(call.in[3], c, 1)) * inverse / count;
    slope[c] = static_cast<float>(-factor * inverse * sums[channels + c]);
    offset[c] = static_cast<float>(-factor * sums[c]);
  }
}

template <Mask M, bool Residual>
void backward_masked(const KernelCall& call) {
  const Rows rows(call.in[1]);
  const int64_t channels = rows.channels;
  const float *dy = call.in[0].as<float>(), *x = call.in[1].as<float>(), *y = call.in[2].as<float>();
  float* dx = call.out[0].as<float>();
  float* dresidual = Residual ? call.out[3].as<float>() : nullptr;
  Scratch scratch(call);
  auto* sums = scratch.take<double>(2 * channels);
  auto* mean = scratch.take<float>(rows.width);
  auto* scale = scratch.take<float>(rows.width);
  auto* shift = scratch.take<float>(rows.width);
  auto* slope = scratch.take<float>(rows.width);
  auto* offset = scratch.take<float>(rows.width);
  normal_terms(call, rows, mean, scale, shift);
  const auto masked = [=](int64_t i, int64_t c, Vec centred) {
    const Vec d = load(dy + i);
    if constexpr (M == Mask::from_x) return where_positive(centred * load(scale + c) + load(shift + c), d);
    if constexpr (M == Mask::from_y) return where_positive(load(y + i), d);
    return d;
  };
  const auto masked_one = [=](int64_t i, int64_t c, float centred) {
    if constexpr (M == Mask::from_x) return centred * scale[c] + shift[c] > 0 ? dy[i] : 0.0f;
    if constexpr (M == Mask::from_y) return y[i] > 0 ? dy[i] : 0.0f;
    return dy[i];
  };
  sum_columns(
      rows, sums, sums + channels,
      [=](int64_t i, int64_t c, Vec& sum, Vec& product) {
        const Vec centred = load(x + i) - load(mean + c), d = masked(i, c, centred);
        if (Residual) store(dresidual + i, d);
        sum += d;
        product += d * centred;
      },
      [=](int64_t i, int64_t c, double& sum, double& product) {
        const float centred = x[i] - mean[c], d = masked_one(i, c, centred);
        if (Residual) dresidual[i] = d;
        sum += static_cast<double>(d);
        product += static_cast<double>(d) * static_cast<double>(centred);
      });
  for (int64_t c = 0; c < channels; ++c) {
    sums[channels + c] *= inverse_deviation(call, c);
    call.out[1].as<float>()[c] = static_cast<float>(sums[channels + c]);
    call.out[2].as<float>()[c] = static_cast<float>(sums[c]);
  }
  double count = static_cast<double>(rows.count());
  team_sum(call.team, sums, 2 * channels);
  team_sum(call.team, &count, 1);
  gradient_terms(call, sums, std::max(count, 1.0), channels, slope, offset);
  for (float* array : {slope, offset}) repeat_into(array, rows);
  map_rows_back(
      rows,
      [=](int64_t i, int64_t c) {
        const Vec centred = load(x + i) - load(mean + c), d = Residual ? load(dresidual + i) : masked(i, c, centred);
        store(dx + i, load(scale + c) * d + (load(slope + c) * centred + load(offset + c)));
      },
      [=](int64_t i, int64_t c) {
        const float centred = x[i] - mean[c], d = Residual ? dresidual[i] : masked_one(i, c, centred);
        dx[i] = scale[c] * d + (slope[c] * centred + offset[c]);
      });
}

void backward(const KernelCall& call) {
  const auto& params = call.as<BatchNormParams>();
  if (params.residual) return backward_masked<Mask::from_y, true>(call);
  if (!params.relu) return backward_masked<Mask::none, false>(call);
  call.in[2].data == nullptr ? backward_masked<Mask::from_x, false>(call) : backward_masked<Mask::from_y, false>(call);
}

// Absent operands fit anything.
const char* decline(const KernelCall& call, const View& x, int first_channel_input) {
  if (x.dtype != Dtype::f32) return "only f32";
  if (!(x.rank == 2 && x.contiguous()) && !x.channels_last()) return "only channels last, or N x C";
  for (int i = 0; i < call.n_in; ++i) {
    const View& in = call.in[i];
    if (in.data == nullptr) continue;
    const bool channel = in.rank == 1;
    if (channel ? !in.contiguous() : !same_layout(in, x)) return "operands in different memory orders";
    if (channel && i < first_channel_input) return "operands of unexpected rank";
  }
  for (int i = 0; i < call.n_out; ++i)
    if (call.out[i].rank == 1 ? !call.out[i].contiguous() : !same_layout(call.out[i], x)) return "operands in different memory orders";
  return nullptr;
}

const Kernel kKernels[] = {
    {.op = "batch_norm",
     .name = "rows",
     .backend = Backend::cpu,
     .isa = Isa::PERIGEE_ISA,
     .decline = [](const KernelCall& call) { return decline(call, call.in[0], 1); },
     .run = forward,
     .scratch_bytes = forward_scratch},
    {.op = "batch_norm_grad",
     .name = "rows",
     .backend = Backend::cpu,
     .isa = Isa::PERIGEE_ISA,
     .decline = [](const KernelCall& call) { return decline(call, call.in[1], 3); },
     .run = backward,
     .scratch_bytes = backward_scratch},
};

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(batch_norm);
const KernelList PERIGEE_CPU_KERNELS(batch_norm) = kernel_list(kKernels);

}  // namespace perigee
