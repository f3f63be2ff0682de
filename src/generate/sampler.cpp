#include "src/generate/sampler.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/philox.h"

namespace perigee {
namespace {

constexpr double kRemoved = -std::numeric_limits<double>::infinity();
constexpr uint64_t kStream = 0x67656E6572617465;  // "generate": apart from the draws of layers and transforms

}  // namespace

int64_t largest_score(std::span<const double> scores) { return std::max_element(scores.begin(), scores.end()) - scores.begin(); }

void log_softmax(std::span<double> scores) {
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double score : scores) sum += std::exp(score - most);
  const double shift = most + std::log(sum);
  for (double& score : scores) score -= shift;
}

void Sampler::probabilities(std::span<const double> scores) {
  probabilities_.resize(scores.size());
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) sum += probabilities_[i] = std::exp(scores[i] - most);
  for (double& probability : probabilities_) probability /= sum;
}

// order_ becomes that of rising keys; equal ones stay in the order of their numbers.
void Sampler::order_by(std::span<const double> keys) {
  order_.resize(keys.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
    const double x = keys[static_cast<size_t>(a)], y = keys[static_cast<size_t>(b)];
    return x != y ? x < y : a < b;
  });
}

double Sampler::entropy() const {
  double sum = 0;
  for (double p : probabilities_)
    if (p > 0) sum -= p * std::log(p);
  return sum;
}

// A unit that occurred several times is penalized once.
void Sampler::penalize(std::span<double> scores, std::span<const int64_t> previous) {
  seen_.assign(scores.size(), false);
  for (int64_t unit : previous) {
    if (seen_[static_cast<size_t>(unit)]) continue;
    seen_[static_cast<size_t>(unit)] = true;
    double& score = scores[static_cast<size_t>(unit)];
    score = score < 0 ? score * options_.repetition_penalty : score / options_.repetition_penalty;
  }
}

void Sampler::forbid_repeats(std::span<double> scores, std::span<const int64_t> previous) const {
  const auto before = static_cast<size_t>(options_.no_repeat - 1);
  if (previous.size() < before) return;
  const std::span<const int64_t> last = previous.subspan(previous.size() - before);
  const bool any_left = std::any_of(scores.begin(), scores.end(), [](double score) { return score != kRemoved; });
  const int64_t best = largest_score(scores);
  const double best_score = scores[static_cast<size_t>(best)];
  for (size_t i = 0; i + before < previous.size(); ++i)
    if (std::equal(last.begin(), last.end(), previous.begin() + static_cast<ptrdiff_t>(i)))
      scores[static_cast<size_t>(previous[i + before])] = kRemoved;
  const bool none_left = std::all_of(scores.begin(), scores.end(), [](double score) { return score == kRemoved; });
  if (any_left && none_left) scores[static_cast<size_t>(best)] = best_score;  // a text cannot go on without a unit
}

void Sampler::keep_top_k(std::span<double> scores) {
  const auto kept = static_cast<size_t>(options_.top_k);
  if (kept >= scores.size()) return;
  keys_.assign(scores.begin(), scores.end());
  const auto last = keys_.begin() + static_cast<ptrdiff_t>(kept - 1);
  std::nth_element(keys_.begin(), last, keys_.end(), std::greater<>());
  for (double& score : scores)
    if (score < *last) score = kRemoved;
}

void Sampler::keep_top_p(std::span<double> scores) {
  probabilities(scores);
  order_by(scores);
  double sum = 0;
  for (size_t i = 0; i + 1 < order_.size(); ++i) {  // the largest stays
    const auto unit = static_cast<size_t>(order_[i]);
    sum += probabilities_[unit];
    if (sum > 1 - options_.top_p) break;
    scores[unit] = kRemoved;
  }
}

void Sampler::keep_typical(std::span<double> scores) {
  probabilities(scores);
  const double mean = entropy();
  keys_.resize(scores.size());
  for (size_t i = 0; i < scores.size(); ++i)
    keys_[i] = probabilities_[i] > 0 ? std::abs(-std::log(probabilities_[i]) - mean) : std::numeric_limits<double>::infinity();
  order_by(keys_);
  double sum = 0, limit = keys_[static_cast<size_t>(order_.back())];
  for (int64_t unit : order_) {
    sum += probabilities_[static_cast<size_t>(unit)];
    if (sum < options_.typical_p) continue;
    limit = keys_[static_cast<size_t>(unit)];
    break;
  }
  for (size_t i = 0; i < scores.size(); ++i)
    if (keys_[i] > limit) scores[i] = kRemoved;
}

// By probabilities_; the largest stays.
void Sampler::keep_at_least(std::span<double> scores, double probability) {
  const double most = *std::max_element(scores.begin(), scores.end());
  for (size_t i = 0; i < scores.size(); ++i)
    if (probabilities_[i] < probability && scores[i] < most) scores[i] = kRemoved;
}

void Sampler::filter(std::span<double> scores, std::span<const int64_t> previous) {
  assert(!scores.empty());
  if (options_.repetition_penalty != 1) penalize(scores, previous);
  if (options_.no_repeat > 0) forbid_repeats(scores, previous);
  if (options_.temperature == 0) return;
  if (options_.temperature != 1)
    for (double& score : scores) score /= options_.temperature;
  if (options_.top_k > 0) keep_top_k(scores);
  if (options_.top_p < 1) keep_top_p(scores);
  if (options_.min_p > 0) {
    probabilities(scores);
    keep_at_least(scores, options_.min_p * *std::max_element(probabilities_.begin(), probabilities_.end()));
  }
  if (options_.typical_p < 1) keep_typical(scores);
  if (options_.epsilon > 0) {
    probabilities(scores);
    keep_at_least(scores, options_.epsilon);
  }
  if (options_.eta > 0) {
    probabilities(scores);
    keep_at_least(scores, std::min(options_.eta, std::sqrt(options_.eta) * std::exp(-entropy())));
  }
}

int64_t Sampler::draw(std::span<const double> scores, uint64_t position) {
  if (options_.temperature == 0) return largest_score(scores);
  probabilities_.resize(scores.size());
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) sum += probabilities_[i] = std::exp(scores[i] - most);
  const PhiloxBlock block = philox_for_step(philox_key(options_.seed, kStream), position, 0);
  const uint64_t bits = uint64_t{block.lane[0]} << 32 | block.lane[1];
  const double wanted = static_cast<double>(bits >> 11) * 0x1p-53 * sum;
  double below = 0;
  int64_t last = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (probabilities_[i] == 0) continue;
    below += probabilities_[i];
    last = static_cast<int64_t>(i);
    if (wanted < below) break;
  }
  return last;
}

}  // namespace perigee
