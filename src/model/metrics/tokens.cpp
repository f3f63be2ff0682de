// Figures of single tokens: how likely the network thought those that came, and how often the likeliest was the one.
#include <cmath>

#include "src/model/evaluation.h"
#include "src/model/metrics/rows.h"

namespace perigee {
namespace {

class Tokens : public Evaluation {
 public:
  void add(const Tensor& output, const Tensor& target, int64_t count, std::span<const double> weights) override {
    const Rows rows(output, target, count);
    const int64_t classes = rows.classes();
    for (int64_t row = 0; row < rows.count; ++row) {
      const double weight = weight_of(weights, row);
      if (weight == 0) continue;
      const int64_t actual = rows.label(row, classes);
      const double own = rows.probability(row, actual);
      bool best = true;  // the first of equals
      for (int64_t c = 0; c < classes && best; ++c) best = c < actual ? rows.probability(row, c) < own : !(rows.probability(row, c) > own);
      tokens_ += weight;
      surprise_ -= weight * std::log(own);
      right_ += best ? weight : 0;
    }
  }

  void merge(const Evaluation& other) override {
    const auto& from = dynamic_cast<const Tokens&>(other);
    tokens_ += from.tokens_, surprise_ += from.surprise_, right_ += from.right_;
  }

  Json result() const override {
    return Json(Json::Object{{"perplexity", figure(tokens_ > 0 ? std::exp(surprise_ / tokens_) : NAN)},
                             {"token_accuracy", ratio(right_, tokens_)},
                             {"tokens", tokens_ > 0 ? count(tokens_) : Json()}});
  }

  Json state() const override { return Json(Json::Object{{"tokens", count(tokens_)}, {"surprise", surprise_}, {"right", count(right_)}}); }

  void restore(const Json& state) override {
    const Config config(state, "state of the evaluation 'tokens'", ErrorKind::data);
    tokens_ = config.number_in("tokens", 0, 0x1p63, 0);
    right_ = config.number_in("right", 0, 0x1p63, 0);
    const Json* surprise = config.raw("surprise");  // null: not finite
    surprise_ = surprise && surprise->is_number() ? surprise->as_number() : INFINITY;
  }

 private:
  double tokens_ = 0, surprise_ = 0, right_ = 0;
};

}  // namespace

extern const EvaluationDef evaluation_tokens;
const EvaluationDef evaluation_tokens{
    .name = "tokens",
    .doc = "Perplexity, accuracy and number of tokens: of the steps of sequences, each of those that count, or of single labels",
    .make = [](const Config&, const EvaluationTask&) -> std::unique_ptr<Evaluation> { return std::make_unique<Tokens>(); }};

}  // namespace perigee
