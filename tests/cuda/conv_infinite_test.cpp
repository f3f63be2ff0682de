// Convolutions of numbers that are not finite. Around an image lie zeros, and kernels here, as those of libraries, multiply them with the
// weights: beside an infinite weight a sum at the border is NaN, where the reference, which leaves such places out, may find a number.
// Nothing that the reference finds to be infinite may come out finite, so that a loss that is not finite is seen; and what no zero is
// multiplied into is the reference's.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cuda/runtime/registry.h"
#include "kernels/ops/conv.h"
#include "tests/cuda/shim_site.h"
#include "tests/graph/interpreter.h"

namespace perigee {
namespace {

using Numbers = std::vector<float>;

struct Image {
  Shape shape;
  Numbers numbers;
};

Image drawn_image(const Shape& shape) {
  Image image{shape, Numbers(static_cast<size_t>(shape.elements()))};
  for (size_t i = 0; i < image.numbers.size(); ++i) image.numbers[i] = static_cast<float>(i * 7 % 5) * 0.25f + 0.5f;  // none is 0
  return image;
}

// With a border of zeros.
Image bordered(const Image& image) {
  const int64_t n = image.shape[0] * image.shape[1], h = image.shape[2], w = image.shape[3];
  const Shape shape{image.shape[0], image.shape[1], h + 2, w + 2};
  Image wide{shape, Numbers(static_cast<size_t>(shape.elements()))};
  for (int64_t i = 0; i < n * h; ++i)
    std::copy_n(&image.numbers[static_cast<size_t>(i * w)], w,
                &wide.numbers[static_cast<size_t>((i / h * (h + 2) + i % h + 1) * (w + 2) + 1)]);
  return wide;
}

Numbers run_images(Site& site, const Kernel& kernel, const std::vector<Image>& in, const Shape& out, const ConvParams& params) {
  std::vector<std::shared_ptr<std::byte>> memory;
  std::vector<View> views;
  for (const Image& image : in) {
    const size_t bytes = image.numbers.size() * sizeof(float);
    memory.push_back(site.memory("an operand", bytes));
    site.write(memory.back().get(), reinterpret_cast<const std::byte*>(image.numbers.data()), bytes);
    views.push_back(contiguous_view(memory.back().get(), Dtype::f32, image.shape));
  }
  Numbers result(static_cast<size_t>(out.elements()));
  memory.push_back(site.memory("the result", result.size() * sizeof(float)));
  View to = contiguous_view(memory.back().get(), Dtype::f32, out);
  const StepInfo step;
  const KernelCall call{
      .in = views.data(), .out = &to, .n_in = static_cast<int>(views.size()), .n_out = 1, .params = &params, .step = &step};
  if (kernel.decline && kernel.decline(call)) return {};
  site.run(kernel, call);
  site.read(reinterpret_cast<std::byte*>(result.data()), memory.back().get(), result.size() * sizeof(float));
  return result;
}

struct Case {
  const char* op;
  std::vector<Image> in;
  Shape out;
  int image;  // which of `in` has borders; negative: the result
};

// Elements that are not finite here though they are in the reference; each kernel of the op is tried.
int lost_to_borders(const Case& of, const ConvParams& params, const std::string& what) {
  Site host;
  ShimSite site;
  int lost = 0, ran = 0;
  const Kernel& ref = *ref_kernel(of.op);
  const Numbers expected = run_images(host, ref, of.in, of.out, params);
  Numbers with_zeros;
  if (of.image >= 0) {
    std::vector<Image> in = of.in;
    in[static_cast<size_t>(of.image)] = bordered(in[static_cast<size_t>(of.image)]);
    ConvParams without = params;
    std::fill_n(without.padding, 4, 0);
    with_zeros = run_images(host, ref, in, of.out, without);
  }
  for (const KernelList& list : cuda_kernel_lists())
    for (const Kernel& kernel : std::span(list.first, list.count)) {
      const Numbers got = std::string_view(kernel.op) == of.op ? run_images(site, kernel, of.in, of.out, params) : Numbers();
      ran += !got.empty();
      for (size_t i = 0; i < got.size(); ++i) {
        const std::string where = what + " [" + kernel.name + "], element " + std::to_string(i);
        if (std::isfinite(got[i])) {
          EXPECT_NEAR(got[i], expected[i], 1e-4) << where;
        } else if (std::isfinite(expected[i])) {
          ++lost;
          EXPECT_TRUE(with_zeros.empty() || !std::isfinite(with_zeros[i])) << where;
        }
      }
    }
  EXPECT_GT(ran, 0) << what;
  return lost;
}

TEST(CudaConvolutions, WhatIsNotFiniteIsNotLost) {
  shim::set_order(shim::Order::forward);
  int lost = 0;
  for (const int stride : {1, 2})
    for (const int groups : {1, 2}) {
      const ConvParams params{.stride = {stride, stride}, .padding = {1, 1, 1, 1}, .groups = groups};
      const int64_t rows = (5 - 1) / stride + 1;
      const Image x = drawn_image({2, 2, 5, 5}), w = drawn_image({2, 2 / groups, 3, 3}), dy = drawn_image({2, 2, rows, rows});
      const Case cases[] = {
          {"conv2d", {x, w}, dy.shape, 0}, {"conv2d_grad_input", {dy, w}, x.shape, -1}, {"conv2d_grad_weight", {dy, x}, w.shape, 1}};
      for (const Case& one : cases)
        for (size_t operand = 0; operand < 2; ++operand)
          for (const size_t part : {0, 1, 2})
            for (const float special : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
              Case spoilt = one;
              Numbers& numbers = spoilt.in[operand].numbers;
              numbers[(numbers.size() - 1) * part / 2] = special;
              lost += lost_to_borders(spoilt, params,
                                      std::string(one.op) + ", stride " + std::to_string(stride) + ", groups " + std::to_string(groups) +
                                          ", operand " + std::to_string(operand));
            }
    }
  EXPECT_GT(lost, 0);  // this is what the reference does not do
}

}  // namespace
}  // namespace perigee
