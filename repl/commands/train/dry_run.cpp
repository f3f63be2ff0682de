#include "repl/commands/train/dry_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "repl/commands/describe/table.h"
#include "repl/display/display.h"
#include "src/core/stopwatch.h"
#include "src/model/evaluator.h"
#include "src/report/run_files.h"
#include "src/run/run_folder.h"
#include "src/run/run_log.h"

namespace perigee {
namespace {

constexpr int kSteps = 5;               // the first is not timed: it touches memory for the first time
constexpr int64_t kJudged = 256;        // examples of each part
constexpr double kLongestSeconds = 20;  // no further step is begun after so long

// Some steps: the loss of the first, and what one takes.
void add_steps(Json& result, Trainer& trainer) {
  std::vector<double> seconds;
  const Stopwatch all;
  for (int i = 0; i < kSteps && !trainer.finished() && all.seconds() < kLongestSeconds; ++i) {
    const Stopwatch watch;
    const StepReport report = trainer.step();
    if (i == 0) result.set("loss", report.loss);
    seconds.push_back(watch.seconds());
  }
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  if (seconds.empty()) return;
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
  result.set("step_s", seconds[seconds.size() / 2]);
}

// The figures of the first examples of each part, and how long all of them would take.
double add_parts(Json& result, Trainer& trainer) {
  double whole_s = 0;
  const Trainer::InUse in_use(trainer);
  const Json* metrics = trainer.job().json().find("metrics");
  for (const char* part : {"validation", "test"}) {
    Evaluator* evaluator = trainer.evaluator(part);
    if (!evaluator) continue;
    const Stopwatch watch;
    const int64_t size = evaluator->source().size(), judged = std::min(kJudged, size);
    const std::vector<Json> states = {evaluator->state(0, judged)};
    const std::string where = trainer.job().where() + ": metrics", data = evaluator->source().traits().description;
    const Json figures = scalar_figures(evaluation_report(metrics ? *metrics : Json(), evaluator->task(), data, states, where));
    result.set(part, Json(Json::Object{{"data", data}, {"examples", size}, {"judged", judged}, {"figures", figures}}));
    whole_s += watch.seconds() * static_cast<double>(size) / static_cast<double>(judged);
  }
  return whole_s;
}

// An epoch ends with a step of the examples that are left. `most`: the job's "steps"; 0: as many as the epochs have.
int64_t planned_steps(const RunFacts& facts, int64_t most) {
  const auto steps_of = [&](int64_t examples) { return (examples + facts.batch - 1) / facts.batch; };
  const int64_t rest = facts.planned % facts.examples;
  const int64_t steps = facts.planned / facts.examples * steps_of(facts.examples) + steps_of(rest);
  if (most == 0) return steps;
  return std::min(steps, rest == 0 ? most : steps_of(facts.planned));  // on several GPUs it counts the batches of each
}

void add_length(Json& result, const RunFacts& facts, int64_t most, int64_t runs, double evaluation_s) {
  result.set("runs", runs);
  if (facts.planned <= 0) return;
  const int64_t steps = planned_steps(facts, most);
  const double epochs = static_cast<double>(facts.planned) / static_cast<double>(facts.examples);
  result.set("steps", steps);
  result.set("epochs", epochs);
  const double steps_s = number_in(result, {"step_s"}) * static_cast<double>(steps);
  if (!std::isnan(steps_s)) result.set("run_s", (steps_s + std::ceil(epochs) * evaluation_s) * static_cast<double>(runs));
}

std::string number_text(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string figures_text(const Json& result) {
  std::string text;
  for (const auto& [name, value] : members_in(result, {"figures"}))
    if (value.is_number() && name != "examples") text += "  " + name + " " + number_text("%.4g", value.as_number());
  return text;
}

std::string count(const Json& result, const char* key) { return grouped(std::llround(number_in(result, {key}))); }

}  // namespace

Json dry_run(const Job& job, SessionOptions session, int64_t runs) {
  if (!session.out.empty()) RunFolder::check_free(session.out);
  session.folder = false;
  const Stopwatch opening;
  Session opened(job, std::move(session));
  Trainer& trainer = opened.trainer();
  const RunFacts facts = run_facts(trainer);
  Json result(Json::Object{{"event", "dry_run"},
                           {"name", facts.name},
                           {"data", facts.data},
                           {"examples", facts.examples},
                           {"parameters", facts.parameters},
                           {"batch", facts.batch},
                           {"threads", facts.threads}});
  if (!facts.device.empty()) result.set("device", facts.device);
  if (!opened.resumed_from().empty()) result.set("resumed_from", opened.resumed_from());
  result.set("opened_s", opening.seconds());
  add_steps(result, trainer);
  result.set("memory_bytes", static_cast<int64_t>(trainer.memory_bytes()));
  const double evaluation_s = add_parts(result, trainer);
  add_length(result, facts, Config(trainer.job().json(), trainer.job().where()).integer("steps", 0), runs, evaluation_s);
  return result;
}

std::string dry_run_text(const Json& result) {
  const std::string device = text_in(result, {"device"});
  std::string text = text_in(result, {"name"}) + ": " + text_in(result, {"data"}) + ", " + count(result, "examples") + " examples\n" +
                     count(result, "parameters") + " parameters; batch " + count(result, "batch") + "; " +
                     (device.empty() ? count(result, "threads") + (number_in(result, {"threads"}) == 1 ? " thread" : " threads") : device) +
                     "; opened in " + number_text("%.2f", number_in(result, {"opened_s"})) + " s\n";
  if (const std::string from = text_in(result, {"resumed_from"}); !from.empty()) text += "would continue from " + from + "\n";
  if (const double step_s = number_in(result, {"step_s"}); !std::isnan(step_s))
    text += "loss of the first batch " + number_text("%.4g", number_in(result, {"loss"})) + "; a step takes " +
            number_text("%.3g", step_s * 1e3) + " ms; memory " + bytes_text(number_in(result, {"memory_bytes"})) + "\n";
  for (const char* part : {"validation", "test"})
    if (const Json* of = result.find(part))
      text += std::string(part) + ": " + text_in(*of, {"data"}) + ", " + count(*of, "examples") + " examples; on the first " +
              count(*of, "judged") + ":" + figures_text(*of) + "\n";
  const double runs = number_in(result, {"runs"});
  const std::string several = runs > 1 ? count(result, "runs") + " runs, each of " : "";
  if (result.find("steps"))
    text += "would train " + several + count(result, "steps") + " steps (" + number_text("%.4g", number_in(result, {"epochs"})) +
            " epochs), about " + duration_text(number_in(result, {"run_s"})) + (runs > 1 ? " for all" : "") + "\n";
  return text + "a dry run: there is no run folder";
}

}  // namespace perigee
