#include "src/model/plans/plan_set.h"

namespace perigee {

PlanSet::PlanSet(const Model& model, Kind kind, Backend backend, const Tuning* tuning, std::vector<std::string> layers)
    : model_(model), kind_(kind), backend_(backend), tuning_(tuning), layers_(std::move(layers)) {
  slices_ = analyze_slices(graph_of(2));
}

Graph PlanSet::graph_of(ShapeKey key) const {
  if (kind_ == Kind::training) return model_.training_graph(key.batch, backend_, carry_, key.steps);
  return model_.inference_graph(key.batch, kind_ == Kind::inference_with_loss, backend_, layers_, carry_, key.steps);
}

std::vector<RowGradient> PlanSet::row_gradients() const { return perigee::row_gradients(graph_of(2)); }

void PlanSet::set_recompute(const RecomputeOptions& options, size_t room) {
  recompute_ = options.mode;
  room_ = room;
  scopes_ = options.scopes(model_.layers(), model_.spec().where);
}

RecomputeChoice PlanSet::choice(ShapeKey key) {
  std::promise<RecomputeChoice> promise;
  uint64_t number = 0;
  {
    std::unique_lock lock(mutex_);
    if (const Entry* known = plans_.find(key)) {
      const std::shared_future<RecomputeChoice> made = known->made;
      lock.unlock();
      return made.get();
    }
    number = ++compilations_;
    plans_.insert(key, {promise.get_future().share(), number});
  }
  try {
    RecomputeChoice made = compile(key);
    promise.set_value(made);
    return made;
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    if (const Entry* known = plans_.find(key); known != nullptr && known->number == number) plans_.erase(key);
    throw;
  }
}

RecomputeChoice PlanSet::compile(ShapeKey key) const {
  const Graph graph = graph_of(key);
  const PlanOptions options{.backend = backend_,
                            .external_outputs = gradient_outputs(graph),
                            .kept = kept_,
                            .halves = backend_ == Backend::cuda ? model_.spec().half : std::nullopt,
                            .tuning = tuning_};
  return choose_recompute(graph, options, recompute_, room_, scopes_);
}

void PlanSet::drop(ShapeKey key) {
  const std::lock_guard lock(mutex_);
  plans_.erase(key);
}

PlanMemory::PlanMemory(PlanSet& plans, Params& params, std::byte* gradient, bool check)
    : plans_(plans), params_(params), gradient_(gradient), check_(check) {}

PlanRun& PlanMemory::at(ShapeKey key) {
  if (const auto* known = runs_.find(key)) return **known;
  auto plan = plans_.plan(key);
  if (plan->arena_bytes() > plans_.room())
    throw Error(ErrorKind::resources,
                {.where = plans_.model().spec().where + ": memory_limit",
                 .what = "the activations of " + std::to_string(key.batch) + " examples at a time take more memory than is left",
                 .got = std::to_string(plan->arena_bytes()) + " bytes in each thread",
                 .expected = "at most " + std::to_string(plans_.room()),
                 .hint = "recompute = \"auto\", a smaller batch, fewer threads, or a higher limit"});
  if (!arena_ || arena_->bytes() < plan->arena_bytes()) {
    runs_.clear();  // they point into the smaller arena
    arena_ = std::make_unique<Storage>(plan->arena_bytes());
  }
  std::vector<void*> parameters, states, outputs;
  for (const std::string& name : plan->parameters()) parameters.push_back(params_.parameter(params_.find(name)));
  for (const std::string& name : plan->states()) states.push_back(params_.state(params_.find_state(name)));
  for (const std::string& name : plan->external_outputs())
    outputs.push_back(gradient_ + params_.parameter_offset(params_.find(name.substr(5))));
  auto run = std::make_unique<PlanRun>(plan, PlanRun::Memory{arena_->data(), parameters, states, outputs});
  if (check_) run->enable_check();
  return *runs_.insert(key, std::move(run));
}

size_t PlanMemory::bytes() const {
  size_t sum = arena_ ? arena_->bytes() : 0;
  runs_.for_each([&](ShapeKey, const std::unique_ptr<PlanRun>& run) { sum += run->plan().packed_bytes(); });
  return sum;
}

}  // namespace perigee
