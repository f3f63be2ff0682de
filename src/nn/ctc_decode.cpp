#include "src/nn/ctc_decode.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "kernels/ops/ctc.h"

namespace perigee {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_p_at(const View& log_p, int64_t c, int64_t t) { return log_p.as<double>()[c * log_p.strides[0] + t * log_p.strides[1]]; }

// Paths that spell a prefix: those that end in a blank, and those that end in its last label.
struct Paths {
  double blank = kNever, label = kNever;
  double all() const { return ctc_join(blank, label); }
};

struct Prefix {
  int64_t before = -1;  // the prefix that is one label shorter
  int64_t label = -1;   // its last
  Paths paths, next;    // of the steps so far; with the step that is being read
};

void add(double& sum, double more) { sum = ctc_join(sum, more); }

// All prefixes that were ever among the best, as a tree: number 0 has no label.
class PrefixTree {
 public:
  explicit PrefixTree(int64_t classes) : classes_(classes) {
    all_.push_back({.paths = {.blank = 0}});
    kept_ = {0};
  }

  void read(const View& log_p, int64_t t, int64_t blank, int64_t beams) {
    for (const size_t at : kept_) {
      const Paths paths = all_[at].paths;
      const int64_t last = all_[at].label;
      reach(at);
      add(all_[at].next.blank, paths.all() + log_p_at(log_p, blank, t));
      if (last >= 0) add(all_[at].next.label, paths.label + log_p_at(log_p, last, t));
      for (int64_t c = 0; c < classes_; ++c) {
        const double longer = c == blank ? kNever : (c == last ? paths.blank : paths.all()) + log_p_at(log_p, c, t);
        if (longer == kNever) continue;
        const size_t child = child_of(at, c);
        reach(child);
        add(all_[child].next.label, longer);
      }
    }
    settle(static_cast<size_t>(beams));
  }

  std::vector<LabelSequence> best(int64_t paths) const {
    std::vector<LabelSequence> found;
    for (const size_t at : kept_) {
      if (static_cast<int64_t>(found.size()) == paths || all_[at].paths.all() == kNever) break;
      LabelSequence& each = found.emplace_back();
      each.score = all_[at].paths.all();
      for (auto i = static_cast<int64_t>(at); all_[static_cast<size_t>(i)].label >= 0; i = all_[static_cast<size_t>(i)].before)
        each.labels.push_back(all_[static_cast<size_t>(i)].label);
      std::reverse(each.labels.begin(), each.labels.end());
    }
    return found;
  }

 private:
  void reach(size_t at) {
    if (all_[at].next.blank == kNever && all_[at].next.label == kNever) reached_.push_back(at);
  }

  size_t child_of(size_t at, int64_t label) {
    const auto [found, is_new] = children_.try_emplace({at, label}, all_.size());
    if (is_new) all_.push_back({.before = static_cast<int64_t>(at), .label = label});
    return found->second;
  }

  // The best `beams` of those reached go on, best first; of equals the one that was known first.
  void settle(size_t beams) {
    std::sort(reached_.begin(), reached_.end());
    reached_.erase(std::unique(reached_.begin(), reached_.end()), reached_.end());
    for (const size_t at : kept_) all_[at].paths = {};
    std::vector<std::pair<double, size_t>> scored;
    for (const size_t at : reached_) {
      all_[at].paths = all_[at].next;
      all_[at].next = {};
      scored.emplace_back(-all_[at].paths.all(), at);
    }
    reached_.clear();
    kept_.clear();
    const size_t count = std::min(beams, scored.size());
    std::partial_sort(scored.begin(), scored.begin() + static_cast<std::ptrdiff_t>(count), scored.end());
    for (size_t i = 0; i < count; ++i) kept_.push_back(scored[i].second);
    for (size_t i = count; i < scored.size(); ++i) all_[scored[i].second].paths = {};
  }

  int64_t classes_;
  std::vector<Prefix> all_;
  std::map<std::pair<size_t, int64_t>, size_t> children_;
  std::vector<size_t> kept_, reached_;
};

}  // namespace

LabelSequence ctc_greedy(const View& log_p, int64_t steps, int64_t blank) {
  LabelSequence found;
  int64_t before = blank;
  for (int64_t t = 0; t < steps; ++t) {
    int64_t best = 0;
    for (int64_t c = 1; c < log_p.dims[0]; ++c)
      if (log_p_at(log_p, c, t) > log_p_at(log_p, best, t)) best = c;
    found.score += log_p_at(log_p, best, t);
    if (best != blank && best != before) found.labels.push_back(best);
    before = best;
  }
  return found;
}

std::vector<LabelSequence> ctc_beam(const View& log_p, int64_t steps, int64_t blank, int64_t beams, int64_t paths) {
  PrefixTree tree(log_p.dims[0]);
  for (int64_t t = 0; t < steps; ++t) tree.read(log_p, t, blank, beams);
  return tree.best(paths);
}

std::vector<LabelSequence> ctc_decode(const View& probabilities, int64_t example, int64_t steps, int64_t blank, int64_t beams,
                                      int64_t paths) {
  const int64_t classes = probabilities.dims[1], all = probabilities.dims[2], first = example * classes * all;
  std::vector<double> log_p(static_cast<size_t>(classes * all));
  for (int64_t i = 0; i < classes * all; ++i)
    log_p[static_cast<size_t>(i)] =
        std::log(probabilities.dtype == Dtype::f64 ? probabilities.as<double>()[first + i] : double{probabilities.as<float>()[first + i]});
  const View view{.data = log_p.data(), .dtype = Dtype::f64, .rank = 2, .dims = {classes, all}, .strides = {all, 1}};
  steps = std::clamp<int64_t>(steps, 0, all);
  if (beams <= 1) return {ctc_greedy(view, steps, blank)};
  return ctc_beam(view, steps, blank, beams, paths);
}

std::optional<int64_t> ctc_blank(const Json& loss) {
  const Json* type = loss.is_object() ? loss.find("type") : &loss;
  if (type == nullptr || !type->is_string() || type->as_string() != "ctc") return std::nullopt;
  const Json* blank = loss.is_object() ? loss.find("blank") : nullptr;
  return blank != nullptr && blank->is_int() ? blank->as_int() : 0;
}

}  // namespace perigee
