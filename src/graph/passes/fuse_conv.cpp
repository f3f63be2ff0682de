#include "src/graph/passes/fuse_conv.h"

#include <map>
#include <optional>

#include "src/graph/build.h"
#include "src/graph/op.h"

namespace perigee {
namespace {

struct Chain {
  int conv = -1, last = -1;          // nodes; `last` is the one that the fused op stands for
  ValueId bias;                      // shape [O], or something that reshapes to it
  const char* activation = nullptr;  // monotone, as those of convolutions are: the maximum of a window may be taken before or after
  int pool = -1;
  std::vector<int> between;  // nodes that vanish
};

class ConvFuser {
 public:
  explicit ConvFuser(const Graph& graph) : graph_(graph) {
    const auto use = [&](ValueId id, int user) {
      if (id.node >= 0) users_[id].push_back(user);
    };
    for (const Node& node : graph.nodes())
      for (const ValueId& id : node.inputs) use(id, node.id);
    for (const NamedValue& output : graph.outputs()) use(output.value, -1);
    for (const Assignment& assignment : graph.assignments()) use(assignment.value, -1);
  }

  Graph run() {
    for (const Node& node : graph_.nodes())
      if (node.op->with_pool != nullptr) find_chain(node);
    for (const Tensor& constant : graph_.constants()) result_.add_constant(constant);
    for (const Node& node : graph_.nodes()) {
      if (vanishes_[node.id]) continue;
      if (const auto chain = chains_.find(node.id); chain != chains_.end()) emit(chain->second);
      else copy(node);
    }
    for (const Leaf& leaf : graph_.leaves()) result_.add_leaf({leaf.name, leaf.kind, moved(leaf.value)});
    for (const Assignment& assignment : graph_.assignments()) result_.assign(assignment.state, value(assignment.value));
    for (const NamedValue& output : graph_.outputs()) result_.output(output.name, value(output.value));
    result_.set_scope(graph_.scope());
    return std::move(result_);
  }

 private:
  // The one node that reads `id`, or null.
  const Node* only_user(ValueId id) const {
    const auto found = users_.find(id);
    if (found == users_.end() || found->second.size() != 1 || found->second[0] < 0) return nullptr;
    return &graph_.nodes()[static_cast<size_t>(found->second[0])];
  }

  // The operand that `add` adds to `id`, when it is one number for each of the `channels`.
  std::optional<ValueId> added_bias(const Node& add, ValueId id, int64_t channels) const {
    if (!adds(add)) return {};
    const ValueId other = add.inputs[0] == id ? add.inputs[1] : add.inputs[0];
    if (other == id || other.node < 0) return {};
    const Shape& shape = graph_.type(other).shape;
    if (shape == Shape{1, channels, 1, 1} || shape == Shape{channels, 1, 1}) return other;
    return {};
  }

  static bool fits_fusion(const Node& pool) {
    if (!pool.op->pools || attr_string(pool, "kind") != "max") return false;
    const std::vector<int64_t> kernel = attr_ints(pool, "kernel");
    const std::vector<int64_t> stride = attr_ints(pool, "stride");
    for (int64_t p : attr_ints(pool, "padding"))
      if (p != 0) return false;
    for (int64_t d : attr_ints(pool, "dilation"))
      if (d != 1) return false;
    return stride == kernel && kernel[0] * kernel[1] <= 256 && kernel[0] * kernel[1] > 1;
  }

  void find_chain(const Node& conv) {
    if (attr_string(conv, "activation") != "none") return find_pool_after_activation(conv);
    Chain chain{.conv = conv.id, .last = conv.id};
    if (conv.inputs.size() > 2) chain.bias = conv.inputs[2];
    const int64_t channels = conv.outputs[0].shape[1];
    const auto step = [&](const Node& next) {
      chain.between.push_back(chain.last);
      chain.last = next.id;
    };
    for (const Node* next = only_user({conv.id, 0}); next; next = only_user({chain.last, 0})) {
      if (takes_activation(*conv.op, next->op->activation) && !chain.activation) {
        chain.activation = next->op->activation;
      } else if (chain.pool < 0 && fits_fusion(*next)) {
        chain.pool = next->id;
      } else if (const auto bias = added_bias(*next, {chain.last, 0}, channels);
                 bias && chain.bias.node < 0 && !chain.activation && chain.pool < 0) {
        chain.bias = *bias;
      } else {
        break;
      }
      // Behind the pooling, the place of the maximum must not be wanted from a node that vanishes.
      if (chain.last == chain.pool && users_.contains({chain.pool, 1})) {
        chain.activation = nullptr;
        break;
      }
      step(*next);
      if (chain.activation && chain.pool >= 0) break;
    }
    keep(std::move(chain));
  }

  void find_pool_after_activation(const Node& conv) {
    const Node* next = only_user({conv.id, 0});
    if (!next || !fits_fusion(*next)) return;
    Chain chain{.conv = conv.id, .last = next->id, .pool = next->id, .between = {conv.id}};
    if (conv.inputs.size() > 2) chain.bias = conv.inputs[2];
    keep(std::move(chain));
  }

  void keep(Chain chain) {
    if (chain.last == chain.conv) return;
    for (int node : chain.between) vanishes_[node] = true;
    const int last = chain.last;
    chains_.emplace(last, std::move(chain));
  }

  ValueId moved(ValueId id) const { return id.node < 0 ? id : moved_.at(id); }
  Value value(ValueId id) { return Value(&result_, moved(id)); }

  void copy(const Node& node) {
    Node same = node;
    for (ValueId& id : same.inputs) id = moved(id);
    const int id = result_.append(std::move(same)).node;
    for (size_t o = 0; o < node.outputs.size(); ++o) moved_[{node.id, static_cast<int>(o)}] = {id, static_cast<int>(o)};
  }

  void emit(const Chain& chain) {
    const Node& conv = graph_.nodes()[static_cast<size_t>(chain.conv)];
    result_.set_scope(conv.scope);
    std::vector<Value> operands = {value(conv.inputs[0]), value(conv.inputs[1])};
    if (chain.bias.node >= 0) {
      const Value bias = value(chain.bias);
      operands.push_back(bias.rank() == 1 ? bias : reshape(bias, {bias.shape().elements()}));
    }
    Json attrs = conv.attrs;
    if (attrs.is_null()) attrs = Json::object();
    if (chain.activation) attrs.set("activation", chain.activation);
    if (chain.pool >= 0) attrs.set("pool", *graph_.nodes()[static_cast<size_t>(chain.pool)].attrs.find("kernel"));
    const std::vector<Value> results = result_.apply_all(chain.pool >= 0 ? conv.op->with_pool : conv.op->name, operands, attrs);
    moved_[{chain.last, 0}] = results[0].id();
    if (chain.last == chain.pool) moved_[{chain.pool, 1}] = results[1].id();
  }

  const Graph& graph_;
  Graph result_;
  std::map<ValueId, std::vector<int>> users_;
  std::map<int, bool> vanishes_;
  std::map<int, Chain> chains_;  // by last node
  std::map<ValueId, ValueId> moved_;
};

}  // namespace

Graph fuse_conv(const Graph& graph) { return ConvFuser(graph).run(); }

}  // namespace perigee
