#include "repl/commands/describe_table.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "repl/display/display.h"
#include "src/data/source.h"
#include "src/graph/op.h"

namespace perigee {
namespace {

struct Row {
  std::string layer, type, shape;
  int64_t parameters = 0;
  double activation_bytes = 0, flops = 0;  // of one example, forward
};

double node_flops(const Graph& graph, const Node& node) {
  std::vector<Type> types;
  const auto present = std::make_unique<bool[]>(node.inputs.size() + 1);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    present[i] = node.inputs[i].node >= 0;
    types.push_back(present[i] ? graph.type(node.inputs[i]) : Type{});
  }
  if (node.inputs.empty()) return 0;
  const OpCall call{types, {present.get(), types.size()}, node.attrs};
  if (node.op->flops) return node.op->flops(call);
  return node.op->alias ? 0 : static_cast<double>(node.outputs[0].shape.elements());
}

std::vector<Row> rows_of(const Network& network, const std::vector<NetworkInput>& inputs) {
  Graph graph;
  const BuiltNetwork built = network.build(graph, inputs, {.batch = 1, .training = true});
  std::vector<Row> rows;
  for (const LayerReport& layer : built.layers) {
    Row row{.layer = layer.name, .type = layer.type, .parameters = layer.parameters};
    for (const Shape& shape : layer.outputs) row.shape += (row.shape.empty() ? "" : ", ") + shape.text();
    for (int i = layer.first_node; i < layer.last_node; ++i) {
      const Node& node = graph.nodes()[static_cast<size_t>(i)];
      row.flops += node_flops(graph, node);
      // What backward needs later: the outputs of every op that is no window and no leaf.
      if (!node.inputs.empty() && !node.op->alias)
        for (const Type& type : node.outputs)
          row.activation_bytes += static_cast<double>(type.shape.elements()) * static_cast<double>(dtype_bytes(type.dtype));
    }
    rows.push_back(row);
  }
  return rows;
}

std::string scaled(double value, const char* const (&units)[5], double base) {
  size_t unit = 0;
  while (value >= base && unit < 4) value /= base, ++unit;
  char text[40];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

std::string flops_text(double value) { return scaled(value, {"", "k", "M", "G", "T"}, 1000); }

}  // namespace

std::string bytes_text(double value) { return scaled(value, {"B", "KiB", "MiB", "GiB", "TiB"}, 1024); }

std::string network_table(const Network& network, const std::vector<NetworkInput>& inputs) {
  const std::vector<Row> rows = rows_of(network, inputs);
  std::string table;
  size_t name = 5, type = 4, shape = 12;
  Row total;
  for (const Row& row : rows) {
    name = std::max(name, row.layer.size()), type = std::max(type, row.type.size()), shape = std::max(shape, row.shape.size());
    total.parameters += row.parameters, total.activation_bytes += row.activation_bytes, total.flops += row.flops;
  }
  const auto line = [&](const std::string& a, const std::string& b, const std::string& c, const std::string& d, const std::string& e,
                        const std::string& f) {
    const auto left = [](std::string text, size_t width) { return text + std::string(width - std::min(width, text.size()), ' '); };
    const auto right = [](const std::string& text, size_t width) { return std::string(width - std::min(width, text.size()), ' ') + text; };
    table += left(a, name) + "  " + left(b, type) + "  " + right(c, shape) + "  " + right(d, 12) + "  " + right(e, 12) + "  " +
             right(f, 10) + "\n";
  };
  line("layer", "type", "output shape", "parameters", "activations", "FLOPs");
  for (const NetworkInput& input : inputs) line(input.name, "input", input.type.shape.text(), "", "", "");
  for (const Row& row : rows)
    line(row.layer, row.type, row.shape, grouped(row.parameters), bytes_text(row.activation_bytes), flops_text(row.flops));
  line("total", "", "", grouped(total.parameters), bytes_text(total.activation_bytes), flops_text(total.flops));
  return table + "activations and FLOPs: of one example, forward; backward takes about twice the FLOPs\n";
}

std::string job_table(const Job& job) {
  const Config config(job.json(), job.where());
  const Config data = config.object("data");
  const Json* part = data.raw("train") ? data.raw("train") : data.raw("test");
  const SourcePtr source = open_source(data.element(*part, "train"), job.folder());
  std::vector<std::string> names = config.string_list("inputs");
  if (names.empty()) names.emplace_back("x");
  std::vector<NetworkInput> inputs;
  for (const std::string& name : names)
    for (const Field& field : source->fields())
      if (field.name == name) inputs.push_back({name, {field.dtype, field.shape}});
  return job.name() + ": " + source->traits().description + "\n\n" + network_table(Network(*config.raw("network"), job.where()), inputs);
}

}  // namespace perigee
