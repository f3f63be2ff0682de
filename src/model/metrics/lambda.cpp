// A figure of one's own: the mean over the examples of a function of predictions and targets, which the job stores as ops.
#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "src/eager/compiled.h"
#include "src/graph/build.h"
#include "src/model/evaluation.h"
#include "src/model/metrics/rows.h"
#include "src/nn/own_function.h"

namespace perigee {
namespace {

constexpr size_t kMostShapes = 8;  // batches of other sizes are few: the last one of an epoch

constexpr Option kLambdaOptions[] = {
    {"name", "string", "lambda", "what the figure is called"},
    {"inputs", "list of names", nullptr, "what the program calls the network's predictions and the target"},
    {"program", "list of {op, in, out, attrs}", nullptr, "ops in order, as of the layer lambda"},
    {"outputs", "list of names", nullptr, "the value that is the figure of each example"}};
constexpr Schema kLambdaSchema{.options = kLambdaOptions};

class LambdaFigure : public Evaluation {
 public:
  explicit LambdaFigure(const Config& options) : description_(options.json()), where_(options.where()), name_(options.string("name")) {
    options.string_list("inputs"), options.raw("program"), options.string_list("outputs");
  }

  void add(const Tensor& output, const Tensor& target, int64_t count, std::span<const double> weights) override {
    if (count == 0) return;
    const int64_t rows = count < 0 ? output.shape()[0] : count;
    const Tensor given[] = {output.rows(0, rows), target.rows(0, rows)};
    const Array arguments[] = {Array(given[0]), Array(given[1])};
    const Array values = contiguous(cast(function_of(arguments[0].type(), arguments[1].type()).run(arguments)[0], Dtype::f64));
    for (int64_t row = 0; row < rows; ++row) {
      const double weight = weight_of(weights, row);
      if (weight == 0) continue;
      sum_ += weight * values.view.as<double>()[row];
      examples_ += weight;
    }
  }

  void check(const Type& output, const Type& target) override { function_of(output, target); }

  void merge(const Evaluation& other) override {
    const auto& from = dynamic_cast<const LambdaFigure&>(other);
    sum_ += from.sum_;
    examples_ += from.examples_;
  }

  Json result() const override { return Json(Json::Object{{name_, ratio(sum_, examples_)}}); }

  Json state() const override { return Json(Json::Object{{"sum", sum_}, {"examples", count(examples_)}}); }

  void restore(const Json& state) override {
    const Config config(state, "state of the evaluation '" + name_ + "'", ErrorKind::data);
    const Json* sum = config.raw("sum");  // null: not finite
    sum_ = sum && sum->is_number() ? sum->as_number() : NAN;
    examples_ = config.number_in("examples", 0, 0x1p52, 0);
  }

  bool takes_steps() const override { return false; }

 private:
  // By the types of what it is given, compiled on first use.
  CompiledFunction& function_of(const Type& output, const Type& target) {
    const std::string key = output.text() + " " + target.text();
    const auto known = functions_.find(key);
    if (known != functions_.end()) return *known->second;
    if (functions_.size() >= kMostShapes) functions_.clear();
    Graph graph;
    const Value outputs = graph.input("outputs", output), targets = graph.input("targets", target);
    const Config options(description_, kLambdaSchema, where_);
    graph.output("value", own_function(graph, options, outputs, targets));
    Recorder recorder;
    const int arguments[] = {recorder.argument(output), recorder.argument(target)};
    const std::vector<int> value =
        recorder.append(graph, [&](const Leaf& leaf) { return recorder.value_at(arguments[leaf.name == "outputs" ? 0 : 1]); });
    return *functions_.emplace(key, std::make_unique<CompiledFunction>(recorder, value, 1)).first->second;
  }

  const Json description_;
  const std::string where_, name_;
  double sum_ = 0, examples_ = 0;
  std::map<std::string, std::unique_ptr<CompiledFunction>> functions_;
};

}  // namespace

extern const EvaluationDef evaluation_lambda;
const EvaluationDef evaluation_lambda{
    .name = "lambda",
    .doc =
        "A function of one's own, traced once: metrics = { \"regression\", near = function(outputs, targets) return (outputs - "
        "targets):abs():lt(1) end }. It gives a value for each example; outputs are predictions, class numbers count from 1.",
    .schema = kLambdaSchema,
    .make = [](const Config& options, const EvaluationTask&) -> std::unique_ptr<Evaluation> {
      return std::make_unique<LambdaFigure>(options);
    }};

}  // namespace perigee
