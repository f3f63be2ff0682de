#include <vector>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Sequence : Curve {
  struct Part {
    double until;
    Schedule schedule;
  };
  explicit Sequence(const Config& options) {
    const Json* list = options.raw("parts");
    if (!list || !list->is_array() || list->as_array().empty()) {
      options.fail("parts", "is not a list of schedules", list ? list->type_name() : "", "[{\"until\": 0.1, \"schedule\": ...}, ...]");
    }
    double before = 0;
    for (size_t i = 0; i < list->as_array().size(); ++i) {
      const Config part = options.element(list->as_array()[i], "parts[" + std::to_string(i + 1) + "]");
      const bool last = i + 1 == list->as_array().size();
      const double until = last ? part.number_in("until", 1, 1, 1) : part.number_in("until", before, 1, -1);
      if (until <= before) part.fail("until", "does not come after the part before it", "", "more than " + std::to_string(before));
      parts.push_back({until, Schedule::required(part, "schedule")});
      part.reject_unread();
      before = until;
    }
  }
  double at(const StepProgress& now) const override {
    double before = 0;
    for (const Part& part : parts) {
      if (now.progress < part.until || &part == &parts.back()) {
        StepProgress inside = now;  // its part is the whole run to it
        inside.progress = (now.progress - before) / (part.until - before);
        return part.schedule.at(inside);
      }
      before = part.until;
    }
    return 0;
  }
  std::vector<Part> parts;
};

constexpr Option kPartOptions[] = {{"until", "number", "1", "share of the run at which it ends", {0, 1}},
                                   {"schedule", "number or schedule", nullptr, "what is in force until then"}};
constexpr Schema kPart{.options = kPartOptions};
constexpr Option kSequenceOptions[] = {{"parts", "list of {until, schedule}", nullptr, "schedules in order", {}, {}, nullptr, &kPart}};

}  // namespace

extern const ScheduleDef schedule_sequence;
const ScheduleDef schedule_sequence{
    .name = "sequence",
    .doc = "One schedule after another: each of `parts` runs until its `until` (a share of the whole run; the last until 1).",
    .example = R"({"type": "sequence", "parts": [{"until": 0.1, "schedule": {"type": "linear", "from": 0, "to": 0.01}},
                              {"schedule": {"type": "cosine", "from": 0.01}}]})",
    .schema = {.options = kSequenceOptions},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Sequence>(options); },
};

}  // namespace perigee
