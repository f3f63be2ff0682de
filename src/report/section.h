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
// Likewise a section about details that every evaluation keeps where all examples count alike (src/model/evaluation_details.h). `metric`: of
// the job, that measures the same where they do not; may be empty.
std::string no_details(const RunFiles& run, const std::string& lacking, const std::string& metric = "");

}  // namespace perigee
