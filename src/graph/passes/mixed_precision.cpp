#include "src/graph/passes/mixed_precision.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "kernels/dtype_kinds.h"
#include "src/graph/build.h"
#include "src/graph/op.h"
#include "src/graph/passes/rewrite.h"

namespace perigee {
namespace {

bool is_one_of(const Node& node, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), node.op->name) != names.end();
}

// Worth a conversion of their operands: tensor cores compute them.
constexpr std::array<std::string_view, 4> kProducts = {"linear", "matmul", "conv2d", "conv2d_pool"};
// Take what they get, all of their operands or (the normalisations, whose other operands belong to channels) the first and what is added
// to it.
constexpr std::array<std::string_view, 8> kFollow = {"pool2d",      "reshape", "transpose",  "slice",
                                                     "concatenate", "pad",     "batch_norm", "layer_norm"};
constexpr std::array<std::string_view, 2> kNorms = {"batch_norm", "layer_norm"};
constexpr size_t kResidual = 3;

class MixedPrecision {
 public:
  MixedPrecision(const Graph& graph, Dtype half) : rewrite_(graph), half_(half) {}

  Graph run() {
    for (const Node& node : rewrite_.from().nodes()) {
      rewrite_.to().set_scope(node.scope);
      if (is_one_of(node, kProducts)) add(node, [&](size_t) { return true; });
      else if (is_one_of(node, kFollow) && in_half(node.inputs[0]))
        add(node, [&](size_t i) { return i == 0 || i == kResidual || !is_one_of(node, kNorms); });
      else add(node, [](size_t) { return false; });
    }
    for (const NamedValue& output : rewrite_.from().outputs()) rewrite_.set(output.value, as(output.value, Dtype::f32));
    for (const Assignment& assignment : rewrite_.from().assignments()) rewrite_.set(assignment.value, as(assignment.value, Dtype::f32));
    return rewrite_.finish();
  }

 private:
  bool in_half(ValueId id) { return id.node >= 0 && rewrite_.from().type(id).dtype == Dtype::f32 && moved_type(id) == half_; }
  Dtype moved_type(ValueId id) { return rewrite_.to().type(rewrite_.moved(id)).dtype; }

  // The value as f32 or in half; what is no f32 stays what it is.
  ValueId as(ValueId id, Dtype dtype) {
    if (id.node < 0 || rewrite_.from().type(id).dtype != Dtype::f32 || moved_type(id) == dtype) return rewrite_.moved(id);
    auto& known = converted_[id];
    if (known.node < 0) known = cast(rewrite_.value(id), dtype).id();
    return known;
  }

  template <class Wants>
  void add(const Node& node, Wants wants_half) {
    Node same = node;
    for (size_t i = 0; i < same.inputs.size(); ++i) same.inputs[i] = as(same.inputs[i], wants_half(i) ? half_ : Dtype::f32);
    if (node.op->infer && !node.inputs.empty()) same.outputs = node.op->infer(OperandTypes(rewrite_.to(), same).call());
    const int id = rewrite_.to().append(std::move(same)).node;
    for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o) rewrite_.set({node.id, o}, {id, o});
  }

  Rewrite rewrite_;
  const Dtype half_;
  std::map<ValueId, ValueId> converted_;  // by old value: its other form
};

}  // namespace

Graph mixed_precision(const Graph& graph, Dtype half) { return MixedPrecision(graph, half).run(); }

}  // namespace perigee
