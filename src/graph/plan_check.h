// Runs every kernel of a plan beside the reference kernel on the same operands and compares: `--device check:cpu,ref`, and for a device's
// (src/train/device/device_check.h) `check:cuda,ref`. Slow; finds which kernel is wrong on the very data that it is wrong on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/graph/plan.h"

namespace perigee {

class PlanChecker {
 public:
  // Sums of thousands of float32 products in another order differ by this much of the largest result.
  static constexpr double kTolerance = 2e-4;

  // `tolerance`: of results in f32; what is stored in fewer or more digits has its own.
  explicit PlanChecker(const Plan& plan, double tolerance = kTolerance);

  // Around a step's kernel. `before` computes the reference result, because the kernel may overwrite its operands.
  void before(size_t step, const KernelCall& call);
  void after(size_t step, const KernelCall& call);

  // The first disagreement: layer, op, kernel, how far; empty while all agree.
  const std::string& failure() const { return failure_; }
  // The steps that run without a comparison because no reference kernel takes them, and why; empty: there are none.
  const std::string& unchecked() const { return unchecked_; }

 private:
  struct Shadow {
    const Kernel* reference = nullptr;  // null: the step runs it anyway
    std::vector<Storage> outputs;
    std::vector<View> views;
    Storage scratch{0};
  };
  void note_unchecked(const PlanStep& step, const KernelCall& call);

  const Plan& plan_;
  const double tolerance_;
  std::vector<Shadow> shadows_;
  std::string failure_, unchecked_;
};

bool all_finite(const View& view);  // of the host, dense; integers always are

}  // namespace perigee
