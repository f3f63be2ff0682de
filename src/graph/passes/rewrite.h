// Shared by all passes: a new graph grows beside the old one, with a map from old values to new.
#pragma once

#include <map>
#include <set>
#include <utility>

#include "src/graph/graph.h"

namespace perigee {

class Rewrite {
 public:
  explicit Rewrite(const Graph& from) : from_(from) {
    for (const Tensor& constant : from.constants()) to_.add_constant(constant);
  }

  const Graph& from() const { return from_; }
  Graph& to() { return to_; }

  bool has(ValueId id) const { return moved_.contains(id); }
  ValueId moved(ValueId id) const { return id.node < 0 ? id : moved_.at(id); }
  Value value(ValueId id) { return id.node < 0 ? Value() : Value(&to_, moved(id)); }
  void set(ValueId old_id, ValueId new_id) { moved_[old_id] = new_id; }

  // The same node on the moved operands.
  void copy(const Node& node) {
    Node same = node;
    for (ValueId& id : same.inputs) id = moved(id);
    const int id = to_.append(std::move(same)).node;
    for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o) set({node.id, o}, {id, o});
  }

  // Leaves, assignments and outputs; then the new graph. A plan writes outputs to memory of their own: of several that have become
  // one value, all but the first get a copy.
  Graph finish() {
    for (const Leaf& leaf : from_.leaves())
      if (has(leaf.value)) to_.add_leaf({leaf.name, leaf.kind, moved(leaf.value)});
    for (const Assignment& assignment : from_.assignments()) to_.assign(assignment.state, value(assignment.value));
    std::set<ValueId> seen;
    for (const NamedValue& output : from_.outputs()) {
      const Value same = value(output.value);
      to_.output(output.name, seen.insert(same.id()).second ? same : to_.apply("copy", {same}));
    }
    to_.set_scope(from_.scope());
    return std::move(to_);
  }

 private:
  const Graph& from_;
  Graph to_;
  std::map<ValueId, ValueId> moved_;
};

}  // namespace perigee
