#include "repl/commands/simulate/learning.h"

#include <algorithm>
#include <limits>

#include "src/model/evaluator.h"

namespace perigee {

void train_in(sim::ForecastInput& input, const MeasuredJob& job, int threads, SharedOpener& opener) {
  input.numbers = [&opener] { return std::make_unique<TrainedNumbers>(opener); };
  for (const auto& [name, part] : job.parts) input.parts[name] = part.examples;
  input.job = job.job;
  input.folder = job.facts.data_folder;
  input.tuning = job.tuning;
  input.threads = std::max(1, threads);
  input.max_effort = std::numeric_limits<uint64_t>::max();  // a share of the training would say nothing of the rest
}

void put_together(SimulatedPoint& point, const MeasuredJob& job) {
  const Json* metrics = job.job.find("metrics");
  for (const sim::ForecastEvaluation& e : point.forecast.evaluations) {
    std::vector<Json> states;
    for (const std::string& state : e.states) states.push_back(Json::parse(state, "a worker's evaluation"));
    const ClusterJob::Part& about = job.parts.at(e.part);
    Json figures = scalar_figures(evaluation_report(metrics ? *metrics : Json(), about.task, about.data, states, job.facts.name));
    if (e.part == "test" || !point.figures.is_object() || !job.parts.contains("test")) point.figures = figures;
    figures.set("part", e.part), figures.set("at_s", e.at_s), figures.set("examples", e.examples_done);
    point.evaluations.push(std::move(figures));
  }
}

}  // namespace perigee
