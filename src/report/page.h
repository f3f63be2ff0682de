// The page of a run, report.html: one file that a browser shows without asking for anything else, in light and dark, on paper, by keyboard and
// by screen reader. It reads without its script, which adds the values under the pointer.
#pragma once

#include <span>
#include <string>

#include "src/report/run_files.h"

namespace perigee {

std::string run_page(const RunFiles& run);
// Several runs side by side: their figures, their curves, and in what their jobs differ.
std::string comparison_page(std::span<const RunFiles> runs);

// <html> around `body`: `contents` are the sections' ids and titles.
struct PageSection {
  std::string id, title, html;
};
std::string page_html(const std::string& title, const std::string& header, std::span<const PageSection> sections);

// "finished", "stopped early", "interrupted", "failed", "no end": how a run ended; as a badge with a sign and words.
std::string outcome_badge(const RunFiles& run);

extern const char* const kPageStyle;
extern const char* const kPageScript;

}  // namespace perigee
