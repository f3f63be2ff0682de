#include "kernels/ops/random.h"

#include <cmath>
#include <numbers>

#include "kernels/philox.h"
#include "kernels/ref/strided.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

struct Uniform {
  static double draw(const PhiloxBlock& block, int lane) { return uniform_from_bits(block.lane[lane]); }
};

struct Normal {
  static double draw(const PhiloxBlock& block, int lane) {
    const int pair = lane & ~1;
    const double radius = std::sqrt(-2.0 * std::log(1.0 - double{uniform_from_bits(block.lane[pair])}));
    const double angle = 2.0 * std::numbers::pi * double{uniform_from_bits(block.lane[pair + 1])};
    return radius * (lane & 1 ? std::sin(angle) : std::cos(angle));
  }
};

template <class Rule>
void run_random(const KernelCall& call) {
  const View& out = call.out[0];
  const auto& params = call.as<RandomParams>();
  const StepInfo step = call.step ? *call.step : StepInfo{};
  const PhiloxKey key = philox_key(step.seed, params.stream);
  int64_t element = 0, row = 0;
  for_each_index(out.rank, out.dims, [&](const int64_t* index) {
    if (params.per_example && index[0] != row) {
      row = index[0];
      element = 0;
    }
    const uint32_t number = static_cast<uint32_t>(element / 4);
    const uint64_t example = static_cast<uint64_t>(step.example_ids ? step.example_ids[row] : row);
    const PhiloxBlock block =
        params.per_example ? philox_for_example(key, step.epoch, example, number) : philox_for_step(key, step.step, number);
    const double x = Rule::draw(block, static_cast<int>(element % 4));
    // One rounding to f32 each, so that every backend can give the same bits.
    const float scaled = static_cast<float>(params.scale) * static_cast<float>(x);
    store_as<float>(out, offset_of(out, index), static_cast<float>(params.offset) + scaled);
    ++element;
  });
}

constexpr Kernel kRandomKernels[] = {{.op = "random_uniform", .name = "ref", .run = run_random<Uniform>},
                                     {.op = "random_normal", .name = "ref", .run = run_random<Normal>}};

}  // namespace

extern const KernelList kernels_ref_random;
const KernelList kernels_ref_random = kernel_list(kRandomKernels);

}  // namespace perigee
