#include "src/train/batch_statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/core/warning.h"
#include "src/data/streams.h"
#include "src/train/trainer.h"

namespace perigee {
namespace {

using Values = std::vector<double>;

double at(const std::byte* from, Dtype dtype, size_t i) {
  return dtype == Dtype::f64 ? reinterpret_cast<const double*>(from)[i] : static_cast<double>(reinterpret_cast<const float*>(from)[i]);
}

void put(double value, Dtype dtype, size_t i, std::byte* to) {
  if (dtype == Dtype::f64) reinterpret_cast<double*>(to)[i] = value;
  else reinterpret_cast<float*>(to)[i] = static_cast<float>(value);
}

// One pair of states. A step turns moments into keep * old + (1 - keep) * batch, those of a mixture, where a layer that is called several times
// has done so as often. From a fixed old value and the new one follow the moments of the batch.
class Pair {
 public:
  Pair(const Params& params, int mean, int variance)
      : dtype_(params.state_specs()[static_cast<size_t>(mean)].dtype),
        mean_at_(params.state_offset(mean)),
        variance_at_(params.state_offset(variance)) {
    const auto elements = static_cast<size_t>(params.state_specs()[static_cast<size_t>(mean)].shape.elements());
    const std::span<const std::byte> states = params.state_bytes();
    for (size_t i = 0; i < elements; ++i) {
      old_mean_.push_back(at(states.data() + mean_at_, dtype_, i));
      scale_.push_back(std::max(1e-6, at(states.data() + variance_at_, dtype_, i)));
    }
    with_old_ = without_old_ = mean_sum_ = variance_sum_ = Values(elements);
  }

  // The value before a step: the old mean, and no variance or that of the averaged statistics.
  void reset(std::span<std::byte> states, bool with_variance) const {
    for (size_t i = 0; i < old_mean_.size(); ++i) {
      put(old_mean_[i], dtype_, i, states.data() + mean_at_);
      put(with_variance ? scale_[i] : 0, dtype_, i, states.data() + variance_at_);
    }
  }

  // After two steps on the same batch, with and without the old variance: what of it is left.
  void probe(std::span<const std::byte> states, bool with_variance) {
    Values& to = with_variance ? with_old_ : without_old_;
    for (size_t i = 0; i < to.size(); ++i) to[i] = at(states.data() + variance_at_, dtype_, i);
    double left = 0, all = 0;
    for (size_t i = 0; i < to.size(); ++i) left += with_old_[i] - without_old_[i], all += scale_[i];
    keep_ = left / all;
  }
  bool updated() const { return std::isfinite(keep_) && keep_ < 1 - 1e-5; }  // else the job keeps the statistics as they are

  // From now on the old mean is that of the batch. One that is far from it, as after few steps, takes the variance's digits.
  void recenter(std::span<const std::byte> states) {
    if (!updated()) return;
    for (size_t i = 0; i < old_mean_.size(); ++i) old_mean_[i] += (at(states.data() + mean_at_, dtype_, i) - old_mean_[i]) / (1 - keep_);
  }

  // `share`: of the batch's examples among all so far.
  void add(std::span<const std::byte> states, double share) {
    for (size_t i = 0; i < mean_sum_.size(); ++i) {
      const double moved = (at(states.data() + mean_at_, dtype_, i) - old_mean_[i]) / (1 - keep_);
      const double variance = at(states.data() + variance_at_, dtype_, i) / (1 - keep_) - keep_ * moved * moved;
      const double apart = moved - mean_sum_[i];  // both from the old mean
      mean_sum_[i] += share * apart;
      variance_sum_[i] = (1 - share) * variance_sum_[i] + share * std::max(0.0, variance) + share * (1 - share) * apart * apart;
    }
  }

  void write(std::span<std::byte> states) const {
    for (size_t i = 0; i < mean_sum_.size(); ++i) {
      put(old_mean_[i] + mean_sum_[i], dtype_, i, states.data() + mean_at_);
      put(variance_sum_[i], dtype_, i, states.data() + variance_at_);
    }
  }

  bool finite() const {
    return std::ranges::all_of(mean_sum_, [](double x) { return std::isfinite(x); }) &&
           std::ranges::all_of(variance_sum_, [](double x) { return std::isfinite(x); });
  }

 private:
  Dtype dtype_;
  size_t mean_at_, variance_at_;
  Values old_mean_, scale_;  // of the averaged statistics
  Values with_old_, without_old_;
  Values mean_sum_, variance_sum_;
  double keep_ = 0;
};

std::vector<Pair> pairs_of(const Params& params) {
  std::vector<Pair> pairs;
  const std::vector<StateSpec>& specs = params.state_specs();
  for (size_t i = 0; i < specs.size(); ++i)
    if (!specs[i].mean.empty() && !specs[i].frozen) pairs.emplace_back(params, params.find_state(specs[i].mean), static_cast<int>(i));
  return pairs;
}

class Pass {
 public:
  Pass(Trainer& trainer, const std::atomic<bool>* stop)
      : trainer_(trainer), stop_(stop), gradient_(trainer.shape().params().block_bytes()), pairs_(pairs_of(trainer.model().params())) {
    const std::span<const std::byte> states = std::as_const(trainer_).states();
    before_.assign(states.begin(), states.end());
  }

  bool any() const { return !pairs_.empty(); }

  // False when it was stopped, or came upon what is not finite.
  bool run() {
    const int64_t size = trainer_.train_source().size(), each = trainer_.batch_at_once();
    Loader& loader = trainer_.loader();
    loader.clear_list();
    for (int64_t begin = 0; begin < size; begin += each) {
      const int64_t count = std::min(each, size - begin);
      loader.list({.epoch = 0, .position = begin, .size = count});
      const Batch& batch = loader.next();
      if (begin == 0) {
        if (!probe(batch)) return false;
        for (Pair& pair : pairs_) pair.recenter(std::as_const(trainer_).states());
        if (!probe(batch)) return false;
      } else if (!step(batch, false)) {
        return false;
      }
      for (Pair& pair : pairs_) pair.add(std::as_const(trainer_).states(), static_cast<double>(count) / static_cast<double>(begin + count));
    }
    return std::ranges::all_of(pairs_, [](const Pair& pair) { return !pair.updated() || pair.finite(); });
  }

  void finish(bool done) {
    const std::span<std::byte> states = trainer_.states();
    std::ranges::copy(before_, states.begin());
    if (done)
      for (const Pair& pair : pairs_)
        if (pair.updated()) pair.write(states);
    trainer_.loader().seek(trainer_.position().epoch, trainer_.position().position);
  }

 private:
  bool step(const Batch& batch, bool with_variance) {
    for (const Pair& pair : pairs_) pair.reset(trainer_.states(), with_variance);
    const GradientReport report = trainer_.sum_gradient(batch, {.to = gradient_.data()}, stop_);
    if (report.cancelled || (stop_ && *stop_)) return false;
    trainer_.commit_states();
    return true;
  }

  // The statistics are then those after a step without the old variance.
  bool probe(const Batch& batch) {
    for (const bool with_variance : {true, false}) {
      if (!step(batch, with_variance)) return false;
      for (Pair& pair : pairs_) pair.probe(std::as_const(trainer_).states(), with_variance);
    }
    return true;
  }

  Trainer& trainer_;
  const std::atomic<bool>* stop_;
  Storage gradient_;  // of no use
  std::vector<std::byte> before_;
  std::vector<Pair> pairs_;
};

}  // namespace

bool refresh_statistics(Trainer& trainer, const std::atomic<bool>* stop) {
  const DataSource& source = trainer.train_source();
  const Json* wanted = trainer.job().json().find("swa");
  if (!trainer.averaged() || !wanted || wanted->is_null() || source.traits().live || streams_of(source) > 0) return false;
  const Trainer::InUse in_use(trainer);
  Pass pass(trainer, stop);
  if (!pass.any()) return false;
  bool done = false;
  try {
    done = pass.run();
  } catch (const Error&) {
    pass.finish(false);
    throw;
  }
  pass.finish(done);
  if (!done && !(stop && *stop))
    warn("swa: the statistics of batch norm are not finite with the averaged weights; the model keeps those of the steps");
  return done;
}

}  // namespace perigee
