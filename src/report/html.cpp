#include "src/report/html.h"

#include <cmath>
#include <cstdio>

#include "src/core/utf8.h"

namespace perigee {
namespace {

constexpr const char* kDash = "\u2013";

template <class... Values>
std::string format(const char* how, Values... values) {
  char text[64];
  std::snprintf(text, sizeof text, how, values...);
  return text;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    const unsigned char first = static_cast<unsigned char>(text[i]);
    if (length == 0 || (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f) out += "\uFFFD";
    else if (first == '<') out += "&lt;";
    else if (first == '>') out += "&gt;";
    else if (first == '&') out += "&amp;";
    else if (first == '"') out += "&quot;";
    else if (first == '\'') out += "&#39;";
    else out += text.substr(i, length);
    i += length == 0 ? 1 : length;
  }
  return out;
}

std::string shortened(std::string_view text, size_t most) {
  if (utf8_width(text) <= most) return escaped(text);
  return escaped(utf8_prefix(text, most - 1)) + "\u2026";
}

HtmlTable::HtmlTable(std::string caption, std::vector<Column> columns, const std::string& style)
    : caption_(std::move(caption)), columns_(std::move(columns)) {
  text_ = "<table" + (style.empty() ? "" : " class=\"" + style + "\"") + "><caption>" + escaped(caption_) + "</caption>\n<thead><tr>";
  for (const Column& column : columns_)
    text_ += std::string("<th scope=\"col\"") + (column.number ? " class=\"n\"" : "") + ">" + column.head + "</th>";
  text_ += "</tr></thead>\n<tbody>\n";
}

void HtmlTable::row(const std::vector<Cell>& cells, const std::string& style) {
  text_ += "<tr" + (style.empty() ? "" : " class=\"" + style + "\"") + ">";
  for (size_t i = 0; i < cells.size(); ++i) {
    std::string names = i < columns_.size() && columns_[i].number ? "n" : "";
    if (!cells[i].style.empty()) names += (names.empty() ? "" : " ") + cells[i].style;
    text_ += std::string(i == 0 ? "<th scope=\"row\"" : "<td") + (names.empty() ? "" : " class=\"" + names + "\"") + ">" + cells[i].html +
             (i == 0 ? "</th>" : "</td>");
  }
  text_ += "</tr>\n";
  ++rows_;
}

std::string HtmlTable::html() const {
  return "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"" + escaped(caption_) + "\">" + text_ +
         "</tbody></table></div>\n";
}

std::string left_out_note(size_t all, size_t most, const std::string& kind, const std::string& file) {
  if (all <= most) return "";
  return "<p class=\"note\">The first " + std::to_string(most) + " of " + std::to_string(all) + " " + kind + "; " + file +
         " has the others.</p>\n";
}

std::string facts_html(const std::vector<std::pair<std::string, std::string>>& facts, const std::string& style) {
  std::string text;
  for (const auto& [name, value] : facts)
    if (!value.empty()) text += "<div><dt>" + escaped(name) + "</dt><dd>" + value + "</dd></div>\n";
  return text.empty() ? "" : "<dl class=\"" + style + "\">\n" + text + "</dl>\n";
}

std::string grouped_number(double value) {
  if (!std::isfinite(value)) return kDash;
  if (std::fabs(value) >= 1e15) return format("%.4g", value);
  std::string digits = format("%.0f", std::fabs(value));
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<size_t>(at), ",");
  return (value < 0 ? "\u2212" : "") + digits;
}

std::string plain_number(double value) {
  if (!std::isfinite(value)) return kDash;
  if (std::fabs(value) >= 1e4 && std::fabs(value) < 1e12) return grouped_number(value);
  return format("%.4g", value == 0 ? 0. : value);  // no "-0"
}

std::string percent(double share, int digits) { return std::isfinite(share) ? format("%.*f\u202f%%", digits, 100 * share) : kDash; }

std::string seconds_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return kDash;
  if (seconds < 60) return format(seconds < 0.1 ? "%.3f s" : "%.1f s", seconds);
  if (seconds < 3600) return format("%.0f min %.0f s", std::floor(seconds / 60), std::floor(std::fmod(seconds, 60)));
  return format("%.0f h %.0f min", std::floor(seconds / 3600), std::floor(std::fmod(seconds, 3600) / 60));
}

std::string bytes_number(double bytes) {
  if (!std::isfinite(bytes)) return kDash;
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return format(unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
}

std::string figure_text(const std::string& name, double value) { return name.ends_with("accuracy") ? percent(value) : plain_number(value); }

}  // namespace perigee
