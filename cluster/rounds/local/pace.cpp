#include "cluster/rounds/local/pace.h"

#include <algorithm>
#include <cmath>

#include "cluster/planted.h"

namespace perigee {
namespace {

constexpr double kFresh = 0.5;      // share of the newest measurement in a smoothed one
constexpr int64_t kMostFactor = 2;  // from one round to the next
constexpr double kLongest_s = 1e6;  // of anything measured

bool is_time(double seconds) { return seconds >= 0 && seconds <= kLongest_s; }  // no NaN

double smoothed(double before, double now) { return before < 0 ? now : before + kFresh * (now - before); }

}  // namespace

Pace::Pace(const Policy& policy)
    : options_(policy.pace),
      every_(std::max<int64_t>(1, policy.every)),
      most_(policy.pace.automatic ? policy.pace.most : every_),
      fragments_(policy.fragments) {}

void Pace::set_every(int64_t every) {
  every_ = most_ = std::max<int64_t>(1, every);
  options_.automatic = false;
  set_ = true;
}

void Pace::on_steps(WorkerId id, int64_t steps, double seconds) {
  if (steps <= 0 || !is_time(seconds) || seconds == 0) return;
  const auto [found, fresh] = step_s_.try_emplace(id, -1);
  found->second = smoothed(found->second, seconds / static_cast<double>(steps));
}

// By speed all are as long at it as the fastest with `every` steps; else the slowest keeps the others waiting.
double Pace::step_s() const {
  if (step_s_.empty()) return -1;
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  return options_.by_speed ? std::min_element(step_s_.begin(), step_s_.end(), less)->second
                           : std::max_element(step_s_.begin(), step_s_.end(), less)->second;
}

int64_t Pace::steps(WorkerId id) const {
  const auto own = step_s_.find(id);
  if (!options_.by_speed || own == step_s_.end()) return std::max<int64_t>(1, every_ / fragments_);
  const double share = step_s() / own->second;
  return std::clamp<int64_t>(static_cast<int64_t>(std::floor(share * static_cast<double>(every_) + 1e-6)), 1, every_);
}

void Pace::on_round(std::span<const RoundTimes> times, bool apart) {
  double training_s = 0, all_s = 0, beside_s = -1;
  for (const RoundTimes& t : times) {
    if (t.steps <= 0 || !is_time(t.training_s) || !is_time(t.beside_s)) continue;
    training_s += t.training_s, all_s += t.training_s + t.beside_s;
    // The last to be ready does not wait: what it needs beside training is the round's own.
    beside_s = beside_s < 0 ? t.beside_s : std::min(beside_s, t.beside_s);
  }
  if (beside_s < 0 || all_s <= 0) return;
  measured_ = training_s / all_s;
  beside_s_ = smoothed(beside_s_, beside_s);
  if (!options_.automatic || step_s() <= 0) return;
  most_ = apart ? std::max(options_.least, std::min(most_, every_) / kMostFactor) : std::min(options_.most, most_ * kMostFactor);
  const double wanted =
      std::ceil(options_.utilisation / (1 - options_.utilisation) * beside_s_ / step_s() * (1 - 1e-9));  // 8 is not 8.0000001
  const int64_t low = std::max(options_.least, every_ / kMostFactor), high = std::max(low, std::min(most_, every_ * kMostFactor));
  every_ = planted(Bug::pace_unbounded) ? static_cast<int64_t>(std::min(wanted, 1e6))
                                        : static_cast<int64_t>(std::clamp(wanted, static_cast<double>(low), static_cast<double>(high)));
}

}  // namespace perigee
