// The first that a reader wants to know: how the run ended, how good the network is, how long it took.
#include <cmath>

#include "src/report/html.h"
#include "src/report/section.h"

namespace perigee {
namespace {

constexpr size_t kSummaryLongest = 400, kLongestError = 4000, kMostSummaryFigures = 200;

using Facts = std::vector<std::pair<std::string, std::string>>;

Facts tiles(const RunFiles& run) {
  Facts tiles;
  const Json* start = run.last("start");
  const Json* outcome = run.outcome();
  const std::string part = run.report.is_object() ? "test " : "validation ";
  for (const char* name : {"accuracy", "loss", "rmse", "r2", "f1"})
    if (const double value = number_in(run.evaluated(), {name}); std::isfinite(value) && tiles.size() < 3)
      tiles.emplace_back(part + name, figure_text(name, value));
  const Json* last = outcome && is_event(*outcome, "end") ? outcome : run.last("step");
  if (last) {
    const double epochs = is_event(*last, "end") ? number_in(*last, {"epochs"}) : number_in(*last, {"epochs_done"});
    tiles.emplace_back("epochs", plain_number(std::round(epochs * 100) / 100));
    tiles.emplace_back("training time", seconds_text(number_in(*last, {"seconds"})));
    tiles.emplace_back("examples a second", grouped_number(number_in(*last, {"examples_per_s"})));
  }
  if (start) tiles.emplace_back("parameters", grouped_number(number_in(*start, {"parameters"})));
  return tiles;
}

Facts facts(const RunFiles& run) {
  const Json none = Json::object();
  const Json& start = run.last("start") ? *run.last("start") : none;
  const Json& end = run.last("end") ? *run.last("end") : none;
  const auto code = [](const std::string& text) { return text.empty() ? "" : "<code>" + shortened(text, kSummaryLongest) + "</code>"; };
  const auto words = [](const std::string& text) { return shortened(text, kSummaryLongest); };
  Facts facts = {{"script", code(text_in(start, {"script"}))},
                 {"training data", words(text_in(start, {"data"}))},
                 {"test data", words(text_in(end, {"test_data"}))}};
  if (const double batch = number_in(start, {"batch"}); std::isfinite(batch))
    facts.emplace_back("batch", grouped_number(batch) + " examples");
  const double steps = number_in(end, {"steps"});
  if (std::isfinite(steps)) facts.emplace_back("steps", grouped_number(steps));
  if (const double workers = number_in(end, {"workers"}); std::isfinite(workers)) facts.emplace_back("workers", grouped_number(workers));
  facts.emplace_back("averaging", code(text_in(start, {"averaging", "name"})));
  facts.emplace_back("resumed from", code(text_in(start, {"resumed_from"})));
  facts.emplace_back("model of", words(text_in(end, {"model_of"})));
  facts.emplace_back("model", code(text_in(end, {"model"})));
  facts.emplace_back("checkpoint", code(text_in(end, {"checkpoint"})));
  facts.emplace_back("stopped", words(text_in(end, {"stopped"})));
  return facts;
}

// The other figures of the evaluation: all that are single numbers.
std::string summary_figures(const RunFiles& run) {
  HtmlTable table(run.report.is_object() ? "Figures on the test data" : "Figures on the validation data", {{"figure"}, {"value", true}});
  size_t rows = 0;
  const auto add = [&](const std::string& name, const Json& value) {
    if ((value.is_number() || value.is_null()) && ++rows <= kMostSummaryFigures)
      table.row({shortened(name, 80), value.is_number() ? figure_text(name, value.as_number()) : "not defined"});
  };
  if (!run.evaluated().is_object()) return "";
  for (const auto& [name, value] : run.evaluated().as_object()) {
    add(name, value);
    if (!value.is_object()) continue;
    for (const auto& [inner, number] : value.as_object()) add(name + " " + inner, number);
  }
  return table.empty() ? ""
                       : "<details><summary>All figures</summary>\n" + table.html() +
                             left_out_note(rows, kMostSummaryFigures, "figures", "report.json") + "</details>\n";
}

SectionText make_summary(const RunFiles& run) {
  if (run.events.empty()) return {"", "The folder has no log.jsonl, or it is empty."};
  std::string html;
  const Json* outcome = run.outcome();
  if (outcome && is_event(*outcome, "error"))
    html += "<p class=\"alert\" role=\"note\"><strong>The run failed.</strong> " + shortened(text_in(*outcome, {"text"}), kLongestError) +
            "</p>\n";
  html += facts_html(tiles(run), "tiles") + facts_html(facts(run));
  return {html + summary_figures(run), ""};
}

}  // namespace

extern const Section section_summary;
const Section section_summary{.id = "summary", .title = "Summary", .make = make_summary};

}  // namespace perigee
