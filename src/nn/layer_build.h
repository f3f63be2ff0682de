// One build of a network: the state that its layers share, and the context that a layer is built in.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "src/graph/op.h"
#include "src/nn/describe.h"
#include "src/nn/layer.h"
#include "src/nn/network.h"

namespace perigee {

// Shared by all layers of one build.
struct NetworkBuild {
  Graph& graph;
  const Network::BuildOptions& options;
  BuiltNetwork& result;
  std::map<std::string, std::string> owners;  // parameter or state -> "share word" or "layer name"
  std::map<std::string, Value> states;        // as the next reader sees them
  std::set<std::string> assigned;
  Value steps_before = {};           // of the rows of a session, where a layer has asked
  std::set<std::string> fixed = {};  // inputs of a session that are there from its beginning
  std::vector<bool> stepped = {};    // by node, as far as was asked: it depends on what a session reads step by step
  // By the value that it belongs to. An empty one: it has none, whatever the layers around would give it.
  std::map<ValueId, Value> masks = {};
  std::map<ValueId, Value> segments = {};  // likewise

  // Whether a value of a session is another one in each step.
  bool by_step(Value value) {
    for (size_t i = stepped.size(); i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      bool any = node.op->leaf == LeafOp::input && !fixed.contains(attr_string(node, "name"));
      for (const ValueId& id : node.inputs) any = any || (id.node >= 0 && stepped[static_cast<size_t>(id.node)]);
      stepped.push_back(any);
    }
    return stepped[static_cast<size_t>(value.id().node)];
  }

  Value mask(Value x) const {
    const auto found = masks.find(x.id());
    return found == masks.end() ? Value() : found->second;
  }
  Value segments_of(Value x) const {
    const auto found = segments.find(x.id());
    return found == segments.end() ? Value() : found->second;
  }
  // `y` is `x` in another form: converted, with noise.
  void follow(Value x, Value y) {
    for (auto* each : {&masks, &segments})
      if (const auto found = each->find(x.id()); found != each->end()) each->try_emplace(y.id(), found->second);
  }
};

// Where in the tree of networks a layer is built.
struct LayerPlace {
  std::string name, prefix;  // of the layers around it, with a dot at the end; prefix names parameters ("share" changes it)
  std::string share;         // the word, of it or of a layer around it
  std::string inside;        // "residual 'block1'"
  std::string where;
  Json defaults;
  bool trainable = true;
  bool folded = false;  // each step is an example of its own
  bool fixed = false;   // of a session: it sees what is there from the beginning alone, whole
  int depth = 0;
};

std::vector<Value> build_network(NetworkBuild& build, const Json& description, const LayerPlace& place, std::span<const Value> inputs);
std::vector<Value> build_layer(NetworkBuild& build, const LayerText& text, const LayerPlace& place, std::span<const Value> inputs);

// The layer that is being built.
class LayerBuild final : public LayerContext {
 public:
  LayerBuild(NetworkBuild& build, const LayerText& text, const LayerPlace& place, LayerReport& report);

  Graph& graph() override { return build_.graph; }
  const Config& options() const override { return options_; }
  const std::string& name() const override { return name_; }
  bool training() const override { return build_.options.training; }
  Dtype dtype() const override { return build_.options.dtype; }

  Value parameter(const std::string& name, const Shape& shape, ParameterRole role, int64_t fan_in, int64_t fan_out,
                  const Json& fallback_init) override;

  void update_rows(const std::string& name, RowUpdate rows) override;

  Value parameter_of(const std::string& layer, const std::string& name) override;

  Value state(const std::string& name, const Shape& shape, double initial) override { return declare(name, "", shape, initial); }

  Value variance_state(const std::string& name, const std::string& mean, const Shape& shape, double initial) override;

  Value declare(const std::string& name, const std::string& mean, const Shape& shape, double initial);

  bool frozen(const std::string& name) const override { return !trainable_ || matches_frozen(prefix_ + "." + name); }

  // A layer that shares the state and comes later goes on from this value.
  void assign(const std::string& name, Value next) override;

  Value mask(Value x) override { return build_.mask(x); }

  Value segments(Value x) override;

  // A layer that joins steps, or hands something on from one to the next, would mix the sequences of a row, unless it asks which is which.
  void check_segments(std::span<const Value> inputs) const;

  void set_mask(Value y, Value mask) override;

  Value carried(const std::string& name, const Shape& row, bool stated) override;

  Value steps_before() override;

  Value recent(const std::string& name, const Shape& row, int64_t slots) override;

  int64_t steps_at_once(bool last) override;

  // A device takes what a plan gives where it lies: that must be a whole value, no window of another one.
  void carry_on(const std::string& name, Value next) override;

  void add_loss(Value each, const char* weight) override;

  // Empty where nothing is left of the term.
  Value weighted(Value each, const char* key);

  // FNV-1a of the layer's name and the purpose: independent of how many other draws there are.
  int64_t random_stream(const std::string& purpose) override;

  std::vector<Value> sublayer(const Json& layer, const std::string& label, std::span<const Value> inputs) override;

  std::vector<Value> network(const Json& description, const std::string& label, std::span<const Value> inputs) override;

  Value activation(const Json& activation, Value x) override;

  // A session gives a layer the steps of a sequence one by one. Inputs that are there as a whole are empty for a layer that knows what to do with
  // them; another one joins its steps with rows of features alone.
  void check_steps(std::span<const Value> inputs) const;

  // An option on parameters where there are none would silently do nothing.
  void check_parameter_options() const;

  [[noreturn]] void fail(std::string what, std::string got = "", std::string expected = "", std::string hint = "") const override;

 private:
  bool matches_frozen(const std::string& full) const;

  LayerReport& report() { return build_.result.layers[report_index_]; }

  LayerPlace place_inside(const std::string& label);

  // True when the tensor is new; false when it is shared with an earlier layer, as both said.
  bool claim(const std::string& name);

  void check_same_shape(const ParameterSpec& spec);

  NetworkBuild& build_;
  const LayerText& text_;
  const LayerPlace& place_;
  const Json json_;
  const Config options_;
  const size_t report_index_;
  const std::string name_;
  std::string prefix_, share_;
  bool trainable_ = true, has_parameters_ = false, has_inside_ = false, asked_segments_ = false, asked_carried_ = false;
  double lr_scale_ = 1;
};

}  // namespace perigee
