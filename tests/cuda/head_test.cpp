// The kernel of a classifier's head against sums in float64 that are written out here, against the kernels of the ops that it stands for, and
// against finite differences.
#include <cmath>
#include <random>

#include "kernels/cuda/runtime/registry.h"
#include "kernels/ops/linear_cross_entropy.h"
#include "tests/cuda/shim_site.h"

namespace perigee {
namespace {

const Kernel& head_kernel(std::string_view op, std::string_view name) {
  for (const KernelList& list : cuda_kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (op == list.first[i].op && name == list.first[i].name) return list.first[i];
  throw std::out_of_range(std::string(op));
}

struct Truth {
  std::vector<double> logits, losses, slopes, dx;
};

// Operands of a head in the host's memory; run() gives the results of a kernel.
struct Head {
  Head(int64_t rows, int64_t classes, int64_t inputs, bool relu = true, double smoothing = 0)
      : n(rows), c(classes), k(inputs), params{{smoothing}, {relu ? LinearActivation::relu : LinearActivation::none}} {
    std::mt19937_64 random(static_cast<uint64_t>(rows * 1000003 + classes * 1009 + inputs));
    const auto fill = [&](std::vector<float>& values, int64_t count, double spread) {
      for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(std::uniform_real_distribution<>(-spread, spread)(random)));
    };
    fill(x, n * k, 1), fill(weight, c * k, 1), fill(bias, c, 1), fill(flow, n, 2);
    for (int64_t r = 0; r < n; ++r) labels.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(c)));
  }

  // By the formulas. loss(r, x) is that of row r, had it these inputs.
  double loss(int64_t r, const std::vector<double>& inputs, Truth* truth) const {
    const double smoothing = params.loss.label_smoothing;
    std::vector<double> logits;
    for (int64_t j = 0; j < c; ++j) {
      double sum = bias[at(j)];
      for (int64_t i = 0; i < k; ++i) sum += double{weight[at(j * k + i)]} * inputs[at(i)];
      logits.push_back(sum);
    }
    const double top = *std::max_element(logits.begin(), logits.end());
    double total = 0, result = 0;
    for (const double logit : logits) total += std::exp(logit - top);
    for (int64_t j = 0; j < c; ++j) {
      const double log_p = logits[at(j)] - top - std::log(total);
      const double q = (1 - smoothing) * (j == labels[at(r)]) + smoothing / static_cast<double>(c);
      result -= q * log_p;
      if (truth != nullptr) truth->slopes.push_back((std::exp(log_p) - q) * flow[at(r)]);
    }
    if (truth != nullptr) truth->logits.insert(truth->logits.end(), logits.begin(), logits.end()), truth->losses.push_back(result);
    return result;
  }

  std::vector<double> inputs_of(int64_t r) const { return {x.begin() + r * k, x.begin() + (r + 1) * k}; }

  Truth truth() const {
    Truth all;
    for (int64_t r = 0; r < n; ++r) {
      loss(r, inputs_of(r), &all);
      for (int64_t i = 0; i < k; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < c; ++j) sum += all.slopes[at(r * c + j)] * weight[at(j * k + i)];
        const bool through = params.below.activation == LinearActivation::none || x[at(r * k + i)] > 0;
        all.dx.push_back(through ? sum : 0);
      }
    }
    return all;
  }

  struct Results {
    std::vector<float> logits, losses, slopes, dx;
    bool operator==(const Results&) const = default;
  };

  // `aside`: bytes by which the weight lies beside a border of 16.
  Results run(const Kernel& kernel, size_t aside = 0) const {
    const shim::Array<float> device_x("x", x, 16), device_flow("flow", flow), device_bias("bias", bias);
    const shim::Array<int64_t> device_labels("labels", labels);
    std::vector<float> moved(aside / sizeof(float));
    moved.insert(moved.end(), weight.begin(), weight.end());
    const shim::Array<float> device_weight("weight", moved, 16), logits("logits", at(n * c)), losses("losses", at(n)),
        slopes("slopes", at(n * c)), dx("dx", at(n * k), 16);
    const View in[] = {contiguous_view(device_x.data(), Dtype::f32, {n, k}),
                       contiguous_view(device_weight.data() + aside / sizeof(float), Dtype::f32, {c, k}),
                       contiguous_view(device_labels.data(), Dtype::i64, {n}), contiguous_view(device_flow.data(), Dtype::f32, {n}),
                       contiguous_view(device_bias.data(), Dtype::f32, {c})};
    const View out[] = {contiguous_view(logits.data(), Dtype::f32, {n, c}), contiguous_view(losses.data(), Dtype::f32, {n}),
                        contiguous_view(slopes.data(), Dtype::f32, {n, c}), contiguous_view(dx.data(), Dtype::f32, {n, k})};
    const StepInfo step;
    const KernelCall call{.in = in, .out = out, .n_in = 5, .n_out = 4, .params = &params, .step = &step};
    EXPECT_EQ(kernel.decline(call), nullptr);
    ShimSite().run(kernel, call);
    return {logits.read(), losses.read(), slopes.read(), dx.read()};
  }

  static size_t at(int64_t i) { return static_cast<size_t>(i); }

  int64_t n, c, k;
  LinearCrossEntropyParams params;
  std::vector<float> x, weight, bias, flow;
  std::vector<int64_t> labels;
};

const Kernel& row_kernel() { return head_kernel("linear_cross_entropy", "rows"); }

Head::Results in_all_orders(const Head& head, size_t aside = 0) {
  std::vector<Head::Results> results;
  for (const shim::Order order : shim::kOrders) {
    shim::set_order(order);
    results.push_back(head.run(row_kernel(), aside));
    EXPECT_EQ(std::memcmp(results[0].dx.data(), results.back().dx.data(), results[0].dx.size() * sizeof(float)), 0) << shim::name_of(order);
    EXPECT_EQ(std::memcmp(results[0].slopes.data(), results.back().slopes.data(), results[0].slopes.size() * sizeof(float)), 0);
  }
  shim::set_order(shim::Order::forward);
  return results[0];
}

void expect_near(const std::vector<float>& got, const std::vector<double>& truth, const char* what) {
  ASSERT_EQ(got.size(), truth.size()) << what;
  double largest = 1;
  for (const double value : truth) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < truth.size(); ++i) ASSERT_NEAR(got[i], truth[i], 4e-6 * largest) << what << ' ' << i;
}

TEST(CudaHead, AgreesWithSumsInFloat64) {
  for (const int64_t n : {1, 7, 33})
    for (const int64_t c : {1, 2, 10, 32})
      for (const int64_t k : {4, 36, 500, 768}) {
        if (n == 33 && k > 36) continue;
        const Head head(n, c, k, (n + c + k) % 3 != 0, c == 10 ? 0.1 : 0);
        SCOPED_TRACE(testing::Message() << n << " rows, " << c << " classes, " << k << " inputs");
        const Head::Results got = in_all_orders(head);
        const Truth truth = head.truth();
        expect_near(got.logits, truth.logits, "logit");
        expect_near(got.losses, truth.losses, "loss");
        expect_near(got.slopes, truth.slopes, "gradient of a logit");
        expect_near(got.dx, truth.dx, "gradient of x");
      }
}

TEST(CudaHead, ItsGradientIsTheSlopeOfTheLosses) {
  const Head head(3, 10, 36, false, 0.1);
  const Head::Results got = in_all_orders(head);
  for (int64_t r = 0; r < head.n; ++r)
    for (int64_t i = 0; i < head.k; ++i) {
      std::vector<double> inputs = head.inputs_of(r);
      const double middle = inputs[Head::at(i)], h = 1e-5;
      inputs[Head::at(i)] = middle + h;
      const double above = head.loss(r, inputs, nullptr);
      inputs[Head::at(i)] = middle - h;
      const double below = head.loss(r, inputs, nullptr);
      EXPECT_NEAR(got.dx[Head::at(r * head.k + i)], head.flow[Head::at(r)] * (above - below) / (2 * h), 1e-5) << r << ' ' << i;
    }
}

// From the same logits, losses and their gradients have the bits of the ops alone, NaN where those have it.
TEST(CudaHead, HasTheBitsOfCrossEntropy) {
  for (const double smoothing : {0.0, 0.2})
    for (const int64_t c : {2, 10, 32}) {
      Head head(13, c, 8, true, smoothing);
      head.labels[1] = -1, head.labels[2] = c;
      const auto x = [&](int64_t row) { return head.x.begin() + row * head.k; };
      *x(3) = INFINITY, *x(4) = -INFINITY, *x(5) = NAN;
      for (int64_t i = 0; i < head.k; ++i) x(6)[i] *= 1000, x(7)[i] *= 1e20f, x(8)[i] = 0;
      head.flow[9] = 0, head.flow[10] = NAN;
      const Head::Results got = in_all_orders(head);
      const shim::Array<float> logits("logits", got.logits), flow("flow", head.flow), losses("losses", got.losses.size()),
          slopes("slopes", got.slopes.size());
      const shim::Array<int64_t> labels("labels", head.labels);
      const View in[] = {contiguous_view(logits.data(), Dtype::f32, {head.n, c}), contiguous_view(labels.data(), Dtype::i64, {head.n}),
                         contiguous_view(flow.data(), Dtype::f32, {head.n})};
      const View loss = contiguous_view(losses.data(), Dtype::f32, {head.n}),
                 slope = contiguous_view(slopes.data(), Dtype::f32, {head.n, c});
      const StepInfo step;
      ShimSite site;
      site.run(head_kernel("cross_entropy", "softmax"),
               {.in = in, .out = &loss, .n_in = 2, .n_out = 1, .params = &head.params.loss, .step = &step});
      site.run(head_kernel("cross_entropy_grad", "softmax"),
               {.in = in, .out = &slope, .n_in = 3, .n_out = 1, .params = &head.params.loss, .step = &step});
      const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
        for (size_t i = 0; i < a.size(); ++i)
          EXPECT_TRUE(std::isnan(a[i]) ? std::isnan(b[i]) : std::memcmp(&a[i], &b[i], sizeof(float)) == 0)
              << i << ": " << b[i] << ", not " << a[i];
      };
      same(losses.read(), got.losses), same(slopes.read(), got.slopes);
      for (const int64_t row : {1, 2, 5}) {
        EXPECT_TRUE(std::isnan(got.losses[Head::at(row)])) << row;
        for (int64_t i = 0; i < head.k; ++i)  // what relu stops it stops
          EXPECT_TRUE(x(row)[i] > 0 ? std::isnan(got.dx[Head::at(row * head.k + i)]) : got.dx[Head::at(row * head.k + i)] == 0)
              << row << ' ' << i;
      }
      for (int64_t i = 0; i < head.k; ++i) EXPECT_EQ(got.dx[Head::at(8 * head.k + i)], 0) << "the slope of relu at 0";
    }
}

TEST(CudaHead, BesideABorderGivesTheSameNumbers) {
  const Head head(5, 10, 36);
  const Head::Results on = in_all_orders(head), beside = in_all_orders(head, 4);
  const auto wide = [](const std::vector<float>& values) { return std::vector<double>(values.begin(), values.end()); };
  expect_near(beside.logits, wide(on.logits), "logit");
  expect_near(beside.losses, wide(on.losses), "loss");
  expect_near(beside.dx, wide(on.dx), "gradient of x");
}

TEST(CudaHead, TakesNoHeadThatItCouldNotHold) {
  const auto declines = [](const char* name, int64_t c, int64_t k, Dtype dtype = Dtype::f32) {
    const View x = contiguous_view(nullptr, dtype, {4, k}), weight = contiguous_view(nullptr, dtype, {c, k}),
               row = contiguous_view(nullptr, dtype, {4}), logits = contiguous_view(nullptr, dtype, {4, c});
    const View in[] = {x, weight, contiguous_view(nullptr, Dtype::i64, {4}), row}, out[] = {logits, row, logits, x};
    const LinearCrossEntropyParams params{};
    return head_kernel("linear_cross_entropy", name).decline({.in = in, .out = out, .n_in = 4, .n_out = 4, .params = &params}) != nullptr;
  };
  EXPECT_FALSE(declines("rows", 32, 768));
  EXPECT_FALSE(declines("rows", 10, 500));
  EXPECT_TRUE(declines("rows", 33, 8));
  EXPECT_TRUE(declines("rows", 32, 772));
  EXPECT_TRUE(declines("rows", 10, 37));
  EXPECT_TRUE(declines("rows", 10, 500, Dtype::f64));
  for (const int64_t k : {37, 4000}) EXPECT_FALSE(declines("parts", 10, k) || declines("parts", 100, k, Dtype::f64)) << k;
}

}  // namespace
}  // namespace perigee
