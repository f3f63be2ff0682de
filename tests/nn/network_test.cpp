// Networks: names, shapes, parameter counts, shared parameters, and errors that say where and what to do.
#include <gtest/gtest.h>

#include "src/core/error.h"
#include "src/graph/op.h"
#include "src/nn/network.h"

namespace perigee {
namespace {

const char* const kLenet = R"({"type": "sequential", "layers": [
  {"type": "conv2d", "out": 20, "kernel": 5, "activation": "relu", "@": "lenet.lua:7"},
  {"type": "maxpool", "kernel": 2, "@": "lenet.lua:8"},
  {"type": "conv2d", "out": 50, "kernel": 5, "stride": 2, "activation": "relu", "@": "lenet.lua:9"},
  {"type": "maxpool", "kernel": 2, "@": "lenet.lua:10"},
  {"type": "dense", "out": 200, "activation": "relu", "@": "lenet.lua:11"},
  {"type": "dense", "out": 10, "@": "lenet.lua:12"}]})";

NetworkInput field(const std::string& name, const Shape& shape) { return {name, {Dtype::f32, shape}}; }

BuiltNetwork build_network(Graph& graph, const std::string& json, const Shape& input, bool training = true) {
  return Network(Json::parse(json, "test"), "net.json").build(graph, {field("x", input)}, {.batch = 8, .training = training});
}

std::string network_error(const std::string& json, const Shape& input = Shape{1, 28, 28}) {
  Graph graph;
  try {
    build_network(graph, json, input);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Network, LenetHasTheShapesNamesAndCountsOfTheArticle) {
  Graph graph;
  const BuiltNetwork net = build_network(graph, kLenet, Shape{1, 28, 28});
  std::vector<std::string> names, shapes;
  int64_t total = 0;
  for (const LayerReport& layer : net.layers) {
    names.push_back(layer.name);
    shapes.push_back(layer.outputs.at(0).text());
    total += layer.parameters;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"conv1", "pool1", "conv2", "pool2", "dense1", "dense2"}));
  EXPECT_EQ(shapes, (std::vector<std::string>{"20x24x24", "20x12x12", "50x4x4", "50x2x2", "200", "10"}));
  EXPECT_EQ(total, 20 * 25 + 20 + 50 * 20 * 25 + 50 + 200 * 200 + 200 + 2000 + 10);
  EXPECT_EQ(net.outputs.at(0).shape(), (Shape{8, 10}));
  EXPECT_EQ(net.parameters.at(2).name, "conv2.weight");
  EXPECT_EQ(net.parameters.at(2).shape, (Shape{50, 20, 5, 5}));
  EXPECT_EQ(net.parameters.at(2).fan_in, 500);
  EXPECT_EQ(net.parameters.at(2).fan_out, 50 * 25 / 4);  // Deeplearning4j divides by the stride
  EXPECT_EQ(net.layers.at(2).scope, "conv2d 'conv2' (layer 3 of 6)");
}

TEST(Network, AWrapperTakesAllLayersOfASequence) {
  Graph graph;
  const BuiltNetwork net = build_network(graph, R"([{"type": "time_distributed", "layer": {"type": "sequential", "layers": [
    {"type": "dense", "out": 3}, {"type": "dense", "out": 5}]}}])",
                                         Shape{2, 4});
  EXPECT_EQ(net.outputs.at(0).shape(), (Shape{8, 5, 4}));
  ASSERT_EQ(net.parameters.size(), 4u);
  EXPECT_EQ(net.parameters.at(2).name, "steps1.layer.dense2.weight");
}

TEST(Network, ErrorsNameTheLineThePathAndTheFix) {
  EXPECT_EQ(
      network_error(R"([{"type": "conv2d", "out": 4, "kernel": 5, "@": "lenet.lua:7"}, {"type": "dense", "out": 2}])", Shape{1, 3, 3}),
      "lenet.lua:7: conv2d 'conv1' (layer 1 of 2): kernel 5x5 is larger than its input 3x3; pad it or drop a pooling layer");
  EXPECT_EQ(network_error(R"([{"type": "conv2", "out": 4}])").find("net.json: there is no layer 'conv2'; did you mean 'conv2d'"), 0u);
  EXPECT_EQ(network_error(R"([{"type": "conv2d", "out": 4, "kernal": 5}])"),
            "net.json: conv2d 'conv1' (layer 1 of 1): unknown key 'kernal'; did you mean 'kernel'?");
  EXPECT_EQ(network_error(R"([{"type": "conv2d", "out": 4}])"),
            "net.json: conv2d 'conv1' (layer 1 of 1): 'kernel' is missing; expected an integer or {height, width}");
  EXPECT_NE(
      network_error(R"([{"type": "dense", "out": 4, "activation": "rellu"}])").find("there is no activation 'rellu'; did you mean 'relu'"),
      std::string::npos);
  EXPECT_NE(network_error(R"([{"type": "dense", "out": 10}, {"type": "maxpool", "kernel": 2}])")
                .find("maxpool 'pool1' (layer 2 of 2): needs an image"),
            std::string::npos);
  EXPECT_NE(network_error(R"({"layers": [{"type": "dense", "out": 1}], "default": {}})")
                .find("unknown key 'default' of a network; did you mean 'defaults'"),
            std::string::npos);
  EXPECT_NE(network_error(R"([{"type": "dense", "out": 0}])").find("'out' is out of range"), std::string::npos);
  EXPECT_NE(network_error(R"([{"type": "dense", "out": 3, "name": "a"}, {"type": "dense", "out": 3, "name": "a"}])")
                .find("two layers are called 'a'"),
            std::string::npos);
  EXPECT_NE(network_error("[]").find("at least one layer"), std::string::npos);
  EXPECT_NE(network_error(R"([{"type": "dense", "out": 3, "weight_noise": {"type": "gausian"}}])").find("did you mean 'gaussian'"),
            std::string::npos);
}

TEST(Network, DescriptionsRoundTrip) {
  const Json description = Json::parse(kLenet, "test");
  const Network network(description, "net.json");
  EXPECT_EQ(Json::parse(network.description().dump(), "again"), description);
}

TEST(Network, DefaultsStandInWhereALayerSaysNothing) {
  Graph graph;
  const BuiltNetwork net = build_network(
      graph,
      R"({"layers": [{"type": "conv2d", "out": 4, "kernel": 3}, {"type": "dense", "out": 2, "activation": "identity", "weight_init": "zeros"}],
    "defaults": {"activation": "tanh", "padding": "same", "weight_init": "he_normal"}})",
      Shape{1, 5, 5});
  EXPECT_EQ(net.layers[0].outputs[0], (Shape{4, 5, 5}));
  EXPECT_EQ(net.parameters[0].init, Json("he_normal"));
  EXPECT_EQ(net.parameters[2].init, Json("zeros"));
  int tanhs = 0;
  for (const Node& node : graph.nodes()) tanhs += std::string(node.op->name) == "tanh";
  EXPECT_EQ(tanhs, 1);
}

std::vector<std::string> parameter_names(const BuiltNetwork& net) {
  std::vector<std::string> names;
  for (const ParameterSpec& spec : net.parameters) names.push_back(spec.name + " " + spec.shape.text());
  return names;
}

const char* const kSiamese = R"({"type": "graph", "inputs": ["a", "b"], "outputs": ["distance"], "nodes": [
  {"name": "distance", "layer": "l2_distance", "inputs": ["left", "right"]},
  {"name": "left", "layer": {"type": "dense", "out": 4, "share": "tower"}, "inputs": ["a"]},
  {"name": "right", "layer": {"type": "dense", "out": 4, "share": "tower"}, "inputs": ["b"]}]})";

TEST(GraphNetwork, SharesParametersAndTakesNodesInAnyOrder) {
  Graph graph;
  const BuiltNetwork net =
      Network(Json::parse(kSiamese, "test"), "net.json").build(graph, {field("b", {3}), field("a", {3})}, {.batch = 2});
  EXPECT_EQ(parameter_names(net), (std::vector<std::string>{"tower.weight 4x3", "tower.bias 4"}));
  EXPECT_EQ(net.outputs.at(0).shape(), (Shape{2, 1}));
}

TEST(GraphNetwork, SharedLayersMustFit) {
  Graph graph;
  try {
    Network(Json::parse(kSiamese, "test"), "net.json").build(graph, {field("b", {3}), field("a", {5})}, {.batch = 2});
    FAIL() << "shapes differ";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("shares 'tower.weight' with a layer whose shape differs"), std::string::npos) << error.what();
  }
}

TEST(GraphNetwork, PartsOfANodeAreInputs) {
  Graph graph;
  const BuiltNetwork net = build_network(graph, R"({"type": "graph", "inputs": "x", "outputs": ["first", "both"], "nodes": [
    {"name": "pair", "layer": "stack", "inputs": ["x", "x"]}, {"name": "parts", "layer": {"type": "unstack", "parts": 2}, "inputs": ["pair"]},
    {"name": "first", "layer": {"type": "scale", "factor": 2}, "inputs": ["parts:1"]}, {"name": "both", "layer": "add", "inputs": ["parts"]}]})",
                                         Shape{3});
  EXPECT_EQ(net.outputs.size(), 2u);
  EXPECT_EQ(net.outputs[1].shape(), (Shape{8, 3}));
}

TEST(GraphNetwork, ErrorsNameTheNode) {
  const auto graph = [](const std::string& nodes, const std::string& outputs = "[\"a\"]") {
    return network_error(R"({"type": "graph", "inputs": ["x"], "outputs": )" + outputs + ", \"nodes\": [" + nodes + "]}", Shape{3});
  };
  const std::string a = R"({"name": "a", "layer": {"type": "dense", "out": 2}, "inputs": ["x"]})";
  EXPECT_EQ(graph(a), "no error");
  EXPECT_NE(graph(R"({"name": "a", "layer": "flatten", "inputs": ["b"]}, {"name": "b", "layer": "flatten", "inputs": ["a"]})")
                .find("need each other: a <- b <- a"),
            std::string::npos);
  EXPECT_NE(graph(R"({"name": "a", "layer": "flatten", "inputs": ["y"]})").find("there is no node or input 'y'; expected one of 'x'"),
            std::string::npos);
  EXPECT_NE(graph(a + R"(, {"name": "c", "layer": "flatten", "inputs": ["a"]})")
                .find("flatten 'c' (layer 2 of 2): no output depends on this node"),
            std::string::npos);
  EXPECT_NE(graph(a, "[\"d\"]").find("there is no node or input 'd'"), std::string::npos);
  EXPECT_NE(graph(R"({"name": "a", "layer": "subtract", "inputs": ["x"]})").find("wrong number of inputs; got 1, expected 2"),
            std::string::npos);
  EXPECT_NE(graph(R"({"name": "a", "layer": "flatten", "inputs": ["x:3"]})").find("'x' has no output 3"), std::string::npos);
}

TEST(Network, NestedLayersAreNamedByTheirPath) {
  Graph graph;
  const BuiltNetwork net = build_network(
      graph, R"([{"type": "residual", "layers": [{"type": "conv2d", "out": 4, "kernel": 3, "padding": "same", "bias": false}, "batchnorm"],
    "shortcut": {"type": "conv2d", "out": 4, "kernel": 1}, "weight_init": "he_normal"}, {"type": "dense", "out": 2}])",
      Shape{2, 5, 5});
  EXPECT_EQ(parameter_names(net), (std::vector<std::string>{"block1.conv1.weight 4x2x3x3", "block1.bn1.weight 4", "block1.bn1.bias 4",
                                                            "block1.shortcut.conv1.weight 4x2x1x1", "block1.shortcut.conv1.bias 4",
                                                            "dense1.weight 2x100", "dense1.bias 2"}));
  EXPECT_EQ(net.parameters[0].init, Json("he_normal"));
  EXPECT_EQ(net.states.at(1).name, "block1.bn1.variance");
  EXPECT_EQ(net.layers.at(1).scope, "conv2d 'conv1' (layer 1 of 2 in residual 'block1')");
  int64_t total = 0, reported = 0;
  for (const ParameterSpec& spec : net.parameters) total += spec.shape.elements();
  for (const LayerReport& layer : net.layers) reported += layer.parameters;
  EXPECT_EQ(total, reported);
  EXPECT_NE(
      network_error(R"([{"type": "residual", "layers": [{"type": "conv2d", "out": 4, "kernel": 3}]}])", Shape{2, 5, 5}).find("1x1 conv2d"),
      std::string::npos);
}

TEST(Network, DeepNestingEnds) {
  std::string json = R"({"type": "dense", "out": 2})";
  for (int i = 0; i < 29; ++i) json = R"({"type": "sequential", "layers": [)" + json + "]}";
  EXPECT_EQ(network_error(json, Shape{3}), "no error");
  Json deep = Json::parse(json, "test");
  for (int i = 0; i < 10; ++i) deep = Json(Json::Object{{"type", Json("sequential")}, {"layers", Json(Json::Array{deep})}});
  Graph graph;
  EXPECT_THROW(Network(deep, "net.json").build(graph, {field("x", {3})}, {}), Error);
}

TEST(Network, OptionsWithoutEffectAreRefused) {
  EXPECT_NE(network_error(R"([{"type": "flatten", "weight_init": "zeros"}])").find("'weight_init' has no effect"), std::string::npos);
  EXPECT_NE(network_error(R"({"layers": ["flatten"], "defaults": {"dropout": 0.5}})").find("belongs to one layer"), std::string::npos);
}

// The shapes that PyTorch 1.13 gives for the layers of the same sizes.
TEST(Network, ShapesAreThoseOfPyTorch) {
  const auto shape = [](const std::string& layer, const Shape& input) {
    Graph graph;
    return build_network(graph, layer, input).outputs.at(0).shape().text();
  };
  EXPECT_EQ(
      shape(R"({"type": "conv2d", "out": 6, "kernel": [5, 3], "stride": [2, 1], "padding": [2, 0], "dilation": [1, 2]})", {3, 17, 20}),
      "8x6x9x16");
  EXPECT_EQ(shape(R"({"type": "conv1d", "out": 6, "kernel": 4, "stride": 3, "padding": 1})", {3, 20}), "8x6x7");
  EXPECT_EQ(shape(R"({"type": "conv1d", "out": 6, "kernel": 4, "dilation": 3, "padding": "causal"})", {3, 20}), "8x6x20");
  EXPECT_EQ(shape(R"({"type": "conv2d", "out": 6, "kernel": 4, "padding": "same"})", {3, 9, 10}), "8x6x9x10");
  EXPECT_EQ(shape(R"({"type": "deconv2d", "out": 5, "kernel": 4, "stride": 2, "padding": 1})", {3, 7, 9}), "8x5x14x18");
  EXPECT_EQ(shape(R"({"type": "deconv2d", "out": 5, "kernel": 3, "stride": 2, "padding": "same"})", {3, 7, 9}), "8x5x14x18");
  EXPECT_EQ(shape(R"({"type": "depthwise_conv2d", "kernel": 3, "multiplier": 2})", {3, 7, 9}), "8x6x5x7");
  EXPECT_EQ(shape(R"({"type": "maxpool", "kernel": 3, "stride": 2, "padding": 1})", {3, 9, 10}), "8x3x5x5");
  EXPECT_EQ(shape(R"({"type": "avgpool1d", "kernel": 3})", {3, 10}), "8x3x3");
  EXPECT_EQ(shape("\"global_pool\"", {3, 9, 10}), "8x3");
  EXPECT_EQ(shape(R"({"type": "zero_padding", "padding": [1, 2]})", {3, 4, 5}), "8x3x6x9");
  EXPECT_EQ(shape(R"({"type": "cropping", "cropping": 1})", {3, 4, 5}), "8x3x2x3");
  EXPECT_EQ(shape(R"({"type": "upsampling", "size": 2})", {3, 4, 5}), "8x3x8x10");
  EXPECT_EQ(shape(R"({"type": "space_to_depth", "block": 2})", {3, 4, 6}), "8x12x2x3");
  EXPECT_EQ(shape(R"({"type": "locally_connected2d", "out": 5, "kernel": 3, "padding": 1, "stride": 2})", {3, 7, 9}), "8x5x4x5");
  EXPECT_EQ(shape(R"({"type": "subset", "from": 1, "to": 3})", {5, 2}), "8x3x2");
  EXPECT_EQ(shape(R"({"type": "repeat", "n": 3})", {5}), "8x5x3");
}

TEST(Lambda, HostileProgramsAreRefused) {
  const auto lambda = [](const std::string& program, const std::string& outputs = "[\"y\"]") {
    return network_error(R"([{"type": "lambda", "inputs": ["x"], "program": )" + program + ", \"outputs\": " + outputs + "}]", Shape{3});
  };
  EXPECT_EQ(lambda(R"([{"op": "tanh", "in": ["x"], "out": "y"}])"), "no error");
  const auto scan = [&](const std::string& in, const std::string& attrs, const std::string& body) {
    return lambda(R"([{"op": "reduce_sum", "in": ["x"], "out": "h", "attrs": {"axes": [1]}}, {"op": "scan", "in": [)" + in +
                  R"(], "out": "y", "attrs": {"carries": 1, )" + attrs + "\"body\": " + body + "}}]");
  };
  const std::string body = R"({"inputs": ["c", "s"], "program": [{"op": "add", "in": ["c", "s"], "out": "d"}], "outputs": ["d"]})";
  EXPECT_EQ(scan(R"("h", "x")", "", body), "no error");
  EXPECT_NE(scan(R"("h", "x", "x")", "", body).find("are another number than the loop's operands"), std::string::npos);
  EXPECT_NE(scan("", "", body).find("has too few operands"), std::string::npos);
  EXPECT_NE(scan(R"("h", "x")", R"("length": -1, )", body).find("'length' is out of range"), std::string::npos);
  const std::string masked = R"({"inputs": ["c"], "program": [], "outputs": ["c"]})";
  EXPECT_EQ(scan(R"("h", "x")", R"("mask": true, )", masked), "no error");
  EXPECT_NE(lambda(R"([{"op": "sigmiod", "in": ["x"], "out": "y"}])").find("op 1: there is no op 'sigmiod'; did you mean 'sigmoid'"),
            std::string::npos);
  EXPECT_NE(lambda(R"([{"op": "parameter", "in": [], "out": "y"}])").find("there is no op 'parameter'"), std::string::npos);
  EXPECT_NE(lambda(R"([{"op": "tanh", "in": ["z"], "out": "y"}])").find("there is no value 'z' at this point"), std::string::npos);
  EXPECT_NE(lambda(R"([{"op": "tanh", "in": ["x"], "out": "x"}])").find("given twice"), std::string::npos);
  EXPECT_NE(lambda(R"([{"op": "tanh", "in": ["x", "x"], "out": "y"}])").find("op 1: 'tanh': "), std::string::npos);
  EXPECT_NE(lambda(R"([{"op": "tanh", "in": ["x"], "out": "y", "attr": {}}])").find("unknown key 'attr'; did you mean 'attrs'"),
            std::string::npos);
  EXPECT_NE(lambda(R"([{"op": "reduce_sum", "in": ["x"], "out": "y"}])").find("lost the batch"), std::string::npos);
  std::string many = "[";
  for (int i = 0; i < 10001; ++i)
    many += (i ? "," : "") + std::string(R"({"op": "tanh", "in": ["x"], "out": "t)") + std::to_string(i) + "\"}";
  EXPECT_NE(lambda(many + "]").find("too long; got 10001 ops, expected at most 10000"), std::string::npos);
}

TEST(Lambda, SizesConstantsAndFormsAreChecked) {
  const auto op = [](const std::string& text) {
    return network_error(R"([{"type": "lambda", "inputs": ["x"], "program": [)" + text + R"(], "outputs": ["y"]}])", Shape{3});
  };
  EXPECT_EQ(op(R"({"op": "add", "in": ["x", {"size": "x", "axis": 1}], "out": "y"})"), "no error");
  EXPECT_EQ(
      op(R"({"op": "reshape", "in": ["x"], "out": "y", "attrs": {"shape": [{"size": "x", "axis": 0}, {"mul": [{"size": "x", "axis": -1}, 1]}]}})"),
      "no error");
  EXPECT_EQ(op(R"({"op": "broadcast_to", "in": ["x"], "out": "y", "attrs": {"shape": {"shape": "x"}}})"), "no error");
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"op": "mul", "in": ["x", {"size": "x", "axis": 0}], "out": "y"})", "computes with the number of examples"},
      {R"({"op": "mul", "in": ["x", {"size": "x", "axis": 2}], "out": "y"})", "got axis 2, expected -2 to 1"},
      {R"({"op": "mul", "in": ["x", {"size": "z", "axis": 1}], "out": "y"})", "there is no value 'z'"},
      {R"({"op": "mul", "in": ["x", {"mul": [1]}], "out": "y"})", "other than two operands"},
      {R"({"op": "mul", "in": ["x", {"mul": [1, "x"]}], "out": "y"})", "a size that cannot be read"},
      {R"({"op": "reshape", "in": ["x"], "out": "y", "attrs": {"shape": [{"size": "x", "axis": 0}, {"div": [1, 2]}]}})", "shape"},
      {R"({"op": "constant", "in": [], "out": "y", "attrs": {"shape": [2], "values": [1]}})",
       "not as many as the shape has elements; got 1, expected 2"},
      {R"({"op": "constant", "in": [], "out": "y", "attrs": {"shape": [4294967296, 4294967296], "values": [1]}})", "too many elements"},
      {R"({"op": "constant", "in": [], "out": "y", "attrs": {"shape": [1], "values": ["a"]}})",
       "'values' has an element of the wrong type; got string"},
      {R"({"op": "index", "in": ["x"], "out": "y", "attrs": {"entries": [[], 4]}})", "an index leaves a dimension"},
      {R"({"op": "index", "in": ["x"], "out": "y", "attrs": {"entries": [[], [1, 2, 0]]}})", "a range's step cannot be 0"},
      {R"({"op": "index", "in": ["x"], "out": "y", "attrs": {"entries": [[], [], []]}})", "more entries than the value has dimensions"},
      {R"({"op": "index", "in": ["x"], "out": "y", "attrs": {"entries": [[], {"a": 1}]}})", "an index has places, ranges"},
      {R"({"op": "index", "in": ["x", "x"], "out": "y", "attrs": {"entries": []}})", "another number of operands"},
      {R"({"op": "unsqueeze", "in": ["x"], "out": "y", "attrs": {"axis": 3}})", "there is no such axis"},
      {R"({"op": "tril", "in": ["x"], "out": "y", "attrs": {"diagonl": 3}})", "did you mean 'diagonal'"},
      {R"({"op": "einsum", "in": ["x"], "out": "y", "attrs": {"formula": "ijk->i"}})", "has 3 labels"},
  };
  for (const auto& [text, error] : wrong) EXPECT_NE(op(text).find(error), std::string::npos) << text << "\n" << op(text);
}

}  // namespace
}  // namespace perigee
