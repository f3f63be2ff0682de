// The parts of perigee.hpp from which descriptions are built: JSON values, layers, networks. Include perigee.hpp instead of this.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "perigee_handle.hpp"

namespace perigee::api {

// One JSON value, as its text; empty: not given, so that the option has its default.
class value {
 public:
  value() = default;
  value(bool b) : text_(b ? "true" : "false") {}
  value(int i) : text_(std::to_string(i)) {}
  value(long i) : text_(std::to_string(i)) {}
  value(long long i) : text_(std::to_string(i)) {}
  value(unsigned i) : text_(std::to_string(i)) {}
  value(unsigned long i) : text_(std::to_string(i)) {}
  value(double d) {
    if (!std::isfinite(d)) throw error(PERIGEE_USAGE, "a job cannot hold NaN or infinity");
    char buffer[40];
    text_.assign(buffer, std::to_chars(buffer, buffer + sizeof buffer, d).ptr);
  }
  value(const char* s) : value(std::string_view(s)) {}
  value(const std::string& s) : value(std::string_view(s)) {}
  value(std::string_view s) : text_(quote(s)) {}
  value(std::initializer_list<value> list) : text_(array({list.begin(), list.size()})) {}
  value(const std::vector<value>& list) : text_(array(list)) {}

  static value json(std::string text) {
    value v;
    v.text_ = std::move(text);
    return v;
  }
  bool given() const { return !text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  static std::string quote(std::string_view s) {
    std::string text = "\"";
    for (const char c : s) {
      if (c == '"' || c == '\\') {
        text += '\\';
        text += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        constexpr char kHex[] = "0123456789abcdef";
        text += "\\u00";
        text += kHex[static_cast<unsigned char>(c) >> 4];
        text += kHex[c & 15];
      } else {
        text += c;
      }
    }
    return text + '"';
  }
  static std::string array(std::span<const value> list) {
    std::string text = "[";
    for (const value& item : list) text += (text.size() > 1 ? "," : "") + (item.given() ? item.text_ : "null");
    return text + ']';
  }

  std::string text_;
};

// Named options: {{"alpha", 0.1}, {"beta", {1, 2}}}. Those that are not given are left out.
class options {
 public:
  using member = std::pair<std::string, value>;
  options() = default;
  options(std::initializer_list<member> members) : members_(members) {}
  explicit options(std::vector<member> members) : members_(std::move(members)) {}

  options& set(std::string name, value v) {
    members_.emplace_back(std::move(name), std::move(v));
    return *this;
  }
  const value* find(std::string_view name) const {
    for (const auto& [key, v] : members_)
      if (key == name && v.given()) return &v;
    return nullptr;
  }
  const std::vector<member>& members() const { return members_; }
  operator value() const {  // an object is a value
    std::string text = "{";
    for (const auto& [name, v] : members_)
      if (v.given()) text += (text.size() > 1 ? "," : "") + value(name).text() + ":" + v.text();
    return value::json(text + '}');
  }

 private:
  std::vector<member> members_;
};

// Anything that has a type and options: make("huber", {{"delta", 1.0}}).
inline options make(std::string_view type, const options& more = {}) {
  options all{{"type", type}};
  for (const auto& [name, v] : more.members()) all.set(name, v);
  return all;
}

class tensor;

// A name that may be given options: pg::relu, pg::leaky_relu({{"alpha", 0.1}}); or a tensor, where an op has the name: pg::relu(x).
struct rule {
  const char* name;
  operator value() const { return name; }  // a name is a value
  options operator()(const options& more = {}) const { return make(name, more); }
  template <class T>
  requires std::same_as<T, tensor> tensor operator()(const T& x) const;
};

class node;

// A layer of a network. Called on nodes it becomes part of a graph; called twice, its parameters are shared.
class layer {
 public:
  layer(options description, std::string stem)
      : shared_(std::make_shared<const content>(content{std::move(description), std::move(stem)})) {}

  const options& description() const { return shared_->description; }
  operator value() const { return shared_->description; }  // layers stand inside others' options
  template <class... Nodes>
  node operator()(const Nodes&... inputs) const;

 private:
  friend class graph_builder;
  struct content {
    options description;
    std::string stem;  // of automatic names
  };
  std::shared_ptr<const content> shared_;
};

// A place in a graph: an input, or a layer applied to others.
class node {
 public:
  // Output `index` (from 0) of a layer with several.
  node output(int index) const { return node(std::make_shared<const content>(content{{}, {}, {}, shared_, index})); }

 private:
  friend class layer;
  friend class graph_builder;
  friend node input(std::string name);
  struct content {
    std::string input;         // the field's name
    std::vector<node> inputs;  // of a layer
    std::shared_ptr<const layer> applied;
    std::shared_ptr<const content> of;  // of one output of many
    int index = 0;
  };
  explicit node(std::shared_ptr<const content> shared) : shared_(std::move(shared)) {}
  std::shared_ptr<const content> shared_;
};

// A field of the data.
inline node input(std::string name) { return node(std::make_shared<const node::content>(node::content{std::move(name), {}, {}, {}, 0})); }

template <class... Nodes>
node layer::operator()(const Nodes&... inputs) const {
  static_assert(sizeof...(Nodes) > 0, "a layer is applied to at least one node");
  return node(std::make_shared<const node::content>(node::content{{}, {inputs...}, std::make_shared<const layer>(*this), {}, 0}));
}

// A whole network, or a sequence of layers inside one.
class network {
 public:
  network() = default;
  network(layer only) : layers_{std::move(only)} {}  // one layer is a network
  explicit network(std::vector<layer> layers, value defaults = {}) : layers_(std::move(layers)), defaults_(std::move(defaults)) {}
  static network json(std::string text) {
    network n;
    n.text_ = std::move(text);
    return n;
  }

  const std::vector<layer>& layers() const { return layers_; }
  node operator()(node at) const {
    for (const layer& each : layers_) at = each(at);
    return at;
  }
  operator value() const {  // a network is a value
    if (!text_.empty() || layers_.empty()) return value::json(text_);
    std::vector<value> list;
    for (const layer& each : layers_) list.push_back(each.description());
    return options{{"type", "sequential"}, {"layers", list}, {"defaults", defaults_}};
  }

 private:
  std::vector<layer> layers_;
  value defaults_;
  std::string text_;
};

// Layers and sequences, one after the other.
template <class... Parts>
network sequential(const Parts&... parts) {
  std::vector<layer> layers;
  const auto append = [&](const network& part) { layers.insert(layers.end(), part.layers().begin(), part.layers().end()); };
  (append(network(parts)), ...);
  return network(std::move(layers));
}

// Names nodes and puts each after its inputs.
class graph_builder {
 public:
  static network build(const std::vector<node>& inputs, const std::vector<std::pair<std::string, node>>& outputs, const value& defaults) {
    graph_builder b;
    std::vector<value> input_names, output_names, nodes;
    for (const node& each : inputs) {
      if (each.shared_->input.empty()) throw error(PERIGEE_USAGE, "pg::graph: an input was not made by pg::input");
      input_names.push_back(each.shared_->input);
    }
    for (const auto& [name, each] : outputs) {
      if (!name.empty()) b.wanted_[key(each)] = name;
      b.visit(each);
    }
    for (const node& each : b.ordered_) b.name(each);
    for (const node& each : b.ordered_) {
      std::vector<value> from;
      for (const node& before : each.shared_->inputs) from.push_back(b.label(before));
      nodes.push_back(options{{"name", b.labels_.at(key(each))}, {"layer", b.description(each)}, {"inputs", from}});
    }
    for (const auto& [name, each] : outputs) output_names.push_back(b.label(each));
    const value text =
        options{{"type", "graph"}, {"inputs", input_names}, {"nodes", nodes}, {"outputs", output_names}, {"defaults", defaults}};
    return network::json(text.text());
  }

 private:
  static const void* key(const node& n) { return n.shared_.get(); }
  static const void* key(const layer& l) { return l.shared_.get(); }

  void visit(const node& n) {
    if (!seen_.emplace(key(n), true).second) return;
    if (!n.shared_->input.empty()) {
      used_[n.shared_->input] = true;
    } else if (n.shared_->of) {
      visit(node(n.shared_->of));
    } else {
      for (const node& before : n.shared_->inputs) visit(before);
      ordered_.push_back(n);
    }
  }
  void name(const node& n) {
    const layer& applied = *n.shared_->applied;
    std::string wanted;
    if (const auto given = wanted_.find(key(n)); given != wanted_.end()) {
      wanted = given->second;
    } else if (const value* own = applied.description().find("name")) {
      wanted = own->text().substr(1, own->text().size() - 2);
    } else {
      wanted = applied.shared_->stem + std::to_string(++counters_[applied.shared_->stem]);
    }
    std::string label = wanted;
    for (int suffix = 2; used_[label]; ++suffix) label = wanted + "_" + std::to_string(suffix);
    used_[label] = true;
    labels_[key(n)] = label;
    auto& [first, count] = places_[key(applied)];
    if (count++ == 0) first = label;
  }
  std::string label(const node& n) const {
    if (n.shared_->of) return label(node(n.shared_->of)) + ":" + std::to_string(n.shared_->index);
    return n.shared_->input.empty() ? labels_.at(key(n)) : n.shared_->input;
  }
  value description(const node& n) const {
    const layer& applied = *n.shared_->applied;
    options copy;
    for (const auto& [name, v] : applied.description().members())
      if (name != "name") copy.set(name, v);
    const auto& [first, count] = places_.at(key(applied));
    if (count > 1) copy.set("share", first);
    return copy;
  }

  std::map<const void*, bool> seen_;
  std::map<std::string, bool> used_;
  std::map<std::string, int> counters_;
  std::map<const void*, std::string> labels_, wanted_;
  std::map<const void*, std::pair<std::string, int>> places_;  // of a layer: the first node's label, how many there are
  std::vector<node> ordered_;
};

// Any directed acyclic network with several inputs and outputs.
inline network graph(const std::vector<node>& inputs, const std::vector<node>& outputs, const value& defaults = {}) {
  std::vector<std::pair<std::string, node>> unnamed;
  for (const node& each : outputs) unnamed.emplace_back("", each);
  return graph_builder::build(inputs, unnamed, defaults);
}

// With named outputs: one loss for each.
inline network graph(const std::vector<node>& inputs, const std::vector<std::pair<std::string, node>>& outputs,
                     const value& defaults = {}) {
  return graph_builder::build(inputs, outputs, defaults);
}

}  // namespace perigee::api
