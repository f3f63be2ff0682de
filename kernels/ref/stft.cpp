// The sum over a frame's numbers for each bin, as it is written: no fast transform. Sines and cosines come from one table of a turn.
#include "kernels/ops/stft.h"

#include <numbers>

#include "kernels/ref/strided.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

struct StftTables {
  StftTables(const StftParams& p, void* scratch)
      : taper(static_cast<double*>(scratch)),
        samples(taper + p.window),
        cosine(samples + p.fft),
        sine(cosine + p.fft),
        re(sine + p.fft),
        im(re + stft_bins(p)),
        value(im + stft_bins(p)) {
    for (int64_t i = 0; i < p.window; ++i) taper[i] = stft_taper(p, i);
    for (int64_t i = 0; i < p.fft; ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(p.fft);
      cosine[i] = std::cos(angle), sine[i] = std::sin(angle);
    }
  }
  static size_t bytes(const StftParams& p) { return static_cast<size_t>(p.window + 3 * p.fft + 3 * stft_bins(p)) * sizeof(double); }
  double *taper, *samples, *cosine, *sine, *re, *im, *value;
};

// The numbers of one frame, emphasised and tapered, then their transform.
template <class T>
void transform_frame(const StftParams& p, const StftTables& on, const T* x, int64_t stride, int64_t there, int64_t frame) {
  const int64_t start = stft_start(p, frame);
  for (int64_t i = 0; i < p.window; ++i) {
    const int64_t at = stft_place(p, start + i, there);
    on.samples[i] = at < 0 ? 0 : static_cast<double>(x[at * stride]);
  }
  for (int64_t i = p.window - 1; i >= 0; --i) on.samples[i] -= p.preemphasis * on.samples[i > 0 ? i - 1 : 0];
  for (int64_t i = 0; i < p.window; ++i) on.samples[i] *= on.taper[i];
  for (int64_t k = 0; k < stft_bins(p); ++k) {
    double re = 0, im = 0;
    for (int64_t i = 0; i < p.window; ++i) re += on.samples[i] * on.cosine[k * i % p.fft], im -= on.samples[i] * on.sine[k * i % p.fft];
    on.re[k] = re, on.im[k] = im;
  }
}

const int64_t* steps_of(const KernelCall& call, int operand, int64_t n) {
  return call.n_in > operand && call.in[operand].data ? call.in[operand].as<int64_t>() + n * call.in[operand].strides[0] : nullptr;
}

const View* filters_of(const KernelCall& call, int operand) {
  return call.n_in > operand && call.in[operand].data ? &call.in[operand] : nullptr;
}

template <class T>
double weight_of(const View& filters, int64_t row, int64_t k) {
  return static_cast<double>(filters.as<T>()[row * filters.strides[0] + k * filters.strides[1]]);
}

template <class T>
void forward_stft_typed(const KernelCall& call) {
  const auto& p = call.as<StftParams>();
  const View &x = call.in[0], &y = call.out[0], *filters = filters_of(call, 1);
  const StftTables on(p, call.scratch);
  const int64_t frames = y.dims[y.rank - 1], rows = y.dims[y.rank - 2], along = y.strides[y.rank - 1], across = y.strides[y.rank - 2];
  for (int64_t n = 0; n < x.dims[0]; ++n)
    for (int64_t c = 0; c < x.dims[1]; ++c)
      for (int64_t f = 0; f < frames; ++f) {
        const int64_t there = stft_there(steps_of(call, 2, n), x.dims[2]);
        const bool counts = f < stft_frames(p, there);
        if (counts) transform_frame(p, on, x.as<T>() + n * x.strides[0] + c * x.strides[1], x.strides[2], there, f);
        for (int64_t k = 0; k < stft_bins(p); ++k) {
          if (!counts) on.re[k] = on.im[k] = 0;
          const double square = on.re[k] * on.re[k] + on.im[k] * on.im[k];
          on.value[k] = p.power == 0 ? on.re[k] : p.power == 1 ? std::sqrt(square) : square;
        }
        T* to = y.as<T>() + n * y.strides[0] + c * y.strides[1] + f * along;
        for (int64_t row = 0; row < rows; ++row) {
          double sum = filters ? 0 : on.value[row];
          for (int64_t k = 0; filters && k < stft_bins(p); ++k) sum += weight_of<T>(*filters, row, k) * on.value[k];
          to[row * across] = static_cast<T>(sum);
          if (p.power == 0) to[y.strides[2] + row * across] = static_cast<T>(on.im[row]);
        }
      }
}

// The slopes of one frame's numbers, added to those of the waveform. A bin's slope along its real and imaginary part is in re and im.
template <class T>
void add_frame_slopes(const StftParams& p, const StftTables& on, T* dx, int64_t stride, int64_t there, int64_t frame) {
  for (int64_t i = 0; i < p.window; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < stft_bins(p); ++k) sum += on.re[k] * on.cosine[k * i % p.fft] - on.im[k] * on.sine[k * i % p.fft];
    on.samples[i] = sum * on.taper[i];
  }
  const int64_t start = stft_start(p, frame);
  for (int64_t i = 0; i < p.window; ++i) {
    const int64_t at = stft_place(p, start + i, there);
    if (at < 0) continue;
    double slope = on.samples[i] - (i + 1 < p.window ? p.preemphasis * on.samples[i + 1] : 0);
    if (i == 0) slope -= p.preemphasis * on.samples[0];
    dx[at * stride] += static_cast<T>(slope);
  }
}

// The bins' slopes in re and im, from those of the frame's results, which are `across` apart.
template <class T>
void slopes_of_bins(const StftParams& p, const StftTables& on, const View* filters, const T* dy, int64_t rows, int64_t across,
                    int64_t part) {
  for (int64_t k = 0; k < stft_bins(p); ++k) {
    double slope = filters ? 0 : static_cast<double>(dy[k * across]);
    for (int64_t row = 0; filters && row < rows; ++row) slope += weight_of<T>(*filters, row, k) * static_cast<double>(dy[row * across]);
    const double size = std::sqrt(on.re[k] * on.re[k] + on.im[k] * on.im[k]);
    if (p.power == 0) {
      on.re[k] = slope, on.im[k] = static_cast<double>(dy[part + k * across]);
    } else {
      const double factor = p.power == 2 ? 2 * slope : size > 0 ? slope / size : 0;
      on.re[k] *= factor, on.im[k] *= factor;
    }
  }
}

template <class T>
void backward_stft_typed(const KernelCall& call) {
  const auto& p = call.as<StftParams>();
  const View &dy = call.in[0], &x = call.in[1], &dx = call.out[0], *filters = filters_of(call, 2);
  const StftTables on(p, call.scratch);
  const int64_t along = dy.strides[dy.rank - 1], across = dy.strides[dy.rank - 2], rows = dy.dims[dy.rank - 2];
  for (int64_t n = 0; n < x.dims[0]; ++n)
    for (int64_t c = 0; c < x.dims[1]; ++c) {
      const int64_t there = stft_there(steps_of(call, 3, n), x.dims[2]);
      const T* from = x.as<T>() + n * x.strides[0] + c * x.strides[1];
      T* to = dx.as<T>() + n * dx.strides[0] + c * dx.strides[1];
      for (int64_t i = 0; i < x.dims[2]; ++i) to[i * dx.strides[2]] = 0;
      for (int64_t f = 0; f < stft_frames(p, there); ++f) {
        transform_frame(p, on, from, x.strides[2], there, f);
        slopes_of_bins(p, on, filters, dy.as<T>() + n * dy.strides[0] + c * dy.strides[1] + f * along, rows, across, dy.strides[2]);
        add_frame_slopes(p, on, to, dx.strides[2], there, f);
      }
    }
}

void forward_stft(const KernelCall& call) {
  call.in[0].dtype == Dtype::f64 ? forward_stft_typed<double>(call) : forward_stft_typed<float>(call);
}
void backward_stft(const KernelCall& call) {
  call.in[0].dtype == Dtype::f64 ? backward_stft_typed<double>(call) : backward_stft_typed<float>(call);
}
size_t stft_scratch(const KernelCall& call) { return StftTables::bytes(call.as<StftParams>()); }

const Kernel kStftKernels[] = {
    {.op = "stft", .name = "ref", .run = forward_stft, .scratch_bytes = stft_scratch},
    {.op = "stft_grad", .name = "ref", .run = backward_stft, .scratch_bytes = stft_scratch},
};

}  // namespace

extern const KernelList kernels_ref_stft;
const KernelList kernels_ref_stft = kernel_list(kStftKernels);

}  // namespace perigee
