// The job as the run had it.
#include "src/report/html.h"
#include "src/report/section.h"

namespace perigee {
namespace {

constexpr size_t kJobMost = 40000;  // characters

SectionText make_job(const RunFiles& run) {
  if (!run.job.is_object()) return {"", "The folder has no job.json, or it is damaged."};
  std::string text = run.job.dump(2);
  const bool cut = text.size() > kJobMost;
  if (cut) text.resize(kJobMost);
  return {"<pre tabindex=\"0\" role=\"group\" aria-label=\"The job as JSON\"><code>" + escaped(text) + (cut ? "\n\u2026" : "") +
              "</code></pre>\n<p class=\"note\">job.json" + std::string(cut ? " has the rest; it" : "") +
              " trains the same again: <code>perigee train " + escaped(run.folder) + "/job.json</code></p>\n",
          ""};
}

}  // namespace

extern const Section section_job;
const Section section_job{.id = "job", .title = "Job", .make = make_job};

}  // namespace perigee
