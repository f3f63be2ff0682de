#include "src/train/weight_average.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/block_math.h"
#include "kernels/dtype_kinds.h"
#include "src/job/job_schema.h"

namespace perigee {
namespace {

// By default the last quarter of the epochs counts for "swa".
int64_t first_epoch(const Config& job, const Config& options) {
  const int64_t epochs = job.has("epochs") || !job.has("steps") ? job.integer("epochs", 1) : 0, given = options.integer("from_epoch");
  if (given == 0 && epochs == 0)
    options.fail("from_epoch", "is the last quarter of the epochs by default, and the job does not say how many there are", "",
                 "the number of an epoch", "for example from_epoch = 10");
  if (epochs > 0 && given > epochs)
    options.fail("from_epoch", "comes after the last epoch", std::to_string(given), "at most " + std::to_string(epochs));
  return given > 0 ? given : epochs * 3 / 4 + 1;
}

}  // namespace

std::unique_ptr<WeightAverage> WeightAverage::of(const Job& of, const Params& params) {
  const Config job(of.json(), of.where());
  const auto given = [&](const char* key) {
    const Json* found = job.raw(key);
    return found && !found->is_null();
  };
  const bool ema = given("ema"), swa = given("swa");
  if (ema && swa) job.fail("swa", "and 'ema' are two averages of the same weights", "both", "one of them");
  if (!ema && !swa) return nullptr;
  const Config options = job.object(ema ? "ema" : "swa").with(ema ? ema_schema : swa_schema);
  const int64_t first = ema ? options.integer("from_step") : first_epoch(job, options);
  return std::make_unique<WeightAverage>(params, options, swa, first);
}

WeightAverage::WeightAverage(const Params& params, const Config& options, bool epochwise, int64_t first)
    : epochwise_(epochwise), first_(first), parameters_(params.block_bytes()), states_(params.state_bytes().size()) {
  std::memset(parameters_.data(), 0, parameters_.bytes());  // gaps stay zero
  if (states_.bytes() > 0) std::memset(states_.data(), 0, states_.bytes());
  if (epochwise_) return;
  decay_ = options.number("decay");
  every_ = options.integer("every");
}

bool WeightAverage::counts(int64_t step, int64_t epoch, bool epoch_ends) const {
  if (epochwise_) return epoch_ends && epoch >= first_;
  return step >= first_ && (step - first_) % every_ == 0;
}

double WeightAverage::next_share() {
  const double share = count_ == 0 ? 1 : epochwise_ ? 1 / static_cast<double>(count_ + 1) : 1 - decay_;
  ++count_;
  return share;
}

void WeightAverage::add(const Params& params, ThreadTeam& team) {
  const double share = next_share();
  const BlockMath& math = block_math(params.dtype());
  team.run([&](Team& of) {
    const int64_t elements = params.block_elements(), begin = elements * of.rank() / of.size(),
                  end = elements * (of.rank() + 1) / of.size();
    const size_t at = static_cast<size_t>(begin) * params.width(), bytes = static_cast<size_t>(end - begin) * params.width();
    if (share == 1) std::memcpy(parameters_.data() + at, params.block() + at, bytes);
    else math.approach(params.block() + at, share, end - begin, parameters_.data() + at);
  });
  for (size_t i = 0; i < params.state_specs().size(); ++i) {
    const StateSpec& spec = params.state_specs()[i];
    const size_t at = params.state_offset(static_cast<int>(i));
    const std::byte* const now = params.state_bytes().data() + at;
    const int64_t elements = spec.shape.elements();
    if (share == 1 || !is_floating(spec.dtype))
      std::memcpy(states_.data() + at, now, static_cast<size_t>(elements) * dtype_bytes(spec.dtype));
    else block_math(spec.dtype).approach(now, share, elements, states_.data() + at);
  }
}

void WeightAverage::exchange(Params& params) {
  assert(ready());
  std::swap_ranges(parameters_.data(), parameters_.data() + parameters_.bytes(), params.block());
  std::swap_ranges(states_.data(), states_.data() + states_.bytes(), params.state_bytes().data());
}

}  // namespace perigee
