#include "src/model/evaluator.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace perigee {
namespace {

constexpr size_t kListed = 64;  // batches that the loader knows of ahead

// A target that the source does not call a label is one where the loss takes it for one.
EvaluationTask task_of(const Model& model, const Field& target, const Type& output) {
  int64_t classes = target.classes;
  for (const ChoosingInput& input : model.choosing())
    if (classes == 0 && input.scope == "loss" && input.name == target.name && target.shape.elements() == 1) classes = input.count;
  const bool sequence = classes == 0 && target.dtype == Dtype::i64 && output.shape.rank() == target.shape.rank() + 1;
  return {.classes = classes, .class_names = target.class_names, .sequence = sequence};
}

}  // namespace

Evaluator::Evaluator(Model& model, ThreadTeam& team, SourcePtr source, const Json* metrics, const std::string& where,
                     std::span<DeviceModel* const> devices)
    : model_(model),
      source_(std::move(source)),
      metrics_(metrics && !metrics->is_null() ? *metrics : Json()),
      where_(where),
      inference_(model, team, true, kEvaluationBatch, devices),
      loader_(source_, {.batch = inference_.max_batch(), .shuffle = false, .threads = source_->traits().cheap ? 0 : 1}) {
  for (const NetworkInput& input : model.spec().inputs) fields_.push_back(field_index(*source_, input.name));
  std::vector<NetworkInput> wanted_fields = model.spec().inputs;
  wanted_fields.push_back(model.spec().target);
  target_ = static_cast<int>(fields_.size());
  fields_.push_back(field_index(*source_, model.spec().target.name));
  for (const LossHead& head : model.spec().more_heads) {
    wanted_fields.push_back(head.target);
    fields_.push_back(field_index(*source_, head.target.name));
  }
  for (size_t i = 0; i < fields_.size(); ++i) {
    const NetworkInput& wanted = wanted_fields[i];
    const Field& field = source_->fields()[static_cast<size_t>(fields_[i])];
    if (Type{field.dtype, field.shape} != wanted.type)
      throw Error(ErrorKind::data, {.where = source_->traits().description,
                                    .what = "field '" + field.name + "' does not fit the model",
                                    .got = Type{field.dtype, field.shape}.text(),
                                    .expected = wanted.type.text()});
  }
  choices_.emplace(model, *source_, source_->traits().description);
  task_ = task_of(model, source_->fields()[static_cast<size_t>(fields_[static_cast<size_t>(target_)])], model.output_types().at(0));
}

EvaluationSums::EvaluationSums(const Json& metrics, const EvaluationTask& task, const std::string& where) {
  Json list = metrics;
  if (list.is_null()) list = default_evaluations(task);
  if (!list.is_array()) list = Json(Json::Array{list});
  for (const Json& description : list.as_array()) {
    evaluations_.push_back(make_evaluation(description, task, where + ": metrics"));
    const Json* type = description.find("type");
    const Json* own = description.find("name");  // of a function of one's own
    if (own && own->is_string()) {
      names_.push_back(own->as_string());
      continue;
    }
    names_.push_back(description.is_string() ? description.as_string() : type && type->is_string() ? type->as_string() : "metric");
  }
}

void EvaluationSums::add(const Inference::Result& result, const Tensor& target) {
  for (int64_t i = 0; i < result.count; ++i) loss_ += result.loss[static_cast<size_t>(i)];
  for (auto& evaluation : evaluations_) evaluation->add(result.output.rows(0, result.count), target, result.count);
  examples_ += result.count;
}

void EvaluationSums::merge(const EvaluationSums& other) {
  loss_ += other.loss_;
  examples_ += other.examples_;
  for (size_t i = 0; i < evaluations_.size(); ++i) evaluations_[i]->merge(*other.evaluations_[i]);
}

Json EvaluationSums::state() const {
  Json states = Json::array();
  for (const auto& evaluation : evaluations_) states.push(evaluation->state());
  return Json(
      Json::Object{{"examples", examples_}, {"loss", loss_}, {"evaluations", std::move(states)}});  // a loss that is not finite is null
}

void EvaluationSums::restore(const Json& state) {
  const Config config(state, "partial evaluation", ErrorKind::data);
  examples_ = config.integer_in("examples", 0, int64_t{1} << 52);
  const Json* loss = config.raw("loss");
  loss_ = loss && loss->is_number() ? loss->as_number() : NAN;
  const Json* states = config.raw("evaluations");
  if (!states || !states->is_array() || states->as_array().size() != evaluations_.size())
    config.fail("evaluations", "does not fit the job's metrics", "", std::to_string(evaluations_.size()) + " states");
  for (size_t i = 0; i < evaluations_.size(); ++i) evaluations_[i]->restore(states->as_array()[i]);
}

Json EvaluationSums::report(const std::string& data) const {
  Json report = Json::object();
  report.set("examples", examples_);
  report.set("data", data);
  report.set("loss", examples_ > 0 && std::isfinite(loss_) ? Json(loss_ / static_cast<double>(examples_)) : Json());
  for (size_t i = 0; i < evaluations_.size(); ++i) {
    const Json figures = evaluations_[i]->result();
    if (figures.is_object() && figures.as_object().size() == 1 && figures.as_object()[0].first == names_[i]) {
      report.set(names_[i], figures.as_object()[0].second);
      continue;
    }
    if (i > 0 || !figures.is_object()) {
      report.set(names_[i], figures);
      continue;
    }
    for (const auto& [key, value] : figures.as_object())
      if (!report.find(key)) report.set(key, value);
  }
  return report;
}

std::vector<std::string> figures_of(const Json& metrics, const EvaluationTask& task, const std::string& where) {
  std::vector<std::string> names;
  const auto add = [&](const Json& figures, const std::string& before) {
    for (const auto& [key, value] : figures.as_object())
      if (value.is_number() || value.is_null()) names.push_back(before + key);
  };
  const Json report = EvaluationSums(metrics, task, where).report("");
  add(report, "");
  for (const auto& [key, value] : report.as_object())
    if (value.is_object()) add(value, key + ".");
  std::erase(names, "examples");
  return names;
}

Json evaluation_report(const Json& metrics, const EvaluationTask& task, const std::string& data, std::span<const Json> states,
                       const std::string& where) {
  EvaluationSums all(metrics, task, where);
  for (const Json& state : states) {
    EvaluationSums part(metrics, task, where);
    part.restore(state);
    all.merge(part);
  }
  return all.report(data);
}

// The states say what made outputs probabilities: whoever merges them has no network.
Json merged_details(const EvaluationTask& task, int64_t examples, std::span<const Json> states) {
  std::optional<EvaluationDetails> all;
  for (const Json& state : states) {
    const Json *details = state.find("details"), *link = state.find("link");
    if (!details || !link || !link->is_string()) continue;
    if (!all) all.emplace(task, link->as_string(), "", examples);
    all->merge(*details);
  }
  return all ? all->report() : Json();
}

std::unique_ptr<EvaluationDetails> Evaluator::empty_details() const {
  const std::string input = model_.spec().inputs.empty() ? "" : model_.spec().inputs.front().name;
  return std::make_unique<EvaluationDetails>(task_, model_.link(), input, source_->size());
}

Json Evaluator::details() {
  if (!details_) return {};
  details_->show(*source_);
  return details_->report();
}

std::optional<EvaluationSums> Evaluator::pass(int64_t begin, int64_t end, const std::atomic<bool>* stop, std::atomic<int64_t>* evaluated) {
  EvaluationSums sums(metrics_, task_, where_);
  inference_.forget_queued();  // of a pass that failed
  loader_.clear_list();        // by list: nothing is read beyond the end
  const int64_t most = inference_.max_batch();
  const auto target_field = static_cast<size_t>(fields_[static_cast<size_t>(target_)]);
  details_.reset();
  auto details = keeps_details_ ? empty_details() : nullptr;
  int64_t taken = begin;
  // The loader's batch goes with the next one; what is on its way needs its targets still.
  std::deque<Tensor> targets;
  const auto take = [&](size_t leave) {
    for (; targets.size() > leave; targets.pop_front()) {
      const Inference::Result& result = inference_.take();
      sums.add(result, targets.front());
      if (details) details->add(result, targets.front(), taken);
      taken += result.count;
      if (evaluated) evaluated->fetch_add(result.count, std::memory_order_relaxed);
    }
  };
  int64_t listed = begin;
  for (int64_t done = begin; done < end;) {
    if (stop && *stop) return std::nullopt;
    for (; listed < end && loader_.listed() < kListed; listed += std::min(most, end - listed))
      loader_.list({.epoch = 0, .position = listed, .size = std::min(most, end - listed)});
    const Batch& batch = loader_.next();
    choices_->check(batch, [&] { return source_->traits().description; });
    take(inference_.ahead() - 1);
    std::vector<const std::byte*> rows;
    for (int field : fields_) rows.push_back(static_cast<const std::byte*>(batch.fields[static_cast<size_t>(field)].view().data));
    const int64_t count = std::min(batch.size, end - done);
    inference_.queue(rows, count);
    targets.push_back(inference_.ahead() > 1 ? batch.fields[target_field].clone() : batch.fields[target_field]);
    if (inference_.ahead() == 1) take(0);
    done += count;
  }
  take(0);
  details_ = std::move(details);
  return sums;
}

Json Evaluator::run(const std::atomic<bool>* stop) {
  const auto sums = pass(0, source_->size(), stop, nullptr);
  return sums ? sums->report(source_->traits().description) : Json();
}

Json Evaluator::state(int64_t begin, int64_t end, const std::atomic<bool>* stop, std::atomic<int64_t>* evaluated) {
  const int64_t size = source_->size();
  const auto sums = pass(std::clamp<int64_t>(begin, 0, size), end < 0 ? size : std::min(end, size), stop, evaluated);
  if (!sums) return {};
  Json state = sums->state();
  if (details_) {
    details_->show(*source_);
    state.set("details", details_->state());
    state.set("link", model_.link());
  }
  return state;
}

}  // namespace perigee
