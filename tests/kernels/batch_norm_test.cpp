// Batch norm cut into slices: the team finds the statistics of the whole batch, and each slice its own rows.
#include <gtest/gtest.h>

#include <random>

#include "kernels/ops/batch_norm.h"
#include "kernels/registry.h"
#include "src/core/thread_team.h"
#include "src/graph/plan.h"
#include "tests/graph/interpreter.h"

namespace perigee {
namespace {

constexpr int64_t kChannels = 19;

const Kernel& kernel(const char* op, Backend backend) {
  const Kernel* best = nullptr;
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (std::string_view(op) == list.first[i].op && list.first[i].backend == backend && list.first[i].isa <= host_isa())
        if (best == nullptr || list.first[i].isa > best->isa) best = &list.first[i];
  return *best;
}

Tensor random_rows(int64_t rows, uint64_t seed, float mean) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(mean, 1);
  Tensor t(Dtype::f32, rows == 0 ? Shape{kChannels} : Shape{rows, kChannels});
  for (int64_t i = 0; i < t.elements(); ++i) t.data<float>()[i] = normal(random);
  return t;
}

struct Batch {
  Tensor x, dy, gamma, beta, y, mean, variance, dx, dgamma, dbeta;
  explicit Batch(int64_t rows, float mean)
      : x(random_rows(rows, 1, mean)),
        dy(random_rows(rows, 2, 0)),
        gamma(random_rows(0, 3, 1)),
        beta(random_rows(0, 4, 0)),
        y(Dtype::f32, x.shape()),
        mean(Dtype::f32, {kChannels}),
        variance(Dtype::f32, {kChannels}),
        dx(Dtype::f32, x.shape()),
        dgamma(Dtype::f32, {kChannels}),
        dbeta(Dtype::f32, {kChannels}) {}
};

// Rows first..last of the batch through both kernels; dgamma and dbeta are this slice's.
void run(const Batch& batch, int64_t first, int64_t last, Backend backend, Team* team, Tensor& dgamma, Tensor& dbeta) {
  const BatchNormParams params{1e-5, 1, 0};
  Tensor mean(Dtype::f32, {kChannels}), variance(Dtype::f32, {kChannels});
  const View in[] = {batch.x.rows(first, last).view(), batch.gamma.view(), batch.beta.view()};
  const View out[] = {batch.y.rows(first, last).view(), mean.view(), variance.view()};
  run_kernel(kernel("batch_norm", backend), {.in = in, .out = out, .n_in = 3, .n_out = 3, .params = &params, .team = team});
  const View back_in[] = {batch.dy.rows(first, last).view(), in[0], View{}, in[1], in[2], mean.view(), variance.view()};
  const View back_out[] = {batch.dx.rows(first, last).view(), dgamma.view(), dbeta.view()};
  run_kernel(kernel("batch_norm_grad", backend), {.in = back_in, .out = back_out, .n_in = 7, .n_out = 3, .params = &params, .team = team});
}

void expect_near(const Tensor& a, const Tensor& b, double tolerance) {
  for (int64_t i = 0; i < a.elements(); ++i) ASSERT_NEAR(a.data<float>()[i], b.data<float>()[i], tolerance) << i;
}

TEST(BatchNorm, SlicesGiveWhatTheWholeBatchGives) {
  for (const Backend backend : {Backend::ref, Backend::cpu}) {
    Batch whole(301, 2), cut(301, 2);
    run(whole, 0, 301, backend, nullptr, whole.dgamma, whole.dbeta);
    ThreadTeam threads(3);
    const int64_t borders[] = {0, 97, 200, 301};
    std::vector<Tensor> dgamma, dbeta;
    for (int i = 0; i < 3; ++i) {
      dgamma.emplace_back(Dtype::f32, Shape{kChannels});
      dbeta.emplace_back(Dtype::f32, Shape{kChannels});
    }
    threads.run([&](Team& team) {
      const auto rank = static_cast<size_t>(team.rank());
      run(cut, borders[rank], borders[rank + 1], backend, &team, dgamma[rank], dbeta[rank]);
    });
    for (int64_t c = 0; c < kChannels; ++c)
      for (size_t rank = 0; rank < 3; ++rank) {
        cut.dgamma.data<float>()[c] += dgamma[rank].data<float>()[c];
        cut.dbeta.data<float>()[c] += dbeta[rank].data<float>()[c];
      }
    expect_near(whole.y, cut.y, 1e-5);
    expect_near(whole.dx, cut.dx, 1e-5);
    expect_near(whole.dgamma, cut.dgamma, 2e-4);
    expect_near(whole.dbeta, cut.dbeta, 2e-4);
  }
}

TEST(BatchNorm, ALargeMeanCostsNoDigitsOfTheVariance) {
  Batch batch(4096, 1000);
  Tensor dgamma(Dtype::f32, {kChannels}), dbeta(Dtype::f32, {kChannels});
  run(batch, 0, 4096, Backend::cpu, nullptr, dgamma, dbeta);
  double squares = 0;  // y before relu and affine map has variance 1; with relu, look at one channel's spread where gamma > 0
  Batch reference(4096, 1000);
  run(reference, 0, 4096, Backend::ref, nullptr, dgamma, dbeta);
  for (int64_t i = 0; i < batch.y.elements(); ++i)
    squares = std::max(squares, std::abs(double{batch.y.data<float>()[i]} - double{reference.y.data<float>()[i]}));
  EXPECT_LT(squares, 5e-4);  // a float near 1000 has steps of 6e-5
}

}  // namespace
}  // namespace perigee
