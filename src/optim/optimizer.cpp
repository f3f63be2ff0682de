#include "src/optim/optimizer.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/flat_view.h"
#include "kernels/widest.h"
#include "src/core/host_isa.h"

namespace perigee {
namespace {

// Small enough to cut a small network evenly among threads, large enough that a call costs nothing beside it.
constexpr int64_t kPieceElements = 4096;

std::vector<UpdatePiece> cut(const std::vector<ParamWindow>& windows) {
  std::vector<UpdatePiece> pieces;
  for (size_t i = 0; i < windows.size(); ++i) {
    const int64_t end = windows[i].offset + windows[i].elements;
    for (int64_t at = windows[i].offset; at < end; at += kPieceElements)
      pieces.push_back({static_cast<int>(i), at, std::min(end, at + kPieceElements)});
  }
  return pieces;
}

const std::byte* element(const void* block, int64_t index, Dtype dtype) {
  return static_cast<const std::byte*>(block) + static_cast<size_t>(index) * dtype_bytes(dtype);
}
std::byte* element(void* block, int64_t index, Dtype dtype) {
  return static_cast<std::byte*>(block) + static_cast<size_t>(index) * dtype_bytes(dtype);
}

bool has_rate(const OptimizerDef& def) { return def.schema.find("lr") != nullptr; }

}  // namespace

const OptimizerDef& optimizer_named(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const OptimizerDef* def : all_optimizers()) {
    if (name == def->name) return *def;
    names.emplace_back(def->name);
  }
  std::string known;
  for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
  throw Error(ErrorKind::model, {.where = where,
                                 .what = "unknown optimizer",
                                 .got = "'" + name + "'",
                                 .expected = "one of " + known,
                                 .hint = nearest_hint(name, names)});
}

Json rate_in(const Json& optimizer, const std::string& where) {
  if (const Json* rate = optimizer.is_object() ? optimizer.find("lr") : nullptr) return *rate;
  const Json* type = optimizer.is_object() ? optimizer.find("type") : &optimizer;
  const OptimizerDef& def = optimizer_named(type && type->is_string() ? type->as_string() : "", where);
  const Option* rate = def.schema.find("lr");
  return rate ? fallback_value(*rate) : Json();
}

Optimizer::Optimizer(const OptimizerOptions& options, std::vector<ParamWindow> windows, const std::string& where, Dtype dtype)
    : Optimizer(options, std::move(windows), where, host_isa(), dtype) {}

Optimizer::Optimizer(const OptimizerOptions& options, std::vector<ParamWindow> windows, const std::string& where, Isa isa, Dtype dtype)
    : math_(block_math(dtype)),
      windows_(std::move(windows)),
      pieces_(cut(windows_)),
      clip_(options.clip, windows_, pieces_, where + ": clip"),
      constraints_(options.constraint, windows_, where + ": constraint") {
  read_rule(options.optimizer, where + ": optimizer");
  if (def_->programmed) read_program(options, where + ": optimizer");
  read_lookahead(options.lookahead, where + ": lookahead");
  choose_kernel(isa);
  const Regularizer shared(options.regularization, where + ": regularization");
  for (const ParamWindow& window : windows_) {
    const std::string place = where + ": regularization of '" + window.name + "'";
    regularizers_.push_back(window.regularization.is_null() ? shared : Regularizer(window.regularization, place));
  }
  params_.resize(windows_.size());
  codes_.resize(program_ ? windows_.size() : 0);
}

void Optimizer::read_lookahead(const Json& description, const std::string& where) {
  lookahead_ = Lookahead(description, where);
  if (!lookahead_.active()) return;
  if (minimizer_)
    throw Error(ErrorKind::model, {.where = where,
                                   .what = "takes steps back, which a line search has chosen by the loss",
                                   .got = std::string("optimizer '") + type() + "'",
                                   .expected = "a rule that goes by gradients, such as pg.adam {}"});
  slots_.emplace_back(kSlowWeights);
}

void Optimizer::read_program(const OptimizerOptions& options, const std::string& where) {
  bool full = !options.regularization.is_null() || clip_.value_limit() > 0;
  for (const ParamWindow& window : windows_) full = full || !window.regularization.is_null();
  program_.emplace(Config(options.optimizer, where), full);
  slots_ = program_->states();
}

void Optimizer::read_rule(const Json& description, const std::string& where) {
  if (description.is_null())
    throw Error(ErrorKind::model,
                {.where = where, .what = "a job that trains needs an optimiser", .hint = "for example pg.adam { lr = 1e-3 }"});
  Json object = description;
  if (description.is_string()) {
    object = Json::object();
    object.set("type", description);
  }
  def_ = &optimizer_named(Config(object, where).string("type"), where);
  const Config options(object, def_->schema, where);
  for (const Option& option : def_->schema.options) {
    if (option.type == "boolean") {
      flags_.push_back(options.boolean(option.name));
      continue;
    }
    if ((option.type->values & takes::number) != takes::number) continue;  // of a rule of one's own
    ranges_.push_back(option.range);
    option_schedules_.push_back(Schedule::option(options, option.name, fallback_value(option).as_number()));
    if (def_->stateless_option && std::strcmp(option.name, def_->stateless_option) == 0)
      stateless_ = option_schedules_.back().fixed() && option_schedules_.back().at({}) == 0;
  }
  has_lr_ = has_rate(*def_);
  has_bias_lr_ = has_lr_ && options.has("bias_lr");
  if (has_bias_lr_) bias_lr_ = Schedule::required(options, "bias_lr");
  assert(ranges_.size() <= kMaxRuleOptions && flags_.size() <= kMaxRuleFlags);
  if (!stateless_) slots_.assign(def_->slots.begin(), def_->slots.end());
  if (!def_->minimizes) return;
  minimizer_ = MinimizerOptions::of(options, std::strcmp(def_->name, "cg") == 0);
  slots_ = minimizer_->slots();
}

void Optimizer::change(const OptimizerOptions& options, const std::string& where) {
  Optimizer next(options, windows_, where, math_.dtype);
  if (next.def_ != def_)
    throw Error(ErrorKind::model, {.where = where + ": optimizer",
                                   .what = "another rule has other states",
                                   .got = next.type(),
                                   .expected = type(),
                                   .hint = "start another run with it"});
  if (stateless_ && !next.stateless_)
    throw Error(ErrorKind::model,
                {.where = where + ": optimizer",
                 .what = std::string(type()) + " began with " + def_->stateless_option + " = 0 and keeps no " + def_->slots[0],
                 .hint = std::string("start the run with a ") + def_->stateless_option + " above 0, such as 1e-6"});
  if (!clip_.take_threshold(next.clip_))
    throw Error(ErrorKind::model, {.where = where + ": clip",
                                   .what = "the gradient is clipped in another way than when the run began",
                                   .hint = "only its threshold can change"});
  if (next.lookahead_.active() != lookahead_.active())
    throw Error(ErrorKind::model, {.where = where + ": lookahead",
                                   .what = "keeps slow weights from the run's first step on, or none",
                                   .hint = "only its numbers can change"});
  if (!next.stateless_ && next.slots_ != slots_)
    throw Error(ErrorKind::model,
                {.where = where + ": optimizer", .what = "another rule has other states", .hint = "start another run with it"});
  program_ = std::move(next.program_);
  minimizer_ = next.minimizer_;
  lookahead_ = next.lookahead_;
  option_schedules_ = std::move(next.option_schedules_);
  bias_lr_ = std::move(next.bias_lr_);
  has_bias_lr_ = next.has_bias_lr_;
  flags_ = std::move(next.flags_);
  regularizers_ = std::move(next.regularizers_);
}

void Optimizer::choose_kernel(Isa isa) {
  const char* op = update_op();
  if (!op) op = def_->kernel;
  View views[1 + kMaxRuleSlots];
  for (View& view : views) view = flat_view(nullptr, 1, math_.dtype);
  KernelCall like;
  like.in = like.out = views;
  like.n_in = 1;
  like.n_out = 1 + (minimizer_ ? 0 : static_cast<int>(rule_slots()));
  View read[2 + kMaxRuleSlots];
  FusedParams code = {};
  if (program_) {
    std::fill(std::begin(read), std::end(read), views[0]);
    program_->make({}, {}, &code);
    like.in = read, like.n_in = code.n_inputs, like.params = &code;
  }
  kernel_ = widest_kernel(op, like, isa);
  assert(kernel_);  // a rule without a kernel is our own mistake
}

const char* Optimizer::update_op() const {
  if (def_->slots.empty() && std::strcmp(def_->kernel, "update_noop") == 0) return nullptr;
  return stateless_ ? def_->stateless_kernel : def_->kernel;
}

RuleStep Optimizer::rule_step(const StepProgress& now) const {
  RuleStep step;
  for (size_t i = 0; i < option_schedules_.size(); ++i) {
    step.option[i] = option_schedules_[i].at(now);
    if (i == 0 && has_lr_) step.option[i] *= rate_factor_;
    // A schedule may leave what the rule can bear (a beta above 1): keep it inside.
    step.option[i] = std::clamp(step.option[i], ranges_[i].low, ranges_[i].high);
  }
  for (size_t i = 0; i < flags_.size(); ++i) step.flag[i] = flags_[i];
  step.t = now.step - now.skipped + 1;
  return step;
}

void Optimizer::initialize(void* const* slots) const {
  const RuleStep step = rule_step({});
  for (size_t s = 0; s < rule_slots(); ++s) {
    const double value = program_ ? program_->initial(s) : def_->initial ? def_->initial(step, static_cast<int>(s)) : 0;
    for (const ParamWindow& window : windows_) math_.fill(value, window.elements, element(slots[s], window.offset, math_.dtype));
  }
}

void Optimizer::begin_step(const StepProgress& now, double gradient_scale) {
  gradient_scale_ = gradient_scale;
  now_ = now;
  learning_rate_ = learning_rate_at(now);
  fill_params(now, params_);
  make_codes();
}

void Optimizer::make_codes() {
  const RuleNumbers numbers{.lr = 0,
                            .t = static_cast<double>(now_.step - now_.skipped + 1),
                            .step = static_cast<double>(now_.step),
                            .epoch = now_.epoch,
                            .progress = now_.progress};
  for (size_t i = 0; i < codes_.size(); ++i) {
    RuleNumbers own = numbers;
    own.lr = params_[i].lr;
    program_->make(own, params_[i], &codes_[i]);
  }
}

void Optimizer::params_if_skipped(std::span<UpdateParams> to) const {
  StepProgress now = now_;
  ++now.skipped;
  fill_params(now, to);
}

void Optimizer::fill_params(const StepProgress& now, std::span<UpdateParams> to) const {
  RuleStep step = rule_step(now);
  const double bias_rate = has_bias_lr_ ? std::max(0.0, bias_lr_.at(now)) * rate_factor_ : learning_rate_;
  for (size_t i = 0; i < windows_.size(); ++i) {
    UpdateParams& params = to[i] = UpdateParams{};
    params.gradient_scale = gradient_scale_;
    params.clip_value = clip_.value_limit();
    step.role = windows_[i].role;
    const double rate = step.role == ParamRole::bias ? bias_rate : learning_rate_;
    if (has_lr_) step.option[0] = rate;
    if (program_) params.lr = rate;
    else def_->prepare(step, &params);
    params.lr *= windows_[i].lr_scale;
    params.decay *= windows_[i].lr_scale;
    regularizers_[i].apply(windows_[i].role, now, rate * windows_[i].lr_scale, &params);
  }
}

Optimizer::Range Optimizer::range(int part, int parts) const {
  if (pieces_.empty()) return {};
  int64_t total = 0;
  for (const UpdatePiece& piece : pieces_) total += piece.end - piece.begin;
  // The piece at which share `part` begins: pieces whose middle lies before the border belong to the left.
  const auto border = [&](int at) {
    int64_t before = 0;
    for (const UpdatePiece& piece : pieces_) {
      const int64_t size = piece.end - piece.begin;
      if ((2 * before + size) * parts >= 2 * total * at) return piece.begin;
      before += size;
    }
    return pieces_.back().end;
  };
  const int64_t begin = part == 0 ? pieces_.front().begin : border(part);
  return {begin, part + 1 == parts ? pieces_.back().end : border(part + 1)};
}

void Optimizer::measure(Range range, const void* gradient, std::span<const uint8_t> quiet) {
  if (!clip_.needs_norms()) return;
  const auto at = [&](int64_t border) {
    return static_cast<size_t>(std::lower_bound(pieces_.begin(), pieces_.end(), border,
                                                [](const UpdatePiece& piece, int64_t value) { return piece.begin < value; }) -
                               pieces_.begin());
  };
  clip_.measure(at(range.begin), at(range.end), gradient, math_, quiet);
}

void Optimizer::finish_norms() {
  if (!clip_.needs_norms()) return;
  clip_.finish(gradient_scale_);
  for (size_t i = 0; i < windows_.size(); ++i) params_[i].gradient_scale = gradient_scale_ * clip_.factor(i);
  make_codes();
}

void Optimizer::update(Range range, void* parameters, const void* gradient, void* const* slots) const {
  update_chunk(range, parameters, element(gradient, range.begin, math_.dtype), slots);
}

void Optimizer::update_chunk(Range range, void* parameters, const void* chunk_gradient, void* const* slots) const {
  const Dtype dtype = math_.dtype;
  if (!update_op()) return;
  size_t i = static_cast<size_t>(
      std::upper_bound(windows_.begin(), windows_.end(), range.begin,
                       [](int64_t value, const ParamWindow& window) { return value < window.offset + window.elements; }) -
      windows_.begin());
  for (; i < windows_.size() && windows_[i].offset < range.end; ++i) {
    const ParamWindow& window = windows_[i];
    if (!window.trainable) continue;
    const int64_t begin = std::max(range.begin, window.offset), end = std::min(range.end, window.offset + window.elements);
    if (begin >= end) continue;
    const int64_t t = now_.step - now_.skipped + 1;
    std::byte* const fast = element(parameters, begin, dtype);
    std::byte* const slow = lookahead_.active() ? element(slots[rule_slots()], begin, dtype) : nullptr;
    if (slow) lookahead_.before(t, end - begin, fast, slow, dtype);
    run_rule(i, {begin, end}, fast, element(chunk_gradient, begin - range.begin, dtype), slots);
    if (slow) lookahead_.after(t, end - begin, fast, slow, dtype);
  }
}

void Optimizer::run_kernel(const UpdateParams& params, int64_t n, void* parameters, const void* gradient,
                           std::span<void* const> slots) const {
  const View in = flat_view(static_cast<const std::byte*>(gradient), n, math_.dtype);
  View out[1 + kMaxRuleSlots];
  out[0] = flat_view(static_cast<const std::byte*>(parameters), n, math_.dtype);
  for (size_t s = 0; s < slots.size(); ++s) out[s + 1] = flat_view(static_cast<const std::byte*>(slots[s]), n, math_.dtype);
  KernelCall call;
  call.in = &in;
  call.n_in = 1;
  call.out = out;
  call.n_out = 1 + static_cast<int>(slots.size());
  call.params = &params;
  kernel_->run(call);
}

void Optimizer::replay(size_t window, const UpdateParams& params, Range range, void* parameters, const void* zeros,
                       void* const* slots) const {
  assert(!program_ && !lookahead() && windows_[window].offset <= range.begin &&
         range.end <= windows_[window].offset + windows_[window].elements);
  if (!update_op()) return;
  void* states[kMaxRuleSlots];
  for (size_t s = 0; s < slots_.size(); ++s) states[s] = element(slots[s], range.begin, math_.dtype);
  run_kernel(params, range.end - range.begin, element(parameters, range.begin, math_.dtype), zeros, {states, slots_.size()});
}

bool Optimizer::rests(size_t window, double state) const {
  assert(!program_ && !lookahead());
  if (!update_op()) return true;
  alignas(double) std::byte numbers[1 + kMaxRuleSlots][sizeof(double)], zero[sizeof(double)] = {};
  void* states[kMaxRuleSlots];
  const auto first = [](size_t at, double given) { return at == 0 ? 1.0 : given; };
  for (size_t i = 0; i <= slots_.size(); ++i) math_.fill(first(i, state), 1, numbers[i]);
  for (size_t s = 0; s < slots_.size(); ++s) states[s] = numbers[s + 1];
  run_kernel(params_[window], 1, numbers[0], zero, {states, slots_.size()});
  for (size_t i = 0; i <= slots_.size(); ++i) {
    std::byte before[sizeof(double)];
    math_.fill(first(i, state), 1, before);
    if (std::memcmp(numbers[i], before, dtype_bytes(math_.dtype)) != 0) return false;
  }
  return true;
}

// On a range of one window.
void Optimizer::run_rule(size_t window, Range range, std::byte* parameters, const std::byte* gradient, void* const* slots) const {
  if (program_) return run_program(window, range, parameters, gradient, slots);
  void* states[kMaxRuleSlots];
  for (size_t s = 0; s < rule_slots(); ++s) states[s] = element(slots[s], range.begin, math_.dtype);
  run_kernel(params_[window], range.end - range.begin, parameters, gradient, {states, rule_slots()});
}

void Optimizer::run_program(size_t window, Range range, std::byte* parameters, const std::byte* gradient, void* const* slots) const {
  const Dtype dtype = math_.dtype;
  const int64_t n = range.end - range.begin;
  View in[2 + kMaxRuleSlots], out[1 + kMaxRuleSlots];
  in[0] = out[0] = flat_view(parameters, n, dtype);
  in[1] = flat_view(gradient, n, dtype);
  for (size_t s = 0; s < rule_slots(); ++s) in[s + 2] = out[s + 1] = flat_view(element(slots[s], range.begin, dtype), n, dtype);
  KernelCall call;
  call.in = in, call.out = out, call.params = &codes_[window];
  call.n_in = 2 + static_cast<int>(rule_slots());
  call.n_out = 1 + static_cast<int>(rule_slots());
  kernel_->run(call);
}

double Optimizer::penalty(const StepProgress& now, const void* parameters) const {
  double sum = 0;
  for (size_t i = 0; i < windows_.size(); ++i)
    if (windows_[i].trainable)
      sum += regularizers_[i].penalty(windows_[i].role, now, element(parameters, windows_[i].offset, math_.dtype), windows_[i].elements,
                                      math_);
  return sum;
}

}  // namespace perigee
