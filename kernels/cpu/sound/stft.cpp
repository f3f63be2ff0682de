// Frames of waveforms, eight at a time, by the fast Fourier transform of sound_loops.h; tables are made anew in each call, in scratch memory.
#include "kernels/ops/stft.h"

#include <algorithm>

#include "kernels/registry.h"
#include "kernels/sound_frames.h"

namespace perigee {
namespace {

constexpr int64_t kLanes = kSoundLanes;

// Scratch memory: tables, the transform's operand and frames that are cut, rows of bins, rows of their slopes, where each filter begins and ends.
struct Room {
  Room(const StftParams& p, int64_t filters)
      : tables((SoundFrames::table_bytes(p) + 63) / 64 * 64),
        work(SoundFrames::scratch_floats(p)),
        bins(static_cast<size_t>(2 * stft_bins(p) * kLanes)),
        slopes(static_cast<size_t>((stft_bins(p) + filters) * kLanes)),
        bands(static_cast<size_t>(2 * filters)) {}
  size_t bytes() const { return tables + (work + bins + slopes) * sizeof(float) + bands * sizeof(int64_t); }
  size_t tables, work, bins, slopes, bands;
};

// Filters, and the bins [first, end) of each that are not zero.
struct Bands {
  Bands(const View* filters, int64_t* ends) : count(filters ? filters->dims[0] : 0), ends(ends) {
    if (!filters) return;
    weights = filters->as<float>(), stride = filters->strides[0];
    for (int64_t row = 0; row < count; ++row) {
      int64_t first = 0, end = filters->dims[1];
      while (end > 0 && weights[row * stride + end - 1] == 0) --end;
      while (first < end && weights[row * stride + first] == 0) ++first;
      ends[2 * row] = first, ends[2 * row + 1] = end;
    }
  }
  int64_t first(int64_t row) const { return ends[2 * row]; }
  int64_t size(int64_t row) const { return ends[2 * row + 1] - ends[2 * row]; }
  const float* of(int64_t row) const { return weights + row * stride + ends[2 * row]; }
  int64_t count;
  int64_t* ends;
  const float* weights = nullptr;
  int64_t stride = 0;
};

// All frames of one waveform. `row_stride` and `part_stride`: of the results' rows, and from real to imaginary parts.
struct Waveform {
  const StftParams& p;
  const SoundFrames& frames;
  const SoundLoops& loops;
  const Bands& bands;
  int64_t there, all_frames, row_stride, part_stride;
  float *work, *bins, *slopes;

  int64_t rows() const { return bands.count > 0 ? bands.count : stft_bins(p); }

  void forward(const float* x, float* to) const {
    const int64_t own = stft_frames(p, there);
    for (int64_t first = 0; first < own; first += kLanes) {
      const int64_t count = std::min(kLanes, own - first);
      if (p.power == 0) {
        frames.spectrum(x, there, first, count, work, bins);
        for (int64_t i = 0; i < 2 * rows(); ++i)
          std::copy_n(bins + i * kLanes, count, to + i % 2 * part_stride + i / 2 * row_stride + first);
        continue;
      }
      frames.power(x, there, first, count, work, bins);
      if (p.power == 1)
        for (int64_t i = 0; i < stft_bins(p) * kLanes; ++i) bins[i] = __builtin_sqrtf(bins[i]);
      for (int64_t row = 0; row < rows(); ++row) {
        float sum[kLanes];
        if (bands.count > 0) loops.weigh(bands.of(row), bands.size(row), bins + bands.first(row) * kLanes, sum);
        std::copy_n(bands.count > 0 ? sum : bins + row * kLanes, count, to + row * row_stride + first);
      }
    }
    for (int64_t row = 0; row < rows(); ++row)
      for (int64_t part = 0; part < (p.power == 0 ? 2 : 1); ++part) {
        float* behind = to + part * part_stride + row * row_stride;
        std::fill(behind + own, behind + all_frames, 0.f);
      }
  }

  // Rows of the slopes of what the bins give, one a bin, from those of the results, which have columns for `count` frames.
  void slopes_of_values(const float* dy, int64_t count) const {
    float* given = slopes + stft_bins(p) * kLanes;
    for (int64_t row = 0; row < rows(); ++row) {
      float* to = (bands.count > 0 ? given : slopes) + row * kLanes;
      std::fill(std::copy_n(dy + row * row_stride, count, to), to + kLanes, 0.f);
    }
    if (bands.count == 0) return;
    std::fill_n(slopes, stft_bins(p) * kLanes, 0.f);
    for (int64_t row = 0; row < rows(); ++row)
      for (int64_t i = 0; i < bands.size(row); ++i)
        for (int64_t lane = 0; lane < kLanes; ++lane)
          slopes[(bands.first(row) + i) * kLanes + lane] += bands.of(row)[i] * given[row * kLanes + lane];
  }

  // The slopes of bins, in the place of the bins.
  void slopes_of_bins(const float* dy, int64_t count) const {
    if (p.power == 0) {
      std::fill_n(bins, 2 * stft_bins(p) * kLanes, 0.f);
      for (int64_t i = 0; i < 2 * rows(); ++i) std::copy_n(dy + i % 2 * part_stride + i / 2 * row_stride, count, bins + i * kLanes);
      return;
    }
    slopes_of_values(dy, count);
    for (int64_t k = 0; k < stft_bins(p); ++k)
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        float &re = bins[2 * k * kLanes + lane], &im = bins[(2 * k + 1) * kLanes + lane];
        const float slope = slopes[k * kLanes + lane], size = p.power == 1 ? __builtin_sqrtf(re * re + im * im) : 0;
        const float factor = p.power == 2 ? 2 * slope : size > 0 ? slope / size : 0;
        re *= factor, im *= factor;
      }
  }

  void backward(const float* x, const float* dy, int64_t all_steps, float* to) const {
    std::fill_n(to, all_steps, 0.f);
    const int64_t own = stft_frames(p, there);
    for (int64_t first = 0; first < own; first += kLanes) {
      const int64_t count = std::min(kLanes, own - first);
      if (p.power != 0) frames.spectrum(x, there, first, count, work, bins);
      slopes_of_bins(dy + first, count);
      frames.slopes(bins, there, first, count, work, to);
    }
  }
};

const View* operand(const KernelCall& call, int i) { return call.n_in > i && call.in[i].data != nullptr ? &call.in[i] : nullptr; }

template <bool kGradient>
void run(const KernelCall& call) {
  const auto& p = call.as<StftParams>();
  const View &x = call.in[kGradient ? 1 : 0], &results = kGradient ? call.in[0] : call.out[0];
  const View *filters = operand(call, kGradient ? 2 : 1), *steps = operand(call, kGradient ? 3 : 2);
  const SoundLoops& loops = sound_loops(Isa::PERIGEE_ISA);
  const Room room(p, filters ? filters->dims[0] : 0);
  const SoundFrames frames(p, loops, call.scratch);
  auto* work = reinterpret_cast<float*>(static_cast<std::byte*>(call.scratch) + room.tables);
  float *bins = work + room.work, *slopes = bins + room.bins;
  const Bands bands(filters, reinterpret_cast<int64_t*>(slopes + room.slopes));
  for (int64_t n = 0; n < x.dims[0]; ++n)
    for (int64_t c = 0; c < x.dims[1]; ++c) {
      const int64_t there = stft_there(steps ? steps->as<int64_t>() + n * steps->strides[0] : nullptr, x.dims[2]);
      const Waveform one{
          p,    frames, loops, bands, there, results.dims[results.rank - 1], results.strides[results.rank - 2], results.strides[2],
          work, bins,   slopes};
      const float* from = x.as<float>() + n * x.strides[0] + c * x.strides[1];
      float* result = results.as<float>() + n * results.strides[0] + c * results.strides[1];
      if constexpr (kGradient)
        one.backward(from, result, x.dims[2], call.out[0].as<float>() + n * call.out[0].strides[0] + c * call.out[0].strides[1]);
      else one.forward(from, result);
    }
}

const char* decline(const KernelCall& call) {
  const auto contiguous = [](const View& v) { return v.dtype == Dtype::f32 && (v.dims[v.rank - 1] == 1 || v.strides[v.rank - 1] == 1); };
  for (int i = 0; i < call.n_in; ++i)
    if (call.in[i].rank > 0 && call.in[i].dtype != Dtype::i64 && !contiguous(call.in[i])) return "only f32 with contiguous steps";
  return contiguous(call.out[0]) ? nullptr : "only f32 with contiguous steps";
}

template <bool kGradient>
size_t scratch_bytes(const KernelCall& call) {
  constexpr int kFilters = kGradient ? 2 : 1;
  return Room(call.as<StftParams>(), call.n_in > kFilters && call.in[kFilters].rank == 2 ? call.in[kFilters].dims[0] : 0).bytes();
}

const Kernel kKernels[] = {{.op = "stft",
                            .name = "frames",
                            .backend = Backend::cpu,
                            .isa = Isa::PERIGEE_ISA,
                            .decline = decline,
                            .run = run<false>,
                            .scratch_bytes = scratch_bytes<false>},
                           {.op = "stft_grad",
                            .name = "frames",
                            .backend = Backend::cpu,
                            .isa = Isa::PERIGEE_ISA,
                            .decline = decline,
                            .run = run<true>,
                            .scratch_bytes = scratch_bytes<true>}};

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(stft);
const KernelList PERIGEE_CPU_KERNELS(stft) = kernel_list(kKernels);

}  // namespace perigee
