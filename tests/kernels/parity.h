// A kernel against the reference: one case of an op (tests/graph/cases.h) in several memory layouts, accumulating and in place where the
// kernel or the op says so. The truth is `ref` in float64 on the same numbers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/core/error.h"
#include "src/graph/plan.h"
#include "tests/graph/cases.h"
#include "tests/graph/interpreter.h"

namespace perigee {

enum class Layout { contiguous, channels_last, padded, permuted, broadcast };

struct Variant {
  Layout in, out;
  bool accumulate = false;
  bool in_place = false;
  int canonical = -1;  // this operand stays contiguous, as parameters do in plans
};

inline constexpr Variant kVariants[] = {
    {Layout::contiguous, Layout::contiguous},
    {Layout::contiguous, Layout::contiguous, true},
    {Layout::contiguous, Layout::contiguous, false, true},
    {Layout::channels_last, Layout::channels_last},
    {Layout::channels_last, Layout::channels_last, true},
    {Layout::channels_last, Layout::channels_last, false, true},
    {Layout::channels_last, Layout::contiguous},
    {Layout::contiguous, Layout::channels_last},
    {Layout::padded, Layout::padded},
    {Layout::permuted, Layout::permuted},
    {Layout::permuted, Layout::contiguous},
    {Layout::broadcast, Layout::contiguous},
    {.in = Layout::channels_last, .out = Layout::channels_last, .canonical = 0},
    {.in = Layout::channels_last, .out = Layout::channels_last, .canonical = 1},
    {.in = Layout::channels_last, .out = Layout::channels_last, .canonical = 2},
    {.in = Layout::channels_last, .out = Layout::channels_last, .canonical = 3},
    {.in = Layout::channels_last, .out = Layout::contiguous, .accumulate = true},
};

inline const char* layout_name(Layout layout) {
  static constexpr const char* kNames[] = {"contiguous", "channels-last", "padded", "permuted", "broadcast"};
  return kNames[static_cast<int>(layout)];
}

// Where kernels run: the memory that they are given, and how what is in it gets there and back. On the host it is the host's memory.
class Site {
 public:
  virtual ~Site() = default;
  // Memory of exactly so many bytes, freed with the pointer. A fault is reported by `name`.
  virtual std::shared_ptr<std::byte> memory(const char*, size_t bytes) {
    const auto owner = std::make_shared<Storage>(bytes);
    return {owner, owner->data()};
  }
  virtual void write(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }
  virtual void read(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }
  // Elements behind an operand that must stay untouched; none where the memory itself watches its borders.
  virtual size_t guard() const { return 32; }
  // Memory of a call is the site's; params are the host's but where the contract says otherwise.
  virtual void run(const Kernel& kernel, const KernelCall& call) { run_kernel(kernel, call); }
};

// An operand in memory of its own, in some layout, surrounded by bytes that must stay as they are.
class Placed {
 public:
  Placed(Site& site, const char* name, const Type& type, Layout layout) : site_(&site), elements_(0) {
    view_ = contiguous_view(nullptr, type.dtype, type.shape);
    int order[kMaxRank];  // outermost first
    for (int i = 0; i < view_.rank; ++i) order[i] = layout == Layout::permuted ? view_.rank - 1 - i : i;
    if (layout == Layout::channels_last && view_.rank == 4) std::rotate(order + 1, order + 2, order + 4);
    int64_t stride = 1;
    for (int i = view_.rank - 1; i >= 0; --i) {
      const int d = order[i];
      if (layout == Layout::broadcast && d == view_.rank - 1 - view_.rank / 2) {
        view_.strides[d] = 0;
        continue;
      }
      view_.strides[d] = stride;
      stride *= std::max<int64_t>(view_.dims[d], 1);
      if (layout == Layout::padded) stride += 3;
    }
    elements_ = stride;
    bytes_.assign((static_cast<size_t>(elements_) + site.guard()) * dtype_bytes(type.dtype), kPattern);
    view_.data = bytes_.data();
    memory_ = site.memory(name, bytes_.size());
    write();
  }

  void fill(const Tensor& values) {
    int64_t i = 0;
    for_each_index(view_.rank, view_.dims, [&](const int64_t* index) {
      const int64_t to = offset_of(view_, index);
      if (view_.dtype == Dtype::i64) store_as<int64_t>(view_, to, load_as<int64_t>(values.view(), i++));
      else store_as<double>(view_, to, load_as<double>(values.view(), i++));
    });
    write();
  }

  // As the host sees it, and as kernels do.
  const View& view() const { return view_; }
  View device_view() const {
    View view = view_;
    view.data = memory_.get();
    return view;
  }

  // Brings back what kernels have written.
  void read() { site_->read(bytes_.data(), memory_.get(), bytes_.size()); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  bool surroundings_untouched() const {
    const size_t size = dtype_bytes(view_.dtype);
    std::vector<bool> inside(bytes_.size(), false);
    for_each_index(view_.rank, view_.dims, [&](const int64_t* index) {
      const size_t at = static_cast<size_t>(offset_of(view_, index)) * size;
      std::fill(inside.begin() + static_cast<std::ptrdiff_t>(at), inside.begin() + static_cast<std::ptrdiff_t>(at + size), true);
    });
    for (size_t i = 0; i < inside.size(); ++i)
      if (!inside[i] && bytes_[i] != kPattern) return false;
    return true;
  }

 private:
  static constexpr std::byte kPattern{0xa5};

  void write() { site_->write(memory_.get(), bytes_.data(), bytes_.size()); }

  Site* site_;
  std::vector<std::byte> bytes_;
  std::shared_ptr<std::byte> memory_;
  View view_;
  int64_t elements_;
};

// One case, with its values drawn; runs kernels on it.
class Bench {
 public:
  // `storage`: what operands of f32 are stored as; Error where the op does not take that.
  Bench(const OpCase& tested, uint64_t seed, Site& site, Dtype storage = Dtype::f32)
      : site_(site),
        storage_(storage),
        tested_(tested),
        op_(op_named(tested.op)),
        random_(seed),
        present_(std::make_unique<bool[]>(tested.inputs.size() + 1)) {
    for (size_t i = 0; i < tested.inputs.size(); ++i) {
      const CaseOperand& operand = tested.inputs[i];
      present_[i] = operand.present;
      narrow_.push_back(operand.type);
      if (operand.type.dtype == Dtype::f32) narrow_.back().dtype = storage;
      values_.push_back(operand.present ? case_values(operand, false, random_) : Tensor());
    }
    wide_ = narrow_;
    for (Type& type : wide_) type.dtype = widened(type.dtype);
    outputs_ = op_.infer(call(narrow_));
    wide_outputs_ = op_.infer(call(wide_));
    for (int i = 0; i < 64; ++i) example_ids_.push_back(static_cast<int64_t>(random_() >> 8));
    step_ = {.seed = 7, .epoch = 2, .step = 5, .example_ids = example_ids_.data(), .training = true};
  }

  // False when the kernel declines this variant.
  bool run(const Kernel& kernel, const Variant& variant) {
    if (variant.canonical >= 0 &&
        !(variant.canonical < static_cast<int>(narrow_.size()) && narrow_[static_cast<size_t>(variant.canonical)].shape.rank() == 4))
      return false;
    std::vector<Placed> in = place(narrow_, variant), out;
    for (const Type& type : outputs_) out.emplace_back(site_, "an output", type, variant.out);
    std::vector<View> in_views, out_views;
    for (size_t i = 0; i < in.size(); ++i) in_views.push_back(present_[i] ? in[i].device_view() : View{});
    for (const Placed& operand : out) out_views.push_back(operand.device_view());
    Placed* first = &out[0];  // which holds the first result
    if (variant.in_place) {
      first = operand_to_overwrite(in, out[0]);
      if (first == nullptr) return false;
      out_views[0] = first->device_view();
    }
    alignas(64) std::byte params[kMaxParamsBytes];
    if (op_.params) op_.params(call(narrow_), params);
    KernelCall kernel_call{.in = in_views.data(),
                           .out = out_views.data(),
                           .n_in = static_cast<int>(in.size()),
                           .n_out = static_cast<int>(out.size()),
                           .params = params,
                           .accumulate = variant.accumulate,
                           .step = &step_};
    if (kernel.decline && kernel.decline(kernel_call)) return false;
    // The layout does not change the numbers, but for broadcasting, which repeats some.
    std::vector<Tensor>& truth = truth_[variant.in == Layout::broadcast];
    if (truth.empty()) truth = reference(in);
    std::vector<Tensor> before;
    std::mt19937_64 random(7);  // the same in every run
    for (size_t i = 0; i < out.size(); ++i) {
      before.push_back(case_values({outputs_[i], -1, 2}, false, random));
      if (variant.accumulate) out[i].fill(before[i]);
    }
    site_.run(kernel, kernel_call);
    results_.clear();
    for (size_t i = 0; i < out.size(); ++i) {
      Placed& result = i == 0 ? *first : out[i];
      result.read();
      results_.push_back(result.bytes());
      if (!variant.in_place && !result.surroundings_untouched()) {
        failed_ = true;
        ADD_FAILURE() << "writes outside output " << i;
      }
      compare(result.view(), truth[i], variant.accumulate ? &before[i] : nullptr);
    }
    return true;
  }

  // The memory of the outputs after the last run.
  const std::vector<std::vector<std::byte>>& results() const { return results_; }
  bool failed() const { return failed_; }
  // Only sums are accumulated; truth values and integers are not.
  bool sums() const { return outputs_[0].dtype == Dtype::f32; }

 private:
  static Dtype widened(Dtype dtype) { return is_floating(dtype) ? Dtype::f64 : dtype; }

  OpCall call(const std::vector<Type>& types) const { return {types, {present_.get(), types.size()}, tested_.attrs}; }

  std::vector<Placed> place(const std::vector<Type>& types, const Variant& variant) {
    std::vector<Placed> placed;
    for (size_t i = 0; i < types.size(); ++i) {
      placed.emplace_back(site_, "an input", types[i], static_cast<int>(i) == variant.canonical ? Layout::contiguous : variant.in);
      if (present_[i]) placed.back().fill(values_[i]);
    }
    return placed;
  }

  // The input whose memory the first output takes, as plans let it for element-wise ops.
  Placed* operand_to_overwrite(std::vector<Placed>& in, const Placed& out) const {
    if (!op_.elementwise) return nullptr;
    for (size_t i = 0; i < in.size(); ++i)
      if (present_[i] && same_layout(in[i].view(), out.view()) && in[i].view().dtype == out.view().dtype) return &in[i];
    return nullptr;
  }

  std::vector<Tensor> reference(const std::vector<Placed>& in) {
    std::vector<Tensor> inputs, result;
    std::vector<View> in_views, out_views;
    for (size_t i = 0; i < in.size(); ++i) {
      inputs.push_back(present_[i] ? contiguous_copy(in[i].view()).to(wide_[i].dtype) : Tensor());
      in_views.push_back(present_[i] ? inputs[i].view() : View{});
    }
    for (const Type& type : wide_outputs_) {
      result.emplace_back(type.dtype, type.shape);
      out_views.push_back(result.back().view());
    }
    alignas(64) std::byte params[kMaxParamsBytes];
    if (op_.params) op_.params(call(wide_), params);
    const KernelCall wide{.in = in_views.data(),
                          .out = out_views.data(),
                          .n_in = static_cast<int>(in.size()),
                          .n_out = static_cast<int>(out_views.size()),
                          .params = params,
                          .step = &step_};
    const Kernel& kernel = *ref_kernel(tested_.op);
    if (const char* const why = kernel.decline ? kernel.decline(wide) : nullptr)  // LAPACK's, which not every machine has
      throw Error(ErrorKind::resources, {.what = "this library is missing", .got = why});
    run_kernel(kernel, wide);
    return result;
  }

  // Element-wise ops must be right element by element, others to within the scale of their output; where sums cancel, a part of
  // their operands' scale counts.
  void compare(const View& got, const Tensor& truth, const Tensor* before) {
    double largest = 0;
    for (size_t k = 0; k < values_.size(); ++k)
      if (present_[k] && values_[k].dtype() == Dtype::f32)
        for (int64_t i = 0; i < values_[k].elements(); ++i)
          largest = std::max(largest, 0.3 * std::abs(double{values_[k].data<float>()[i]}));
    for (int64_t i = 0; i < truth.elements(); ++i) {
      const double x = load_as<double>(truth.view(), i);
      if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    }
    const double tolerance = storage_ == Dtype::f64 && got.dtype == Dtype::f64 ? 1e-12 : tested_.tolerance;
    // One rounding to what results are stored as.
    const double rounding = got.dtype == Dtype::bf16 ? 0x1p-8 : got.dtype == Dtype::f16 ? 0x1p-11 : 0;
    int64_t i = 0, wrong = 0;
    for_each_index(got.rank, got.dims, [&](const int64_t* index) {
      const double start = before ? load_as<double>(before->view(), i) : 0.0;
      double expected = load_as<double>(truth.view(), i++) + start;
      if (got.dtype == Dtype::f16) {
        const double rounded = float_from_f16(f16_from_float(static_cast<float>(expected)));
        if (std::isinf(rounded)) expected = rounded;
      }
      const double x = load_as<double>(got, offset_of(got, index));
      const double scale =
          op_.elementwise && op_.name != std::string_view("fused") ? std::abs(expected) + std::abs(start) : largest + std::abs(start);
      const bool right = std::isnan(expected)
                             ? std::isnan(x)
                             : x == expected || std::abs(x - expected) <= (tolerance + rounding) * scale + (rounding > 0 ? 1e-6 : 1e-37);
      if (!right && ++wrong <= 2)
        ADD_FAILURE() << "element " << i - 1 << ": " << x << " instead of " << expected << " (largest " << largest << ")";
    });
    if (wrong == 0) return;
    failed_ = true;
    ADD_FAILURE() << wrong << " of " << truth.elements() << " elements are wrong";
  }

  Site& site_;
  Dtype storage_;
  const OpCase& tested_;
  const OpDef& op_;
  std::mt19937_64 random_;
  std::unique_ptr<bool[]> present_;
  std::vector<Type> narrow_, wide_, outputs_, wide_outputs_;
  std::vector<Tensor> values_, truth_[2];
  std::vector<int64_t> example_ids_;
  StepInfo step_;
  std::vector<std::vector<std::byte>> results_;
  bool failed_ = false;
};

// The outcome of one variant of one case.
inline std::string variant_text(const OpCase& tested, const Variant& variant) {
  return tested.text() + ", " + layout_name(variant.in) + " to " + layout_name(variant.out) + (variant.accumulate ? ", accumulating" : "") +
         (variant.in_place ? ", in place" : "") +
         (variant.canonical >= 0 ? ", operand " + std::to_string(variant.canonical) + " contiguous" : "");
}

}  // namespace perigee
