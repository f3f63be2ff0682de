// Linear algebra on a GPU (tests/cuda/linalg_trial.h), of sizes that the host is too slow for as well. Results are the same each time.
#include <cstring>

#include "tests/cuda/linalg_trial.h"
#include "tests/gpu/gpu_site.h"

namespace perigee::linalg {
namespace {

class GpuTrial : public LinalgTrial {
 public:
  explicit GpuTrial(GpuSite& site) : LinalgTrial(site, site.gpu.module().kernels()) {}
  Batches run(const std::string& op, const Batches& in, const Batches& out, const Setting& setting) override {
    Batches first = LinalgTrial::run(op, in, out, setting), again = LinalgTrial::run(op, in, out, setting);
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_EQ(std::memcmp(first[i].numbers.data(), again[i].numbers.data(), first[i].numbers.size() * sizeof(double)), 0) << op;
    return first;
  }
};

TEST(GpuLinalg, MeetsWhatDefinesIt) {
  PERIGEE_SKIP_WITHOUT_GPU();
  GpuSite site;
  GpuTrial trial(site);
  const std::vector<int64_t> sizes = in_brief() ? std::vector<int64_t>{1, 3, 33} : std::vector<int64_t>{1, 2, 3, 17, 32, 33, 65, 133, 200};
  for (const int64_t n : sizes)
    for (const Dtype dtype : {Dtype::f64, Dtype::f32}) check_all(trial, n < 40 ? 3 : 1, n, {dtype, Layout::padded});
  check_svd(trial, drawn(2, 34, 7), {});
  check_svd(trial, drawn(2, 7, 34), {});
  check_equal_values_and_zeros(trial);
  check_ends_of_the_range(trial);
  for (const int64_t n : {3, 40, 133})
    if (n < 40 || !in_brief()) check_what_has_no_result(trial, n);
  if (in_brief()) return;
  check_inv(trial, drawn(2200, 4, 4), {});
  check_svd(trial, drawn(2200, 4, 4), {});
  check_eigh(trial, drawn(300, 48, 48), {});
}

}  // namespace
}  // namespace perigee::linalg
