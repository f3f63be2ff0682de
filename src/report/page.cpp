#include "src/report/page.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include "src/io/base64.h"
#include "src/io/digest.h"
#include "src/report/html.h"
#include "src/report/section.h"

namespace perigee {
namespace {

constexpr size_t kPageLargest = 470'000;  // bytes of all sections; with style and script the page stays below 500 kB
constexpr size_t kStaying = 2;            // sections that are there however large the others are

// 'sha256-...' as a Content Security Policy has it.
std::string source_of(std::string_view text) {
  const std::string hex = sha256_hex(std::as_bytes(std::span(text)));
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return "'sha256-" + base64(bytes) + "'";
}

// `too_large`: it does not fit into the page.
PageSection page_section(const Section& section, const RunFiles& run, bool too_large) {
  const SectionText text =
      too_large ? SectionText{"", "This section is too large for the page; the run's folder has its numbers."} : section.make(run);
  const bool empty = text.html.empty();
  const std::string head = std::string(section.id) + "-title";
  std::string html = std::string("<section id=\"") + section.id + "\"" + (empty ? " class=\"empty\"" : "") + " aria-labelledby=\"" + head +
                     "\">\n<h2 id=\"" + head + "\">" + section.title + "</h2>\n";
  html += empty ? "<p>" + escaped(text.missing) + "</p>\n" : text.html;
  return {section.id, section.title, html + "</section>\n"};
}

}  // namespace

std::string outcome_badge(const RunFiles& run) {
  const Json* outcome = run.outcome();
  const auto badge = [](const char* kind, const std::string& words) {
    return std::string("<span class=\"badge ") + kind + "\">" + words + "</span>";
  };
  if (!outcome || is_event(*outcome, "start")) return badge("warn", "? no end in the log");
  if (is_event(*outcome, "error")) return badge("bad", "\u2715 failed");
  const std::string stopped = text_in(*outcome, {"stopped"});
  if (stopped == "interrupted") return badge("warn", "\u25AE\u25AE interrupted");
  return badge("good", stopped.empty() ? "\u2713 finished" : "\u2713 stopped early");
}

std::string no_evaluation(const RunFiles& run, const std::string& lacking) {
  const Json* outcome = run.outcome();
  if (run.evaluated().is_object()) return lacking;
  if (outcome && is_event(*outcome, "error")) return "The run failed before it was evaluated.";
  if (outcome && text_in(*outcome, {"stopped"}) == "interrupted") return "The run was interrupted before its last evaluation.";
  if (!outcome || is_event(*outcome, "start")) return "The log has no end: the run still goes on, or it ended without a word.";
  return "The job names no test data, so nothing was evaluated.";
}

std::string no_details(const RunFiles& run, const std::string& lacking, const std::string& metric) {
  const Json* weighted = member(run.details, {"evaluation", "weighted"});
  if (!weighted || *weighted != Json(true)) return no_evaluation(run, lacking);
  return "Lengths, masks, weights or an ignored class make examples count differently here, and this is kept only where all count alike." +
         (metric.empty() ? "" : " The metric \"" + metric + "\" of the job measures it.");
}

std::string page_html(const std::string& title, const std::string& header, std::span<const PageSection> sections) {
  std::string page = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  page += "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src " + source_of(kPageStyle) +
          "; script-src " + source_of(kPageScript) + "\">\n";
  page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n";
  page +=
      "<link rel=\"icon\" href=\"data:,\">\n<title>" + escaped(title) + "</title>\n<style>" + kPageStyle + "</style>\n</head>\n<body>\n";
  page += "<a class=\"skip\" href=\"#main\">Skip to the report</a>\n<header>\n" + header + "</header>\n<nav aria-label=\"Sections\"><ul>\n";
  for (const PageSection& section : sections) page += "<li><a href=\"#" + section.id + "\">" + escaped(section.title) + "</a></li>\n";
  page += "</ul></nav>\n<main id=\"main\">\n";
  for (const PageSection& section : sections) page += section.html;
  page += std::string("</main>\n<footer><p>Written by Perigee ") + PERIGEE_VERSION +
          ". This file is whole: it loads nothing.</p></footer>\n<script>" + kPageScript + "</script>\n</body>\n</html>\n";
  return page;
}

std::string run_page(const RunFiles& run) {
  std::vector<PageSection> sections;
  for (const Section* section : page_sections()) sections.push_back(page_section(*section, run, false));
  // Each section is bounded, and all together are small unless several are at their bounds. The first two are what a reader comes for.
  const auto bytes = [](size_t sum, const PageSection& each) { return sum + each.html.size(); };
  const std::span<PageSection> others = std::span(sections).subspan(kStaying);
  while (std::accumulate(sections.begin(), sections.end(), size_t{0}, bytes) > kPageLargest) {
    const auto largest = std::ranges::max_element(others, {}, [](const PageSection& each) { return each.html.size(); });
    *largest = page_section(*page_sections()[static_cast<size_t>(&*largest - sections.data())], run, true);
  }
  std::string header = "<p class=\"kind\">Training run</p>\n<h1>" + escaped(run.job_name()) + "</h1>\n<p>" + outcome_badge(run) + " ";
  if (const std::string started = text_in(run.details, {"environment", "started"}); !started.empty())
    header += "started " + escaped(started) + " \u00b7 ";
  header += "<code>" + escaped(run.name) + "</code></p>\n";
  return page_html(run.job_name() + " \u2013 " + run.name, header, sections);
}

}  // namespace perigee
