#include "repl/commands/describe/table.h"

#include <algorithm>
#include <cstdio>

#include "repl/display/display.h"
#include "src/data/source.h"
#include "src/nn/describe_network.h"

namespace perigee {
namespace {

double table_number(const Json& json, const char* name) { return json.find(name)->as_number(); }
const std::string& table_text(const Json& json, const char* name) { return json.find(name)->as_string(); }

std::string table_scaled(double value, const char* const (&units)[5], double base) {
  size_t unit = 0;
  while (value >= base && unit < 4) value /= base, ++unit;
  char text[40];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

std::string flops_text(double value) { return table_scaled(value, {"", "k", "M", "G", "T"}, 1000); }

}  // namespace

std::string bytes_text(double value) { return table_scaled(value, {"B", "KiB", "MiB", "GiB", "TiB"}, 1024); }

std::string network_table(const Json& network) {
  const auto& inputs = network.find("inputs")->as_array();
  const auto& layers = network.find("layers")->as_array();
  std::string table;
  size_t name = 5, type = 4, shape = 12;
  for (const Json& row : layers) {
    name = std::max(name, table_text(row, "name").size()), type = std::max(type, table_text(row, "type").size());
    shape = std::max(shape, table_text(row, "shape").size());
  }
  const auto line = [&](const std::string& a, const std::string& b, const std::string& c, const std::string& d, const std::string& e,
                        const std::string& f) {
    const auto left = [](std::string text, size_t width) { return text + std::string(width - std::min(width, text.size()), ' '); };
    const auto right = [](const std::string& text, size_t width) { return std::string(width - std::min(width, text.size()), ' ') + text; };
    table += left(a, name) + "  " + left(b, type) + "  " + right(c, shape) + "  " + right(d, 12) + "  " + right(e, 12) + "  " +
             right(f, 10) + "\n";
  };
  const auto figures = [&](const std::string& a, const std::string& b, const std::string& c, const Json& row) {
    line(a, b, c, grouped(row.find("parameters")->as_int()), bytes_text(table_number(row, "activation_bytes")),
         flops_text(table_number(row, "flops")));
  };
  line("layer", "type", "output shape", "parameters", "activations", "FLOPs");
  for (const Json& input : inputs) line(table_text(input, "name"), "input", table_text(input, "shape"), "", "", "");
  for (const Json& row : layers) figures(table_text(row, "name"), table_text(row, "type"), table_text(row, "shape"), row);
  figures("total", "", "", network);
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
  return job.name() + ": " + source->traits().description + "\n\n" +
         network_table(describe_network(Network(*config.raw("network"), job.where()), inputs));
}

}  // namespace perigee
