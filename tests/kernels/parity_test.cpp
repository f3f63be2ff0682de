// Every kernel against the reference, by enumeration: all ops' cases (tests/graph/cases.h) in several memory layouts, accumulating and
// in place where the kernel or op says so. The truth is `ref` in float64 on the same numbers; `ref` in float32 is tested like the rest.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/core/error.h"
#include "src/graph/plan.h"
#include "tests/graph/cases.h"
#include "tests/graph/interpreter.h"

namespace perigee {
namespace {

constexpr int kSeeds = 3;

enum class Layout { contiguous, channels_last, padded, permuted, broadcast };

struct Variant {
  Layout in, out;
  bool accumulate = false;
  bool in_place = false;
  int canonical = -1;  // this operand stays contiguous, as parameters do in plans
};

constexpr Variant kVariants[] = {
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

const char* layout_name(Layout layout) {
  static constexpr const char* kNames[] = {"contiguous", "channels-last", "padded", "permuted", "broadcast"};
  return kNames[static_cast<int>(layout)];
}

// An operand in memory of its own, in some layout, surrounded by bytes that must stay as they are.
class Placed {
 public:
  Placed(const Type& type, Layout layout) : elements_(0) {
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
    storage_ = std::make_shared<Storage>((static_cast<size_t>(elements_) + kGuard) * dtype_bytes(type.dtype));
    std::fill(storage_->data(), storage_->data() + storage_->bytes(), kPattern);
    view_.data = storage_->data();
  }

  void fill(const Tensor& values) {
    int64_t i = 0;
    for_each_index(view_.rank, view_.dims, [&](const int64_t* index) {
      const int64_t to = offset_of(view_, index);
      if (view_.dtype == Dtype::i64) store_as<int64_t>(view_, to, load_as<int64_t>(values.view(), i++));
      else store_as<double>(view_, to, load_as<double>(values.view(), i++));
    });
  }

  const View& view() const { return view_; }

  bool surroundings_untouched() const {
    const size_t size = dtype_bytes(view_.dtype);
    std::vector<bool> inside(storage_->bytes(), false);
    for_each_index(view_.rank, view_.dims, [&](const int64_t* index) {
      const size_t at = static_cast<size_t>(offset_of(view_, index)) * size;
      std::fill(inside.begin() + static_cast<std::ptrdiff_t>(at), inside.begin() + static_cast<std::ptrdiff_t>(at + size), true);
    });
    for (size_t i = 0; i < inside.size(); ++i)
      if (!inside[i] && storage_->data()[i] != kPattern) return false;
    return true;
  }

 private:
  static constexpr size_t kGuard = 32;
  static constexpr std::byte kPattern{0xa5};
  std::shared_ptr<Storage> storage_;
  View view_;
  int64_t elements_;
};

// One case, with its values drawn; runs kernels on it.
class Bench {
 public:
  Bench(const OpCase& tested, uint64_t seed)
      : tested_(tested), op_(op_named(tested.op)), random_(seed), present_(std::make_unique<bool[]>(tested.inputs.size() + 1)) {
    for (size_t i = 0; i < tested.inputs.size(); ++i) {
      const CaseOperand& operand = tested.inputs[i];
      present_[i] = operand.present;
      narrow_.push_back(operand.type);
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
    for (const Type& type : outputs_) out.emplace_back(type, variant.out);
    std::vector<View> in_views, out_views;
    for (size_t i = 0; i < in.size(); ++i) in_views.push_back(present_[i] ? in[i].view() : View{});
    for (const Placed& operand : out) out_views.push_back(operand.view());
    if (variant.in_place && !put_in_place(in, out, out_views)) return false;
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
    for (size_t i = 0; i < out.size(); ++i) {
      before.push_back(case_values({outputs_[i], -1, 2}, false, random_));
      if (variant.accumulate) out[i].fill(before[i]);
    }
    run_kernel(kernel, kernel_call);
    for (size_t i = 0; i < out.size(); ++i) {
      if (!variant.in_place && !out[i].surroundings_untouched()) {
        failed_ = true;
        ADD_FAILURE() << "writes outside output " << i;
      }
      compare(out_views[i], truth[i], variant.accumulate ? &before[i] : nullptr);
    }
    return true;
  }

  bool failed() const { return failed_; }
  // Only sums are accumulated; truth values and integers are not.
  bool sums() const { return outputs_[0].dtype == Dtype::f32; }

 private:
  static Dtype widened(Dtype dtype) { return dtype == Dtype::f32 ? Dtype::f64 : dtype; }

  OpCall call(const std::vector<Type>& types) const { return {types, {present_.get(), types.size()}, tested_.attrs}; }

  std::vector<Placed> place(const std::vector<Type>& types, const Variant& variant) {
    std::vector<Placed> placed;
    for (size_t i = 0; i < types.size(); ++i) {
      placed.emplace_back(types[i], static_cast<int>(i) == variant.canonical ? Layout::contiguous : variant.in);
      if (present_[i]) placed.back().fill(values_[i]);
    }
    return placed;
  }

  // The first output takes the memory of an input of its type, as plans do for element-wise ops.
  bool put_in_place(const std::vector<Placed>& in, const std::vector<Placed>& out, std::vector<View>& out_views) const {
    if (!op_.elementwise) return false;
    for (size_t i = 0; i < in.size(); ++i)
      if (present_[i] && same_layout(in[i].view(), out[0].view()) && in[i].view().dtype == out[0].view().dtype) {
        out_views[0] = in[i].view();
        return true;
      }
    return false;
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
    run_kernel(*ref_kernel(tested_.op), {.in = in_views.data(),
                                         .out = out_views.data(),
                                         .n_in = static_cast<int>(in.size()),
                                         .n_out = static_cast<int>(out_views.size()),
                                         .params = params,
                                         .step = &step_});
    return result;
  }

  // Element-wise ops must be right element by element, others to within the scale of their output; where sums cancel, a part of
  // their operands' scale counts.
  void compare(const View& got, const Tensor& truth, const Tensor* before) {
    double largest = 0;
    for (size_t k = 0; k < values_.size(); ++k)
      if (present_[k] && narrow_[k].dtype == Dtype::f32)
        for (int64_t i = 0; i < values_[k].elements(); ++i)
          largest = std::max(largest, 0.3 * std::abs(double{values_[k].data<float>()[i]}));
    for (int64_t i = 0; i < truth.elements(); ++i) {
      const double x = load_as<double>(truth.view(), i);
      if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    }
    int64_t i = 0, wrong = 0;
    for_each_index(got.rank, got.dims, [&](const int64_t* index) {
      const double start = before ? load_as<double>(before->view(), i) : 0.0;
      const double expected = load_as<double>(truth.view(), i++) + start, x = load_as<double>(got, offset_of(got, index));
      const double scale =
          op_.elementwise && op_.name != std::string_view("fused") ? std::abs(expected) + std::abs(start) : largest + std::abs(start);
      const bool right =
          std::isnan(expected) ? std::isnan(x) : x == expected || std::abs(x - expected) <= tested_.tolerance * scale + 1e-37;
      if (!right && ++wrong <= 2)
        ADD_FAILURE() << "element " << i - 1 << ": " << x << " instead of " << expected << " (largest " << largest << ")";
    });
    if (wrong == 0) return;
    failed_ = true;
    ADD_FAILURE() << wrong << " of " << truth.elements() << " elements are wrong";
  }

  const OpCase& tested_;
  const OpDef& op_;
  std::mt19937_64 random_;
  std::unique_ptr<bool[]> present_;
  std::vector<Type> narrow_, wide_, outputs_, wide_outputs_;
  std::vector<Tensor> values_, truth_[2];
  std::vector<int64_t> example_ids_;
  StepInfo step_;
  bool failed_ = false;
};

std::vector<const Kernel*> kernels_of(std::string_view op) {
  std::vector<const Kernel*> result;
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i) {
      const Kernel& kernel = list.first[i];
      if (op == kernel.op && kernel.backend != Backend::cuda && kernel.isa <= host_isa()) result.push_back(&kernel);
    }
  return result;
}

std::string kernel_text(const Kernel& kernel) {
  return std::string(kernel.op) + " [" + (kernel.backend == Backend::ref ? "ref " : "cpu ") + kernel.name + " " + isa_name(kernel.isa) +
         "]";
}

TEST(Parity, EveryKernelAgreesWithTheReference) {
  std::set<const Kernel*> ran, tried, wrong;
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    for (const OpCase& tested : all_cases(seed)) {
      if (op_named(tested.op).alias) continue;
      ASSERT_TRUE(ref_kernel(tested.op)) << tested.op << " has no reference kernel";
      Bench bench(tested, seed);
      for (const Kernel* kernel : kernels_of(tested.op))
        for (const Variant& variant : kVariants) {
          if (variant.accumulate && !(kernel->accumulates && bench.sums())) continue;
          if (wrong.contains(kernel)) continue;  // once told is enough
          tried.insert(kernel);
          SCOPED_TRACE(kernel_text(*kernel) + " on " + tested.text() + ", " + layout_name(variant.in) + " to " + layout_name(variant.out) +
                       (variant.accumulate ? ", accumulating" : "") + (variant.in_place ? ", in place" : "") +
                       (variant.canonical >= 0 ? ", operand " + std::to_string(variant.canonical) + " contiguous" : ""));
          if (bench.run(*kernel, variant)) ran.insert(kernel);
          if (bench.failed()) wrong.insert(kernel);
        }
    }
  for (const Kernel* kernel : tried)
    EXPECT_TRUE(ran.contains(kernel)) << kernel_text(*kernel) << " declined every case: add one that it takes";
}

// Plans may refuse to run any op on which ref declines.
TEST(Parity, EveryOpHasAReferenceKernel) {
  for (const OpDef* op : all_ops()) {
    const bool leaf = op->max_inputs == 0 && !op->params;
    if (leaf || op->alias) continue;
    EXPECT_TRUE(ref_kernel(op->name)) << op->name;
  }
}

}  // namespace
}  // namespace perigee
