// Receiver operating characteristic and precision-recall curves with the areas under them, of each class against the rest.
// Exact by default: every score is kept. With steps = n scores are counted in n bins between 0 and 1, in constant memory.
#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "src/model/evaluation.h"
#include "src/model/metrics/rows.h"

namespace perigee {
namespace {

constexpr double kCurveStep = 1 / 200.;  // of a curve in the result, along either axis

// One threshold: how many positives and negatives score at least `score`, going down.
struct Point {
  double score, positives, negatives;
};

// The scores of one class against the rest.
struct Scores {
  std::vector<std::pair<float, bool>> exact;
  std::vector<float> weights;  // of these, if `weighted`; else all 1
  bool weighted = false;
  std::vector<double> positives, negatives;  // per bin, when binned

  std::vector<Point> points() const {
    std::vector<Point> points;
    double p = 0, n = 0;
    if (!positives.empty()) {
      for (size_t i = positives.size(); i-- > 0;) {
        p += positives[i], n += negatives[i];
        points.push_back({static_cast<double>(i) / static_cast<double>(positives.size()), p, n});
      }
      return points;
    }
    if (weighted) return weighted_points();
    auto sorted = exact;
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (size_t i = 0; i < sorted.size(); ++i) {
      (sorted[i].second ? p : n) += 1;
      if (i + 1 == sorted.size() || sorted[i + 1].first != sorted[i].first) points.push_back({sorted[i].first, p, n});
    }
    return points;
  }

  std::vector<Point> weighted_points() const {
    std::vector<Point> points;
    double p = 0, n = 0;
    std::vector<size_t> order(exact.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return exact[a].first > exact[b].first; });
    for (size_t i = 0; i < order.size(); ++i) {
      const auto [score, positive] = exact[order[i]];
      (positive ? p : n) += weights[order[i]];
      if (i + 1 == order.size() || exact[order[i + 1]].first != score) points.push_back({score, p, n});
    }
    return points;
  }

  void weigh() {
    if (!weighted) weights.assign(exact.size(), 1);
    weighted = true;
  }
};

struct Areas {
  Json roc, precision_recall;
};

// The trapezoidal area under the ROC curve, and average precision: the sum of precision over increments of recall.
Areas areas(const std::vector<Point>& points) {
  if (points.empty() || points.back().positives == 0) return {};
  const double all_p = points.back().positives, all_n = points.back().negatives;
  double roc = 0, average = 0, p = 0, n = 0;
  for (const Point& point : points) {
    roc += (point.negatives - n) * (point.positives + p) / 2;
    if (point.positives > p) average += (point.positives - p) / all_p * point.positives / (point.positives + point.negatives);
    p = point.positives, n = point.negatives;
  }
  return {ratio(roc, all_p * all_n), average};
}

// The first point, the last, and those that lie a step from the one before: where much happens at similar scores there are many.
Json curve(const std::vector<Point>& points) {
  Json thresholds = Json::array(), false_positive = Json::array(), recall = Json::array(), precision = Json::array();
  double p = -INFINITY, n = -INFINITY;  // of the last point that was kept
  for (const Point& point : points) {
    const auto is_step = [](double way, double all) { return all > 0 && way >= kCurveStep * all; };
    const bool far = is_step(point.positives - p, points.back().positives) || is_step(point.negatives - n, points.back().negatives);
    if (!far && &point != &points.back()) continue;
    p = point.positives, n = point.negatives;
    thresholds.push(point.score);
    false_positive.push(ratio(point.negatives, points.back().negatives));
    recall.push(ratio(point.positives, points.back().positives));
    precision.push(ratio(point.positives, point.positives + point.negatives));
  }
  return Json(
      Json::Object{{"thresholds", thresholds}, {"false_positive_rate", false_positive}, {"recall", recall}, {"precision", precision}});
}

class Roc : public Evaluation {
 public:
  Roc(const Config& options, const EvaluationTask& task)
      : names_(task.class_names), steps_(options.integer("steps")), most_(options.integer("most")), curves_(options.boolean("curves")) {}

  void add(const Tensor& output, const Tensor& target, int64_t count, std::span<const double> weights) override {
    const Rows rows(output, target, count);
    const int64_t classes = rows.classes();
    // For two classes one curve is enough.
    if (scores_.empty()) make(classes == 2 ? 1 : static_cast<size_t>(classes));
    assert(scores_.size() == (classes == 2 ? 1 : static_cast<size_t>(classes)));
    for (int64_t row = 0; row < rows.count; ++row) {
      const double weight = weight_of(weights, row);
      if (weight == 0) continue;
      const int64_t actual = rows.label(row, classes);
      for (size_t i = 0; i < scores_.size(); ++i) {
        const int64_t c = scores_.size() == 1 ? 1 : static_cast<int64_t>(i);
        put(scores_[i], rows.probability(row, c), actual == c, weight);
      }
    }
  }

  void merge(const Evaluation& other) override {
    const auto& from = dynamic_cast<const Roc&>(other);
    if (scores_.empty()) make(from.scores_.size());
    for (size_t i = 0; i < from.scores_.size() && i < scores_.size(); ++i) {
      auto& mine = scores_[i];
      const auto& theirs = from.scores_[i];
      if (theirs.weighted) mine.weigh();
      if (mine.weighted && !theirs.weighted) mine.weights.resize(mine.exact.size() + theirs.exact.size(), 1);
      mine.weights.insert(mine.weights.end(), theirs.weights.begin(), theirs.weights.end());
      mine.exact.insert(mine.exact.end(), theirs.exact.begin(), theirs.exact.end());
      for (size_t b = 0; b < mine.positives.size() && b < theirs.positives.size(); ++b)
        mine.positives[b] += theirs.positives[b], mine.negatives[b] += theirs.negatives[b];
    }
  }

  Json result() const override {
    Json json = Json::object(), classes = Json::array();
    double roc = 0, average = 0, defined = 0, with_average = 0;
    for (size_t i = 0; i < scores_.size(); ++i) {
      const size_t c = scores_.size() == 1 ? 1 : i;
      const auto points = scores_[i].points();
      const Areas found = areas(points);
      if (!found.roc.is_null()) roc += found.roc.as_number(), ++defined;
      if (!found.precision_recall.is_null()) average += found.precision_recall.as_number(), ++with_average;
      Json row = Json::object();
      row.set("name", c < names_.size() ? names_[c] : std::to_string(c));
      row.set("auc", found.roc);
      row.set("average_precision", found.precision_recall);
      if (curves_) row.set("curve", curve(points));
      classes.push(std::move(row));
    }
    json.set("auc", ratio(roc, defined));
    json.set("average_precision", ratio(average, with_average));
    json.set("classes", std::move(classes));
    return json;
  }

  Json state() const override {
    Json list = Json::array();
    for (const Scores& scores : scores_) {
      Json a = Json::array(), b = Json::array();
      for (const auto& [score, positive] : scores.exact) (positive ? a : b).push(static_cast<double>(score));
      for (double n : scores.positives) a.push(n);
      for (double n : scores.negatives) b.push(n);
      Json each(Json::Object{{"positive", a}, {"negative", b}});
      if (scores.weighted) {  // in the order of the two lists
        Json weights = Json::array();
        for (const bool positive : {true, false})
          for (size_t i = 0; i < scores.exact.size(); ++i)
            if (scores.exact[i].second == positive) weights.push(static_cast<double>(scores.weights[i]));
        each.set("weights", std::move(weights));
      }
      list.push(std::move(each));
    }
    return Json(Json::Object{{"scores", list}});
  }

  void restore(const Json& state) override {
    const Config config(state, "state of the evaluation 'roc'", ErrorKind::data);
    const Json* list = config.raw("scores");
    if (!list || !list->is_array() || list->as_array().size() > 1000000) config.fail("scores", "must be a list");
    scores_.clear();
    make(list->as_array().size());
    for (size_t i = 0; i < scores_.size(); ++i) {
      for (const bool positive : {true, false}) {
        const Json* numbers = list->as_array()[i].find(positive ? "positive" : "negative");
        if (!numbers || !numbers->is_array()) config.fail("scores", "must hold lists of numbers");
        auto& bins = positive ? scores_[i].positives : scores_[i].negatives;
        if (steps_ > 0 && numbers->as_array().size() != bins.size())
          config.fail("scores", "has another number of bins", std::to_string(numbers->as_array().size()), std::to_string(bins.size()));
        size_t bin = 0;
        for (const Json& number : numbers->as_array()) {
          if (!number.is_number()) config.fail("scores", "must hold lists of numbers", number.type_name());
          if (steps_ > 0) bins[bin++] = number.as_number();
          else scores_[i].exact.emplace_back(static_cast<float>(number.as_number()), positive);
        }
      }
      const Json* weights = list->as_array()[i].find("weights");
      scores_[i].weighted = weights != nullptr;
      for (size_t k = 0; weights && weights->is_array() && k < weights->as_array().size(); ++k)
        scores_[i].weights.push_back(static_cast<float>(weights->as_array()[k].is_number() ? weights->as_array()[k].as_number() : 0));
      if (weights && scores_[i].weights.size() != scores_[i].exact.size())
        config.fail("scores", "has another number of weights", std::to_string(scores_[i].weights.size()),
                    std::to_string(scores_[i].exact.size()));
    }
  }

 private:
  void make(size_t classes) {
    scores_.resize(classes);
    for (Scores& scores : scores_)
      scores.positives.resize(static_cast<size_t>(steps_)), scores.negatives.resize(static_cast<size_t>(steps_));
  }

  void put(Scores& scores, double score, bool positive, double weight) {
    if (steps_ > 0) {
      const double bin = std::clamp(score, 0.0, 1.0) * static_cast<double>(steps_);
      (positive ? scores.positives : scores.negatives)[std::min(static_cast<size_t>(bin), static_cast<size_t>(steps_ - 1))] += weight;
      return;
    }
    if (scores.exact.size() * scores_.size() >= static_cast<size_t>(most_))
      throw Error(ErrorKind::resources, {"roc", "there are too many scores to keep them all", "more than " + std::to_string(most_), "",
                                         "set steps = 1000 for counting in bins, or a greater 'most'"});
    if (weight != 1) scores.weigh();
    scores.exact.emplace_back(static_cast<float>(score), positive);
    if (scores.weighted) scores.weights.push_back(static_cast<float>(weight));
  }

  std::vector<std::string> names_;
  int64_t steps_, most_;
  bool curves_;
  std::vector<Scores> scores_;
};

constexpr Option kRocOptions[] = {{"steps", "integer", "0", "thresholds; 0: exact", {0, 1000000}},
                                  {"most", "integer", "268435456", "scores that are kept where steps is 0: 8 bytes each", {1, 1e12}},
                                  {"curves", "boolean", "true", "keeps the curves"}};

}  // namespace

extern const EvaluationDef evaluation_roc;
const EvaluationDef evaluation_roc{
    .name = "roc",
    .doc = "ROC and precision-recall curves, AUC and average precision, each class against the rest; options steps (0: exact), curves",
    .schema = {.options = kRocOptions},
    .make = [](const Config& options, const EvaluationTask& task) -> std::unique_ptr<Evaluation> {
      return std::make_unique<Roc>(options, task);
    }};

}  // namespace perigee
