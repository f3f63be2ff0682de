// The kernels of pooled convolutions without tiles beside those with: small whole numbers, whose sums are exact in any order, so that they
// have the same bits, of which of several equal numbers is the largest, of NaN, and wherever operands lie.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/runtime/registry.h"
#include "kernels/ops/conv.h"
#include "tests/cuda/shim_site.h"

namespace perigee {
namespace {

const Kernel& kernel_of(std::string_view name, std::string_view op = "conv2d_pool") {
  for (const KernelList& list : cuda_kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (list.first[i].op == op && list.first[i].name == name) return list.first[i];
  std::abort();
}

std::vector<float> drawn(std::mt19937& random, int64_t n, int least, int most) {
  std::uniform_int_distribution<int> draw(least, most);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = static_cast<float>(draw(random));
  return values;
}

struct Geometry {
  int64_t images, inputs, height, width, outputs, kernel_height, kernel_width;
  ConvParams p = {.pool = {2, 2}};
  bool bias = true;
  int64_t apart = 0, beside = 0;  // elements between lines of the results, and before them; between pixels
  int64_t rows() const { return ((height + p.padding[0] + p.padding[1] - kernel_height) / p.stride[0] + 1) / 2; }
  int64_t columns() const { return ((width + p.padding[2] + p.padding[3] - kernel_width) / p.stride[1] + 1) / 2; }
};

View dense(Dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w) {
  return {.dtype = dtype, .rank = 4, .dims = {n, c, h, w}, .strides = {c * h * w, h * w, w, 1}};
}
View channels_last(Dtype dtype, const Geometry& g) {
  const int64_t n = g.images, c = g.outputs, h = g.rows(), w = g.columns(), pixel = c + g.beside, line = w * pixel + g.apart;
  return {.dtype = dtype, .rank = 4, .dims = {n, c, h, w}, .strides = {h * line, 1, line, pixel}};
}

struct Result {
  std::vector<float> y;
  std::vector<uint8_t> argmax;
};

Result run_pooled(const Kernel& kernel, const Geometry& g, std::vector<float> x, std::vector<float> w, std::vector<float> b) {
  ShimSite site;
  View in[3] = {dense(Dtype::f32, g.images, g.inputs, g.height, g.width),
                dense(Dtype::f32, g.outputs, g.inputs, g.kernel_height, g.kernel_width),
                {.dtype = Dtype::f32, .rank = 1, .dims = {g.outputs}, .strides = {1}}};
  View out[2] = {channels_last(Dtype::f32, g), channels_last(Dtype::u8, g)};
  const size_t elements = static_cast<size_t>(out[0].dims[0] * out[0].strides[0] + g.apart);
  const shim::Array<float> image("x", x), weights("w", w), bias("b", b), y("y", std::vector<float>(elements, -7));
  const shim::Array<uint8_t> argmax("argmax", std::vector<uint8_t>(elements, 77));
  in[0].data = image.data(), in[1].data = weights.data(), in[2].data = g.bias ? bias.data() : nullptr;
  out[0].data = y.data() + g.apart, out[1].data = argmax.data() + g.apart;
  const StepInfo step;
  const KernelCall call{.in = in, .out = out, .n_in = 3, .n_out = 2, .params = &g.p, .step = &step};
  EXPECT_EQ(kernel.decline(call), nullptr);
  site.run(kernel, call);
  return {y.read(), argmax.read()};
}

void expect_the_bits_of_tiles(std::string_view name, const Geometry& g, bool with_nan) {
  std::mt19937 random(1);
  const auto small = [&](int64_t n) { return drawn(random, n, -2, 2); };  // few numbers, so that many sums are equal
  std::vector<float> x = small(g.images * g.inputs * g.height * g.width);
  const std::vector<float> w = small(g.outputs * g.inputs * g.kernel_height * g.kernel_width), b = small(g.outputs);
  if (with_nan)
    for (size_t i = 0; i < x.size(); i += 61) x[i] = NAN;
  const Result tiles = run_pooled(kernel_of("tiles"), g, x, w, b);
  for (const shim::Order order : shim::kOrders) {
    shim::set_order(order);
    const Result direct = run_pooled(kernel_of(name), g, x, w, b);
    EXPECT_EQ(std::memcmp(direct.y.data(), tiles.y.data(), tiles.y.size() * sizeof(float)), 0) << shim::name_of(order);
    EXPECT_EQ(direct.argmax, tiles.argmax) << shim::name_of(order);
  }
}

TEST(CudaConvPool, DirectHasTheBitsOfTiles) {
  const ConvParams relu{.relu = 1, .pool = {2, 2}}, plain{.pool = {2, 2}}, padded{.padding = {1, 2, 0, 1}, .relu = 1, .pool = {2, 2}};
  for (const bool with_nan : {false, true}) {
    for (const Geometry& g : {Geometry{3, 1, 28, 28, 20, 5, 5, relu},             // LeNet's first
                              Geometry{2, 1, 11, 13, 7, 3, 3, padded},            // no multiples of anything
                              Geometry{1, 1, 8, 9, 35, 3, 5, plain},              // channels of two blocks
                              Geometry{2, 1, 7, 9, 8, 5, 3, plain, false},        // without bias
                              Geometry{1, 1, 6, 300, 20, 3, 3, relu},             // more of one row of windows than threads
                              Geometry{2, 1, 12, 12, 8, 3, 3, relu, true, 1},     // results on no border
                              Geometry{2, 1, 12, 12, 8, 3, 3, relu, true, 4},     // in fours, with gaps
                              Geometry{2, 1, 12, 12, 7, 3, 3, relu, true, 4, 1},  // with a gap where a fourth channel would be
                              Geometry{70, 1, 12, 62, 20, 3, 3, relu},            // strips of three rows of windows, of five
                              Geometry{540, 1, 4, 4, 3, 3, 3, plain}}) {          // strips one behind the other in a block
      SCOPED_TRACE(std::to_string(g.images) + " images of " + std::to_string(g.height) + " x " + std::to_string(g.width) + ", " +
                   std::to_string(g.outputs) + " channels" + (with_nan ? ", NaN" : ""));
      expect_the_bits_of_tiles("direct", g, with_nan);
    }
  }
}

TEST(CudaConvPool, StagedHasTheBitsOfTiles) {
  const ConvParams lenet{.stride = {2, 2}, .relu = 1, .pool = {2, 2}}, plain{.pool = {2, 2}};
  const ConvParams padded{.stride = {2, 2}, .padding = {1, 2, 0, 1}, .pool = {2, 2}};
  for (const bool with_nan : {false, true}) {
    for (const Geometry& g : {Geometry{3, 20, 12, 12, 50, 5, 5, lenet},                // LeNet's second
                              Geometry{2, 3, 11, 13, 7, 3, 3, padded},                 // no multiples of anything
                              Geometry{2, 6, 8, 9, 75, 3, 5, plain},                   // channels of two blocks
                              Geometry{301, 5, 8, 8, 20, 5, 3, lenet, false},          // several images a block, the last one not full
                              Geometry{300, 2, 7, 12, 8, 3, 3, plain, true, 4},        // in fours, with gaps
                              Geometry{2, 9, 12, 12, 7, 3, 3, padded, true, 3, 1}}) {  // with a gap where a fourth channel would be
      SCOPED_TRACE(std::to_string(g.images) + " images of " + std::to_string(g.height) + " x " + std::to_string(g.width) + ", " +
                   std::to_string(g.outputs) + " channels" + (with_nan ? ", NaN" : ""));
      expect_the_bits_of_tiles("staged", g, with_nan);
    }
  }
}

TEST(CudaConvPool, StagedDeclinesWhatItWasNotMadeFor) {
  const auto why = [](const Geometry& g, Dtype dtype = Dtype::f32, int64_t gap = 0) {
    View in[2] = {dense(dtype, g.images, g.inputs, g.height, g.width), dense(dtype, g.outputs, g.inputs, g.kernel_height, g.kernel_width)};
    View out[2] = {channels_last(dtype, g), channels_last(Dtype::u8, g)};
    in[1].strides[1] += gap;
    for (View& view : in) view.data = &view;
    const char* const reason = kernel_of("staged").decline({.in = in, .out = out, .n_in = 2, .n_out = 2, .params = &g.p});
    return std::string(reason ? reason : "");
  };
  const ConvParams lenet{.stride = {2, 2}, .pool = {2, 2}};
  EXPECT_EQ(why({1024, 20, 12, 12, 50, 5, 5, lenet}), "");
  EXPECT_EQ(why({32, 20, 12, 12, 50, 5, 5, lenet}, Dtype::bf16), "only f32");
  EXPECT_EQ(why({32, 20, 12, 12, 50, 5, 5, lenet}, Dtype::f32, 1), "only where an output channel's weights lie in a row");
  EXPECT_EQ(why({32, 20, 12, 12, 50, 5, 5, {.stride = {2, 1}, .pool = {2, 2}}}),
            "only in one group, at stride 1 or 2 and without dilation");
  EXPECT_EQ(why({32, 20, 12, 12, 50, 5, 5, {.pool = {3, 2}}}), "only with windows of 2 x 2");
  EXPECT_EQ(why({32, 20, 12, 12, 50, 4, 4, lenet}), "only with kernels three or five wide");
  EXPECT_EQ(why({32, 20, 12, 12, 50, 6, 5, lenet}), "only up to 25 taps");
  EXPECT_EQ(why({32, 1, 28, 28, 20, 5, 5, {.pool = {2, 2}}}), "only where an image fits into a block");
  EXPECT_EQ(why({60000, 1, 400, 100, 20, 5, 5, lenet}), "only operands of less than 2^31 elements");
}

TEST(CudaConvPool, DirectDeclinesWhatItWasNotMadeFor) {
  const auto why = [](const Geometry& g, Dtype dtype = Dtype::f32) {
    View in[2] = {dense(dtype, g.images, g.inputs, g.height, g.width), dense(dtype, g.outputs, g.inputs, g.kernel_height, g.kernel_width)};
    View out[2] = {channels_last(dtype, g), channels_last(Dtype::u8, g)};
    for (View& view : in) view.data = &view;
    const char* const reason = kernel_of("direct").decline({.in = in, .out = out, .n_in = 2, .n_out = 2, .params = &g.p});
    return std::string(reason ? reason : "");
  };
  const ConvParams plain{.pool = {2, 2}};
  EXPECT_EQ(why({1024, 1, 28, 28, 20, 5, 5, plain}), "");
  EXPECT_EQ(why({128, 3, 224, 224, 64, 3, 3, plain}), "");
  EXPECT_EQ(why({32, 1, 28, 28, 20, 5, 5, plain}, Dtype::bf16), "only f32");
  EXPECT_EQ(why({32, 20, 12, 12, 50, 5, 5, plain}), "only up to 100 products for a sum");
  EXPECT_EQ(why({32, 1, 28, 28, 20, 4, 4, plain}), "only with kernels three or five wide");
  EXPECT_EQ(why({32, 1, 28, 28, 20, 5, 5, {.stride = {2, 1}, .pool = {2, 2}}}), "only in one group, at stride 1 and without dilation");
  EXPECT_EQ(why({32, 1, 28, 28, 20, 5, 5, {.pool = {3, 2}}}), "only with windows of 2 x 2");
  EXPECT_EQ(why({1, 1, 9, 2000, 20, 5, 5, plain}), "only where the rows of a window fit into shared memory");
  EXPECT_EQ(why({60000, 1, 400, 100, 20, 5, 5, plain}), "only operands of less than 2^31 elements");
}

constexpr std::string_view kWeights = "conv2d_pool_grad_weight";

struct Gradients {
  std::vector<float> dw, db;
};

// With the largest of each window at a place that follows from its number.
Gradients weight_gradients(const Kernel& kernel, const Geometry& g, std::vector<float> dy, std::vector<float> y, std::vector<float> x) {
  ShimSite site;
  View in[4] = {channels_last(Dtype::f32, g), channels_last(Dtype::f32, g), channels_last(Dtype::u8, g),
                dense(Dtype::f32, g.images, g.inputs, g.height, g.width)};
  View out[2] = {dense(Dtype::f32, g.outputs, g.inputs, g.kernel_height, g.kernel_width),
                 {.dtype = Dtype::f32, .rank = 1, .dims = {g.outputs}, .strides = {1}}};
  std::vector<uint8_t> chosen(dy.size());
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = static_cast<uint8_t>(i * 7 / 3 % 4);
  const shim::Array<float> gradient("dy", dy), result("y", y), image("x", x);
  const shim::Array<uint8_t> argmax("argmax", chosen);
  const size_t weights = static_cast<size_t>(g.outputs * g.inputs * g.kernel_height * g.kernel_width);
  const shim::Array<float> dw("dw", std::vector<float>(weights, -7)), db("db", std::vector<float>(static_cast<size_t>(g.outputs), -7));
  in[0].data = gradient.data(), in[1].data = result.data(), in[2].data = argmax.data(), in[3].data = image.data();
  out[0].data = dw.data(), out[1].data = db.data();
  const StepInfo step;
  const KernelCall call{.in = in, .out = out, .n_in = 4, .n_out = 2, .params = &g.p, .step = &step};
  EXPECT_EQ(kernel.decline ? kernel.decline(call) : nullptr, nullptr);
  site.run(kernel, call);
  return {dw.read(), db.read()};
}

// Small whole numbers, whose sums are exact in any order.
TEST(CudaConvPool, DirectWeightGradientsAreThoseOfWindows) {
  const ConvParams relu{.relu = 1, .pool = {2, 2}}, plain{.pool = {2, 2}}, padded{.padding = {1, 2, 0, 1}, .relu = 1, .pool = {2, 2}};
  for (const Geometry& g : {Geometry{3, 1, 28, 28, 20, 5, 5, relu},               // LeNet's first
                            Geometry{2, 3, 11, 13, 7, 3, 3, padded},              // no multiples of anything, three inputs
                            Geometry{2, 2, 8, 9, 130, 5, 5, plain},               // three blocks of channels, the last one not full
                            Geometry{1, 1, 6, 600, 64, 3, 3, relu},               // more of one row of windows than threads
                            Geometry{1, 1, 30, 12, 1, 3, 3, relu},                // more threads than windows
                            Geometry{70, 1, 12, 12, 5, 3, 3, relu},               // strips of three rows of windows, of five
                            Geometry{140, 1, 8, 12, 60, 3, 3, relu, true, 3, 1},  // gaps between lines and pixels
                            Geometry{1100, 1, 4, 4, 3, 3, 3, padded}}) {          // three strips for a block
    SCOPED_TRACE(std::to_string(g.images) + " images of " + std::to_string(g.height) + " x " + std::to_string(g.width) + ", " +
                 std::to_string(g.outputs) + " channels");
    std::mt19937 random(1);
    const int64_t results = g.images * channels_last(Dtype::f32, g).strides[0];
    std::vector<float> dy = drawn(random, results, -2, 2), y = drawn(random, results, -1, 2);
    const std::vector<float> x = drawn(random, g.images * g.inputs * g.height * g.width, -3, 3);
    for (size_t i = 0; i < dy.size(); ++i)
      if (g.p.relu != 0 && i % 7 == 0) dy[i] = INFINITY, y[i] = 0;  // what relu stops is not multiplied
    const Gradients windows = weight_gradients(kernel_of("windows", kWeights), g, dy, y, x);
    for (const shim::Order order : shim::kOrders) {
      shim::set_order(order);
      const Gradients direct = weight_gradients(kernel_of("direct", kWeights), g, dy, y, x);
      EXPECT_EQ(direct.dw, windows.dw) << shim::name_of(order);
      EXPECT_EQ(direct.db, windows.db) << shim::name_of(order);
    }
  }
}

TEST(CudaConvPool, DirectWeightGradientsDeclineWhatTheyWereNotMadeFor) {
  const auto why = [](const Geometry& g, Dtype dtype = Dtype::f32, int64_t apart = 0) {
    Geometry other = g;
    other.apart = apart;
    View in[4] = {channels_last(Dtype::f32, g), channels_last(dtype, g), channels_last(Dtype::u8, other),
                  dense(Dtype::f32, g.images, g.inputs, g.height, g.width)};
    View out[1] = {dense(Dtype::f32, g.outputs, g.inputs, g.kernel_height, g.kernel_width)};
    const char* const reason = kernel_of("direct", kWeights).decline({.in = in, .out = out, .n_in = 4, .n_out = 1, .params = &g.p});
    return std::string(reason ? reason : "");
  };
  const ConvParams plain{.pool = {2, 2}};
  EXPECT_EQ(why({1024, 1, 28, 28, 20, 5, 5, plain}), "");
  EXPECT_EQ(why({32, 1, 28, 28, 20, 5, 5, plain}, Dtype::bf16), "only f32");
  EXPECT_EQ(why({32, 1, 28, 28, 20, 5, 5, plain}, Dtype::f32, 1), "only where gradient, result and positions lie alike");
  EXPECT_EQ(why({32, 20, 12, 12, 50, 5, 5, plain}), "only up to four input channels");
  EXPECT_EQ(why({32, 1, 28, 28, 20, 3, 5, plain}), "only with kernels as high as they are wide");
  EXPECT_EQ(why({32, 1, 28, 28, 20, 4, 4, plain}), "only with kernels three or five wide");
  EXPECT_EQ(why({32, 1, 28, 28, 20, 5, 5, {.stride = {2, 1}, .pool = {2, 2}}}), "only in one group, at stride 1 and without dilation");
  EXPECT_EQ(why({32, 1, 28, 28, 20, 5, 5, {.pool = {3, 2}}}), "only with windows of 2 x 2");
  EXPECT_EQ(why({1, 1, 9, 2000, 20, 5, 5, plain}), "only where the rows of a window fit into shared memory");
  EXPECT_EQ(why({60000, 1, 400, 100, 20, 5, 5, plain}), "only operands of less than 2^31 elements");
}

constexpr std::string_view kInput = "conv2d_pool_grad_input";

// dx as it lies in memory, in the order of w's memory where that has channels last.
std::vector<float> input_gradient(const Kernel& kernel, const Geometry& g, std::vector<float> dy, std::vector<float> y,
                                  std::vector<float> w, bool last, bool accumulate) {
  ShimSite site;
  const auto image = [&](int64_t n, int64_t c, int64_t h, int64_t width) {
    View view = dense(Dtype::f32, n, c, h, width);
    if (last) view.strides[0] = h * width * c, view.strides[1] = 1, view.strides[2] = width * c, view.strides[3] = c;
    return view;
  };
  View in[4] = {channels_last(Dtype::f32, g), channels_last(Dtype::f32, g), channels_last(Dtype::u8, g),
                image(g.outputs, g.inputs, g.kernel_height, g.kernel_width)};
  View out = image(g.images, g.inputs, g.height, g.width);
  std::vector<uint8_t> chosen(dy.size());
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = static_cast<uint8_t>(i * 7 / 3 % 4);
  const shim::Array<float> gradient("dy", dy), result("y", y), weights("w", w);
  const shim::Array<uint8_t> argmax("argmax", chosen);
  const shim::Array<float> dx("dx", std::vector<float>(static_cast<size_t>(out.elements()), -7));
  in[0].data = gradient.data(), in[1].data = result.data(), in[2].data = argmax.data(), in[3].data = weights.data(), out.data = dx.data();
  const StepInfo step;
  const KernelCall call{.in = in, .out = &out, .n_in = 4, .n_out = 1, .params = &g.p, .accumulate = accumulate, .step = &step};
  EXPECT_EQ(kernel.decline ? kernel.decline(call) : nullptr, nullptr);
  site.run(kernel, call);
  return dx.read();
}

// Small whole numbers, whose sums are exact in any order.
TEST(CudaConvPool, InputGradientsOfImagesAreThoseOfTiles) {
  const ConvParams lenet{.stride = {2, 2}, .relu = 1, .pool = {2, 2}}, plain{.pool = {2, 2}};
  const ConvParams padded{.stride = {1, 2}, .padding = {1, 2, 0, 1}, .relu = 1, .pool = {2, 2}};
  for (const Geometry& g : {Geometry{3, 20, 12, 12, 50, 5, 5, lenet},             // LeNet's second
                            Geometry{2, 3, 11, 13, 7, 3, 4, padded},              // no multiples of anything
                            Geometry{2, 101, 8, 6, 40, 3, 3, plain},              // channels of two blocks, and more than lanes
                            Geometry{2, 1, 17, 18, 16, 2, 3, plain},              // as many windows as there may be
                            Geometry{2, 40, 10, 9, 5, 1, 1, padded},              // a single tap
                            Geometry{2, 4, 12, 12, 8, 3, 3, plain, true, 3, 1}})  // gaps between lines and pixels of the gradients
    for (const bool last : {false, true}) {
      SCOPED_TRACE(std::to_string(g.images) + " images of " + std::to_string(g.height) + " x " + std::to_string(g.width) + ", " +
                   std::to_string(g.inputs) + " to " + std::to_string(g.outputs) + " channels" + (last ? ", channels last" : ""));
      if (last && g.inputs >= 40) continue;  // of several blocks, whose weights do not lie in a row
      std::mt19937 random(1);
      const int64_t results = g.images * channels_last(Dtype::f32, g).strides[0];
      std::vector<float> dy = drawn(random, results, -2, 2), y = drawn(random, results, -2, 2);
      const std::vector<float> w = drawn(random, g.outputs * g.inputs * g.kernel_height * g.kernel_width, -2, 2);
      for (size_t i = 0; i < dy.size(); ++i)
        if (g.p.relu != 0 && i % 7 == 0) dy[i] = INFINITY, y[i] = 0;  // what relu stops is not multiplied
      for (const bool accumulate : {false, true}) {
        const std::vector<float> tiles = input_gradient(kernel_of("tiles", kInput), g, dy, y, w, last, accumulate);
        for (const shim::Order order : shim::kOrders) {
          shim::set_order(order);
          EXPECT_EQ(input_gradient(kernel_of("images", kInput), g, dy, y, w, last, accumulate), tiles) << shim::name_of(order);
        }
      }
    }
}

TEST(CudaConvPool, InputGradientsOfImagesDeclineWhatTheyWereNotMadeFor) {
  const auto why = [](const Geometry& g, Dtype dtype = Dtype::f32, int64_t gap = 0) {
    View in[4] = {channels_last(Dtype::f32, g), channels_last(Dtype::f32, g), channels_last(Dtype::u8, g),
                  dense(dtype, g.outputs, g.inputs, g.kernel_height, g.kernel_width)};
    in[3].strides[1] += gap;
    View out = dense(Dtype::f32, g.images, g.inputs, g.height, g.width);
    const char* const reason = kernel_of("images", kInput).decline({.in = in, .out = &out, .n_in = 4, .n_out = 1, .params = &g.p});
    return std::string(reason ? reason : "");
  };
  const ConvParams lenet{.stride = {2, 2}, .pool = {2, 2}};
  EXPECT_EQ(why({1024, 20, 12, 12, 50, 5, 5, lenet}), "");
  EXPECT_EQ(why({32, 20, 12, 12, 50, 5, 5, lenet}, Dtype::bf16), "only f32");
  EXPECT_EQ(why({32, 20, 12, 12, 50, 5, 5, lenet}, Dtype::f32, 1), "only where an output channel's weights lie in a row");
  EXPECT_EQ(why({32, 20, 12, 12, 50, 5, 5, {.dilation = {2, 1}, .pool = {2, 2}}}), "only in one group and without dilation");
  EXPECT_EQ(why({32, 20, 12, 12, 50, 5, 5, {.pool = {3, 2}}}), "only with windows of 2 x 2");
  EXPECT_EQ(why({32, 1, 100, 100, 1, 5, 5, lenet}), "only where patch and image fit into a block");
  EXPECT_EQ(why({32, 1, 28, 28, 20, 5, 5, {.pool = {2, 2}}}), "only with few windows and channels");
  EXPECT_EQ(why({32, 20, 12, 12, 300, 5, 5, lenet}), "only with few windows and channels");
  EXPECT_EQ(why({60000, 1, 200, 200, 20, 5, 5, lenet}), "only operands of less than 2^31 elements");
}

}  // namespace
}  // namespace perigee
