#include "src/optim/tensor_optimizer.h"

#include <cstring>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr int64_t kBorder = 64;  // bytes

std::shared_ptr<Storage> zeros(int64_t elements, Dtype dtype) {
  auto block = std::make_shared<Storage>(static_cast<size_t>(elements) * dtype_bytes(dtype));
  std::memset(block->data(), 0, block->bytes());
  return block;
}

}  // namespace

TensorOptimizer::TensorOptimizer(const Json& rule, std::vector<ParamWindow> windows, std::span<const Array> like, const std::string& where)
    : windows_(std::move(windows)) {
  if (like.empty()) throw Error(ErrorKind::usage, {.where = where, .what = "there are no parameters"});
  dtype_ = like[0].view.dtype;
  const int64_t border = kBorder / static_cast<int64_t>(dtype_bytes(dtype_));
  for (size_t i = 0; i < like.size(); ++i) {
    ParamWindow& window = windows_[i];
    if ((dtype_ != Dtype::f32 && dtype_ != Dtype::f64) || like[i].view.dtype != dtype_)
      throw Error(ErrorKind::usage, {.where = where,
                                     .what = "parameter '" + window.name + "' has the wrong dtype",
                                     .got = like[i].text(),
                                     .expected = "f32 or f64, the same for all"});
    window.shape = like[i].shape();
    window.elements = window.shape.elements();
    window.offset = elements_;
    elements_ += (window.elements + border - 1) / border * border;
  }
  optimizer_ = std::make_unique<Optimizer>(OptimizerOptions{.optimizer = rule, .regularization = {}, .clip = {}, .constraint = {}},
                                           windows_, where, dtype_);
  if (optimizer_->minimizer())
    throw Error(ErrorKind::usage,
                {.where = where,
                 .what = std::string("'") + optimizer_->type() + "' searches along lines: it asks for the loss again and again",
                 .expected = "a rule that goes by one gradient",
                 .hint = "train a job with it, or take pg.adam { lr = 1e-3 }"});
  parameters_ = zeros(elements_, dtype_);
  gradient_ = zeros(elements_, dtype_);
  std::vector<void*> slots;
  for (size_t i = 0; i < optimizer_->slots().size(); ++i) {
    slots_.emplace_back(parameters_->bytes());
    std::memset(slots_.back().data(), 0, slots_.back().bytes());
    slots.push_back(slots_.back().data());
  }
  optimizer_->initialize(slots.data());
}

Array TensorOptimizer::window_of(const Storage& block, size_t index) const {
  const ParamWindow& window = windows_[index];
  const auto& owner = &block == parameters_.get() ? parameters_ : gradient_;
  return {owner, contiguous_view(block.data() + static_cast<size_t>(window.offset) * dtype_bytes(dtype_), dtype_, window.shape)};
}

void TensorOptimizer::check(std::span<const Array> given, const char* what) const {
  for (size_t i = 0; i < windows_.size(); ++i)
    if (given[i].shape() != windows_[i].shape)
      throw Error(ErrorKind::usage, {.where = std::string(what) + " '" + windows_[i].name + "'",
                                     .what = "does not have the shape of the parameter at the first step",
                                     .got = given[i].text(),
                                     .expected = Type{dtype_, windows_[i].shape}.text()});
}

void TensorOptimizer::step(std::span<const Array> parameters, std::span<const Array> gradients, StepProgress now) {
  check(parameters, "parameter");
  check(gradients, "gradient");
  for (size_t i = 0; i < windows_.size(); ++i) {
    copy_into(parameters[i], window_of(*parameters_, i));
    copy_into(gradients[i], window_of(*gradient_, i));
  }
  now.step = steps_;
  std::vector<void*> slots;
  for (const Storage& slot : slots_) slots.push_back(slot.data());
  optimizer_->begin_step(now);
  optimizer_->update({0, elements_}, parameters_->data(), gradient_->data(), slots.data());
  ++steps_;
  for (size_t i = 0; i < windows_.size(); ++i)
    if (windows_[i].trainable) copy_into(window_of(*parameters_, i), parameters[i]);
}

}  // namespace perigee
