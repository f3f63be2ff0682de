// The simplest way to run a graph: node after node with the reference kernels, each value in memory of its own. Only for tests;
// it shares nothing with the plan, so each can be checked against the other.
#pragma once

#include <cassert>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kernels/ref/strided.h"
#include "kernels/registry.h"
#include "src/graph/op.h"

namespace perigee {

inline const Kernel* ref_kernel(std::string_view op) {
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (list.first[i].backend == Backend::ref && op == list.first[i].op) return &list.first[i];
  return nullptr;
}

// Runs one kernel with scratch and packed memory of its own.
inline void run_kernel(const Kernel& kernel, KernelCall call) {
  const auto bytes = [&](size_t (*f)(const KernelCall&)) { return f ? f(call) : size_t{0}; };
  Storage scratch(bytes(kernel.scratch_bytes) + 64), packed(bytes(kernel.packed_bytes) + 64);
  std::memset(scratch.data(), 0xff, scratch.bytes());  // undefined content shows as NaN
  call.scratch = scratch.data();
  call.packed = packed.data();
  if (kernel.pack && kernel.packed_bytes && kernel.packed_bytes(call) > 0) kernel.pack(call);
  kernel.run(call);
}

inline Tensor contiguous_copy(const View& view) {
  Tensor copy(view.dtype, Shape(std::vector<int64_t>(view.dims, view.dims + view.rank)));
  const size_t size = dtype_bytes(view.dtype);
  std::byte* to = copy.data<std::byte>();
  for_each_index(view.rank, view.dims, [&](const int64_t* index) {
    std::memcpy(to, view.as<std::byte>() + offset_of(view, index) * static_cast<int64_t>(size), size);
    to += size;
  });
  return copy;
}

class Interpreter {
 public:
  explicit Interpreter(const Graph& graph) : graph_(graph) {}

  StepInfo step;

  // Computes all nodes. `leaves` by name: inputs, parameters, states.
  void run(const std::map<std::string, Tensor>& leaves) {
    values_.clear();
    for (const Node& node : graph_.nodes()) values_.push_back(evaluate(node, leaves));
  }

  const Tensor& operator[](Value value) const {
    return values_[static_cast<size_t>(value.id().node)][static_cast<size_t>(value.id().output)];
  }

 private:
  std::vector<Tensor> evaluate(const Node& node, const std::map<std::string, Tensor>& leaves) {
    const std::string_view op = node.op->name;
    if (op == "input" || op == "parameter" || op == "state") return {leaves.at(attr_string(node, "name"))};
    if (op == "table") return {graph_.constants()[static_cast<size_t>(attr_int(node, "index"))]};
    std::vector<View> in;
    for (const ValueId& id : node.inputs)
      in.push_back(id.node < 0 ? View{} : values_[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)].view());
    const OperandTypes types(graph_, node);
    if (node.op->alias) {
      View window;
      const bool fits = node.op->alias(types.call(), in[0], &window);
      assert(fits);  // every value here is contiguous
      (void)fits;
      return {contiguous_copy(window)};
    }
    std::vector<Tensor> result;
    std::vector<View> out;
    for (const Type& type : node.outputs) {
      result.emplace_back(type.dtype, type.shape);
      out.push_back(result.back().view());
    }
    alignas(64) std::byte params[kMaxParamsBytes];
    if (node.op->params) node.op->params(types.call(), params);
    const Kernel* kernel = ref_kernel(op);
    assert(kernel);
    run_kernel(*kernel, {.in = in.data(),
                         .out = out.data(),
                         .n_in = static_cast<int>(in.size()),
                         .n_out = static_cast<int>(out.size()),
                         .params = params,
                         .step = &step});
    return result;
  }

  const Graph& graph_;
  std::vector<std::vector<Tensor>> values_;
};

}  // namespace perigee
