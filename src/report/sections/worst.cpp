// The examples with the greatest loss: as images, as rows of a table, or by their numbers.
#include <algorithm>
#include <cmath>

#include "src/io/plot/short_names.h"
#include "src/report/html.h"
#include "src/report/section.h"

namespace perigee {
namespace {

constexpr size_t kWorstMost = 32, kMostWorstColumns = 24, kMostValues = 40, kMostOfImages = 100'000;  // bytes of all images

std::string class_of(const std::vector<std::string>& names, double number) {
  if (!(number >= 0)) return "";
  const auto i = static_cast<size_t>(number);
  return i < names.size() ? names[i] : std::to_string(i);
}

std::string values_text(const Json::Array& values) {
  std::string text;
  for (size_t i = 0; i < std::min(values.size(), kMostValues); ++i)
    text += (text.empty() ? "" : ", ") + (values[i].is_number() ? plain_number(values[i].as_number()) : "\u2013");
  return text;
}

// The truth and the answer of the network, as plain text.
std::pair<std::string, std::string> answer(const Json& example, const std::vector<std::string>& names) {
  if (example.find("actual")) {
    const double probability = number_in(example, {"probability"});
    return {class_of(names, number_in(example, {"actual"})),
            class_of(names, number_in(example, {"predicted"})) + (std::isfinite(probability) ? " (" + percent(probability, 1) + ")" : "")};
  }
  return {values_text(list_in(example, {"actual_values"})), values_text(list_in(example, {"predicted_values"}))};
}

// Only a picture that Perigee wrote: anything else stays text.
bool is_png(const std::string& url) {
  return url.starts_with("data:image/png;base64,") && std::all_of(url.begin() + 22, url.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '/' || c == '=';
         });
}

std::string gallery(const Json::Array& examples, const std::vector<std::string>& names) {
  std::string html = "<ul class=\"worst\">\n";
  size_t room = kMostOfImages;
  for (size_t i = 0; i < std::min(examples.size(), kWorstMost); ++i) {
    const Json& example = examples[i];
    const auto [actual, predicted] = answer(example, names);
    const std::string number = grouped_number(number_in(example, {"example"})), loss = plain_number(number_in(example, {"loss"})),
                      url = text_in(example, {"image"});
    html += "<li>";
    if (url.size() <= room && is_png(url)) {
      room -= url.size();
      html += "<img src=\"" + url + "\" alt=\"Example " + number + ": actual " + shortened(actual, 100) + ", predicted " +
              shortened(predicted, 100) + "\">";
    }
    if (!actual.empty())  // it may be right, and still have a great loss
      html += "<p><strong>" + shortened(actual, 40) + "</strong>, called <strong>" + shortened(predicted, 50) + "</strong></p>";
    html += "<p class=\"sub\">example " + number + ", loss " + loss + "</p></li>\n";
  }
  return html + "</ul>\n";
}

std::string rows(const Json::Array& examples, const std::vector<std::string>& names) {
  std::vector<HtmlTable::Column> columns = {{"example", true}, {"loss", true}, {"actual"}, {"predicted"}};
  std::vector<std::string> keys;
  for (const auto& [name, value] : members_in(examples[0], {"columns"}))
    if (keys.size() < kMostWorstColumns) keys.push_back(name), columns.push_back({shortened(name, 30), value.is_number()});
  const bool numbers = keys.empty() && examples[0].find("values");
  if (numbers) columns.push_back({"what the network reads"});
  HtmlTable table("Examples of the greatest loss, the worst first", columns);
  for (size_t i = 0; i < std::min(examples.size(), kWorstMost); ++i) {
    const auto [actual, predicted] = answer(examples[i], names);
    std::vector<HtmlTable::Cell> cells = {grouped_number(number_in(examples[i], {"example"})),
                                          plain_number(number_in(examples[i], {"loss"})), shortened(actual, 60), shortened(predicted, 60)};
    for (const std::string& key : keys) {
      const Json* value = member(examples[i], {"columns", key});
      cells.push_back(!value || value->is_null() ? "\u2013"
                      : value->is_string()       ? shortened(value->as_string(), 40)
                      : value->is_number()       ? plain_number(value->as_number())
                                                 : "");
    }
    if (numbers) {
      const auto& values = list_in(examples[i], {"values"});
      cells.push_back(escaped(values_text(values)) +
                      (number_in(examples[i], {"of"}) > static_cast<double>(values.size()) ? " \u2026" : ""));
    }
    table.row(cells);
  }
  return table.html();
}

SectionText make_worst(const RunFiles& run) {
  const auto& examples = list_in(run.details, {"evaluation", "worst"});
  if (examples.empty()) return {"", no_details(run, "This run kept no examples: it is of an older version, or its data are empty.")};
  const std::vector<std::string> names = short_names(run.class_names(), 40, "\u2026");
  const bool images = examples[0].find("image") != nullptr;
  const std::string note = "<p class=\"note\">The " + std::to_string(std::min(examples.size(), kWorstMost)) +
                           " examples with the greatest loss" + (images ? "" : "; numbers of examples count from 0") +
                           ". Wrong labels and damaged data are often among them.</p>\n";
  return {(images ? gallery(examples, names) : rows(examples, names)) + note, ""};
}

}  // namespace

extern const Section section_worst;
const Section section_worst{.id = "worst", .title = "Worst examples", .make = make_worst};

}  // namespace perigee
