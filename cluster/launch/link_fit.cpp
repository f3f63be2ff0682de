#include "cluster/launch/link_fit.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace perigee {
namespace {

constexpr double kFair = 0.5, kGood = 0.8;  // shares of the time for training: below the first is warned, the second is what is advised
constexpr double kShortS = 0.3;             // an exchange as short as this may wait for processes rather than for a link
constexpr double kLongRound = 50;           // steps; policies with an outer momentum are made for rounds as long
constexpr int64_t kRounds = 3, kLeastRounds = 2;  // in the first a worker may wait for another's first step, which tunes and compiles
constexpr double kLongExchange = 2;               // seconds: with as much of them fewer rounds are enough
constexpr double kInt4Share = 1.0 / 7.5;          // of float32, with the blocks' scales

// Two digits, upwards: nobody wants to read more.
double rounded_up(double steps) {
  const double unit = std::pow(10.0, std::max(0.0, std::floor(std::log10(std::max(1.0, steps))) - 1));
  return std::ceil(steps / unit - 1e-9) * unit;
}

bool positive(double value) { return std::isfinite(value) && value > 0; }

}  // namespace

double ExchangeCost::training_share() const { return train_s + transfer_s > 0 ? train_s / (train_s + transfer_s) : 1; }
bool ExchangeCost::fits() const { return transfer_s < kShortS || training_share() >= kFair; }

Json ExchangeCost::to_json() const {
  return Json(Json::Object{{"train_s", train_s},
                           {"steps", steps},
                           {"transfer_s", transfer_s},
                           {"sent_bytes", sent_bytes},
                           {"block_bytes", block_bytes},
                           {"workers", workers}});
}

std::optional<ExchangeCost> read_exchange_cost(const Json& json) {
  const auto number = [&](const char* key) {
    const Json* value = json.is_object() ? json.find(key) : nullptr;
    return value && value->is_number() ? value->as_number() : 0;
  };
  const double steps = number("steps"), workers = number("workers");
  const ExchangeCost cost{.train_s = number("train_s"),
                          .steps = steps >= 1 && steps < 1e15 ? static_cast<int64_t>(steps) : 0,
                          .transfer_s = number("transfer_s"),
                          .sent_bytes = number("sent_bytes"),
                          .block_bytes = number("block_bytes"),
                          .workers = workers >= 1 && workers < 1e6 ? static_cast<int>(workers) : 0};
  const bool sound = positive(cost.train_s) && positive(cost.transfer_s) && positive(cost.sent_bytes) && positive(cost.block_bytes) &&
                     cost.steps > 0 && cost.workers > 0;
  return sound ? std::optional(cost) : std::nullopt;
}

std::string policy_that_fits(const ExchangeCost& cost) {
  const double step_s = cost.train_s / static_cast<double>(cost.steps), byte_s = cost.transfer_s / cost.sent_bytes,
               others = cost.workers - 1;
  const auto every = [&](double bytes) { return rounded_up(std::max(1.0, kGood / (1 - kGood) * bytes * byte_s / step_s)); };
  // Sums go to each other worker and come back in parts; what a codec makes goes to each of them whole.
  const double dense = every(2 * others / cost.workers * cost.block_bytes), coded = every(others * kInt4Share * cost.block_bytes);
  char text[96];
  if (dense <= kLongRound) std::snprintf(text, sizeof text, "periodic { every = %.0f }", dense);
  else std::snprintf(text, sizeof text, "%s { every = %.0f, codec = \"int4\" }", coded <= kLongRound ? "periodic" : "diloco", coded);
  return text;
}

std::string why_not_fit(const std::string& policy, const ExchangeCost& cost) {
  char text[400];
  std::snprintf(text, sizeof text,
                "averaging '%s' does not fit the link: for %.3g s of training (%lld steps) a worker sends %.3g MB in %.3g s (%.3g Mbit/s), "
                "so that %.0f %% of its time is left for training; pg.averaging.%s would leave about %.0f %%",
                policy.c_str(), cost.train_s, static_cast<long long>(cost.steps), cost.sent_bytes * 1e-6, cost.transfer_s,
                cost.sent_bytes * 8e-6 / cost.transfer_s, 100 * cost.training_share(), policy_that_fits(cost).c_str(), 100 * kGood);
  return text;
}

bool LinkWatch::add(double train_s, double transfer_s, double sent_bytes, double examples, int workers) {
  const double each = 1.0 / workers;
  ++rounds_;
  examples_ += examples * each;
  sums_.train_s += train_s * each;
  sums_.transfer_s += transfer_s * each;
  quickest_s_ = rounds_ == 1 ? transfer_s * each : std::min(quickest_s_, transfer_s * each);
  sums_.sent_bytes += sent_bytes * each;
  sums_.workers = workers;
  if (told_ || rounds_ < kLeastRounds || (rounds_ < kRounds && sums_.transfer_s < kLongExchange)) return false;
  const ExchangeCost mean = cost();
  told_ = !mean.fits() && mean.sent_bytes > 0 && mean.train_s > 0;
  return told_;
}

ExchangeCost LinkWatch::cost() const {
  ExchangeCost mean = sums_;
  const auto rounds = static_cast<double>(std::max<int64_t>(1, rounds_));
  mean.train_s /= rounds, mean.sent_bytes /= rounds;
  mean.transfer_s = quickest_s_;
  mean.steps = std::max<int64_t>(1, static_cast<int64_t>(examples_ / rounds / static_cast<double>(std::max<int64_t>(1, batch_)) + 0.5));
  mean.block_bytes = block_bytes_;
  return mean;
}

}  // namespace perigee
