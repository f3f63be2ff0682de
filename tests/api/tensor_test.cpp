// Tensors of C and C++ programs, against loops in float64.
#include <unistd.h>

#include <cmath>
#include <numeric>
#include <thread>

#include "tests/api/support.h"

namespace {

std::vector<double> numbers(const pg::tensor& x) { return x.to_vector<double>(); }

using Numbers = std::vector<double>;
using Sizes = std::vector<int64_t>;

TEST(Tensor, IsMadeOfNestedLists) {
  const pg::tensor one({5}), row({1, 2, 3}), column({{1}, {2}}), square({{1, 2}, {3, 4}}), deep({{{1}, {2}}, {{3}, {4}}}, pg::i64),
      none({});
  EXPECT_EQ(one.shape(), Sizes({1}));
  EXPECT_EQ(row.shape(), Sizes({3}));
  EXPECT_EQ(column.shape(), Sizes({2, 1}));
  EXPECT_EQ(square.text(), "f32[2x2]");
  EXPECT_EQ(deep.text(), "i64[2x2x1]");
  EXPECT_EQ(none.shape(), Sizes({0}));
  EXPECT_EQ(numbers(square), Numbers({1, 2, 3, 4}));
  EXPECT_EQ(numbers(deep), Numbers({1, 2, 3, 4}));
  failure([] { pg::tensor({{1, 2}, {3}}); }, PERIGEE_USAGE);
  failure([] { pg::tensor({{1, 2}, 3}); }, PERIGEE_USAGE);
  failure([] { pg::tensor({1, {2, 3}}); }, PERIGEE_USAGE);
  EXPECT_EQ(numbers(pg::arange(2, 8, 3)), Numbers({2, 5}));
  EXPECT_EQ(numbers(pg::arange(3, pg::i32)), Numbers({0, 1, 2}));
  EXPECT_EQ(numbers(pg::linspace(0, 1, 3)), Numbers({0, 0.5, 1}));
  EXPECT_EQ(numbers(pg::eye(2, 3)), Numbers({1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(numbers(pg::full({2}, 7, pg::u8)), Numbers({7, 7}));
}

TEST(Tensor, ReadsAndBorrowsMemory) {
  std::vector<float> own(6);
  std::iota(own.begin(), own.end(), 1.f);
  bool released = false;
  {
    const std::shared_ptr<const void> owner(&own, [&](const void*) { released = true; });
    const pg::tensor copy = pg::from(own, {2, 3}), same = pg::borrow(std::span(own), {2, 3}, owner);
    own[4] = 50;
    EXPECT_EQ(copy.data<float>()[4], 5);
    EXPECT_EQ(same.data<float>()[4], 50);
    same[1].fill(0);
    EXPECT_EQ(own, std::vector<float>({1, 2, 3, 0, 0, 0}));
    EXPECT_FALSE(released);
  }
  EXPECT_TRUE(released);
  pg::tensor window;
  {
    const std::shared_ptr<const void> owner(&own, [&](const void*) { released = true; });
    released = false;
    window = pg::borrow(std::span(own), {2, 3}, owner)[{pg::whole, 1}];
  }
  EXPECT_FALSE(released) << "a window keeps the memory";
  EXPECT_EQ(numbers(window), Numbers({2, 0}));
  window = {};
  EXPECT_TRUE(released);
  failure([&] { pg::borrow(std::span(own), {2, 4}); }, PERIGEE_USAGE);
}

TEST(Tensor, NamesWhatDataAreNot) {
  const pg::tensor x({{1, 2}, {3, 4}});
  EXPECT_NE(failure([&] { (void)x.data<double>(); }, PERIGEE_USAGE).find("f32[2x2]"), std::string::npos);
  EXPECT_NE(failure([&] { (void)x.T().data<float>(); }, PERIGEE_USAGE).find("contiguous"), std::string::npos);
  EXPECT_EQ(x.T().contiguous().data<float>()[1], 3);
  EXPECT_NE(failure([&] { (void)x.item(); }, PERIGEE_USAGE).find("f32[2x2]"), std::string::npos);
  failure([] { (void)pg::tensor().shape(); }, PERIGEE_USAGE);
  failure([] { pg::from(std::vector<float>(5), {2, 3}); }, PERIGEE_USAGE);
  EXPECT_NE(failure([&] { x + pg::zeros({3}); }, PERIGEE_MODEL).find("f32[2x2] and f32[3]"), std::string::npos);
  EXPECT_NE(failure([&] { pg::tensor::apply("matmull", {x, x}); }, PERIGEE_USAGE).find("matmul"), std::string::npos);
}

// Each window against the elements that its entries name.
TEST(Tensor, WindowsCountFromZeroAndEndBeforeTheStop) {
  std::vector<double> all(4 * 5);
  std::iota(all.begin(), all.end(), 0.0);
  const pg::tensor x = pg::from(all, {4, 5});
  EXPECT_EQ(numbers(x[1]), Numbers({5, 6, 7, 8, 9}));
  EXPECT_EQ(numbers(x[-1]), Numbers({15, 16, 17, 18, 19}));
  EXPECT_EQ((x[{2, -1}].item()), 14);
  EXPECT_EQ(numbers(x[{pg::slice(1, 3), 0}]), Numbers({5, 10}));
  EXPECT_EQ(numbers(x[{0, pg::slice(1, PERIGEE_END, 2)}]), Numbers({1, 3}));
  EXPECT_EQ(numbers(x[{0, pg::reversed}]), Numbers({4, 3, 2, 1, 0}));
  EXPECT_EQ(numbers(x[{0, pg::slice(3, 0, -2)}]), Numbers({3, 1}));
  EXPECT_EQ(numbers(x[{0, pg::slice(-2)}]), Numbers({3, 4}));
  EXPECT_EQ((x[{pg::whole, pg::newaxis, 2}].shape()), Sizes({4, 1}));
  EXPECT_EQ((x[{pg::slice(2, 2)}].shape()), Sizes({0, 5}));
  EXPECT_EQ((x[{pg::slice(4)}].shape()), Sizes({0, 5}));
  EXPECT_EQ(numbers(x.narrow(1, 3, 2)[0]), Numbers({3, 4}));
  EXPECT_EQ(x.split(3).at(1).shape(), Sizes({1, 5}));
  for (const auto& wrong :
       std::vector<std::vector<pg::index_entry>>{{4}, {-5}, {pg::slice(0, 5)}, {pg::slice(5)}, {pg::slice(-6, 2)}, {0, 0, 0}})
    failure(
        [&] {
          const std::vector<perigee_index> entries(wrong.begin(), wrong.end());
          perigee_tensor* made = nullptr;
          const perigee_status status = perigee_tensor_window(x.get(), entries.data(), static_cast<int32_t>(entries.size()), &made);
          EXPECT_EQ(made, nullptr);
          if (status != PERIGEE_OK) throw pg::error(status, perigee_tensor_message(x.get()));
        },
        PERIGEE_USAGE);
}

TEST(Tensor, WindowsAreWrittenThrough) {
  const pg::tensor x = pg::zeros({3, 3});
  x[{1, pg::whole}] = 2;
  x[{pg::whole, 0}] = pg::tensor({7, 8, 9});
  x[-1][-1] = 4;
  EXPECT_EQ(numbers(x), Numbers({7, 0, 0, 8, 2, 2, 9, 0, 4}));
  x.set(x.gt(6), -1);
  EXPECT_EQ(numbers(x), Numbers({-1, 0, 0, -1, 2, 2, -1, 0, 4}));
  EXPECT_EQ(numbers(x[x.gt(0)]), Numbers({2, 2, 4}));
  EXPECT_EQ(numbers(x[pg::tensor({2, 0, -1}, pg::i64)]), Numbers({-1, 0, 4, -1, 0, 0, -1, 0, 4}));
  failure([&] { x.take(pg::tensor({3}, pg::i64)); }, PERIGEE_MODEL);
  EXPECT_NE(failure([&] { x.take(pg::tensor({0}, pg::i64), 5); }, PERIGEE_MODEL).find("got 5 for f32[3x3], expected -2 to 1"),
            std::string::npos);
  EXPECT_NE(failure([&] { pg::ones({}).take(pg::tensor({0}, pg::i64), 0); }, PERIGEE_MODEL).find("no axis: it is one number"),
            std::string::npos);
  x.add_(1).mul_(pg::tensor({1, 2, 3}));
  EXPECT_EQ(numbers(x), Numbers({0, 2, 3, 0, 6, 9, 0, 2, 15}));
  pg::tensor other = x;
  other = pg::ones({2});  // another tensor; x stays
  EXPECT_EQ(x.shape(), Sizes({3, 3}));
}

TEST(Tensor, NumbersTakeTheDtypeOfTensors) {
  EXPECT_EQ((pg::ones({2}) * 2.5).dtype(), PERIGEE_F32);
  EXPECT_EQ((pg::ones({2}, pg::f64) * 2.5).dtype(), PERIGEE_F64);
  EXPECT_EQ((pg::ones({2}, pg::i64) + 2).dtype(), PERIGEE_I64);
  EXPECT_EQ((pg::ones({2}, pg::i64) + 0.5).dtype(), PERIGEE_F32);
  EXPECT_EQ((pg::ones({2}, pg::i64) / 2).dtype(), PERIGEE_F32);
  EXPECT_EQ((pg::ones({2}) + pg::ones({2}, pg::f64)).dtype(), PERIGEE_F64);
  const pg::tensor third = pg::tensor(1.0) / 3;
  EXPECT_TRUE(third.is_number());
  EXPECT_EQ(third.item(), 1.0 / 3);
}

// Sums of products in float64, for every pair of layouts.
TEST(Tensor, MatmulOfAnyLayout) {
  const int64_t m = 5, k = 7, n = 4;
  pg::seed(3);
  const pg::tensor a = pg::randn({m, k}, 0, 1, pg::f64), b = pg::randn({k, n}, 0, 1, pg::f64);
  const auto at = a.data<double>(), bt = b.data<double>();
  Numbers expected;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += at[size_t(i * k + p)] * bt[size_t(p * n + j)];
      expected.push_back(sum);
    }
  const pg::tensor turned = a.T().contiguous().T(), flipped = b[{pg::whole, pg::reversed}].clone()[{pg::whole, pg::reversed}];
  for (const pg::tensor& left : {a, turned})
    for (const pg::tensor& right : {b, flipped}) {
      const Numbers got = numbers(matmul(left, right));
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
      const Numbers by_labels = numbers(pg::einsum("ik,kj->ji", {left, right}).T());
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(by_labels[i], expected[i], 1e-12);
    }
  EXPECT_EQ(matmul(a[0], b).shape(), Sizes({n}));
  EXPECT_EQ(matmul(a, b[{pg::whole, 0}]).shape(), Sizes({m}));
  EXPECT_NEAR(matmul(a[0], b[{pg::whole, 0}]).item(), expected[0], 1e-12);
  EXPECT_NEAR(pg::einsum("ik->", {a}).item(), a.sum().item(), 1e-12);
  const pg::tensor c = pg::randn({n, 2}, 0, 1, pg::f64);
  const Numbers chain = numbers(pg::einsum("ij,jk,kl->il", {a, b, c})), products = numbers(matmul(matmul(a, b), c));
  for (size_t i = 0; i < products.size(); ++i) EXPECT_NEAR(chain[i], products[i], 1e-12);
  const Numbers rows = numbers(pg::einsum("...i->...", {a})), sums = numbers(a.sum(1));
  for (size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(rows[i], sums[i], 1e-12);
  EXPECT_EQ(pg::einsum("ii", {pg::tensor({{1, 5}, {7, 2}}, pg::f64)}).item(), 3);
  failure([&] { pg::einsum("ik,jk->ij", {a, b}); }, PERIGEE_USAGE);
  failure([&] { pg::einsum("ik,kj->iz", {a, b}); }, PERIGEE_USAGE);
  failure([&] { matmul(b, a.T().T()); }, PERIGEE_MODEL);
}

TEST(Tensor, ReducesOverAxes) {
  const pg::tensor x({{1, 5, 3}, {4, 2, 9}}, pg::f64);
  EXPECT_EQ(x.sum().item(), 24);
  EXPECT_EQ(numbers(x.sum(0)), Numbers({5, 7, 12}));
  EXPECT_EQ(x.mean({0, 1}, true).shape(), Sizes({1, 1}));
  EXPECT_EQ(numbers(x.max(1)), Numbers({5, 9}));
  EXPECT_EQ(numbers(x.argmax()), Numbers({1, 2}));
  EXPECT_EQ(numbers(x.argmin(0)), Numbers({0, 1, 0}));
  EXPECT_EQ(numbers(x.cumsum()), Numbers({1, 6, 9, 4, 6, 15}));
  EXPECT_NEAR(x.var(-1)[0].item(), (4 + 4 + 0) / 3.0, 1e-12);
  EXPECT_NEAR(x.std(-1, false, 1)[0].item(), std::sqrt(8 / 2.0), 1e-12);
  EXPECT_NEAR(x.norm().item(), std::sqrt(1 + 25 + 9 + 16 + 4 + 81), 1e-12);
  EXPECT_NEAR((x + 1000).logsumexp().item(),
              1000 + std::log(std::exp(1) + std::exp(5) + std::exp(3) + std::exp(4) + std::exp(2) + std::exp(9)), 1e-9);
  EXPECT_EQ(numbers(x.gt(4).any(0)), Numbers({0, 1, 1}));
  const auto [values, places] = x.sort(1, true);
  EXPECT_EQ(numbers(values), Numbers({5, 3, 1, 9, 4, 2}));
  EXPECT_EQ(numbers(places), Numbers({1, 2, 0, 2, 0, 1}));
  EXPECT_EQ(numbers(x.topk(1, 0).second), Numbers({1, 0, 1}));
  EXPECT_EQ(numbers(x.eq(9).nonzero()), Numbers({1, 2}));
  EXPECT_EQ(numbers(pg::tensor({1, 0}, pg::i64).one_hot(2)), Numbers({0, 1, 1, 0}));
  EXPECT_TRUE(x.all_equal(x.clone()));
  EXPECT_FALSE(x.all_close(x + 1));
  failure([&] { x.sum(2); }, PERIGEE_MODEL);
}

TEST(Tensor, ElementByElement) {
  const Numbers in = {-2, -0.5, 0.25, 3};
  const pg::tensor x = pg::from(in, {4});
  const std::pair<pg::tensor, double (*)(double)> cases[] = {
      {pg::exp(x), std::exp},
      {pg::tanh(x), std::tanh},
      {pg::abs(x), std::fabs},
      {pg::floor(x), std::floor},
      {pg::erf(x), std::erf},
      {pg::relu(x), [](double v) { return v > 0 ? v : 0; }},
      {pg::sigmoid(x), [](double v) { return 1 / (1 + std::exp(-v)); }},
      {pg::ops::softplus(x), [](double v) { return std::log1p(std::exp(v)); }},
      {pg::where(x.lt(0), x, 1) - 2 * x, [](double v) { return (v < 0 ? v : 1) - 2 * v; }},
      {1 / pg::maximum(x, 0.5), [](double v) { return 1 / (v > 0.5 ? v : 0.5); }},
      {pg::pow(x.clamp(0, 2), 3) + pg::mod(x, 2),
       [](double v) { return std::pow(std::min(std::max(v, 0.0), 2.0), 3) + v - 2 * std::floor(v / 2); }}};
  for (const auto& [got, expected] : cases)
    for (size_t i = 0; i < in.size(); ++i) EXPECT_NEAR(got.to_vector<double>()[i], expected(in[i]), 1e-12);
  EXPECT_NEAR(x.softmax().sum().item(), 1, 1e-12);
  EXPECT_NEAR((pg::exp(x.log_softmax()) - x.softmax()).norm().item(), 0, 1e-12);
}

TEST(Tensor, ShapesAndTogether) {
  const pg::tensor x({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(numbers(x.T()), Numbers({1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(x.unsqueeze(-1).transpose(0, 2).shape(), Sizes({1, 3, 2}));
  EXPECT_EQ(x.unsqueeze(0).squeeze().shape(), Sizes({2, 3}));
  EXPECT_EQ(x.reshape({3, -1}).shape(), Sizes({3, 2}));
  EXPECT_EQ(numbers(x[0].expand({2, 3})), Numbers({1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(numbers(pg::concatenate({x, x[{pg::whole, pg::slice(0, 1)}]}, 1)), Numbers({1, 2, 3, 1, 4, 5, 6, 4}));
  EXPECT_EQ(pg::stack({x, x, x}, 1).shape(), Sizes({2, 3, 3}));
  EXPECT_EQ(numbers(pg::ops::pad(x[0], {{"before", {1}}, {"after", {0}}})), Numbers({0, 1, 2, 3}));
  failure([&] { x.reshape({4}); }, PERIGEE_MODEL);
  failure([&] { pg::concatenate({}); }, PERIGEE_USAGE);
}

// By its definition, with stride and padding.
TEST(Tensor, ConvolutionAndPooling) {
  pg::seed(5);
  const pg::tensor x = pg::randn({2, 3, 5, 4}, 0, 1, pg::f64), w = pg::randn({2, 3, 3, 3}, 0, 1, pg::f64), bias({0.5, -1}, pg::f64);
  const pg::tensor y = x.conv2d(w, bias, {.stride = 2, .padding = 1}), largest = x.maxpool({.kernel = 2});
  ASSERT_EQ(y.shape(), Sizes({2, 2, 3, 2}));
  ASSERT_EQ(largest.shape(), Sizes({2, 3, 2, 2}));
  const auto at = [&](int64_t n, int64_t c, int64_t h, int64_t v) {
    return h < 0 || v < 0 || h >= 5 || v >= 4 ? 0 : (x[{n, c, h, v}].item());
  };
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t o = 0; o < 2; ++o)
      for (int64_t h = 0; h < 3; ++h)
        for (int64_t v = 0; v < 2; ++v) {
          double sum = bias[o].item();
          for (int64_t c = 0; c < 3; ++c)
            for (int64_t i = 0; i < 3; ++i)
              for (int64_t j = 0; j < 3; ++j) sum += at(n, c, 2 * h + i - 1, 2 * v + j - 1) * w[{o, c, i, j}].item();
          EXPECT_NEAR((y[{n, o, h, v}].item()), sum, 1e-12);
        }
  EXPECT_EQ((largest[{1, 2, 0, 1}].item()), std::max({at(1, 2, 0, 2), at(1, 2, 0, 3), at(1, 2, 1, 2), at(1, 2, 1, 3)}));
}

TEST(Tensor, LinearAlgebra) {
  const pg::tensor a({{4, 1}, {1, 3}}, pg::f64), b({1, 2}, pg::f64);
  EXPECT_TRUE(matmul(a, a.solve(b)).all_close(b));
  EXPECT_TRUE(matmul(a.inv(), a).all_close(pg::eye(2, 2, pg::f64), 0, 1e-12));
  EXPECT_TRUE(matmul(a.cholesky(), a.cholesky().T()).all_close(a));
  EXPECT_TRUE(matmul(a.qr()[0], a.qr()[1]).all_close(a));
  const auto parts = a.svd();
  EXPECT_TRUE(matmul(parts[0] * parts[1], parts[2]).all_close(a));
  EXPECT_NEAR(a.eigh()[0].prod().item(), 11, 1e-12);  // the determinant
  failure([] { pg::zeros({2, 2}).inv(); }, PERIGEE_MODEL);
}

TEST(Tensor, DrawsFollowTheSeed) {
  pg::seed(7);
  const pg::tensor first = pg::rand({100}), whole = pg::randint(-2, 3, {1000}), order = pg::randperm(10);
  pg::seed(7);
  EXPECT_TRUE(pg::rand({100}).all_equal(first));
  EXPECT_FALSE(pg::rand({100}).all_equal(first));
  EXPECT_EQ(whole.min().item(), -2);
  EXPECT_EQ(whole.max().item(), 2);
  EXPECT_EQ(numbers(order.sort().first), numbers(pg::arange(10)));
  EXPECT_NEAR(pg::randn({10000}, 3, 2, pg::f64).mean().item(), 3, 0.1);
}

TEST(Tensor, FilesKeepNamesShapesAndNumbers) {
  const std::string stem = ::testing::TempDir() + "perigee_tensors_" + std::to_string(::getpid());
  const pg::tensor x({{1, 2}, {3, 4}}), y({1, -2}, pg::i64);
  for (const char* format : {".npz", ".safetensors"}) {
    pg::save(stem + format, {{"x", x.T()}, {"y", y}});
    const auto read = pg::load(stem + format);
    EXPECT_EQ(read.size(), 2u);
    EXPECT_TRUE(read.at("x").all_equal(x.T()));
    EXPECT_EQ(read.at("y").dtype(), PERIGEE_I64);
    ::unlink((stem + format).c_str());
  }
  pg::save(stem + ".npy", x);
  EXPECT_TRUE(pg::load(stem + ".npy").at("").all_equal(x));
  ::unlink((stem + ".npy").c_str());
  failure([&] { pg::save(stem + ".npy", {{"x", x}}); }, PERIGEE_USAGE);
  failure([&] { pg::load(stem + ".npy"); }, PERIGEE_DATA);
}

// The C ABI alone: sizes that do not fit, memory that cannot be what it is said to be.
TEST(Tensor, SizesAreCheckedBeforeMemoryIsTouched) {
  perigee_context* context = nullptr;
  ASSERT_EQ(perigee_context_create(nullptr, &context), PERIGEE_OK);
  alignas(8) char memory[64] = {};
  const int64_t shape[] = {2, 3}, huge[] = {INT64_MAX / 2, 4}, negative[] = {-1, 2}, far[] = {INT64_MAX / 2, INT64_MAX / 2},
                back[] = {-3, 1};
  perigee_tensor* made = nullptr;
  const auto create = [&](const int64_t* dims, int32_t rank, size_t bytes) {
    const perigee_status status = perigee_tensor_create(context, PERIGEE_F32, rank, dims, memory, bytes, &made);
    EXPECT_EQ(made != nullptr, status == PERIGEE_OK);
    perigee_tensor_free(made);
    return status;
  };
  EXPECT_EQ(create(shape, 2, 24), PERIGEE_OK);
  EXPECT_EQ(create(shape, 2, 20), PERIGEE_USAGE);
  EXPECT_NE(std::string(perigee_context_message(context)).find("24 for f32[2x3]"), std::string::npos);
  EXPECT_EQ(create(shape, 9, 24), PERIGEE_USAGE);
  EXPECT_EQ(create(negative, 2, 0), PERIGEE_MODEL);
  EXPECT_EQ(create(huge, 2, 0), PERIGEE_RESOURCES);
  EXPECT_EQ(create(nullptr, 1, 4), PERIGEE_USAGE);
  const auto borrow = [&](const int64_t* strides, void* data) {
    const perigee_status status = perigee_tensor_borrow(context, PERIGEE_F32, 2, shape, strides, data, nullptr, nullptr, &made);
    EXPECT_EQ(made != nullptr, status == PERIGEE_OK);
    return status;
  };
  EXPECT_EQ(borrow(far, memory), PERIGEE_USAGE);
  const int64_t beyond[] = {INT64_MAX / 8, 1};  // no overflow, but no memory either
  EXPECT_EQ(borrow(beyond, memory), PERIGEE_USAGE);
  EXPECT_EQ(borrow(nullptr, memory + 1), PERIGEE_USAGE);
  EXPECT_EQ(borrow(nullptr, nullptr), PERIGEE_USAGE);
  ASSERT_EQ(borrow(back, memory + 12), PERIGEE_OK);  // its second row lies before its first
  const float wanted[] = {0, 1, 2, 3, 4, 5};
  std::memcpy(memory, wanted, sizeof wanted);
  float got[6] = {};
  EXPECT_EQ(perigee_tensor_read(made, got, sizeof got), PERIGEE_OK);
  EXPECT_EQ(std::vector<float>(got, got + 6), std::vector<float>({3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(perigee_tensor_read(made, got, 4), PERIGEE_USAGE);
  perigee_tensor_free(made);
  perigee_context_free(context);
}

TEST(Tensor, ThreadsComputeAndFreeEachOthers) {
  const pg::tensor shared = (pg::arange(200 * 200, pg::f64) / 40000).reshape({200, 200});
  const double expected = matmul(shared, shared.T()).sum().item();
  std::vector<pg::tensor> made(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < made.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) made[t] = matmul(shared, shared.T()) + static_cast<double>(t);
      failure([&] { pg::tensor::apply("none", {shared}); }, PERIGEE_USAGE);
    });
  for (std::thread& each : threads) each.join();
  for (size_t t = 0; t < made.size(); ++t) EXPECT_NEAR(made[t].sum().item(), expected + 40000.0 * static_cast<double>(t), 1e-5);
}

}  // namespace
