#include "src/model/params.h"

#include <algorithm>

#include "kernels/block_math.h"
#include "kernels/convert.h"
#include "kernels/round_up.h"
#include "src/nn/initializer.h"

namespace perigee {
namespace {

constexpr int64_t kBorder = 16;  // elements: 64 bytes of float32

ParamWindow window_of(const ParameterSpec& spec, int64_t offset) {
  return {.name = spec.name,
          .offset = offset,
          .elements = spec.shape.elements(),
          .shape = spec.shape,
          .role = static_cast<ParamWindow::Role>(spec.role),
          .trainable = spec.trainable,
          .lr_scale = spec.lr_scale,
          .regularization = spec.regularization,
          .constraint = spec.constraint,
          .rows = spec.rows};
}

}  // namespace

Params::Params(std::vector<ParameterSpec> parameters, std::vector<StateSpec> states, Dtype dtype)
    : specs_(std::move(parameters)), state_specs_(std::move(states)), dtype_(dtype) {
  assert(dtype == Dtype::f32 || dtype == Dtype::f64);
  for (const ParameterSpec& spec : specs_) {
    windows_.push_back(window_of(spec, block_elements_));
    block_elements_ += round_up(windows_.back().elements, kBorder);
  }
  size_t bytes = 0;
  for (const StateSpec& spec : state_specs_) {
    state_offsets_.push_back(bytes);
    bytes += static_cast<size_t>(round_up(spec.shape.elements() * static_cast<int64_t>(dtype_bytes(spec.dtype)), int64_t{64}));
  }
  block_ = std::make_shared<Storage>(block_bytes());
  states_ = std::make_shared<Storage>(bytes);
  std::fill_n(block_->data(), block_->bytes(), std::byte{0});
  std::fill_n(states_->data(), states_->bytes(), std::byte{0});
}

void Params::initialize(uint64_t seed) {
  std::vector<float> values;
  for (size_t i = 0; i < specs_.size(); ++i) {
    values.resize(static_cast<size_t>(windows_[i].elements));
    perigee::initialize(specs_[i], seed, values);
    convert(Dtype::f32, values.data(), dtype_, parameter(static_cast<int>(i)), windows_[i].elements);
  }
  for (size_t i = 0; i < state_specs_.size(); ++i) {
    const StateSpec& spec = state_specs_[i];
    const int64_t n = spec.shape.elements();
    std::byte* to = state(static_cast<int>(i));
    if (spec.dtype == Dtype::i64) std::fill_n(reinterpret_cast<int64_t*>(to), n, static_cast<int64_t>(spec.initial));
    else block_math(spec.dtype).fill(spec.initial, n, to);
  }
}

void Params::share(const Params& other) {
  assert(block_elements_ == other.block_elements_ && dtype_ == other.dtype_ && state_offsets_ == other.state_offsets_);
  block_ = other.block_;
  states_ = other.states_;
}

int64_t Params::parameter_elements() const {
  int64_t sum = 0;
  for (const ParamWindow& window : windows_) sum += window.elements;
  return sum;
}

int Params::find(std::string_view name) const {
  const auto found = std::find_if(specs_.begin(), specs_.end(), [&](const ParameterSpec& spec) { return spec.name == name; });
  return found == specs_.end() ? -1 : static_cast<int>(found - specs_.begin());
}

int Params::find_state(std::string_view name) const {
  const auto found = std::find_if(state_specs_.begin(), state_specs_.end(), [&](const StateSpec& spec) { return spec.name == name; });
  return found == state_specs_.end() ? -1 : static_cast<int>(found - state_specs_.begin());
}

Tensor Params::parameter_tensor(int i) const { return Tensor(block_, parameter_offset(i), dtype_, windows_[static_cast<size_t>(i)].shape); }

Tensor Params::state_tensor(int i) const {
  const StateSpec& spec = state_specs_[static_cast<size_t>(i)];
  return Tensor(states_, state_offsets_[static_cast<size_t>(i)], spec.dtype, spec.shape);
}

void Params::scale_rate(int i, double factor) {
  specs_[static_cast<size_t>(i)].lr_scale *= factor;
  windows_[static_cast<size_t>(i)].lr_scale *= factor;
}

}  // namespace perigee
