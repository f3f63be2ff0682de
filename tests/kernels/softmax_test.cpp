// Cross entropy at its edges: classes that do not exist, logits that overflow exp.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "kernels/ops/softmax.h"
#include "src/graph/plan.h"
#include "tests/graph/interpreter.h"

namespace perigee {
namespace {

// Runs every kernel of `op` that takes the call.
template <class F>
void each_kernel(std::string_view op, const KernelCall& call, F check) {
  int ran = 0;
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i) {
      const Kernel& kernel = list.first[i];
      if (op != kernel.op || kernel.backend == Backend::cuda || kernel.isa > host_isa() || (kernel.decline && kernel.decline(call)))
        continue;
      SCOPED_TRACE(std::string(kernel.op) + " " + kernel.name + " " + isa_name(kernel.isa));
      run_kernel(kernel, call);
      check();
      ++ran;
    }
  EXPECT_GE(ran, 2);
}

struct Batch {
  Tensor logits, labels, grads, losses, slopes;
  CrossEntropyParams params{0};
  View in[3], out[1];

  // Two examples of three classes; `inner` positions each.
  explicit Batch(int64_t inner)
      : logits(Dtype::f32, inner == 1 ? Shape{2, 3} : Shape{2, 3, inner}),
        labels(Dtype::i64, inner == 1 ? Shape{2} : Shape{2, inner}),
        grads(Dtype::f32, labels.shape()),
        losses(Dtype::f32, labels.shape()),
        slopes(Dtype::f32, logits.shape()) {
    for (int64_t i = 0; i < grads.elements(); ++i) grads.data<float>()[i] = 1;
  }

  KernelCall loss() {
    in[0] = logits.view(), in[1] = labels.view(), out[0] = losses.view();
    return {.in = in, .out = out, .n_in = 2, .n_out = 1, .params = &params};
  }
  KernelCall gradient() {
    in[0] = logits.view(), in[1] = labels.view(), in[2] = grads.view(), out[0] = slopes.view();
    return {.in = in, .out = out, .n_in = 3, .n_out = 1, .params = &params};
  }
};

TEST(CrossEntropy, AClassOutOfRangeGivesNan) {
  for (const int64_t inner : {1, 5})
    for (const int64_t wrong : {-1, 3, 1 << 20}) {
      Batch batch(inner);
      batch.labels.data<int64_t>()[0] = wrong;
      each_kernel("cross_entropy", batch.loss(), [&] {
        EXPECT_TRUE(std::isnan(batch.losses.data<float>()[0]));
        EXPECT_NEAR(batch.losses.data<float>()[1], std::log(3.0), 1e-6);
      });
      each_kernel("cross_entropy_grad", batch.gradient(), [&] {
        EXPECT_TRUE(std::isnan(batch.slopes.data<float>()[0]));
        EXPECT_NEAR(batch.slopes.data<float>()[batch.slopes.elements() - 1], 1.0 / 3, 1e-6);
      });
    }
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  for (const int64_t inner : {1, 5}) {
    Batch batch(inner);
    batch.logits.data<float>()[0] = 500;
    batch.logits.data<float>()[inner] = -500;
    batch.labels.data<int64_t>()[0] = 1;
    each_kernel("cross_entropy", batch.loss(), [&] { EXPECT_NEAR(batch.losses.data<float>()[0], 1000, 1e-3); });
    each_kernel("cross_entropy_grad", batch.gradient(), [&] {
      EXPECT_NEAR(batch.slopes.data<float>()[0], 1, 1e-6);
      EXPECT_NEAR(batch.slopes.data<float>()[inner], -1, 1e-6);
    });
  }
}

}  // namespace
}  // namespace perigee
