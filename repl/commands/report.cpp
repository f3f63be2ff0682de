// `perigee report`: the page of a run, made again from its folder; or one page that compares several runs.
#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "repl/commands/command.h"
#include "src/core/error.h"
#include "src/io/file.h"
#include "src/report/page.h"
#include "src/run/run_folder.h"

namespace perigee {
namespace {

struct ReportOptions {
  std::vector<std::string> runs;
  std::string out;
} report_options;

void declare_report(CLI::App& app) {
  app.add_option("runs", report_options.runs,
                 "the folder of a run, or of several to compare; that of a job which was trained several times stands for them all")
      ->required();
  app.add_option(
      "--out", report_options.out,
      "the file to write, - for standard output; the default is report.html in the run's folder, comparison.html here for several runs");
}

// A folder that is none of a run: the nearest one beside it that is.
RunFiles read_run(const std::string& folder) {
  namespace fs = std::filesystem;
  try {
    return read_run_files(folder);
  } catch (const Error& error) {
    std::vector<std::string> known;
    std::error_code status;
    const fs::path beside = fs::path(folder).has_parent_path() ? fs::path(folder).parent_path() : fs::path(".");
    for (const std::string& where : {beside.string(), std::string("runs")})
      for (const auto& entry : fs::directory_iterator(where, status))
        if (file_exists(entry.path().string() + "/job.json")) known.push_back(entry.path().lexically_normal().string());
    Error::Parts parts = error.parts();
    parts.hint = nearest_hint(folder, known);
    if (parts.hint.empty() && !known.empty()) parts.hint = "the newest run is " + *std::max_element(known.begin(), known.end());
    throw Error(error.kind(), std::move(parts));
  }
}

// The folder of a run is one; that of a job which was trained several times has one for each.
std::vector<std::string> runs_in(const std::string& folder) {
  namespace fs = std::filesystem;
  if (!file_exists(folder + "/" + kRepeatsFile)) return {folder};
  std::vector<std::string> runs;
  std::error_code status;
  for (const auto& entry : fs::directory_iterator(folder, status))
    if (file_exists(entry.path().string() + "/job.json")) runs.push_back(entry.path().lexically_normal().string());
  std::ranges::sort(runs, {}, [](const std::string& run) { return std::pair(run.size(), run); });  // "fold-9" before "fold-10"
  return runs.empty() ? std::vector{folder} : runs;
}

int run_report() {
  std::vector<RunFiles> runs;
  for (const std::string& folder : report_options.runs)
    for (const std::string& each : runs_in(folder)) runs.push_back(read_run(each));
  const std::string page = runs.size() == 1 ? run_page(runs[0]) : comparison_page(runs);
  if (report_options.out == "-") {
    std::fwrite(page.data(), 1, page.size(), stdout);
    return 0;
  }
  const std::string path = !report_options.out.empty()       ? report_options.out
                           : report_options.runs.size() == 1 ? path_in(report_options.runs[0], "report.html")
                                                             : "comparison.html";
  write_file(path, as_bytes(page));
  std::printf("%s\n", path.c_str());
  return 0;
}

}  // namespace

extern const Command command_report;
const Command command_report{
    .name = "report", .doc = "write the page of a run, or one that compares runs", .declare = declare_report, .run = run_report};

}  // namespace perigee
