// A section of a run's page: one file in sections/ each.
#pragma once

#include <span>
#include <string>

#include "src/report/run_files.h"

namespace perigee {

struct SectionText {
  std::string html;     // what the section shows; empty where the run has no data for it
  std::string missing;  // then: why, as plain text
};

struct Section {
  const char* id = nullptr;     // "confusion": of the element
  const char* title = nullptr;  // "Confusion matrix"
  SectionText (*make)(const RunFiles& run) = nullptr;
};

std::span<const Section* const> page_sections();

// Why a section about an evaluation has nothing to show; `lacking`: what the run would need.
std::string no_evaluation(const RunFiles& run, const std::string& lacking);

}  // namespace perigee
