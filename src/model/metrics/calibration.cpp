// Does 0.8 mean right in 80 of 100 cases? Expected and maximum calibration error and the reliability diagram of the most likely
// class (Guo et al. 2017, equal-width bins), with the Brier score and the negative log likelihood.
#include <algorithm>
#include <vector>

#include "src/model/evaluation.h"
#include "src/model/metrics/rows.h"

namespace perigee {
namespace {

class Calibration : public Evaluation {
 public:
  explicit Calibration(const Config& options) : bins_(static_cast<size_t>(options.integer("bins"))) {}

  void add(const Tensor& output, const Tensor& target, int64_t count, std::span<const double> weights) override {
    const Rows rows(output, target, count);
    const int64_t classes = rows.classes();
    for (int64_t row = 0; row < rows.count; ++row) {
      const double weight = weight_of(weights, row);
      if (weight == 0) continue;
      const int64_t actual = rows.label(row, classes);
      int64_t best = 0;
      for (int64_t c = 0; c < classes; ++c) {
        const double p = rows.probability(row, c), error = p - (c == actual ? 1 : 0);
        if (p > rows.probability(row, best)) best = c;
        brier_ += weight * (error * error);
      }
      const double confidence = rows.probability(row, best);
      Bin& bin =
          bins_[std::min(static_cast<size_t>(std::clamp(confidence, 0.0, 1.0) * static_cast<double>(bins_.size())), bins_.size() - 1)];
      bin.count += weight, bin.confidence += weight * confidence, bin.right += best == actual ? weight : 0;
      likelihood_ -= weight * std::log(std::max(rows.probability(row, actual), 1e-30));
      examples_ += weight;
    }
  }

  void merge(const Evaluation& other) override {
    const auto& from = dynamic_cast<const Calibration&>(other);
    examples_ += from.examples_, brier_ += from.brier_, likelihood_ += from.likelihood_;
    for (size_t i = 0; i < bins_.size() && i < from.bins_.size(); ++i)
      bins_[i].count += from.bins_[i].count, bins_[i].confidence += from.bins_[i].confidence, bins_[i].right += from.bins_[i].right;
  }

  Json result() const override {
    double expected = 0, most = 0;
    Json diagram = Json::array();
    for (const Bin& bin : bins_) {
      if (bin.count == 0) continue;
      const double gap = std::fabs(bin.right - bin.confidence) / bin.count;
      expected += bin.count * gap, most = std::max(most, gap);
      diagram.push(Json(
          Json::Object{{"confidence", bin.confidence / bin.count}, {"accuracy", bin.right / bin.count}, {"examples", count(bin.count)}}));
    }
    Json json = Json::object();
    json.set("ece", ratio(expected, examples_));
    json.set("mce", examples_ > 0 ? Json(most) : Json());
    json.set("brier", ratio(brier_, examples_));
    json.set("negative_log_likelihood", ratio(likelihood_, examples_));
    json.set("reliability", std::move(diagram));
    return json;
  }

  Json state() const override {
    Json list = Json::array();
    for (const Bin& bin : bins_)
      for (double value : {bin.count, bin.confidence, bin.right}) list.push(value);
    return Json(Json::Object{{"examples", examples_}, {"brier", brier_}, {"likelihood", likelihood_}, {"bins", list}});
  }

  void restore(const Json& state) override {
    const Config config(state, "state of the evaluation 'calibration'", ErrorKind::data);
    examples_ = config.number("examples"), brier_ = config.number("brier"), likelihood_ = config.number("likelihood");
    const Json* list = config.raw("bins");
    if (!list || !list->is_array() || list->as_array().size() != bins_.size() * 3)
      config.fail("bins", "must be a list of 3 numbers per bin");
    for (const Json& number : list->as_array())
      if (!number.is_number()) config.fail("bins", "must be a list of numbers", number.type_name());
    for (size_t i = 0; i < bins_.size(); ++i) {
      const auto& numbers = list->as_array();
      bins_[i] = {numbers[3 * i].as_number(), numbers[3 * i + 1].as_number(), numbers[3 * i + 2].as_number()};
    }
  }

 private:
  struct Bin {
    double count = 0, confidence = 0, right = 0;
  };
  std::vector<Bin> bins_;
  double examples_ = 0, brier_ = 0, likelihood_ = 0;
};

constexpr Option kCalibrationOptions[] = {{"bins", "integer", "10", "of the reliability diagram", {1, 10000}}};

}  // namespace

extern const EvaluationDef evaluation_calibration;
const EvaluationDef evaluation_calibration{
    .name = "calibration",
    .doc = "expected and maximum calibration error, reliability diagram, Brier score, negative log likelihood; option bins",
    .schema = {.options = kCalibrationOptions},
    .make = [](const Config& options, const EvaluationTask&) -> std::unique_ptr<Evaluation> {
      return std::make_unique<Calibration>(options);
    }};

}  // namespace perigee
