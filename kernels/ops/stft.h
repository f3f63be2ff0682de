// Short-time Fourier transform of waveforms, frame by frame.
// stft:      in 0 x [N,C,T]  in 1 filters [rows,bins], optional: the result has their sums over the bins instead of the bins. They stand in no
//            matrix product of their own, since power does not fit into 16 bits, and since most of a mel filter is zeros, which kernels pass over.
//            in 2 steps i64 [N], optional: so many of the T there are of each example
//            out 0 [N,C,bins or rows,frames] or, with power 0, [N,C,2,bins,frames]: real and imaginary parts. Frames behind those of an
//            example are 0.
// stft_grad: in 0 dy  in 1 x  in 2 filters, optional  in 3 steps, optional;  out 0 dx
// Frame f is the `window` numbers from f hop on, or with `center` from half a window before f hop on. Within a frame `preemphasis` times the number
// before is taken off each (the first stands before itself), the taper is multiplied, and zeros follow up to `fft` numbers. An example that is
// shorter than a window has one frame; one without steps has none.
#pragma once

#include <cmath>
#include <cstdint>

namespace perigee {

enum class Taper : int32_t { none, hann, hamming, blackman, blackman_harris, bartlett };

struct StftParams {
  int64_t window = 0, hop = 0;
  int64_t fft = 0;         // even, at least the window
  double preemphasis = 0;  // 0 to 1
  int32_t power = 2;       // 2: |X|^2, 1: |X|, 0: X
  Taper taper = Taper::hann;
  bool symmetric = false, center = true, reflect = false;  // reflect: mirrors stand at both ends of what is there, else zeros
};

constexpr int64_t stft_bins(const StftParams& p) { return p.fft / 2 + 1; }

constexpr int64_t stft_frames(const StftParams& p, int64_t steps) {
  if (steps <= 0) return 0;
  return p.center ? 1 + steps / p.hop : steps < p.window ? 1 : 1 + (steps - p.window) / p.hop;
}

constexpr int64_t stft_start(const StftParams& p, int64_t frame) {
  // Where librosa and PyTorch put an odd window into an even transform: a sample earlier than its half.
  return frame * p.hop - (p.center ? p.fft / 2 - (p.fft - p.window) / 2 : 0);
}

// Which of the `there` numbers stands at place `at`; -1: a zero does.
constexpr int64_t stft_place(const StftParams& p, int64_t at, int64_t there) {
  if (at >= 0 && at < there) return at;
  if (!p.reflect || there < 2) return -1;
  // A mirror stands at each end, as often as it takes.
  const int64_t period = 2 * (there - 1), folded = (at < 0 ? -at : at) % period;
  return folded < there ? folded : period - folded;
}

// So many of an example's `all` steps there are; the operand comes from outside.
constexpr int64_t stft_there(const int64_t* steps, int64_t all) { return steps == nullptr || *steps > all ? all : *steps < 0 ? 0 : *steps; }

// Number i of the taper, 0 <= i < window.
constexpr double stft_taper(const StftParams& p, int64_t i) {
  const int64_t period = p.symmetric ? (p.window > 1 ? p.window - 1 : 1) : p.window;
  const double share = static_cast<double>(i) / static_cast<double>(period), a = 2 * 3.14159265358979323846 * share;
  switch (p.taper) {
    case Taper::none: return 1;
    case Taper::hann: return .5 - .5 * std::cos(a);
    case Taper::hamming: return .54 - .46 * std::cos(a);
    case Taper::blackman: return .42 - .5 * std::cos(a) + .08 * std::cos(2 * a);
    case Taper::blackman_harris: return .35875 - .48829 * std::cos(a) + .14128 * std::cos(2 * a) - .01168 * std::cos(3 * a);
    case Taper::bartlett: return share < .5 ? 2 * share : 2 - 2 * share;
  }
  return 1;
}

}  // namespace perigee
