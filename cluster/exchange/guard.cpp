#include "cluster/exchange/guard.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "cluster/planted.h"

namespace perigee {
namespace {

constexpr size_t kRecent = 64;      // contributions that are remembered ...
constexpr size_t kLeastRecent = 8;  // ... of which there must be so many before one is judged by them alone
constexpr double kApart = 1.25;     // times sqrt(workers) ...
constexpr int kApartRounds = 3;     // ... in a row

// Limits of divergence, set between runs of the character model that end well and those that do not: cluster/POLICIES.md, "Guards".
constexpr double kJudged = 0.8;      // share of a run after which nothing is gained by stopping it
constexpr double kSmoothing = 0.01;  // share of a run over which the loss is smoothed
constexpr double kLostGain = 0.5;    // of what the loss had come down by
constexpr double kScatterShare = 0.05;
constexpr int64_t kCalmRounds = 8;     // before which too few steps are known
constexpr double kChance = 10;         // standard deviations of the smoothed loss, which no run of luck makes
constexpr double kHighLossFor = 0.02;  // share of a run
constexpr int64_t kLeastRounds = 5;    // in a row
constexpr size_t kChanges = 8;         // rounds whose changes the residual is held against
constexpr double kHeldBack = 4.5;      // (gain - 1) * residual / change, by worker
constexpr double kParameterGrowth = 100;
constexpr size_t kRemembered = 64;  // rounds to which it can go back

bool known(double norm) { return norm >= 0 && std::isfinite(norm); }

// A change scaled to equal steps: local steps go straight ahead, or each its own way, which makes the change grow with the steps or with
// their root. Between the two a worker with ten times the steps of another is wrong by less than a factor of two.
double per_step(const ChangeSize& c) { return c.norms.change / std::pow(static_cast<double>(std::max<int64_t>(1, c.steps)), 0.75); }

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

// Earlier sizes to compare a worker with are those of others: it may have made its own while it was alone.
std::vector<double> Guard::recent_of_others(WorkerId id) const {
  std::vector<double> sizes;
  for (const auto& [whose, size] : recent_)
    if (whose != id) sizes.push_back(size);
  return sizes;
}

// When all of a round are larger than those before (a learning rate that warms up), none of them is outlying. Nor is a worker alone.
std::vector<Outlier> Guard::outlying(std::span<const ChangeSize> ready) const {
  std::vector<double> sizes;
  for (const ChangeSize& c : ready)
    if (c.steps > 0 && known(c.norms.change)) sizes.push_back(per_step(c));
  if (options_.outlier <= 0 || sizes.size() < 2) return {};
  const double present = lower_median(sizes);
  std::vector<Outlier> outliers;
  for (const ChangeSize& c : ready) {
    if (c.steps <= 0 || !known(c.norms.change)) continue;
    std::vector<double> before = recent_of_others(c.id);
    const bool many = before.size() >= kLeastRecent;
    if (sizes.size() < 3 && !many) continue;
    const double median = many ? std::max(present, lower_median(std::move(before))) : present;
    // A learning rate that begins with 0: any change is far above it.
    if (median == 0 || per_step(c) <= options_.outlier * median) continue;
    outliers.push_back({.id = c.id, .size = c.norms.change, .median = median * c.norms.change / per_step(c)});
  }
  return outliers;
}

void Guard::on_begin(std::span<const ChangeSize> taken) {
  const int before = taken_;
  const double change_before = means_.change;
  double examples = 0, change = 0, residual = 0;
  bool all_known = true, residual_known = true;
  means_ = {}, taken_ = 0;
  for (const ChangeSize& c : taken) {
    if (known(c.norms.merged)) means_.merged = std::max(means_.merged, c.norms.merged);
    if (known(c.norms.parameters)) means_.parameters = std::max(means_.parameters, c.norms.parameters);
    if (c.steps <= 0 || c.examples <= 0) continue;
    const auto weight = static_cast<double>(c.examples);
    ++taken_, examples += weight;
    change += weight * c.norms.change, residual += weight * c.norms.residual;
    all_known = all_known && known(c.norms.change);
    residual_known = residual_known && known(c.norms.residual);
    if (!known(c.norms.change)) continue;
    recent_.emplace_back(c.id, per_step(c));
    if (recent_.size() > kRecent) recent_.pop_front();
  }
  if (examples > 0 && all_known) means_.change = change / examples;
  if (examples > 0 && residual_known) means_.residual = residual / examples;
  divergence_ = before > 1 && change_before > 0 && means_.merged > 0 ? change_before / means_.merged : -1;
  apart_rounds_ = divergence_ > kApart * std::sqrt(static_cast<double>(std::max(1, before))) ? apart_rounds_ + 1 : 0;
  apart_ = apart_rounds_ >= kApartRounds;
  if (means_.change >= 0) changes_.push_back(means_.change);
  if (changes_.size() > kChanges) changes_.pop_front();
}

std::string Guard::on_round(const RoundHealth& health) {
  if (!options_.divergence) return "";
  std::string why = judge_loss(health);
  if (why.empty()) why = judge_residual(health);
  if (why.empty()) why = judge_parameters(health);
  remember(health.round);
  return health.progress > kJudged ? "" : why;
}

// By how much it scatters from round to round is known from its steps, whatever it falls or rises by in the long run; that of its best time
// counts, as a run that diverges scatters ever more.
void Guard::smooth_loss(double loss, double share) {
  const double step = loss - now_.last_loss;
  now_.last_loss = loss;
  ++now_.scattered;
  now_.scatter += std::max(kScatterShare, 1 / static_cast<double>(now_.scattered)) * (step * step / 2 - now_.scatter);
  now_.loss += share * (loss - now_.loss);
  if (now_.loss < now_.best_loss || now_.scattered <= kCalmRounds) now_.calm_scatter = now_.scatter;
  now_.best_loss = std::min(now_.best_loss, now_.loss);
}

// Without the beginning of a run it is not known how much there is to lose. The loss of a run that learns nothing comes down by chance alone,
// and goes back up by chance.
std::string Guard::judge_loss(const RoundHealth& health) {
  const double step = now_.progress < 0 ? 0 : std::max(0.0, health.progress - now_.progress);
  now_.progress = health.progress;
  if (!std::isfinite(health.loss)) return "";  // left out, or about to be
  if (now_.loss < 0) {
    now_.loss = now_.best_loss = now_.last_loss = health.loss;
    if (health.progress <= 0.1) now_.first_loss = health.loss;
    return "";
  }
  const double share = std::clamp(step / kSmoothing, 0.05, 0.5);
  smooth_loss(health.loss, share);
  const double chance = planted(Bug::chance_is_divergence) ? 0 : kChance * std::sqrt(now_.calm_scatter * share / (2 - share));
  if (now_.first_loss < 0 || now_.best_loss >= now_.first_loss ||
      now_.loss <= now_.best_loss + std::max(chance, kLostGain * (now_.first_loss - now_.best_loss))) {
    high_loss_since_ = -1;
    return "";
  }
  if (high_loss_since_ < 0) high_loss_since_ = health.round, high_loss_at_ = health.progress;
  // One worker's loss says little of the others, whose first contributions all come from where the run began.
  if (health.round - high_loss_since_ < std::max<int64_t>(kLeastRounds, 2 * health.turns) || health.progress - high_loss_at_ < kHighLossFor)
    return "";
  return "since round " + std::to_string(high_loss_since_) + " the training loss is " + text_of(now_.loss) + ", after " +
         text_of(now_.best_loss) + " at best and " + text_of(now_.first_loss) + " at first";
}

// Error feedback sends late what it holds back; an outer momentum adds to what was sent long ago. Together they overshoot: a residual of R
// rounds' changes under a gain of G does when (G - 1) R is some times the number of workers.
std::string Guard::judge_residual(const RoundHealth& health) {
  const bool full = changes_.size() == kChanges && means_.residual >= 0 && health.gain > 1;
  const double change = full ? *std::max_element(changes_.begin(), changes_.end()) : 0;
  const double held = change > 0 ? means_.residual / change : 0;
  if (held == 0 || (health.gain - 1) * held <= kHeldBack * std::max(1, health.workers)) {
    held_since_ = -1;
    return "";
  }
  if (held_since_ < 0) held_since_ = health.round;
  if (health.round - held_since_ < kLeastRounds) return "";
  return "since round " + std::to_string(held_since_) + " error feedback holds back " + text_of(held) + " times what a round changes";
}

std::string Guard::judge_parameters(const RoundHealth&) {
  if (means_.parameters <= 0) return "";
  if (now_.first_parameters < 0) now_.first_parameters = means_.parameters;
  if (means_.parameters <= kParameterGrowth * now_.first_parameters) return "";
  return "the parameters' norm is " + text_of(means_.parameters) + ", after " + text_of(now_.first_parameters) + " at first";
}

// Not of every round: half of them are forgotten when there are too many.
void Guard::remember(int64_t round) {
  now_.round = round;
  if (round % past_every_ != 0) return;
  past_.push_back(now_);
  if (past_.size() < kRemembered) return;
  past_every_ *= 2;
  std::erase_if(past_, [&](const Memory& m) { return m.round % past_every_ != 0; });
}

// An older memory than that of `round` had a higher loss at best: it takes longer to call a loss high.
void Guard::go_back(int64_t round) {
  if (planted(Bug::guard_outlives_line)) return;
  while (!past_.empty() && past_.back().round > round) past_.pop_back();
  Guard before(options_);
  before.past_every_ = past_every_;
  before.past_ = std::move(past_);
  if (!before.past_.empty()) before.now_ = before.past_.back();
  *this = std::move(before);
}

}  // namespace perigee
