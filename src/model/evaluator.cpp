#include "src/model/evaluator.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <deque>
#include <numeric>

#include "src/data/streams.h"
#include "src/nn/ctc_decode.h"
#include "src/nn/loss.h"

namespace perigee {
namespace {

constexpr size_t kListed = 64;  // batches that the loader knows of ahead

// A target that the source does not call a label is one where the loss takes it for one.
EvaluationTask task_of(const Model& model, const Json& loss, const Field& target, const Type& output) {
  int64_t classes = target.classes;
  for (const ChoosingInput& input : model.choosing())
    if (classes == 0 && input.scope == "loss" && input.name == target.name && target.shape.elements() == 1) classes = input.count;
  // A class that is ignored stands between the labels and the loss.
  if (classes == 0 && ignored_class(loss) && target.shape.elements() == 1 && output.shape.rank() == target.shape.rank() + 1)
    classes = output.shape[0];
  const std::optional<int64_t> blank = ctc_blank(loss);
  const bool sequence =
      classes == 0 && output.shape.rank() == target.shape.rank() + 1 && (target.dtype == Dtype::i64 || target.shape.rank() > 0);
  return {.classes = classes, .class_names = target.class_names, .sequence = sequence || blank, .blank = blank};
}

// An output of the network by its number there.
ModelOutput output_of(const Model& model, int number) {
  const int main = model.spec().loss_output;
  return model.outputs().at(static_cast<size_t>(number == main ? 0 : number == 0 ? main : number));
}

// Values that evaluations need beside the output: where its steps end; of several heads the losses, then the other outputs.
std::vector<ModelOutput> more_outputs(const Model& model) {
  std::vector<ModelOutput> more;
  if (ctc_blank(model.spec().loss) && model.main_output_ends()) more.push_back(model.steps_output());
  const std::vector<LossHead>& heads = model.spec().more_heads;
  for (size_t head = 0; !heads.empty() && head <= heads.size(); ++head) more.push_back(model.head_loss(head));
  for (const LossHead& head : heads) more.push_back(output_of(model, head.output));
  return more;
}

// The main task with those of further heads, whose targets lie behind the main one.
EvaluationTask tasks_of(const Model& model, std::span<const Field> targets) {
  const ModelSpec& spec = model.spec();
  EvaluationTask task = task_of(model, spec.loss, targets[0], model.output_types().at(0));
  if (spec.more_heads.empty()) return task;
  task.output = output_of(model, spec.loss_output).name;
  for (size_t i = 0; i < spec.more_heads.size(); ++i) {
    const ModelOutput output = output_of(model, spec.more_heads[i].output);
    task.more.push_back(task_of(model, spec.more_heads[i].loss, targets[i + 1], output.type));
    task.more.back().output = output.name;
  }
  return task;
}

// A training part whose targets were mixed has distributions, where the others have labels.
std::string hint_for(const Field& field, const Type& wanted) {
  if (field.dtype == Dtype::f32 && field.shape.rank() == 1 && wanted == Type{Dtype::i64, Shape{}})
    return "the training part has labels: leave pg.transform.one_hot out of this one, or give it to both";
  if (field.classes == 0 || wanted != Type{Dtype::f32, Shape{field.classes}}) return "";
  return "make distributions of its labels too: source:map { pg.transform.one_hot {} }, and judge them by metrics = { \"classification\" }";
}

}  // namespace

Evaluator::Evaluator(Model& model, ThreadTeam& team, SourcePtr source, const Json* metrics, const std::string& where,
                     std::span<DeviceModel* const> devices)
    : model_(model),
      source_(std::move(source)),
      metrics_(metrics && !metrics->is_null() ? *metrics : Json()),
      where_(where),
      streams_(model.carried().empty() ? 0 : streams_of(*source_)),
      inference_(model, team, true, streams_ > 0 ? streams_ : kEvaluationBatch, streams_ > 0 ? std::span<DeviceModel* const>() : devices,
                 more_outputs(model)),
      loader_(source_, {.batch = inference_.max_batch(), .shuffle = false, .threads = source_->traits().cheap ? 0 : 1}) {
  if (streams_ > 0) inference_.carry(streams_);
  const std::vector<NetworkInput> wanted_fields = fields_of(model.spec(), true);
  for (const NetworkInput& field : wanted_fields) fields_.push_back(field_index(*source_, field.name));
  target_ = static_cast<int>(model.spec().inputs.size());
  for (size_t i = 0; i < fields_.size(); ++i) {
    const NetworkInput& wanted = wanted_fields[i];
    const Field& field = source_->fields()[static_cast<size_t>(fields_[i])];
    if (Type{field.dtype, field.shape} != wanted.type)
      throw Error(ErrorKind::data, {.where = source_->traits().description,
                                    .what = "field '" + field.name + "' does not fit the model",
                                    .got = Type{field.dtype, field.shape}.text(),
                                    .expected = wanted.type.text(),
                                    .hint = hint_for(field, wanted.type)});
  }
  choices_.emplace(model, *source_, source_->traits().description);
  weights_.emplace(model, *source_);
  std::vector<Field> targets;
  for (size_t i = 0; i <= model.spec().more_heads.size(); ++i)
    targets.push_back(source_->fields()[static_cast<size_t>(fields_[static_cast<size_t>(target_) + i])]);
  task_ = tasks_of(model, targets);
  const auto batch_of = [](Dtype dtype, const Shape& example) {
    std::vector<int64_t> dims = example.vector();
    dims.insert(dims.begin(), 2);
    return Type{dtype, Shape(dims)};
  };
  const Type output = model.output_types().at(0);
  EvaluationSums(metrics_, task_, where_)
      .check(batch_of(output.dtype, output.shape), batch_of(targets[0].dtype, targets[0].shape), weights_->used(), weights_->positions());
}

void EvaluationSums::check(const Type& output, const Type& target, bool weighted, int64_t positions) {
  const auto rows_of = [&](const Type& type) {
    const int64_t rows = type.shape[0] * positions;
    return Type{type.dtype, {rows, type.shape.elements() / std::max<int64_t>(rows, 1)}};
  };
  if (task_.sequence && !task_.blank && weighted && positions == 1) positions = target.shape.elements() / target.shape[0];
  for (const auto& evaluation : evaluations_) {
    if (positions > 1 && (weighted || evaluation->takes_steps())) evaluation->check(rows_of(output), rows_of(target));  // as add() has it
    else evaluation->check(output, target);
  }
}

EvaluationSums::EvaluationSums(const Json& metrics, const EvaluationTask& task, const std::string& where) : task_(task) {
  Json list = metrics;
  if (list.is_null()) list = default_evaluations(task);
  if (!list.is_array()) list = Json(Json::Array{list});
  for (const Json& description : list.as_array()) {
    evaluations_.push_back(make_evaluation(description, task, where + ": metrics"));
    if (task.classes > 0 && evaluations_.back()->takes_sequences())
      throw Error(ErrorKind::model, {.where = where + ": metrics",
                                     .what = "is of sequences of labels, and each example has one class",
                                     .got = description.dump(),
                                     .expected = "'classification' or another evaluation of classes"});
    if (task.blank && !evaluations_.back()->takes_sequences() && evaluations_.back()->takes_steps())
      throw Error(ErrorKind::model, {.where = where + ": metrics",
                                     .what = "needs a target for each step, and the labels of 'ctc' have no place among the steps",
                                     .got = description.dump(),
                                     .expected = "'transcription', 'bleu' or 'chrf'"});
    const Json* type = description.find("type");
    const Json* own = description.find("name");  // of a function of one's own
    if (own && own->is_string()) {
      names_.push_back(own->as_string());
      continue;
    }
    names_.push_back(description.is_string() ? description.as_string() : type && type->is_string() ? type->as_string() : "metric");
  }
  if (task.more.empty()) return;
  heads_.push_back({.name = task.output, .evaluation = nullptr});
  for (const EvaluationTask& other : task.more) {
    const Json defaults = other.sequence ? Json() : default_evaluations(other);
    const Json& first = defaults.is_array() && !defaults.as_array().empty() ? defaults.as_array().front() : defaults;
    heads_.push_back({.name = other.output, .evaluation = first.is_null() ? nullptr : make_evaluation(first, other, where + ": metrics")});
  }
}

namespace {

// [N, ..., T] with the last `positions` elements' axis in front: a row for each step.
Tensor steps_as_rows(const Tensor& values, int64_t examples, int64_t positions) {
  const int64_t columns = examples == 0 ? 1 : values.elements() / values.shape()[0] / positions;
  Tensor rows(values.dtype(), Shape{examples * positions, columns});
  const size_t width = dtype_bytes(values.dtype());
  const auto* const from = static_cast<const std::byte*>(values.view().data);
  for (int64_t n = 0; n < examples; ++n)
    for (int64_t p = 0; p < positions; ++p)
      for (int64_t c = 0; c < columns; ++c)
        std::memcpy(rows.data<std::byte>() + static_cast<size_t>((n * positions + p) * columns + c) * width,
                    from + static_cast<size_t>((n * columns + c) * positions + p) * width, width);
  return rows;
}

}  // namespace

// Weights of steps are the main target's own: another head's evaluation goes by those of whole examples alone.
void EvaluationSums::add_heads(const Inference::Result& result, std::span<const Tensor> targets, std::span<const double> weights) {
  const auto count = static_cast<size_t>(result.count);
  const size_t losses = result.more.size() - 2 * heads_.size() + 1, outputs = losses + heads_.size();
  for (size_t head = 0; head < heads_.size(); ++head) {
    const Tensor loss = result.more[losses + head].rows(0, result.count).to(Dtype::f64);
    for (size_t i = 0; i < count; ++i) heads_[head].loss += loss.data<double>()[i];
    if (!heads_[head].evaluation || (!weights.empty() && weights.size() != count)) continue;
    heads_[head].evaluation->add(result.more[outputs + head - 1].rows(0, result.count), targets[head - 1], result.count, weights);
  }
}

void EvaluationSums::add(const Inference::Result& result, const Tensor& target, std::span<const double> weights, int64_t positions,
                         std::span<const Tensor> more) {
  const int64_t count = result.count;
  if (!heads_.empty()) add_heads(result, more, weights);
  for (int64_t i = 0; i < count; ++i) loss_ += result.loss[static_cast<size_t>(i)];
  weight_ += weights.empty() ? static_cast<double>(count) : std::accumulate(weights.begin(), weights.end(), 0.0);
  examples_ += count;
  const Tensor output = result.output.rows(0, count);
  Tensor output_rows, target_rows;
  std::span<const int64_t> ends;
  if (task_.blank && result.more.size() > (heads_.empty() ? 0 : 2 * heads_.size() - 1))
    ends = {result.more[0].data<int64_t>(), static_cast<size_t>(count)};
  std::vector<double> spread;  // weights of examples, at each of their steps
  if (task_.sequence && !task_.blank && count > 0 && positions == 1) {
    positions = target.elements() / target.shape()[0];
    for (const double weight : weights) spread.insert(spread.end(), static_cast<size_t>(positions), weight);
    weights = spread;
  }
  for (auto& evaluation : evaluations_) {
    if (evaluation->takes_sequences()) {
      evaluation->add_sequences({.output = output, .target = target, .count = count, .weights = weights, .output_ends = ends});
      continue;
    }
    const bool apart = positions > 1 && (!weights.empty() || evaluation->takes_steps());
    if (apart && !output_rows.defined())
      output_rows = steps_as_rows(output, count, positions), target_rows = steps_as_rows(target, count, positions);
    if (apart) evaluation->add(output_rows, target_rows, count * positions, weights);
    else evaluation->add(output, target, count, weights);
  }
}

void EvaluationSums::merge(const EvaluationSums& other) {
  loss_ += other.loss_;
  weight_ += other.weight_;
  examples_ += other.examples_;
  for (size_t i = 0; i < evaluations_.size(); ++i) evaluations_[i]->merge(*other.evaluations_[i]);
  for (size_t i = 0; i < heads_.size(); ++i) {
    heads_[i].loss += other.heads_[i].loss;
    if (heads_[i].evaluation) heads_[i].evaluation->merge(*other.heads_[i].evaluation);
  }
}

Json EvaluationSums::state() const {
  Json states = Json::array();
  for (const auto& evaluation : evaluations_) states.push(evaluation->state());
  Json state(
      Json::Object{{"examples", examples_}, {"loss", loss_}, {"evaluations", std::move(states)}});  // a loss that is not finite is null
  if (weight_ != static_cast<double>(examples_)) state.set("weight", weight_);
  Json heads = Json::array();
  for (const Head& head : heads_)
    heads.push(Json(Json::Object{{"loss", head.loss}, {"figures", head.evaluation ? head.evaluation->state() : Json()}}));
  if (!heads_.empty()) state.set("heads", std::move(heads));
  return state;
}

void EvaluationSums::restore(const Json& state) {
  const Config config(state, "partial evaluation", ErrorKind::data);
  examples_ = config.integer_in("examples", 0, int64_t{1} << 52);
  weight_ = config.number_in("weight", 0, 0x1p63, static_cast<double>(examples_));
  const Json* loss = config.raw("loss");
  loss_ = loss && loss->is_number() ? loss->as_number() : NAN;
  const Json* const heads = config.raw("heads");
  if (heads_.size() != (heads && heads->is_array() ? heads->as_array().size() : 0))
    config.fail("heads", "are not as many as the job's outputs with a loss", heads ? heads->dump().substr(0, 100) : "nothing",
                std::to_string(heads_.size()) + ", from a worker with the same job");
  const Json* states = config.raw("evaluations");
  if (!states || !states->is_array() || states->as_array().size() != evaluations_.size())
    config.fail("evaluations", "does not fit the job's metrics", states ? states->dump().substr(0, 100) : "nothing",
                std::to_string(evaluations_.size()) + " states, from a worker with the same job");
  try {
    for (size_t i = 0; i < evaluations_.size(); ++i) evaluations_[i]->restore(states->as_array()[i]);
    for (size_t i = 0; i < heads_.size(); ++i) {
      const Json *loss_of_head = heads->as_array()[i].find("loss"), *figures = heads->as_array()[i].find("figures");
      heads_[i].loss = loss_of_head && loss_of_head->is_number() ? loss_of_head->as_number() : NAN;
      if (heads_[i].evaluation) heads_[i].evaluation->restore(figures ? *figures : Json());
    }
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    if (parts.hint.empty()) parts.hint = "every worker needs the same version of Perigee";
    throw Error(error.kind(), std::move(parts));
  }
}

Json EvaluationSums::report(const std::string& data) const {
  Json report = Json::object();
  report.set("examples", examples_);
  report.set("data", data);
  report.set("loss", weight_ > 0 && std::isfinite(loss_) ? Json(loss_ / weight_) : Json());
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
  for (const Head& head : heads_) {
    Json figures(Json::Object{{"loss", weight_ > 0 && std::isfinite(head.loss) ? Json(head.loss / weight_) : Json()}});
    const Json more = head.evaluation ? head.evaluation->result() : Json();
    for (size_t i = 0; more.is_object() && i < more.as_object().size(); ++i) {
      const auto& [key, value] = more.as_object()[i];
      if (!figures.find(key)) figures.set(key, value);
    }
    report.set(report.find(head.name) ? "output " + head.name : head.name, std::move(figures));
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

// The states say what made outputs probabilities, as a coordinator has no network.
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
  assert(streams_ == 0 || begin == 0);  // one process evaluates streams, from their beginning
  inference_.restart();
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
  std::deque<std::vector<double>> weights;
  std::deque<std::vector<Tensor>> more_targets;  // of further heads
  const auto take = [&](size_t leave) {
    for (; targets.size() > leave; targets.pop_front()) {
      const Inference::Result& result = inference_.take();
      sums.add(result, targets.front(), weights.front(), weights_->positions(), more_targets.front());
      weights.pop_front();
      more_targets.pop_front();
      if (details && weights_->used()) details->leave_out_weighted();
      else if (details) details->add(result, targets.front(), taken);
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
    weights_->sum(batch, [&] { return source_->traits().description; });
    take(inference_.ahead() - 1);
    std::vector<const std::byte*> rows;
    for (int field : fields_) rows.push_back(static_cast<const std::byte*>(batch.fields[static_cast<size_t>(field)].view().data));
    const int64_t count = std::min(batch.size, end - done);
    inference_.queue(rows, count);
    weights.emplace_back();
    if (weights_->used()) weights_->main(batch, weights.back());
    const auto kept = [&](size_t field) { return inference_.ahead() > 1 ? batch.fields[field].clone() : batch.fields[field]; };
    targets.push_back(kept(target_field));
    more_targets.emplace_back();
    for (size_t i = 1; i <= model_.spec().more_heads.size(); ++i)
      more_targets.back().push_back(kept(static_cast<size_t>(fields_[static_cast<size_t>(target_) + i])));
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
