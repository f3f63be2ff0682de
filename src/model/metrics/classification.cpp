// Accuracy, top-N accuracy, precision, recall, F-beta, Matthews correlation and the confusion matrix of one label per example.
// Undefined ratios (a class that was never predicted) are null for the class and count as 0 in averages, as in scikit-learn.
#include <algorithm>
#include <vector>

#include "src/model/evaluation.h"
#include "src/model/metrics/rows.h"

namespace perigee {
namespace {

constexpr int64_t kLargestMatrix = 2048;  // classes; beyond it only counts per class are kept

class Classification : public Evaluation {
 public:
  Classification(const Config& options, const EvaluationTask& task)
      : names_(task.class_names),
        top_(options.integer("top_n")),
        beta_(options.number("beta")),
        threshold_(options.number("threshold")),
        average_(options.choice("average")) {
    if (task.classes > 0) resize(task.classes);
  }

  void add(const Tensor& output, const Tensor& target, int64_t count, std::span<const double> weights) override {
    const Rows rows(output, target, count);
    if (rows.classes() > classes_) resize(rows.classes());
    for (int64_t row = 0; row < rows.count; ++row) {
      const double weight = weight_of(weights, row);
      if (weight == 0) continue;
      const int64_t actual = rows.label(row, std::max(rows.classes(), classes_));
      const int64_t predicted = rows.columns > 1 ? largest(rows, row) : rows.out(row, 0) >= threshold_;
      examples_ += weight;
      actual_[static_cast<size_t>(actual)] += weight;
      predicted_[static_cast<size_t>(predicted)] += weight;
      if (actual == predicted) right_[static_cast<size_t>(actual)] += weight;
      if (!matrix_.empty()) matrix_[static_cast<size_t>(actual * classes_ + predicted)] += weight;
      if (top_ > 1 && actual < rows.classes() && rank(rows, row, actual) < top_) within_top_ += weight;
    }
  }

  void merge(const Evaluation& other) override {
    const auto& from = dynamic_cast<const Classification&>(other);
    if (from.classes_ > classes_) resize(from.classes_);
    examples_ += from.examples_;
    within_top_ += from.within_top_;
    for (int64_t c = 0; c < from.classes_; ++c) {
      const auto i = static_cast<size_t>(c);
      actual_[i] += from.actual_[i];
      predicted_[i] += from.predicted_[i];
      right_[i] += from.right_[i];
      if (!matrix_.empty())
        for (int64_t k = 0; k < from.classes_; ++k)
          matrix_[static_cast<size_t>(c * classes_ + k)] += from.matrix_[static_cast<size_t>(c * from.classes_ + k)];
    }
  }

  Json result() const override {
    Json json = Json::object();
    json.set("accuracy", ratio(total_right(), examples_));
    if (top_ > 1) json.set("top" + std::to_string(top_) + "_accuracy", ratio(within_top_, examples_));
    averages(json);
    json.set("mcc", matthews());
    json.set("classes", class_table());
    if (!matrix_.empty()) json.set("confusion", confusion());
    return json;
  }

  Json state() const override {
    Json json = Json::object();
    json.set("classes", classes_);
    json.set("examples", count(examples_));
    json.set("within_top", count(within_top_));
    for (const auto& [key, counts] :
         {std::pair{"actual", &actual_}, {"predicted", &predicted_}, {"right", &right_}, {"matrix", &matrix_}}) {
      Json list = Json::array();
      for (const double n : *counts) list.push(count(n));
      json.set(key, std::move(list));
    }
    return json;
  }

  void restore(const Json& state) override {
    const Config config(state, "state of the evaluation 'classification'", ErrorKind::data);
    const int64_t classes = config.integer_in("classes", 0, int64_t{1} << 24);
    classes_ = 0;
    actual_.clear(), predicted_.clear(), right_.clear(), matrix_.clear();
    resize(classes);
    examples_ = config.number_in("examples", 0, 0x1p63, 0);
    within_top_ = config.number_in("within_top", 0, 0x1p63, 0);
    for (const auto& [key, counts] :
         {std::pair{"actual", &actual_}, {"predicted", &predicted_}, {"right", &right_}, {"matrix", &matrix_}}) {
      const std::vector<double> list = number_list(config, key);
      if (list.size() != counts->size())
        config.fail(key, "has the wrong length", std::to_string(list.size()), std::to_string(counts->size()));
      *counts = list;
    }
  }

 private:
  static int64_t largest(const Rows& rows, int64_t row) {
    int64_t best = 0;
    for (int64_t c = 1; c < rows.columns; ++c)
      if (rows.out(row, c) > rows.out(row, best)) best = c;
    return best;
  }

  // How many classes are more likely than `actual` (those that tie and come first included).
  static int64_t rank(const Rows& rows, int64_t row, int64_t actual) {
    const double own = rows.probability(row, actual);
    int64_t before = 0;
    for (int64_t c = 0; c < rows.classes(); ++c) {
      const double p = rows.probability(row, c);
      before += p > own || (p == own && c < actual);
    }
    return before;
  }

  void resize(int64_t classes) {
    const auto n = static_cast<size_t>(classes);
    if (classes <= kLargestMatrix) {
      std::vector<double> matrix(n * n);
      for (int64_t a = 0; a < classes_; ++a)
        std::copy_n(&matrix_[static_cast<size_t>(a * classes_)], classes_, &matrix[static_cast<size_t>(a * classes)]);
      matrix_ = std::move(matrix);
    } else {
      matrix_.clear();
    }
    actual_.resize(n), predicted_.resize(n), right_.resize(n);
    classes_ = classes;
  }

  double total_right() const {
    double sum = 0;
    for (const double n : right_) sum += n;
    return sum;
  }

  double f_beta(double precision, double recall) const {
    const double b = beta_ * beta_;
    return b * precision + recall > 0 ? (1 + b) * precision * recall / (b * precision + recall) : 0;
  }

  std::string f_name() const {
    if (beta_ == 1) return "f1";
    std::string text = std::to_string(beta_);
    text.erase(text.find_last_not_of('0') + 1);
    return "f" + (text.ends_with('.') ? text.substr(0, text.size() - 1) : text);
  }

  void averages(Json& json) const {
    double precision = 0, recall = 0, f = 0, weights = 0;
    for (size_t c = 0; c < actual_.size(); ++c) {
      if (actual_[c] + predicted_[c] == 0) continue;  // a class that is neither a label nor a prediction
      const double weight = average_ == "weighted" ? actual_[c] : 1;
      const double p = predicted_[c] > 0 ? right_[c] / predicted_[c] : 0;
      const double r = actual_[c] > 0 ? right_[c] / actual_[c] : 0;
      precision += weight * p, recall += weight * r, f += weight * f_beta(p, r), weights += weight;
    }
    if (average_ == "micro") {  // every example has one label and one prediction: all three are the accuracy
      precision = recall = f = total_right();
      weights = examples_;
    }
    json.set("precision", ratio(precision, weights));
    json.set("recall", ratio(recall, weights));
    json.set(f_name(), ratio(f, weights));
  }

  // Gorodkin's R_K statistic; of two classes it is Matthews' correlation.
  Json matthews() const {
    const double n = examples_;
    double cross = 0, predicted = 0, actual = 0;
    for (size_t c = 0; c < actual_.size(); ++c) {
      const double p = predicted_[c], a = actual_[c];
      cross += p * a, predicted += p * p, actual += a * a;
    }
    const double below = std::sqrt(n * n - predicted) * std::sqrt(n * n - actual);
    if (examples_ == 0) return {};
    return below > 0 ? (total_right() * n - cross) / below : 0.0;
  }

  Json class_table() const {
    Json table = Json::array();
    for (size_t c = 0; c < actual_.size(); ++c) {
      Json row = Json::object();
      row.set("name", c < names_.size() ? names_[c] : std::to_string(c));
      const Json p = ratio(right_[c], predicted_[c]);
      const Json r = ratio(right_[c], actual_[c]);
      row.set("precision", p);
      row.set("recall", r);
      row.set(f_name(),
              p.is_null() && r.is_null() ? Json() : Json(f_beta(p.is_null() ? 0 : p.as_number(), r.is_null() ? 0 : r.as_number())));
      row.set("examples", count(actual_[c]));
      table.push(std::move(row));
    }
    return table;
  }

  Json confusion() const {
    Json matrix = Json::array();
    for (int64_t a = 0; a < classes_; ++a) {
      Json row = Json::array();
      for (int64_t p = 0; p < classes_; ++p) row.push(count(matrix_[static_cast<size_t>(a * classes_ + p)]));
      matrix.push(std::move(row));
    }
    return matrix;
  }

  std::vector<std::string> names_;
  int64_t top_;
  double beta_, threshold_;
  std::string average_;
  int64_t classes_ = 0;
  double examples_ = 0, within_top_ = 0;            // sums of weights, as all that follow
  std::vector<double> actual_, predicted_, right_;  // per class
  std::vector<double> matrix_;                      // [actual][predicted]
};

constexpr Option kClassificationOptions[] = {{"top_n", "integer", "1", "a class among so many best counts as right", {1, 1000000}},
                                             {"beta", "number", "1", "weight of recall in F-beta", {1e-6, 1e6}},
                                             {"threshold", "number", "0.5", "with one output: above it is a yes", {0, 1}},
                                             {"average", "name", "macro", "of the classes", {}, {"macro", "micro", "weighted"}}};

}  // namespace

extern const EvaluationDef evaluation_classification;
const EvaluationDef evaluation_classification{
    .name = "classification",
    .doc = "accuracy, precision, recall, F-beta, Matthews correlation, confusion matrix; options top_n, beta, threshold, average",
    .schema = {.options = kClassificationOptions},
    .make = [](const Config& options, const EvaluationTask& task) -> std::unique_ptr<Evaluation> {
      return std::make_unique<Classification>(options, task);
    }};

}  // namespace perigee
