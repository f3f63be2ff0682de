#include "src/nn/describe.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace perigee {
namespace {

[[noreturn]] void refuse_describe(Error::Parts parts) { throw Error(ErrorKind::model, std::move(parts)); }

std::string brief(const Json& json) {
  std::string text = json.dump();
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::string position_of(const Json& layer, const std::string& where) {
  const Json* at = layer.find("@");
  return at != nullptr && at->is_string() ? at->as_string() : where;
}

void check_name(const std::string& name, const std::string& where) {
  const auto allowed = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; };
  if (!name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), allowed)) return;
  refuse_describe({.where = where,
                   .what = "this name cannot be used",
                   .got = "'" + name.substr(0, 100) + "'",
                   .expected = "1 to 100 letters, digits, '_' or '-'"});
}

// All but the name and the scope, which depend on the neighbours.
LayerText read_layer(const Json& json, const std::string& where) {
  LayerText layer;
  layer.json = json;
  if (json.is_string()) {
    layer.json = Json::object();
    layer.json.set("type", json);
  }
  if (!layer.json.is_object())
    refuse_describe({.where = where, .what = "this must be a layer", .got = brief(json), .expected = "an object or a layer's name"});
  layer.at = position_of(layer.json, where);
  const Json* type = layer.json.find("type");
  if (type == nullptr || !type->is_string())
    refuse_describe(
        {.where = layer.at, .what = "a layer needs a 'type'", .got = brief(layer.json), .expected = "{\"type\": \"dense\", ...}"});
  try {
    layer.def = &layer_named(type->as_string());
  } catch (const Error& error) {
    throw error.within(layer.at);
  }
  const Json* name = layer.json.find("name");
  if (name != nullptr && !name->is_null()) {
    if (!name->is_string()) refuse_describe({.where = layer.at, .what = "a layer's 'name' must be a string", .got = brief(*name)});
    layer.name = name->as_string();
    check_name(layer.name, layer.at);
  }
  return layer;
}

// Gives names to layers without one: the stem and the number of layers of this stem so far, skipping names that are taken.
void name_layers(std::vector<LayerText*> layers, const std::string& inside) {
  std::set<std::string> taken;
  for (const LayerText* layer : layers)
    if (!layer->name.empty() && !taken.insert(layer->name).second)
      refuse_describe({.where = layer->at,
                       .what = "two layers are called '" + layer->name + "'",
                       .hint = "names must be unique; leave one out and it gets its own"});
  std::map<std::string, int> counts;
  for (size_t i = 0; i < layers.size(); ++i) {
    LayerText& layer = *layers[i];
    const std::string stem = layer.def->stem != nullptr ? layer.def->stem : layer.def->name;
    int& count = counts[stem];
    ++count;
    if (layer.name.empty()) {
      while (taken.contains(stem + std::to_string(count))) ++count;
      layer.name = stem + std::to_string(count);
      taken.insert(layer.name);
    }
    layer.scope = std::string(layer.def->name) + " '" + layer.name + "' (layer " + std::to_string(i + 1) + " of " +
                  std::to_string(layers.size()) + (inside.empty() ? "" : " in " + inside) + ")";
    check_options(layer.json, layer.def->schema, layer.where());
  }
}

// A typo in a key of the description itself.
void check_keys(const Json& description, const std::string& where, const std::vector<std::string>& known) {
  for (const auto& [key, value] : description.as_object())
    if (!key.starts_with('@') && std::find(known.begin(), known.end(), key) == known.end())
      refuse_describe({.where = where, .what = "unknown key '" + key + "' of a network", .hint = nearest_hint(key, known)});
}

std::vector<std::string> names_at(const Json& description, std::string_view key, const std::string& where) {
  const Json* list = description.find(key);
  std::vector<std::string> names;
  if (list != nullptr && list->is_string()) return {list->as_string()};
  if (list == nullptr || !list->is_array() || list->as_array().empty())
    refuse_describe(
        {.where = where, .what = "'" + std::string(key) + "' must be a list of names", .got = list == nullptr ? "nothing" : brief(*list)});
  for (const Json& item : list->as_array()) {
    if (!item.is_string())
      refuse_describe({.where = where, .what = "'" + std::string(key) + "' must be a list of names", .got = brief(item)});
    names.push_back(item.as_string());
  }
  return names;
}

void check_reference(const std::string& text, const GraphText& graph, const std::string& where) {
  const std::string name = node_reference(text).node;
  std::vector<std::string> known = graph.inputs;
  for (const NodeText& node : graph.nodes) known.push_back(node.layer.name);
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  constexpr size_t kListed = 20;
  std::string hint = nearest_hint(name, known), listed;
  for (size_t i = 0; hint.empty() && i < known.size() && known.size() <= kListed; ++i) listed += (i ? ", '" : "one of '") + known[i] + "'";
  refuse_describe({.where = where, .what = "there is no node or input '" + name + "'", .expected = listed, .hint = hint});
}

// Depth-first from the outputs, with an explicit stack: descriptions may be hostile.
class Ordering {
 public:
  explicit Ordering(const GraphText& graph) : graph_(graph), state_(graph.nodes.size(), State::fresh) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) index_[graph.nodes[i].layer.name] = i;
  }

  std::vector<size_t> run() {
    for (const std::string& output : graph_.outputs) visit(output);
    for (size_t i = 0; i < state_.size(); ++i)
      if (state_[i] == State::fresh)
        refuse_describe({.where = graph_.nodes[i].layer.where(),
                         .what = "no output depends on this node",
                         .hint = "name it in 'outputs', use it, or remove it"});
    return order_;
  }

 private:
  enum class State : uint8_t { fresh, open, done };

  void visit(const std::string& reference) {
    const auto found = index_.find(node_reference(reference).node);
    if (found == index_.end() || state_[found->second] != State::fresh) return;
    std::vector<std::pair<size_t, size_t>> stack{{found->second, 0}};  // node, next input
    state_[found->second] = State::open;
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      const auto& inputs = graph_.nodes[node].inputs;
      if (next == inputs.size()) {
        state_[node] = State::done;
        order_.push_back(node);
        stack.pop_back();
        continue;
      }
      const auto source = index_.find(node_reference(inputs[next++]).node);
      if (source == index_.end() || state_[source->second] == State::done) continue;
      if (state_[source->second] == State::open) cycle(stack, source->second);
      state_[source->second] = State::open;
      stack.emplace_back(source->second, 0);
    }
  }

  [[noreturn]] void cycle(const std::vector<std::pair<size_t, size_t>>& stack, size_t back_to) const {
    std::string path;
    bool on = false;
    for (const auto& [node, next] : stack) {
      on = on || node == back_to;
      if (on) path += graph_.nodes[node].layer.name + " <- ";
    }
    refuse_describe({.where = graph_.nodes[back_to].layer.where(),
                     .what = "these nodes need each other: " + path + graph_.nodes[back_to].layer.name,
                     .hint = "a network must not have cycles"});
  }

  const GraphText& graph_;
  std::map<std::string, size_t> index_;
  std::vector<State> state_;
  std::vector<size_t> order_;
};

}  // namespace

NodeReference node_reference(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon + 1 == text.size() || text.size() - colon > 5) return {text, -1};
  int output = 0;
  for (size_t i = colon + 1; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '9') return {text, -1};
    output = output * 10 + (text[i] - '0');
  }
  return {text.substr(0, colon), output};
}

std::string input_place(const Json& description, const std::string& name, const std::string& otherwise) {
  const Json* places = description.find("@inputs");
  const Json* place = places ? places->find(name) : nullptr;
  return place && place->is_string() ? place->as_string() : otherwise;
}

bool is_graph(const Json& description) {
  const Json* type = description.find("type");
  return type != nullptr && type->is_string() && type->as_string() == "graph";
}

std::vector<LayerText> read_sequence(const Json& description, const std::string& where, const std::string& inside) {
  std::string at = where;
  const Json* list = &description;
  Json single;
  if (description.is_object() || description.is_string()) {
    const Json* type = description.find("type");
    const Json* layers = description.find("layers");
    if (layers != nullptr && (type == nullptr || (type->is_string() && type->as_string() == "sequential"))) {
      at = position_of(description, where);
      if (inside.empty()) check_keys(description, at, {"type", "layers", "defaults"});  // inside, it is a layer whose options are checked
      list = layers;
    } else {
      single.push(description);
      list = &single;
    }
  }
  // A Lua table without elements becomes an object in JSON.
  if (!list->is_array() || list->as_array().empty())
    refuse_describe({.where = at, .what = "a network needs a list of at least one layer", .got = brief(*list)});
  if (list->as_array().size() > kMaxLayers)
    refuse_describe({.where = at,
                     .what = "a list of layers is too long",
                     .got = std::to_string(list->as_array().size()),
                     .expected = "at most " + std::to_string(kMaxLayers)});
  std::vector<LayerText> layers;
  for (const Json& item : list->as_array()) layers.push_back(read_layer(item, at));
  std::vector<LayerText*> pointers;
  for (LayerText& layer : layers) pointers.push_back(&layer);
  name_layers(pointers, inside);
  return layers;
}

GraphText read_graph(const Json& description, const std::string& where, const std::string& inside) {
  const std::string at = position_of(description, where);
  if (inside.empty()) check_keys(description, at, {"type", "inputs", "nodes", "outputs", "defaults"});
  GraphText graph;
  graph.inputs = names_at(description, "inputs", at);
  graph.outputs = names_at(description, "outputs", at);
  const Json* nodes = description.find("nodes");
  if (nodes == nullptr || !nodes->is_array() || nodes->as_array().empty() || nodes->as_array().size() > kMaxLayers)
    refuse_describe({.where = at,
                     .what = "'nodes' must be a list of 1 to " + std::to_string(kMaxLayers) + " nodes",
                     .got = nodes == nullptr ? "nothing" : brief(*nodes)});
  for (const Json& item : nodes->as_array()) {
    const std::string here = position_of(item, at);
    const Json* layer = item.find("layer");
    if (layer == nullptr)
      refuse_describe({.where = here,
                       .what = "a node needs a 'layer'",
                       .got = brief(item),
                       .expected = "{\"name\": ..., \"layer\": ..., \"inputs\": [...]}"});
    for (const auto& [key, value] : item.as_object())
      if (!key.starts_with('@') && key != "name" && key != "layer" && key != "inputs")
        refuse_describe(
            {.where = here, .what = "unknown key '" + key + "' of a node", .hint = nearest_hint(key, {"name", "layer", "inputs"})});
    NodeText node{.layer = read_layer(*layer, here), .inputs = names_at(item, "inputs", here)};
    const Json* name = item.find("name");
    if (name != nullptr && name->is_string()) node.layer.name = name->as_string();
    if (!node.layer.name.empty()) check_name(node.layer.name, here);
    if (std::find(graph.inputs.begin(), graph.inputs.end(), node.layer.name) != graph.inputs.end())
      refuse_describe({.where = here, .what = "a node has the name of the input '" + node.layer.name + "'", .hint = "rename one of them"});
    graph.nodes.push_back(std::move(node));
  }
  std::vector<LayerText*> layers;
  for (NodeText& node : graph.nodes) layers.push_back(&node.layer);
  name_layers(layers, inside);
  for (const NodeText& node : graph.nodes)
    for (const std::string& input : node.inputs) check_reference(input, graph, node.layer.where());
  for (const std::string& output : graph.outputs) check_reference(output, graph, at);
  std::vector<NodeText> ordered;
  for (size_t i : Ordering(graph).run()) ordered.push_back(graph.nodes[i]);
  graph.nodes = std::move(ordered);
  return graph;
}

Json read_defaults(const Json& description, const std::string& where) {
  const Json* defaults = description.find("defaults");
  if (defaults == nullptr || defaults->is_null()) return {};
  if (!defaults->is_object()) refuse_describe({.where = where, .what = "'defaults' must be an object", .got = brief(*defaults)});
  std::vector<std::string> known;
  const auto own = [](std::string_view name) { return name == "name" || name == "share" || name == "dropout"; };
  for (const Option& option : common_layer_schema.options)
    if (!own(option.name)) known.push_back(option.name);
  for (const LayerDef* layer : all_layers())
    for (const Option& option : layer->schema.options) known.push_back(option.name);
  for (const auto& [key, value] : defaults->as_object())
    if (!key.starts_with('@') && std::find(known.begin(), known.end(), key) == known.end())
      refuse_describe({.where = where,
                       .what = "'defaults' has '" + key + "', which " + (own(key) ? "belongs to one layer" : "no layer takes"),
                       .hint = nearest_hint(key, known)});
  return *defaults;
}

}  // namespace perigee
