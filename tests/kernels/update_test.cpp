// update_*: no graph op, so the parity test does not see them. Every fast kernel must give the bits of ref.
#include "kernels/ops/update.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/registry.h"
#include "src/graph/plan.h"

namespace perigee {
namespace {

constexpr int64_t kElements = 1037;
constexpr int kOperands = 4;  // parameter and at most three states

struct Data {
  explicit Data(unsigned seed) : gradient(kElements) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& g : gradient) g = normal(random);
    gradient[3] = 0;
    gradient[4] = -0.0f;
    gradient[5] = 1e-30f;
    for (auto& operand : operands)
      for (int64_t i = 0; i < kElements; ++i) operand.push_back(&operand == &operands[0] ? normal(random) : std::abs(normal(random)));
  }
  void run(const Kernel& kernel, const UpdateParams& params, int n_out) {
    const auto view = [](std::vector<float>& values) {
      View v;
      v.data = values.data();
      v.rank = 1;
      v.dims[0] = kElements;
      v.strides[0] = 1;
      return v;
    };
    const View in = view(gradient);
    View out[kOperands];
    for (int i = 0; i < n_out; ++i) out[i] = view(operands[i]);
    const KernelCall call{.in = &in, .out = out, .n_in = 1, .n_out = n_out, .params = &params};
    ASSERT_TRUE(!kernel.decline || !kernel.decline(call));
    kernel.run(call);
  }
  bool operator==(const Data& other) const {
    for (int i = 0; i < kOperands; ++i)
      if (std::memcmp(operands[i].data(), other.operands[i].data(), kElements * sizeof(float)) != 0) return false;
    return true;
  }
  std::vector<float> gradient, operands[kOperands];
};

std::vector<const Kernel*> updates(Backend backend) {
  std::vector<const Kernel*> found;
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (std::string(list.first[i].op).starts_with("update_") && list.first[i].backend == backend) found.push_back(&list.first[i]);
  return found;
}

TEST(Update, FastKernelsGiveTheBitsOfRef) {
  UpdateParams plain{.lr = 0.05, .gradient_scale = 0.125, .c = {0.9, 0.1, 0.999, 0.001, 1e-6, 3.7, 0.85, 0.19}};
  UpdateParams full = plain;
  full.clip_value = 0.1;
  full.l1 = 0.01;
  full.l2 = 0.02;
  full.decay = 0.003;
  size_t compared = 0;
  for (const Kernel* fast : updates(Backend::cpu)) {
    if (fast->isa > host_isa()) continue;
    for (const Kernel* ref : updates(Backend::ref)) {
      if (std::strcmp(ref->op, fast->op) != 0) continue;
      for (const UpdateParams& params : {plain, full}) {
        SCOPED_TRACE(std::string(fast->op) + " " + isa_name(fast->isa) + (params.l1 != 0 ? ", with everything" : ""));
        Data expected(5), got(5), untouched(5);
        for (int step = 0; step < 3; ++step) {
          expected.run(*ref, params, kOperands);
          got.run(*fast, params, kOperands);
        }
        EXPECT_TRUE(got == expected);
        EXPECT_FALSE(got == untouched);
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 22u);
}

}  // namespace
}  // namespace perigee
