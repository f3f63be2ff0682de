// The loops of pictures beside plain ones, and the same bits on each instruction set.
#include "kernels/picture_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "src/core/host_isa.h"

namespace perigee {
namespace {

std::vector<float> noise(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  uint32_t state = 1;
  for (float& value : values) value = static_cast<float>((state = state * 1664525 + 1013904223) >> 8) / 16777216.f;
  return values;
}

// Calls `run` with the loops of each instruction set that this machine has; all give the bits of the first.
template <class Run>
std::vector<float> on_each(size_t size, const Run& run) {
  std::vector<float> first;
  for (int isa = 0; isa <= static_cast<int>(host_isa()); ++isa) {
    std::vector<float> result(size, -7);
    run(picture_loops(static_cast<Isa>(isa)), result.data());
    if (first.empty()) first = result;
    EXPECT_EQ(std::memcmp(first.data(), result.data(), size * sizeof(float)), 0) << isa_name(static_cast<Isa>(isa));
  }
  return first;
}

TEST(PictureLoops, ResampleAsPlainLoops) {
  for (const auto& [c, width, to, height, rows] : {std::array{3, 29, 17, 21, 13}, {1, 9, 31, 5, 8}, {3, 8, 8, 8, 8}, {2, 1, 3, 1, 2}}) {
    std::vector<int32_t> first, count, row_first, row_count;
    const std::vector<float> weights = noise(4 * to), row_weights = noise(4 * rows);
    const auto lay = [](int from, int n, std::vector<int32_t>& at, std::vector<int32_t>& many) {
      for (int i = 0; i < n; ++i) {
        at.push_back(i * from / n);
        many.push_back(std::min(3, from - at.back()));
      }
    };
    lay(width, to, first, count);
    lay(height, rows, row_first, row_count);
    const std::vector<float> image = noise(c * width * height);
    std::vector<uint8_t> bytes;
    for (const float value : image) bytes.push_back(static_cast<uint8_t>(value * 255));
    std::vector<float> scratch(static_cast<size_t>(resample_scratch(c, width, to)));
    for (const bool mirrored : {false, true})
      for (const bool of_bytes : {false, true}) {
        ResampleCall call{.from = of_bytes ? static_cast<const void*>(bytes.data()) : image.data(),
                          .row = width * c,
                          .channels = c,
                          .rows = {row_first.data(), row_count.data(), row_weights.data(), nullptr, 4, rows},
                          .columns = {first.data(), count.data(), weights.data(), nullptr, 4, to},
                          .scale = .5f,
                          .mirrored = mirrored,
                          .scratch = scratch.data()};
        call.to_plane = to * rows, call.to_row = to;
        const std::vector<float> made = on_each(static_cast<size_t>(c * to * rows), [&](const PictureLoops& loops, float* out) {
          call.to = out;
          (of_bytes ? loops.resample_u8 : loops.resample_f32)(call);
        });
        for (int k = 0; k < c; ++k)
          for (int y = 0; y < rows; ++y)
            for (int x = 0; x < to; ++x) {
              double sum = 0;
              for (int t = 0; t < row_count[y]; ++t)
                for (int u = 0; u < count[x]; ++u) {
                  const int at = ((row_first[y] + t) * width + first[x] + u) * c + k;
                  sum += double(row_weights[y * 4 + t]) * weights[x * 4 + u] * (of_bytes ? bytes[at] : image[at]);
                }
              ASSERT_NEAR(made[(k * rows + y) * to + (mirrored ? to - 1 - x : x)], sum / 2, 1e-5 * (1 + sum)) << x << " " << y << " " << k;
            }
      }
  }
}

// Where shares are given, bytes are resampled with 16 bits: each tap is wrong by at most 1/256 of a level, and by its rounded share.
TEST(PictureLoops, SharesGiveLevelsWithinAFiftieth) {
  for (const auto& [c, width, to, height, rows] :
       {std::array{3, 181, 53, 47, 35}, {1, 9, 31, 5, 17}, {3, 8, 16, 8, 8}, {2, 1, 3, 1, 2}, {4, 40, 16, 40, 16}}) {
    std::vector<int32_t> first[2], count[2];
    std::vector<float> weights[2];
    std::vector<int16_t> shares[2];
    for (int axis = 0; axis < 2; ++axis) {
      const int from = axis == 0 ? width : height, n = axis == 0 ? to : rows;
      const std::vector<float> drawn = noise(6 * n);
      for (int i = 0; i < n; ++i) {
        first[axis].push_back(i * from / n);
        count[axis].push_back(std::min(1 + i % 6, from - first[axis].back()));
        int left = 1 << 15;
        float sum = 0;
        for (int t = 0; t < count[axis].back(); ++t) sum += drawn[static_cast<size_t>(6 * i + t)];
        for (int t = 0; t < 6; ++t) {
          const bool last = t + 1 == count[axis].back(), there = t < count[axis].back();
          const int share = !there ? 12345 : last ? left : int(drawn[static_cast<size_t>(6 * i + t)] / sum * (1 << 15));
          if (there) left -= share;
          shares[axis].push_back(static_cast<int16_t>(std::min(share, 32767)));
          weights[axis].push_back(static_cast<float>(share) / (1 << 15));
        }
      }
    }
    std::vector<uint8_t> bytes;
    for (const float value : noise(c * width * height)) bytes.push_back(static_cast<uint8_t>(value * 256));
    std::vector<float> scratch(static_cast<size_t>(resample_scratch(c, width, to)));
    for (const bool mirrored : {false, true}) {
      ResampleCall call{.from = bytes.data(),
                        .row = width * c,
                        .channels = c,
                        .rows = {first[1].data(), count[1].data(), weights[1].data(), shares[1].data(), 6, rows},
                        .columns = {first[0].data(), count[0].data(), weights[0].data(), shares[0].data(), 6, to},
                        .scale = .5f,
                        .mirrored = mirrored,
                        .scratch = scratch.data()};
      call.to_plane = to * rows, call.to_row = to;
      const std::vector<float> made = on_each(static_cast<size_t>(c * to * rows), [&](const PictureLoops& loops, float* out) {
        call.to = out;
        loops.resample_u8(call);
      });
      for (int k = 0; k < c; ++k)
        for (int y = 0; y < rows; ++y)
          for (int x = 0; x < to; ++x) {
            double sum = 0;
            for (int t = 0; t < count[1][size_t(y)]; ++t)
              for (int u = 0; u < count[0][size_t(x)]; ++u)
                sum += double(weights[1][size_t(y * 6 + t)]) * weights[0][size_t(x * 6 + u)] *
                       bytes[size_t(((first[1][size_t(y)] + t) * width + first[0][size_t(x)] + u) * c + k)];
            const float got = made[static_cast<size_t>((k * rows + y) * to + (mirrored ? to - 1 - x : x))];
            ASSERT_NEAR(got * 2, sum, 12 / 256.) << x << " " << y << " " << k << " of " << c;
            ASSERT_TRUE(got >= 0 && got * 2 <= 255) << got;
          }
    }
  }
}

// As many taps as may have shares, one less, and one more, which are floats: levels from end to end.
TEST(PictureLoops, ManyTapsOfBlackAndWhite) {
  for (const int taps : {63, 64, 65}) {
    constexpr int kWidth = 80, kTo = 9;
    const bool shared = taps <= kMostShares;
    std::vector<int32_t> first, count(kTo, taps);
    std::vector<int16_t> shares;
    std::vector<float> weights;
    for (int i = 0; i < kTo; ++i) {
      first.push_back(i);
      for (int t = 0; t < taps; ++t) {
        const int share = (1 << 15) / taps + (t < (1 << 15) % taps);
        shares.push_back(static_cast<int16_t>(share)), weights.push_back(static_cast<float>(share) / (1 << 15));
      }
    }
    for (const int odd : {0, 1}) {
      std::vector<uint8_t> bytes;
      for (int i = 0; i < kWidth * kWidth; ++i) bytes.push_back((i / kWidth + i + odd) % 2 != 0 ? 255 : 0);
      std::vector<float> scratch(static_cast<size_t>(resample_scratch(1, kWidth, kTo)));
      const Taps along{first.data(), count.data(), weights.data(), shared ? shares.data() : nullptr, taps, kTo};
      ResampleCall call{.from = bytes.data(), .row = kWidth, .rows = along, .columns = along, .scratch = scratch.data()};
      call.to_plane = kTo * kTo, call.to_row = kTo;
      const std::vector<float> made = on_each(kTo * kTo, [&](const PictureLoops& loops, float* out) {
        call.to = out;
        loops.resample_u8(call);
      });
      for (int y = 0; y < kTo; ++y)
        for (int x = 0; x < kTo; ++x) {
          double sum = 0;
          for (int t = 0; t < taps; ++t)
            for (int u = 0; u < taps; ++u) sum += double(weights[size_t(t)]) * weights[size_t(u)] * bytes[size_t((y + t) * kWidth + x + u)];
          ASSERT_NEAR(made[size_t(y * kTo + x)], sum, shared ? 2 * taps / 256. : 1e-3) << taps << " " << x << " " << y;
        }
    }
  }
}

// One colour stays as it is, and rounded shares lead beyond no end: five of 26 / 128 make more than the step from 254 to 255.
TEST(PictureLoops, SharesKeepColoursAndEnds) {
  const std::vector<int32_t> zero(40, 0), counts(40, 6);
  const std::vector<int16_t> fifths(240, 6554);
  const std::vector<float> weights(240, .2f);
  const Taps taps{zero.data(), counts.data(), weights.data(), fifths.data(), 6, 40};
  std::vector<float> scratch(static_cast<size_t>(resample_scratch(1, 6, 40)));
  for (const auto& [first, level, expected] : {std::array{0, 0, 0}, {255, 255, 255}, {100, 100, 100}, {254, 255, 255}, {1, 0, 0}}) {
    std::vector<uint8_t> bytes(36, static_cast<uint8_t>(level));
    for (size_t y = 0; y < 6; ++y) bytes[6 * y] = static_cast<uint8_t>(first);
    ResampleCall call{.from = bytes.data(), .row = 6, .rows = taps, .columns = taps, .scale = 1, .scratch = scratch.data()};
    call.to_plane = 1600, call.to_row = 40;
    for (const float value : on_each(1600, [&](const PictureLoops&loops, float*out) { call.to = out, loops.resample_u8(call); }))
      ASSERT_EQ(value, static_cast<float>(expected)) << first;
  }
}

// Each result is one element: it comes out as it is, in its plane.
TEST(PictureLoops, APartOfTheSameSizeIsOnlySpread) {
  constexpr int kWidth = 23, kHeight = 9, kTo = 19, kRows = 7, kLeft = 2, kTop = 1;
  std::vector<int32_t> first, row_first;
  for (int x = 0; x < kTo; ++x) first.push_back(kLeft + x);
  for (int y = 0; y < kRows; ++y) row_first.push_back(kTop + y);
  const std::vector<int32_t> one(kTo, 1);
  const std::vector<float> whole(kTo, 1.f);
  for (const int c : {1, 3, 4}) {
    const std::vector<float> image = noise(c * kWidth * kHeight);
    std::vector<uint8_t> bytes;
    for (const float value : image) bytes.push_back(static_cast<uint8_t>(value * 255));
    for (const bool mirrored : {false, true})
      for (const bool of_bytes : {false, true}) {
        ResampleCall call{.from = of_bytes ? static_cast<const void*>(bytes.data()) : image.data(),
                          .row = kWidth * c,
                          .channels = c,
                          .rows = {row_first.data(), one.data(), whole.data(), nullptr, 1, kRows},
                          .columns = {first.data(), one.data(), whole.data(), nullptr, 1, kTo},
                          .scale = .3f,
                          .mirrored = mirrored};
        call.to_plane = kTo * kRows, call.to_row = kTo;
        const std::vector<float> made = on_each(static_cast<size_t>(c * kTo * kRows), [&](const PictureLoops& loops, float* out) {
          call.to = out;
          (of_bytes ? loops.resample_u8 : loops.resample_f32)(call);
        });
        for (int k = 0; k < c; ++k)
          for (int y = 0; y < kRows; ++y)
            for (int x = 0; x < kTo; ++x) {
              const auto at = static_cast<size_t>(((kTop + y) * kWidth + kLeft + x) * c + k);
              ASSERT_EQ(made[static_cast<size_t>((k * kRows + y) * kTo + (mirrored ? kTo - 1 - x : x))],
                        (of_bytes ? float(bytes[at]) : image[at]) * .3f)
                  << x << " " << y << " " << k << " of " << c;
            }
      }
  }
}

TEST(PictureLoops, WarpTakesFourNeighboursOrTheNearest) {
  const int h = 19, w = 75;
  const std::vector<float> image = noise(2 * h * w);
  for (const bool bilinear : {true, false}) {
    WarpCall call{.from = image.data(),
                  .channels = 2,
                  .height = h,
                  .width = w,
                  .matrix = {.9f, .2f, -3.f, -.1f, 1.1f, 2.f, .002f, -.001f},
                  .bilinear = bilinear,
                  .fill = .25f,
                  .to = nullptr};
    const std::vector<float> made = on_each(image.size(), [&](const PictureLoops& loops, float* out) {
      call.to = out;
      loops.warp(call);
    });
    const float* m = call.matrix;
    for (int y = 0; y < h; ++y)
      for (int x = 0; x < w; ++x) {
        const double d = m[6] * double(x) + m[7] * double(y) + 1;
        const double u = (m[0] * double(x) + m[1] * double(y) + m[2]) / d, v = (m[3] * double(x) + m[4] * double(y) + m[5]) / d;
        const auto at = [&](double column, double row) {
          return column < 0 || row < 0 || column >= w || row >= h ? double(call.fill) : double(image[size_t(row) * w + size_t(column)]);
        };
        const double l = std::floor(u), t = std::floor(v), a = u - l, b = v - t;
        double sum = (1 - b) * ((1 - a) * at(l, t) + a * at(l + 1, t)) + b * ((1 - a) * at(l, t + 1) + a * at(l + 1, t + 1));
        if (!bilinear) {
          if (std::abs(a - .5) < 1e-3 || std::abs(b - .5) < 1e-3) continue;
          sum = at(std::floor(u + .5), std::floor(v + .5));
        }
        ASSERT_NEAR(made[size_t(y * w + x)], sum, 1e-4) << x << " " << y;
      }
  }
}

TEST(PictureLoops, ColoursOfPictures) {
  const int64_t n = 1037;
  const std::vector<float> x = noise(3 * n);
  double sum = 0, other = -1;
  for (int64_t i = 0; i < n; ++i) sum += .299 * x[i] + .587 * x[n + i] + .114 * x[2 * n + i];
  for (int isa = 0; isa <= static_cast<int>(host_isa()); ++isa) {
    const double made = picture_loops(static_cast<Isa>(isa)).grey_sum(x.data(), n);
    EXPECT_NEAR(made, sum, 1e-3);
    EXPECT_TRUE(isa == 0 || made == other) << isa;
    other = made;
  }
  const std::vector<float> blended =
      on_each(x.size(), [&](const PictureLoops& loops, float* out) { loops.blend(x.data(), 1.5f, -.6f, .01f, .1f, .9f, n, out); });
  const std::vector<float> turned = on_each(x.size(), [&](const PictureLoops& loops, float* out) { loops.hue(x.data(), 1 / 3.f, n, out); });
  const std::vector<float> back =
      on_each(x.size(), [&](const PictureLoops& loops, float* out) { loops.hue(turned.data(), -1 / 3.f, n, out); });
  for (int64_t i = 0; i < n; ++i) {
    const double grey = .299 * x[i] + .587 * x[n + i] + .114 * x[2 * n + i];
    for (int c = 0; c < 3; ++c) {
      EXPECT_NEAR(blended[c * n + i], std::clamp(1.5 * x[c * n + i] - .6 * grey + .01, double(.1f), double(.9f)), 1e-5);
      EXPECT_NEAR(turned[(c + 1) % 3 * n + i], x[c * n + i], 1e-5) << "a third of the circle: red becomes green";
      EXPECT_NEAR(back[c * n + i], x[c * n + i], 1e-5);
    }
  }
}

}  // namespace
}  // namespace perigee
