// host, host_grad: ops of the program that embeds Perigee.
#include "src/graph/host_op.h"

#include <cassert>
#include <cstring>
#include <deque>
#include <mutex>

#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kHostName = {"name", "name", nullptr, "under which the program has registered the op"};
constexpr Option kHostAttributes[] = {kHostName};

std::mutex registry_mutex;
std::deque<HostOp>& registry() {  // addresses stay
  static std::deque<HostOp> ops;
  return ops;
}

[[noreturn]] void refuse_host(std::string what, std::string got, std::string expected = "") {
  throw Error(ErrorKind::model, {.what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
}

const HostOp& read_op(const OpCall& call) { return host_op_named(attr_string(call.attrs, kHostName)); }

double option_value(const Json& attrs, const std::string& name, double fallback) {
  const Json* value = attrs.find(name);
  if (!value || value->is_null()) return fallback;
  if (!value->is_number()) refuse_host("option '" + name + "' has the wrong type", value->type_name(), "a number");
  return value->as_number();
}

HostParams read_params(const OpCall& call, const HostOp& op) {
  HostParams params{.kernel = op.kernel};
  for (size_t i = 0; i < op.options.size(); ++i) params.options[i] = option_value(call.attrs, op.options[i], op.defaults[i]);
  for (const auto& [key, value] : call.attrs.as_object()) {
    bool known = key == "name";
    for (const std::string& option : op.options) known |= key == option;
    if (!known)
      throw Error(ErrorKind::model, {.what = "op '" + op.name + "' has no option '" + key + "'", .hint = nearest_hint(key, op.options)});
  }
  return params;
}

bool is_whole(const HostOp& op, int operand) { return (op.whole >> operand & 1) != 0; }

std::vector<Type> infer_host(const OpCall& call) {
  const HostOp& op = read_op(call);
  if (static_cast<int>(call.inputs.size()) != op.inputs)
    refuse_host("op '" + op.name + "' takes another number of operands", std::to_string(call.inputs.size()), std::to_string(op.inputs));
  const HostParams params = read_params(call, op);
  int64_t examples = -1;
  for (int i = 0; i < op.inputs; ++i) {
    const Type& type = call.inputs[static_cast<size_t>(i)];
    if (is_whole(op, i)) continue;
    if (type.shape.rank() == 0 || (examples >= 0 && type.shape[0] != examples))
      refuse_host("op '" + op.name + "': operand " + std::to_string(i + 1) + " has another number of examples", type.text());
    examples = type.shape[0];
  }
  const Type result = op.infer(call.inputs, params.options);
  if (examples >= 0 && (result.shape.rank() == 0 || result.shape[0] != examples))
    refuse_host("the result of op '" + op.name + "' has lost the examples, dimension 0", result.text(),
                std::to_string(examples) + " x ...");
  return {result};
}

std::vector<Type> infer_host_grad(const OpCall& call) {
  const HostOp& op = read_op(call);
  assert(static_cast<int>(call.inputs.size()) == op.inputs + 2);
  return {call.inputs.begin(), call.inputs.begin() + op.inputs};
}

size_t host_params(const OpCall& call, void* out) {
  const HostParams params = read_params(call, read_op(call));
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

std::vector<Value> host_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  std::vector<Value> in;
  for (size_t i = 0; i < node.inputs.size(); ++i) in.push_back(node.in(graph, i));
  const size_t operands = in.size();
  if (!host_op_named(attr_string(node.attrs, kHostName)).kernel.backward) return std::vector<Value>(operands);
  in.push_back(node.out(graph));
  in.push_back(grads[0]);
  return graph.apply_all("host_grad", in, node.attrs);
}

Sliced host_sliced(const OpCall& call, std::span<const Sliced> inputs) {
  const HostOp& op = read_op(call);
  Sliced result = Sliced::whole;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool shared = i < static_cast<size_t>(op.inputs) && is_whole(op, static_cast<int>(i));
    if (shared && inputs[i] == Sliced::whole) continue;
    if (shared || inputs[i] != Sliced::batch) return sliced_never(call, inputs);
    result = Sliced::batch;
  }
  return result;
}

// Each slice has its examples' share of the gradient of what all have in common.
Sliced host_sliced_grad(const OpCall& call, std::span<const Sliced> inputs, int output) {
  const Sliced all = host_sliced(call, inputs);
  return all == Sliced::batch && is_whole(read_op(call), output) ? Sliced::partial : all;
}

constexpr OpDef kHostOps[] = {
    {.name = "host",
     .doc = "An op of the program that embeds Perigee, by `name`, with its own options.",
     .attributes = {.options = kHostAttributes, .open = true},
     .max_inputs = kMaxHostOperands,
     .infer = infer_host,
     .vjp = host_vjp,
     .sliced = host_sliced,
     .params = host_params,
     .effects = true},
    {.name = "host_grad",
     .doc = "Gradients of host's operands from these, the result and its gradient.",
     .attributes = {.options = kHostAttributes, .open = true},
     .min_inputs = 3,
     .max_inputs = kMaxHostOperands + 2,
     .infer = infer_host_grad,
     .sliced = host_sliced,
     .sliced_output = host_sliced_grad,
     .params = host_params,
     .internal = true,
     .derivative = true,
     .effects = true},
};

}  // namespace

void register_host_op(HostOp op) {
  const std::lock_guard lock(registry_mutex);
  for (const HostOp& known : registry())
    if (known.name == op.name)
      throw Error(ErrorKind::usage, {.where = "op '" + op.name + "'", .what = "is registered already", .hint = "register each op once"});
  registry().push_back(std::move(op));
}

const HostOp& host_op_named(const std::string& name) {
  const std::lock_guard lock(registry_mutex);
  std::vector<std::string> known;
  for (const HostOp& op : registry()) {
    if (op.name == name) return op;
    known.push_back(op.name);
  }
  const std::string hint = nearest_hint(name, known);
  throw Error(ErrorKind::model,
              {.what = "the op '" + name.substr(0, 100) + "' belongs to a program that embeds Perigee, and this is not it",
               .hint = hint.empty() ? "register it before the job is used (perigee_register_op)" : hint});
}

extern const OpList ops_host;
const OpList ops_host = op_list(kHostOps);

}  // namespace perigee
