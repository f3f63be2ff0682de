// Whether the network is right as often as it says.
#include <algorithm>
#include <cmath>

#include "src/report/figure.h"
#include "src/report/html.h"
#include "src/report/section.h"

namespace perigee {
namespace {

constexpr size_t kCalibrationMost = 100;  // bins

const Json* calibration_of(const RunFiles& run) {
  const Json* asked = member(run.evaluated(), {"calibration"});
  if (!asked && member(run.evaluated(), {"reliability"})) asked = &run.evaluated();
  return asked ? asked : member(run.details, {"evaluation", "calibration"});
}

SectionText make_calibration(const RunFiles& run) {
  const Json* calibration = calibration_of(run);
  Json::Array bins = calibration ? list_in(*calibration, {"reliability"}) : Json::Array();
  if (bins.size() > kCalibrationMost) bins.resize(kCalibrationMost);
  if (bins.empty())
    return {
        "",
        no_details(
            run,
            "Calibration is measured for networks whose outputs are probabilities of 2 to 32 classes; runs of older versions kept none.",
            "calibration")};
  Figure diagram{.title = "Reliability",
                 .description = "",
                 .x_label = "confidence",
                 .y_label = "accuracy",
                 .series = {{"accuracy at this confidence", {}}},
                 .x_limits = {{0, 1}},
                 .y_limits = {{0, 1}},
                 .square = true,
                 .diagonal = "perfectly calibrated"};
  HtmlTable table("Examples by the confidence of the network",
                  {{"confidence", true}, {"accuracy", true}, {"gap", true}, {"examples", true}, {"<span class=\"sub\">share</span>"}});
  double all = 0;
  for (const Json& bin : bins) all += std::max(0., number_in(bin, {"examples"}));
  for (const Json& bin : bins) {
    const double confidence = number_in(bin, {"confidence"}), accuracy = number_in(bin, {"accuracy"}),
                 examples = number_in(bin, {"examples"});
    diagram.series[0].points.emplace_back(confidence, accuracy);
    const std::string width = std::to_string(all > 0 && examples >= 0 ? static_cast<int>(std::lround(100 * examples / all)) : 0);
    table.row({percent(confidence, 1), percent(accuracy, 1), percent(accuracy - confidence, 1), grouped_number(examples),
               "<svg class=\"meter\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"" + width +
                   " percent\"><rect class=\"rest\" width=\"100\" height=\"10\"/><rect width=\"" + width + "\" height=\"10\"/></svg>"});
  }
  diagram.description = "expected calibration error " + percent(number_in(*calibration, {"ece"}));
  std::string html = "<div class=\"squares\">\n" + figure_html(diagram) + "<div>\n" +
                     facts_html({{"expected error", percent(number_in(*calibration, {"ece"}))},
                                 {"greatest error", percent(number_in(*calibration, {"mce"}))},
                                 {"Brier score", plain_number(number_in(*calibration, {"brier"}))}}) +
                     table.html() + "</div>\n</div>\n";
  return {html + "<p class=\"note\">Above the diagonal the network is right more often than it says, below it less often.</p>\n", ""};
}

}  // namespace

extern const Section section_calibration;
const Section section_calibration{.id = "calibration", .title = "Calibration", .make = make_calibration};

}  // namespace perigee
