// Several independent yes/no answers per example: accuracy, precision, recall, F1 and Matthews correlation per output, and their
// averages over outputs.
#include <cassert>
#include <vector>

#include "src/model/evaluation.h"
#include "src/model/metrics/rows.h"

namespace perigee {
namespace {

struct Counts {
  double true_positive = 0, false_positive = 0, true_negative = 0, false_negative = 0;
};
constexpr double Counts::*kBinaryFields[] = {&Counts::true_positive, &Counts::false_positive, &Counts::true_negative,
                                             &Counts::false_negative};
constexpr const char* kBinaryFigures[] = {"accuracy", "precision", "recall", "f1", "mcc"};

Json binary_figures(const Counts& c) {
  const double tp = c.true_positive, fp = c.false_positive, tn = c.true_negative, fn = c.false_negative;
  Json json = Json::object();
  json.set("accuracy", ratio(tp + tn, tp + tn + fp + fn));
  json.set("precision", ratio(tp, tp + fp));
  json.set("recall", ratio(tp, tp + fn));
  json.set("f1", ratio(2 * tp, 2 * tp + fp + fn));
  json.set("mcc", ratio(tp * tn - fp * fn, std::sqrt((tp + fp) * (tp + fn)) * std::sqrt((tn + fp) * (tn + fn))));
  return json;
}

class Binary : public Evaluation {
 public:
  explicit Binary(const Config& options) : threshold_(options.number("threshold")) {}

  void add(const Tensor& output, const Tensor& target, int64_t count, std::span<const double> weights) override {
    const Rows rows(output, target, count);
    rows.require_same_columns("binary");
    if (outputs_.empty()) outputs_.resize(static_cast<size_t>(rows.columns));
    assert(outputs_.size() == static_cast<size_t>(rows.columns));
    for (int64_t row = 0; row < rows.count; ++row)
      for (int64_t c = 0; c < rows.columns; ++c) {
        const double weight = weight_of(weights, row);
        if (weight == 0) break;
        const bool said = rows.out(row, c) >= threshold_, is = rows.wanted(row, c) >= 0.5;
        Counts& counts = outputs_[static_cast<size_t>(c)];
        (said ? is ? counts.true_positive : counts.false_positive : is ? counts.false_negative : counts.true_negative) += weight;
      }
  }

  void merge(const Evaluation& other) override {
    const auto& from = dynamic_cast<const Binary&>(other);
    if (outputs_.size() < from.outputs_.size()) outputs_.resize(from.outputs_.size());
    for (size_t i = 0; i < from.outputs_.size(); ++i)
      for (auto field : kBinaryFields) outputs_[i].*field += from.outputs_[i].*field;
  }

  Json result() const override {
    Json json = Json::object(), table = Json::array();
    for (const Counts& counts : outputs_) table.push(binary_figures(counts));
    for (const char* name : kBinaryFigures) {
      double sum = 0, defined = 0;
      for (const Json& row : table.as_array())
        if (const Json* value = row.find(name); !value->is_null()) sum += value->as_number(), defined += 1;
      json.set(name, ratio(sum, defined));
    }
    json.set("outputs", std::move(table));
    return json;
  }

  Json state() const override {
    Json list = Json::array();
    for (const Counts& counts : outputs_)
      for (auto field : kBinaryFields) list.push(count(counts.*field));
    return Json(Json::Object{{"counts", list}});
  }

  void restore(const Json& state) override {
    const Config config(state, "state of the evaluation 'binary'", ErrorKind::data);
    const std::vector<double> list = number_list(config, "counts");
    if (list.size() % 4 != 0) config.fail("counts", "must hold 4 numbers per output", std::to_string(list.size()));
    outputs_.assign(list.size() / 4, {});
    for (size_t i = 0; i < list.size(); ++i) outputs_[i / 4].*kBinaryFields[i % 4] = list[i];
  }

 private:
  double threshold_;
  std::vector<Counts> outputs_;
};

constexpr Option kBinaryOptions[] = {{"threshold", "number", "0.5", "an output above it is a yes", {0, 1}}};

}  // namespace

extern const EvaluationDef evaluation_binary;
const EvaluationDef evaluation_binary{
    .name = "binary",
    .doc = "accuracy, precision, recall, F1 and Matthews correlation of independent yes/no outputs; option threshold",
    .schema = {.options = kBinaryOptions},
    .make = [](const Config& options, const EvaluationTask&) -> std::unique_ptr<Evaluation> { return std::make_unique<Binary>(options); }};

}  // namespace perigee
