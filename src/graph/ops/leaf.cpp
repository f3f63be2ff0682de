// Where values come from without being computed, and the plain copy. The plan binds leaves to memory; they have no kernel.
#include <cassert>

#include "src/core/error.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kLeafName = {"name", "name", nullptr, "of the field, parameter or state"};
constexpr Option kIndex = {"index", "integer", nullptr, "of the graph's constant", {.low = 0}};
constexpr Option kNamed[] = {kLeafName}, kTable[] = {kIndex};

// The graph makes a leaf itself.
std::vector<Type> not_applied(const OpCall&) {
  assert(!"applied");
  return {};
}

std::vector<Type> same_type(const OpCall& call) { return {call.inputs[0]}; }

std::vector<Value> pass_through(Graph&, const Node&, std::span<const Value> grads) { return {grads[0]}; }

Sliced leaf_batch(const OpCall&, std::span<const Sliced>) { return Sliced::batch; }
Sliced leaf_whole(const OpCall&, std::span<const Sliced>) { return Sliced::whole; }
Sliced as_input(const OpCall&, std::span<const Sliced> inputs) { return inputs[0]; }

constexpr OpDef op_leaf(LeafOp kind, const char* name, const char* doc, std::span<const Option> attributes,
                        decltype(OpDef::sliced) sliced) {
  return {.name = name,
          .doc = doc,
          .attributes = {.options = attributes},
          .min_inputs = 0,
          .max_inputs = 0,
          .infer = not_applied,
          .sliced = sliced,
          .leaf = kind,
          .internal = true};
}

const OpDef kLeafOps[] = {
    op_leaf(LeafOp::input, "input", "A field of the batch; dimension 0 counts examples.", kNamed, leaf_batch),
    op_leaf(LeafOp::parameter, "parameter", "A window of the parameter block.", kNamed, leaf_whole),
    op_leaf(LeafOp::state, "state", "A window of the state segment.", kNamed, leaf_whole),
    op_leaf(LeafOp::table, "table", "A small constant tensor that the graph holds.", kTable, leaf_whole),
    {.name = "copy",
     .doc = "The same elements in memory of their own: x.",
     .infer = same_type,
     .vjp = pass_through,
     .sliced = as_input,
     .internal = true,
     .elementwise = true},
};

}  // namespace

extern const OpList ops_leaf;
const OpList ops_leaf = op_list(kLeafOps);

}  // namespace perigee
