// The network, layer by layer.
#include <algorithm>
#include <cmath>

#include "src/report/html.h"
#include "src/report/section.h"

namespace perigee {
namespace {

constexpr size_t kLayersMost = 150, kMostInputs = 20, kLayersLongest = 80;

SectionText make_layers(const RunFiles& run) {
  const auto& layers = list_in(run.details, {"layers", "layers"});
  if (layers.empty()) return {"", "The folder has no details.json with the layers; `perigee describe` shows them for the job."};
  const double all = number_in(run.details, {"layers", "parameters"});
  HtmlTable table("Layers in order; memory and FLOPs are of one example, forward", {{"layer"},
                                                                                    {"type"},
                                                                                    {"output", true},
                                                                                    {"parameters", true},
                                                                                    {"<span class=\"sub\">share</span>"},
                                                                                    {"activations", true},
                                                                                    {"FLOPs", true}});
  const auto text = [](const Json& of, const char* key) { return shortened(text_in(of, {key}), kLayersLongest); };
  const auto& inputs = list_in(run.details, {"layers", "inputs"});
  for (size_t i = 0; i < std::min(inputs.size(), kMostInputs); ++i)
    table.row({text(inputs[i], "name"), "input", text(inputs[i], "shape"), "", "", "", ""});
  for (size_t i = 0; i < std::min(layers.size(), kLayersMost); ++i) {
    const Json& layer = layers[i];
    const double parameters = number_in(layer, {"parameters"});
    const std::string width = std::to_string(all > 0 && parameters > 0 ? static_cast<int>(std::lround(100 * parameters / all)) : 0);
    table.row({text(layer, "name"), text(layer, "type"), text(layer, "shape"), grouped_number(parameters),
               "<svg class=\"meter\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"" + width +
                   " percent\"><rect class=\"rest\" width=\"100\" height=\"10\"/><rect width=\"" + width + "\" height=\"10\"/></svg>",
               bytes_number(number_in(layer, {"activation_bytes"})), grouped_number(number_in(layer, {"flops"}))});
  }
  table.row({"total", "", "", grouped_number(all), "", bytes_number(number_in(run.details, {"layers", "activation_bytes"})),
             grouped_number(number_in(run.details, {"layers", "flops"}))},
            "total");
  return {table.html() + left_out_note(layers.size(), kLayersMost, "layers", "details.json"), ""};
}

}  // namespace

extern const Section section_layers;
const Section section_layers{.id = "layers", .title = "Layers", .make = make_layers};

}  // namespace perigee
