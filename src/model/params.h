// The two segments of a model's numbers (src/ARCHITECTURE.md, decisions 6 and 7): parameters in one dense block of float32 or float64,
// tensors on 64-byte borders with gaps of zero; and the state segment beside it. Gradients and optimiser slots have the block's layout.
#pragma once

#include <cassert>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/nn/layer.h"
#include "src/optim/optimizer.h"
#include "src/tensor/tensor.h"

namespace perigee {

class Params {
 public:
  Params() = default;
  Params(std::vector<ParameterSpec> parameters, std::vector<StateSpec> states, Dtype dtype = Dtype::f32);

  // Initial values; a function of the seed and the names alone: those of float32, whatever the parameters are.
  void initialize(uint64_t seed);

  const std::vector<ParameterSpec>& specs() const { return specs_; }
  const std::vector<ParamWindow>& windows() const { return windows_; }  // offsets in elements, ascending
  const std::vector<StateSpec>& state_specs() const { return state_specs_; }

  Dtype dtype() const { return dtype_; }  // of parameters: f32 or f64
  size_t width() const { return dtype_bytes(dtype_); }
  int64_t block_elements() const { return block_elements_; }  // with gaps
  size_t block_bytes() const { return static_cast<size_t>(block_elements_) * width(); }
  int64_t parameter_elements() const;  // without
  std::byte* block() { return block_->data(); }
  const std::byte* block() const { return block_->data(); }
  // The block's elements; T must be their type.
  template <class T>
  std::span<const T> values() const {
    assert(dtype_of<T>() == dtype_);
    return {reinterpret_cast<const T*>(block_->data()), static_cast<size_t>(block_elements_)};
  }

  int find(std::string_view name) const;        // index of a parameter; -1
  int find_state(std::string_view name) const;  // index of a state; -1
  size_t parameter_offset(int i) const { return static_cast<size_t>(windows_[static_cast<size_t>(i)].offset) * width(); }  // bytes
  std::byte* parameter(int i) { return block() + parameter_offset(i); }
  std::byte* state(int i) { return states_->data() + state_offsets_[static_cast<size_t>(i)]; }
  // The whole state segment, and where in it a state begins.
  std::span<std::byte> state_bytes() const { return {states_->data(), states_->bytes()}; }
  size_t state_offset(int i) const { return state_offsets_[static_cast<size_t>(i)]; }
  // Handles that share the memory.
  Tensor parameter_tensor(int i) const;
  Tensor state_tensor(int i) const;

  void scale_rate(int i, double factor);                                    // the parameter's learning rate
  void keep(int i) { windows_[static_cast<size_t>(i)].trainable = false; }  // training leaves it as it is
  // The numbers of another model of the same network take the place of these.
  void share(const Params& other);

 private:
  std::vector<ParameterSpec> specs_;
  std::vector<ParamWindow> windows_;
  std::vector<StateSpec> state_specs_;
  std::vector<size_t> state_offsets_;
  Dtype dtype_ = Dtype::f32;
  int64_t block_elements_ = 0;
  std::shared_ptr<Storage> block_, states_;
};

}  // namespace perigee
