#include "src/model/evaluation_details.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/model/metrics/rows.h"
#include "src/model/shown_example.h"

namespace perigee {
namespace {

constexpr int64_t kMostExact = 1 << 15;  // scores of all classes; beyond it they are counted in bins
constexpr int64_t kBins = 1000;

// A fixed number of an example (splitmix64), so that a sample is one of examples, not of slices.
uint64_t draw_of(int64_t index) {
  uint64_t z = static_cast<uint64_t>(index) + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double finite_loss(double loss) { return std::isfinite(loss) ? loss : std::numeric_limits<double>::max(); }

std::vector<double> numbers_of(const Json* list, const Config& config, const char* key) {
  const auto is_number = [](const Json& value) { return value.is_number() || value.is_null(); };
  if (!list || !list->is_array() || !std::ranges::all_of(list->as_array(), is_number)) config.fail(key, "must be a list of numbers");
  std::vector<double> numbers;
  for (const Json& number : list->as_array()) numbers.push_back(number.is_number() ? number.as_number() : NAN);
  return numbers;
}

Json json_of(const std::vector<double>& numbers) {
  Json list = Json::array();
  for (const double number : numbers) list.push(number);
  return list;
}

}  // namespace

EvaluationDetails::EvaluationDetails(const EvaluationTask& task, const std::string& link, std::string input, int64_t examples)
    : task_(task), input_(std::move(input)), regression_(task.classes == 0 && !task.sequence) {
  if (task.sequence || task.classes < 2 || task.classes > kClasses || link.empty()) return;
  Json roc(Json::Object{{"type", "roc"}});
  if (examples * task.classes > kMostExact) roc.set("steps", kBins);
  roc_ = make_evaluation(roc, task, "details");
  roc_description_ = std::move(roc);
  calibration_ = make_evaluation("calibration", task, "details");
}

void EvaluationDetails::add_sample(Sample sample) {
  const auto before = [](const Sample& a, const Sample& b) { return a.draw < b.draw; };
  if (samples_.size() == kSample) {
    if (sample.draw >= samples_.front().draw) return;
    std::pop_heap(samples_.begin(), samples_.end(), before);
    samples_.pop_back();
  }
  samples_.push_back(std::move(sample));
  std::push_heap(samples_.begin(), samples_.end(), before);
}

// The first of examples with equal losses stays.
void EvaluationDetails::add_bad(Bad bad) {
  const auto worse = [](const Bad& a, const Bad& b) { return a.loss != b.loss ? a.loss > b.loss : a.index < b.index; };
  if (worst_.size() == kWorst) {
    if (!worse(bad, worst_.front())) return;
    std::pop_heap(worst_.begin(), worst_.end(), worse);
    worst_.pop_back();
  }
  worst_.push_back(std::move(bad));
  std::push_heap(worst_.begin(), worst_.end(), worse);
}

// The truth and what the network says: classes with probabilities, or the first values.
Json EvaluationDetails::answer(const Tensor& output, const Tensor& target, int64_t row) const {
  Json about = Json::object();
  if (task_.sequence) return about;
  const Rows rows(output, target, row + 1);
  if (task_.classes > 0 && rows.target_columns == 1) {
    const int64_t classes = rows.columns > 1 ? rows.columns : 2;
    const auto actual = static_cast<int64_t>(rows.wanted(row, 0));
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c)
      if (rows.probability(row, c) > rows.probability(row, best)) best = c;
    about.set("actual", actual);
    about.set("predicted", best);
    about.set("probability", figure(rows.probability(row, best)));
    if (actual >= 0 && actual < classes) about.set("probability_of_actual", figure(rows.probability(row, actual)));
    return about;
  }
  std::vector<double> actual, predicted;
  for (int64_t c = 0; c < std::min(rows.columns, kColumns); ++c) predicted.push_back(rows.out(row, c));
  for (int64_t c = 0; c < std::min(rows.target_columns, kColumns); ++c) actual.push_back(rows.wanted(row, c));
  about.set("actual_values", json_of(actual));
  about.set("predicted_values", json_of(predicted));
  return about;
}

void EvaluationDetails::add(const Inference::Result& result, const Tensor& target, int64_t first) {
  const Tensor output = result.output.rows(0, result.count);
  try {
    if (roc_ && output.elements() <= kClasses * result.count)
      roc_->add(output, target, result.count), calibration_->add(output, target, result.count);
    else roc_.reset();
  } catch (const Error&) {
    roc_.reset();  // a target that these curves do not know: what the job measures says so, or can do with it
  }
  const bool compares = regression_ && output.elements() > 0 && output.elements() / result.count == target.elements() / target.shape()[0];
  for (int64_t i = 0; i < result.count; ++i) {
    const double loss = finite_loss(result.loss[static_cast<size_t>(i)]);
    if (worst_.size() < kWorst || loss > worst_.front().loss) add_bad({loss, first + i, answer(output, target, i)});
    const uint64_t draw = compares ? draw_of(first + i) : 0;
    if (!compares || (samples_.size() == kSample && draw >= samples_.front().draw)) continue;
    const Rows rows(output, target, i + 1);
    Sample sample{.draw = draw, .actual = {}, .predicted = {}};
    for (int64_t c = 0; c < std::min(rows.columns, kColumns); ++c)
      sample.actual.push_back(rows.wanted(i, c)), sample.predicted.push_back(rows.out(i, c));
    add_sample(std::move(sample));
  }
}

void EvaluationDetails::show(const DataSource& source) {
  std::vector<ReadKey> keys;
  for (const Bad& bad : worst_) keys.push_back({.index = bad.index});
  if (source.traits().read_ahead > 0) source.expect(keys);
  for (Bad& bad : worst_) {
    try {
      const Json shown = shown_example(source, input_, bad.index);
      if (!shown.is_object()) continue;
      for (const auto& [key, value] : shown.as_object()) bad.about.set(key, value);
    } catch (const Error&) {
      // It was read before and is not now, as where a file was changed: its numbers are told all the same.
    }
  }
}

Json EvaluationDetails::state() const {
  Json state = Json::object(), samples = Json::array(), worst = Json::array();
  if (weighted_) state.set("weighted", true);
  if (roc_) state.set("roc", roc_->state()), state.set("calibration", calibration_->state());
  for (const Sample& sample : samples_)
    samples.push(Json(Json::Object{
        {"draw", static_cast<int64_t>(sample.draw)}, {"actual", json_of(sample.actual)}, {"predicted", json_of(sample.predicted)}}));
  for (const Bad& bad : worst_) worst.push(Json(Json::Object{{"loss", bad.loss}, {"index", bad.index}, {"about", bad.about}}));
  state.set("samples", std::move(samples));
  state.set("worst", std::move(worst));
  return state;
}

void EvaluationDetails::merge(const Json& state) {
  const Config config(state, "details of a partial evaluation", ErrorKind::data);
  const auto take_in = [&](const char* key, const Json& description, Evaluation* mine) {
    const Json* theirs = config.raw(key);
    if (!mine || !theirs) return;
    const std::unique_ptr<Evaluation> other = make_evaluation(description, task_, "details");
    other->restore(*theirs);
    mine->merge(*other);
  };
  take_in("roc", roc_description_, roc_.get());
  take_in("calibration", "calibration", calibration_.get());
  weighted_ = config.boolean("weighted", false) || weighted_;
  const Json *samples = config.raw("samples"), *worst = config.raw("worst");
  if (!samples || !samples->is_array() || !worst || !worst->is_array()) config.fail("samples", "and 'worst' must be lists");
  for (const Json& each : samples->as_array()) {
    const Config sample = config.element(each, "samples");
    const int64_t draw = sample.integer_in("draw", INT64_MIN, INT64_MAX);
    add_sample({.draw = static_cast<uint64_t>(draw),
                .actual = numbers_of(sample.raw("actual"), sample, "actual"),
                .predicted = numbers_of(sample.raw("predicted"), sample, "predicted")});
  }
  for (const Json& each : worst->as_array()) {
    const Config bad = config.element(each, "worst");
    const Json* about = bad.raw("about");
    add_bad({.loss = bad.number("loss"), .index = bad.integer_in("index", 0, int64_t{1} << 52), .about = about ? *about : Json::object()});
  }
}

Json EvaluationDetails::report() const {
  if (weighted_) return Json(Json::Object{{"weighted", true}});
  Json report = Json::object();
  if (roc_) report.set("roc", roc_->result()), report.set("calibration", calibration_->result());
  if (!samples_.empty()) {
    std::vector<const Sample*> sorted;
    for (const Sample& sample : samples_) sorted.push_back(&sample);
    std::sort(sorted.begin(), sorted.end(), [](const Sample* a, const Sample* b) { return a->draw < b->draw; });
    Json points = Json::array();
    for (const Sample* sample : sorted)
      points.push(Json(Json::Object{{"actual", json_of(sample->actual)}, {"predicted", json_of(sample->predicted)}}));
    report.set("scatter", std::move(points));
  }
  std::vector<const Bad*> sorted;
  for (const Bad& bad : worst_) sorted.push_back(&bad);
  std::sort(sorted.begin(), sorted.end(),
            [](const Bad* a, const Bad* b) { return a->loss != b->loss ? a->loss > b->loss : a->index < b->index; });
  Json worst = Json::array();
  for (const Bad* bad : sorted) {
    Json row(Json::Object{{"example", bad->index}, {"loss", bad->loss}});
    for (const auto& [key, value] : bad->about.as_object()) row.set(key, value);
    worst.push(std::move(row));
  }
  report.set("worst", std::move(worst));
  Json names = Json::array();
  for (const std::string& name : task_.class_names) names.push(name);
  if (!task_.class_names.empty()) report.set("class_names", std::move(names));
  return report;
}

}  // namespace perigee
