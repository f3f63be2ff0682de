// Errors of predicted numbers, per column and averaged over columns: MSE, MAE, RMSE, relative squared error, R2 and Pearson's
// correlation. Moments are kept as means and sums of squared deviations, which merge without losing digits (Chan, Golub, LeVeque).
#include <vector>

#include "src/model/evaluation.h"
#include "src/model/metrics/rows.h"

namespace perigee {
namespace {

struct Moments {
  double n = 0, mean_out = 0, mean_wanted = 0, out2 = 0, wanted2 = 0, cross = 0, absolute = 0, squared = 0;

  void add(double out, double wanted, double weight) {
    n += weight;
    const double d_out = out - mean_out, d_wanted = wanted - mean_wanted;
    mean_out += weight * d_out / n, mean_wanted += weight * d_wanted / n;
    out2 += weight * d_out * (out - mean_out), wanted2 += weight * d_wanted * (wanted - mean_wanted);
    cross += weight * d_out * (wanted - mean_wanted);
    absolute += weight * std::fabs(out - wanted), squared += weight * ((out - wanted) * (out - wanted));
  }

  void merge(const Moments& other) {
    if (other.n == 0) return;
    const double total = n + other.n, share = n * other.n / total;
    const double d_out = other.mean_out - mean_out, d_wanted = other.mean_wanted - mean_wanted;
    out2 += other.out2 + d_out * d_out * share, wanted2 += other.wanted2 + d_wanted * d_wanted * share;
    cross += other.cross + d_out * d_wanted * share;
    mean_out += d_out * other.n / total, mean_wanted += d_wanted * other.n / total;
    absolute += other.absolute, squared += other.squared;
    n = total;
  }
};

// In the order in which they are stored.
constexpr double Moments::*kRegressionFields[] = {&Moments::n,       &Moments::mean_out, &Moments::mean_wanted, &Moments::out2,
                                                  &Moments::wanted2, &Moments::cross,    &Moments::absolute,    &Moments::squared};
constexpr const char* kRegressionFigures[] = {"mse", "mae", "rmse", "rse", "r2", "correlation"};

Json regression_figures(const Moments& m) {
  Json json = Json::object();
  json.set("mse", ratio(m.squared, m.n));
  json.set("mae", ratio(m.absolute, m.n));
  json.set("rmse", m.n > 0 ? figure(std::sqrt(m.squared / m.n)) : Json());
  json.set("rse", ratio(m.squared, m.wanted2));
  json.set("r2", m.wanted2 > 0 ? figure(1 - m.squared / m.wanted2) : Json());
  json.set("correlation", m.wanted2 > 0 && m.out2 > 0 ? figure(m.cross / std::sqrt(m.wanted2 * m.out2)) : Json());
  return json;
}

class Regression : public Evaluation {
 public:
  void add(const Tensor& output, const Tensor& target, int64_t count, std::span<const double> weights) override {
    const Rows rows(output, target, count);
    rows.require_same_columns("regression");
    if (columns_.empty()) columns_.resize(static_cast<size_t>(rows.columns));
    if (columns_.size() != static_cast<size_t>(rows.columns)) rows.require_same_columns("regression");
    for (int64_t row = 0; row < rows.count; ++row)
      if (const double weight = weight_of(weights, row); weight > 0)
        for (int64_t c = 0; c < rows.columns; ++c) columns_[static_cast<size_t>(c)].add(rows.out(row, c), rows.wanted(row, c), weight);
  }

  void merge(const Evaluation& other) override {
    const auto& from = dynamic_cast<const Regression&>(other);
    if (columns_.size() < from.columns_.size()) columns_.resize(from.columns_.size());
    for (size_t c = 0; c < from.columns_.size(); ++c) columns_[c].merge(from.columns_[c]);
  }

  Json result() const override {
    Json json = Json::object(), table = Json::array();
    for (const Moments& m : columns_) table.push(regression_figures(m));
    for (const char* name : kRegressionFigures) {
      double sum = 0;
      int64_t defined = 0;
      for (const Json& column : table.as_array()) {
        const Json* value = column.find(name);
        if (!value->is_null()) sum += value->as_number(), ++defined;
      }
      json.set(name, ratio(sum, static_cast<double>(defined)));
    }
    if (columns_.size() > 1 && columns_.size() <= 256) json.set("columns", std::move(table));
    return json;
  }

  Json state() const override {
    Json json = Json::object(), list = Json::array();
    for (const Moments& m : columns_) {
      Json numbers = Json::array();
      for (auto field : kRegressionFields) numbers.push(m.*field);
      list.push(std::move(numbers));
    }
    json.set("columns", std::move(list));
    return json;
  }

  void restore(const Json& state) override {
    const Config config(state, "state of the evaluation 'regression'", ErrorKind::data);
    const Json* list = config.raw("columns");
    if (!list || !list->is_array()) config.fail("columns", "must be a list");
    columns_.assign(list->as_array().size(), {});
    for (size_t c = 0; c < columns_.size(); ++c) {
      const Json& numbers = list->as_array()[c];
      if (!numbers.is_array() || numbers.as_array().size() != std::size(kRegressionFields))
        config.fail("columns", "must hold lists of 8 numbers", numbers.dump());
      for (size_t i = 0; i < std::size(kRegressionFields); ++i) {
        if (!numbers.as_array()[i].is_number()) config.fail("columns", "must hold lists of 8 numbers", numbers.as_array()[i].type_name());
        columns_[c].*kRegressionFields[i] = numbers.as_array()[i].as_number();
      }
    }
  }

 private:
  std::vector<Moments> columns_;
};

}  // namespace

extern const EvaluationDef evaluation_regression;
const EvaluationDef evaluation_regression{
    .name = "regression",
    .doc = "MSE, MAE, RMSE, relative squared error, R2 and correlation, per column and averaged",
    .make = [](const Config&, const EvaluationTask&) -> std::unique_ptr<Evaluation> { return std::make_unique<Regression>(); }};

}  // namespace perigee
