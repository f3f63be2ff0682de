#include "src/graph/passes/mixed_precision.h"

#include "kernels/dtype_kinds.h"
#include "src/graph/build.h"
#include "src/graph/op.h"
#include "src/graph/passes/rewrite.h"

namespace perigee {
namespace {

class MixedPrecision {
 public:
  MixedPrecision(const Graph& graph, Dtype half) : rewrite_(graph), half_(half) {}

  Graph run() {
    for (const Node& node : rewrite_.from().nodes()) {
      rewrite_.to().set_scope(node.scope);
      const OpDef& op = *node.op;
      if (op.precision == Precision::half) add(node, [](size_t) { return true; });
      else if (op.precision == Precision::follows && in_half(node.inputs[0]))
        add(node, [&](size_t i) { return (op.parameters >> i & 1) == 0; });
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
