// Reading network descriptions: which layers there are, what they are called and where they were written. Knows no shapes.
#pragma once

#include <string>
#include <vector>

#include "src/core/error.h"
#include "src/core/json.h"
#include "src/nn/layer.h"

namespace perigee {

inline constexpr int kMaxNesting = 32;       // networks inside layers inside networks
inline constexpr size_t kMaxLayers = 10000;  // in one list

// One layer as it is written: {"type": "conv2d", ...}, or just "flatten".
struct LayerText {
  Json json;          // always an object with "type"
  std::string name;   // given, or automatic: conv1, conv2, dense1
  std::string scope;  // "conv2d 'conv1' (layer 1 of 6)"
  std::string at;     // "lenet.lua:7", or where the description came from
  const LayerDef* def = nullptr;

  std::string where() const { return at.empty() ? scope : at + ": " + scope; }
};

// A node of a graph network.
struct NodeText {
  LayerText layer;
  std::vector<std::string> inputs;
};

struct GraphText {
  std::vector<std::string> inputs, outputs;
  std::vector<NodeText> nodes;  // each after the nodes it takes inputs from
};

// The parts of a reference to a node: "parts:1" is output 1 of 'parts'.
struct NodeReference {
  std::string node;
  int output = -1;  // -1: all of them
};
NodeReference node_reference(const std::string& text);

bool is_graph(const Json& description);
// Where the script made the node of a graph's input, as its "@inputs" tells; else `otherwise`.
std::string input_place(const Json& description, const std::string& name, const std::string& otherwise);

// The layers of {"type": "sequential", "layers": [...]}, of a list of layers, or of a single layer. `inside` tells of the layer
// around them ("residual 'block1'"), empty at the top. Checks types, option names and that names are unique.
std::vector<LayerText> read_sequence(const Json& description, const std::string& where, const std::string& inside);

// The nodes of {"type": "graph", ...} in an order in which they can be built; refuses cycles, unknown and unused nodes.
GraphText read_graph(const Json& description, const std::string& where, const std::string& inside);

// "defaults" of a description: null or an object whose keys are options of layers.
Json read_defaults(const Json& description, const std::string& where);

}  // namespace perigee
