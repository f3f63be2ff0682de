// One thread's part of a pooled convolution without tiles: the 2 x 4 sums of two adjacent windows in four channels, and of
// each window the largest.
#pragma once

#include "kernels/cuda/conv_pool/conv_strips.cuh"

namespace perigee {

constexpr int kWindowChannels = 4, kWindowPair = 2;  // channels and windows of a thread
constexpr int kWindowColumns = 2 * kWindowPair;      // of its sums

using WindowSums = float[2][kWindowColumns][kWindowChannels];

// Numbers of a row of x that a thread reads, in whole vectors.
constexpr int numbers_of_row(int stride, int kernel_width) { return (stride * (kWindowColumns - 1) + kernel_width + 3) / 4 * 4; }

template <int kCount>
__device__ void read_numbers(const float* from, float (&to)[kCount]) {
  constexpr int kLanes = Vector<float>::kLanes;
  for (int i = 0; i < kCount; i += kLanes) {
    const Vector<float> vector = *reinterpret_cast<const Vector<float>*>(from + i);
    for (int l = 0; l < kLanes; ++l) to[i + l] = vector.lane[l];
  }
}

// A row of taps, whose weights lie `weight_pitch` apart: with the rows of x under the upper and under the lower places.
template <int kStride, int kWidth, int kNumbers>
__device__ void add_taps(const float (&upper)[kNumbers], const float (&lower)[kNumbers], const float* weights, int weight_pitch,
                         WindowSums& sum) {
  static_assert(kStride * (kWindowColumns - 1) + kWidth <= kNumbers);
  for (int tap = 0; tap < kWidth; ++tap) {
    float weight[kWindowChannels];
    read_numbers(weights + tap * weight_pitch, weight);
    for (int i = 0; i < kWindowColumns; ++i)
      for (int j = 0; j < kWindowChannels; ++j) {
        sum[0][i][j] = fmaf(upper[kStride * i + tap], weight[j], sum[0][i][j]);
        sum[1][i][j] = fmaf(lower[kStride * i + tap], weight[j], sum[1][i][j]);
      }
  }
}

struct WindowPlace {
  int n, channel, row, column;
};

// Where the largest go.
struct WindowResults {
  Images<float> y;
  Images<uint8_t> argmax;
  const float* bias = nullptr;
  int bias_stride = 0, outputs, columns;
  bool relu, vectors;  // whether four channels of a result lie side by side, on a border

  explicit WindowResults(const KernelCall& call)
      : y(call.out[0]),
        argmax(call.out[1]),
        outputs(static_cast<int>(call.in[1].dims[0])),
        columns(static_cast<int>(call.out[0].dims[3])),
        relu(call.as<ConvParams>().relu != 0) {
    if (call.n_in > 2 && call.in[2].data != nullptr) {
      bias = call.in[2].as<const float>();
      bias_stride = static_cast<int>(call.in[2].strides[0]);
    }
    const auto in_fours = [](const View& view, size_t border) {
      for (const int d : {0, 2, 3})
        if (view.strides[d] % kWindowChannels != 0) return false;
      return view.strides[1] == 1 && reinterpret_cast<uintptr_t>(view.data) % border == 0;
    };
    vectors = outputs % kWindowChannels == 0 && in_fours(call.out[0], sizeof(Vector<float>)) && in_fours(call.out[1], kWindowChannels);
  }

  // Both windows of a pair, as far as they are there.
  __device__ void put(const WindowSums& sum, const float (&of_bias)[kWindowChannels], WindowPlace at) const {
    for (int window = 0; window < kWindowPair; ++window, ++at.column)
      if (at.column < columns) put_window(sum, window, of_bias, at);
  }

 private:
  __device__ void put_window(const WindowSums& sum, int window, const float (&of_bias)[kWindowChannels], const WindowPlace& at) const {
    Vector<float> value;
    uint32_t places = 0;
    for (int j = 0; j < kWindowChannels; ++j) {
      float best = sum[0][2 * window][j];
      uint32_t where = 0;
      for (int i = 1; i < 4; ++i) {
        const float x = sum[i / 2][2 * window + i % 2][j];
        // The first of the largest; NaN wins, so that it is seen.
        if (best == best && !(x <= best)) best = x, where = static_cast<uint32_t>(i);
      }
      best += of_bias[j];
      if (relu && best <= 0) best = 0;
      value.lane[j] = best;
      places |= where << (8 * j);
    }
    float* const to = y.at(at.n, at.channel, at.row, at.column);
    uint8_t* const where_to = argmax.at(at.n, at.channel, at.row, at.column);
    if (vectors) {
      *reinterpret_cast<Vector<float>*>(to) = value;
      *reinterpret_cast<uint32_t*>(where_to) = places;
      return;
    }
    for (int j = 0; j < kWindowChannels; ++j)
      if (at.channel + j < outputs) {
        to[j * y.strides[1]] = value.lane[j];
        where_to[j * argmax.strides[1]] = static_cast<uint8_t>(places >> (8 * j));
      }
  }
};

}  // namespace perigee
