// `perigee simulate`: how long a job would take on machines and a network that are only described.
#include <CLI/App.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "cluster/exchange/exchange_tail.h"
#include "cluster/launch/cluster_job.h"
#include "cluster/policy/policy.h"
#include "cluster/replica/step_times.h"
#include "repl/commands/command.h"
#include "repl/commands/load.h"
#include "repl/commands/quantity.h"
#include "repl/commands/simulate/learning.h"
#include "repl/commands/simulate/output.h"
#include "repl/display/display.h"
#include "repl/signals.h"
#include "src/core/error.h"
#include "src/core/stopwatch.h"
#include "src/core/sweep.h"

namespace perigee {
namespace {

constexpr size_t kMostPoints = 64;
// TCP over Ethernet: of a full packet's 1514 bytes 1448 are the stream's.
constexpr double kPayloadShare = 1448.0 / 1514.0;
constexpr int64_t kBucketBytes = int64_t{1} << 20;

struct SimulateCommandOptions {
  std::string script, bandwidth = "1Gbit", latency = "200us", mtbf, repair = "1min", step_time;
  std::vector<std::string> settings, sweeps, speeds, rates_later;
  int64_t nodes = 4, epochs = 0, steps = 0, batch = 0, seed = 0, threads = 0, parameters = 0, examples = 0;
  double speed_spread = 0, lose = 0;
  bool json = false, train = false;
} simulate_options;

void declare_simulate(CLI::App& app) {
  app.add_option("script", simulate_options.script, "a script, a job or a run folder")->required();
  app.add_option("--nodes", simulate_options.nodes, "machines, each with one worker; the default is 4")
      ->check(CLI::Range(int64_t{1}, static_cast<int64_t>(kMaxWorkers)));
  app.add_option("--bandwidth", simulate_options.bandwidth, "of each machine, each way: 100Mbit, 10MB/s, inf; the default is 1Gbit");
  app.add_option("--latency", simulate_options.latency, "from one machine to another: 2ms; the default is 200us");
  app.add_option("--mtbf", simulate_options.mtbf, "mean time between failures of a machine: 1h; without it none fails");
  app.add_option("--repair", simulate_options.repair, "until a machine that failed is back; the default is 1min");
  app.add_option("--speed-spread", simulate_options.speed_spread, "standard deviation of the logarithm of the machines' speeds: 0.3")
      ->check(CLI::Range(0.0, 3.0));
  app.add_option("--speed", simulate_options.speeds, "of one machine against the others: 3=0.25; several times")->allow_extra_args(false);
  app.add_option("--bandwidth-at", simulate_options.rates_later, "the machines' bandwidth from a time on: 30s=2Mbit; several times")
      ->allow_extra_args(false);
  app.add_option("--lose", simulate_options.lose,
                 "share of the workers' contributions of local steps that come to nothing and are done again: 0.3")
      ->check(CLI::Range(0.0, 0.9));
  app.add_flag("--train", simulate_options.train,
               "really train on the simulated machines, and print what was learnt; the job's data are opened");
  app.add_option(
         "--sweep", simulate_options.sweeps,
         "a forecast for each value: nodes=4,16,64 or every=1,5,50; nodes, bandwidth, latency, mtbf, repair, speed-spread, or an option of "
         "the policy; several times: all combinations")
      ->allow_extra_args(false);
  app.add_option("--epochs", simulate_options.epochs, "passes over the training data")->check(CLI::PositiveNumber);
  app.add_option("--steps", simulate_options.steps, "batches of all workers together")->check(CLI::PositiveNumber);
  app.add_option("--batch", simulate_options.batch, "examples per step")->check(CLI::PositiveNumber);
  app.add_option("--set", simulate_options.settings, "set a value of the job first")->allow_extra_args(false);
  app.add_option("--threads", simulate_options.threads, "of a machine, for measuring a step; the default is the job's, or one per core")
      ->check(CLI::PositiveNumber);
  app.add_option("--step-time", simulate_options.step_time, "of one step on one machine, instead of measuring it on this one: 12ms");
  app.add_option("--parameters", simulate_options.parameters, "of the network; with --step-time and --examples no data set is opened")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 36));
  app.add_option("--examples", simulate_options.examples, "of the training data; with --step-time and --parameters no data set is opened")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--seed", simulate_options.seed, "of speeds and failures; the same seed gives the same forecast");
  app.add_flag("--json", simulate_options.json, "print one JSON document");
}

double parse_number(const std::string& text, const std::string& option, double low, double high) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size() || !(number >= low && number <= high)) {
    char range[64];
    std::snprintf(range, sizeof range, "a number from %g to %g", low, high);
    throw Error(ErrorKind::usage, {option, "this is none", "'" + text + "'", range});
  }
  return number;
}

double parse_latency_ms(const std::string& text, const std::string& option) {
  const double seconds = parse_duration(text, option);
  if (seconds > 60) throw Error(ErrorKind::usage, {option, "is too long", "'" + text + "'", "at most 60s"});
  return seconds * 1e3;
}

std::pair<std::string, std::string> pair_of(const std::string& text, const char* option, const char* form) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw Error(ErrorKind::usage, {option, std::string("has the form ") + form, "'" + text + "'"});
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// A slip in a name is told with the names of both kinds, which the policy's reader does not know.
void require_known(const std::string& name, const Json& averaging) {
  const Json* type = averaging.find("type");
  std::vector<std::string> known = {"nodes", "bandwidth", "latency", "mtbf", "repair", "speed-spread", "type"};
  for (const PolicyDef& policy : all_policies()) {
    if (policy.own_knobs && type && *type == Json(policy.name)) return;
    for (const Option& option : policy.options) known.push_back(option.name);
  }
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw Error(ErrorKind::usage, {"--sweep " + name, "there is nothing of that name to vary", "", "", nearest_hint(name, known)});
}

// One point of the sweeps: what the command line says, with that value instead.
void vary(SimulatedPoint& point, const std::string& name, const std::string& value) {
  sim::ForecastInput& in = point.input;
  const std::string option = "--sweep " + name;
  if (name == "nodes") {
    const double nodes = parse_number(value, option, 1, static_cast<double>(kMaxWorkers));
    if (nodes != std::floor(nodes)) throw Error(ErrorKind::usage, {option, "is no whole number", "'" + value + "'"});
    in.nodes = static_cast<int>(nodes);
  } else if (name == "bandwidth") point.bits_per_s = parse_bandwidth(value, option);
  else if (name == "latency") in.latency_ms = parse_latency_ms(value, option);
  else if (name == "mtbf") in.mtbf_s = parse_duration(value, option);
  else if (name == "repair") in.repair_s = parse_duration(value, option);
  else if (name == "speed-spread") in.speed_spread = parse_number(value, option, 0, 3);
  else if (name == "average_optimizer")
    throw Error(ErrorKind::usage, {option, "changes what is measured", "", "", "give it with --set, in a forecast of its own"});
  else {
    require_known(name, in.averaging);
    Json json = value;
    try {
      json = Json::parse(value, option);
    } catch (const Error&) {  // a word
    }
    if (in.averaging.is_string()) in.averaging = Json(Json::Object{{"type", in.averaging}});
    const Policy before = read_policy(&in.averaging, option);
    in.averaging.set(name, json);
    const Policy after = read_policy(&in.averaging, option);
    if ((before.adds_parts() || after.adds_parts()) && before.codec != after.codec)
      throw Error(ErrorKind::usage, {option, "changes what a linear codec adds up, which follows from the job's matrices", "", "",
                                     "give it with --set, in a forecast of its own"});
  }
}

std::vector<SimulatedPoint> points_of(const sim::ForecastInput& base) {
  SimulatedPoint first{.set = {}, .bits_per_s = parse_bandwidth(simulate_options.bandwidth, "--bandwidth"), .input = base, .forecast = {}};
  std::vector<SimulatedPoint> points;
  for (const SweepPoint& set : sweep_points(simulate_options.sweeps, kMostPoints)) {
    points.push_back(first);
    points.back().set = set;
    for (const auto& [name, value] : set) vary(points.back(), name, value);
  }
  for (SimulatedPoint& point : points) point.input.bytes_per_s = point.bits_per_s / 8 * kPayloadShare;
  return points;
}

// The options that need no data, so that a mistake in them is told before anything is measured.
sim::ForecastInput described(const Job& job) {
  sim::ForecastInput in;
  in.nodes = static_cast<int>(simulate_options.nodes);
  in.latency_ms = parse_latency_ms(simulate_options.latency, "--latency");
  if (!simulate_options.mtbf.empty()) in.mtbf_s = parse_duration(simulate_options.mtbf, "--mtbf");
  in.repair_s = parse_duration(simulate_options.repair, "--repair");
  in.speed_spread = simulate_options.speed_spread;
  in.lose = simulate_options.lose;
  for (const std::string& text : simulate_options.speeds) {
    const auto [node, speed] = pair_of(text, "--speed", "NODE=FACTOR");
    in.speeds[static_cast<int>(parse_number(node, "--speed", 0, static_cast<double>(kMaxWorkers) - 1))] =
        parse_number(speed, "--speed", 1e-3, 1e3);
  }
  for (const std::string& text : simulate_options.rates_later) {
    const auto [time, rate] = pair_of(text, "--bandwidth-at", "TIME=RATE");
    in.rates_later.emplace_back(parse_duration(time, "--bandwidth-at"), parse_bandwidth(rate, "--bandwidth-at") / 8 * kPayloadShare);
  }
  in.seed = static_cast<uint64_t>(simulate_options.seed);
  const Json canonical = job.canonical();
  if (const Json* averaging = canonical.find("averaging"); averaging && !averaging->is_null()) in.averaging = *averaging;
  read_policy(&in.averaging, job.where());
  in.global_batch = Config(job.json(), job.where()).object("data").integer_in("global_batch", 0, int64_t{1} << 24, 0) * accumulate_of(job);
  return in;
}

// A job whose data are not here: a block of that many parameters, in the buckets that gradients would leave in.
MeasuredJob assumed(const Job& job) {
  const Config config(job.json(), job.where());
  MeasuredJob assumed;
  RunFacts& facts = assumed.facts;
  facts.name = job.name();
  facts.examples = simulate_options.examples;
  facts.parameters = simulate_options.parameters;
  facts.batch = config.object("data").integer_in("batch", 1, int64_t{1} << 24, 32) * accumulate_of(job);
  const int64_t epochs = config.integer_in("epochs", 0, int64_t{1} << 32, 1), steps = config.integer_in("steps", 0, int64_t{1} << 52, 0);
  const int64_t global = config.object("data").integer_in("global_batch", 0, int64_t{1} << 24, 0) * accumulate_of(job);
  facts.planned = epochs * facts.examples;
  if (steps > 0) {
    const int64_t examples = steps * (global > 0 ? global : facts.batch);
    facts.planned = epochs > 0 && config.has("epochs") ? std::min(facts.planned, examples) : examples;
  }
  if (read_policy(job.json().find("averaging"), job.where()).average_optimizer)
    throw Error(ErrorKind::usage, {"--parameters", "does not say how large the optimiser's state is, which average_optimizer sends too", "",
                                   "", "leave --parameters out"});
  if (read_policy(job.json().find("averaging"), job.where()).adds_parts())
    throw Error(ErrorKind::usage, {"--parameters", "does not say what matrices there are, which a linear codec's sums depend on", "", "",
                                   "leave --parameters out"});
  assumed.layout.dtype = job.precision();
  assumed.layout.sums = (facts.parameters + kExchangeTail + 31) / 32 * 32;
  assumed.layout.maxima = 1;
  const auto sums = static_cast<int64_t>(assumed.layout.sum_bytes());
  int64_t begin = 0;
  for (; begin + kBucketBytes < sums; begin += kBucketBytes)
    assumed.buckets.push_back({static_cast<size_t>(begin), static_cast<size_t>(begin + kBucketBytes)});
  assumed.buckets.push_back({static_cast<size_t>(begin), assumed.layout.bytes()});
  assumed.image_bytes = assumed.layout.sum_bytes();
  return assumed;
}

MeasuredJob measured(const Job& job) {
  if (simulate_options.step_time.empty()) {
    if (simulate_options.parameters > 0 || simulate_options.examples > 0)
      throw Error(ErrorKind::usage, {simulate_options.parameters > 0 ? "--parameters" : "--examples", "goes with --step-time only", "", "",
                                     "a step is measured with the job's own network and data"});
    return measure_job(job, static_cast<int>(simulate_options.threads), stop_requested());
  }
  const double step_ms = parse_duration(simulate_options.step_time, "--step-time") * 1e3;
  if (step_ms <= 0) throw Error(ErrorKind::usage, {"--step-time", "takes no time", "'" + simulate_options.step_time + "'", "more than 0"});
  const bool both = !simulate_options.train && simulate_options.parameters > 0 && simulate_options.examples > 0;
  if (!both && (simulate_options.parameters > 0 || simulate_options.examples > 0))
    throw Error(ErrorKind::usage,
                {simulate_options.parameters > 0 ? "--parameters" : "--examples",
                 simulate_options.train ? "replaces the data set, which --train needs" : "is only half of what replaces the data set", "",
                 "", simulate_options.train ? "leave it out" : "give --parameters and --examples, or neither"});
  MeasuredJob found = both ? assumed(job) : inspect_job(job, static_cast<int>(simulate_options.threads));
  found.times = {.step_ms = step_ms, .stage_ms = 0, .apply_ms = 0, .batch = found.facts.batch};
  return found;
}

std::string step_source(const MeasuredJob& job) {
  if (job.steps == 0)
    return "a step of " + std::to_string(job.times.batch) + " examples takes " + span_text(job.times.step_ms / 1e3) + ", as given";
  return "measured on this machine, " + std::to_string(job.facts.threads) + (job.facts.threads == 1 ? " thread, " : " threads, ") +
         std::to_string(job.steps) + " steps: " + span_text(job.times.step_ms / 1e3) + " for a step of " + std::to_string(job.times.batch) +
         " examples, " + span_text(job.times.stage_ms / 1e3) + " to stage a contribution, " + span_text(job.times.apply_ms / 1e3) +
         (job.times.take_ms > 0 ? " for the server to merge it, " + span_text(job.times.take_ms / 1e3) + " to take the result over"
                                : " to apply a result");
}

void print_introduction(const MeasuredJob& job, const SimulatedPoint& point) {
  const sim::ForecastInput& in = point.input;
  const Policy policy = read_policy(&in.averaging, "averaging");
  std::printf("%s: %s, %d nodes, %s, %s apart", job.facts.name.c_str(), policy.name.c_str(), in.nodes,
              bandwidth_text(point.bits_per_s).c_str(), span_text(in.latency_ms / 1e3).c_str());
  if (in.speed_spread > 0) std::printf(", speeds spread by %g", in.speed_spread);
  if (in.mtbf_s > 0)
    std::printf(", a failure of each every %s, back after %s", span_text(in.mtbf_s).c_str(), span_text(in.repair_s).c_str());
  std::printf("\n%s examples of %s an epoch; %s parameters, %s in an exchange\n%s\n\n", grouped(in.planned).c_str(),
              grouped(in.examples).c_str(), grouped(job.facts.parameters).c_str(),
              amount_text(static_cast<double>(in.layout.bytes())).c_str(), step_source(job).c_str());
}

void print_simulate_json(const MeasuredJob& job, const std::vector<SimulatedPoint>& points, double seconds) {
  Json list = Json::array();
  for (const SimulatedPoint& point : points) list.push(point_json(point));
  const Json step(Json::Object{{"step_ms", job.times.step_ms},
                               {"stage_ms", job.times.stage_ms},
                               {"apply_ms", job.times.apply_ms},
                               {"take_ms", job.times.take_ms},
                               {"batch", job.times.batch},
                               {"measured_steps", job.steps},
                               {"threads", job.facts.threads}});
  const Json document(Json::Object{{"job", job.facts.name},
                                   {"examples", job.facts.examples},
                                   {"planned", job.facts.planned},
                                   {"parameters", job.facts.parameters},
                                   {"exchange_bytes", static_cast<int64_t>(job.layout.bytes())},
                                   {"step", step},
                                   {"seed", simulate_options.seed},
                                   {"points", list},
                                   {"simulation_s", seconds}});
  std::printf("%s\n", document.dump(2).c_str());
}

Job job_to_simulate() {
  Job job = load_job(simulate_options.script, simulate_options.settings);
  for (const auto& [key, value] : {std::pair{"epochs", simulate_options.epochs},
                                   {"steps", simulate_options.steps},
                                   {"data.batch", simulate_options.batch},
                                   {"threads", simulate_options.threads}})
    if (value > 0) job.set(key, std::to_string(value));
  return job;
}

int run_simulate() {
  watch_signals("\nstopping; once more to quit at once\n");
  const Job job = job_to_simulate();
  points_of(described(job));  // for its errors
  const MeasuredJob found = measured(job);
  if (stop_requested()) return stop_exit_code();
  if (found.facts.planned == 0) throw Error(ErrorKind::usage, {"simulate", "the job never ends", "", "", "give --steps or --epochs"});
  sim::ForecastInput base = described(job);
  base.examples = found.facts.examples, base.planned = found.facts.planned;
  base.shards = data_shards(job, read_policy(&base.averaging, job.where()), base.examples);
  base.times = found.times, base.layout = found.layout, base.buckets = found.buckets, base.image_bytes = found.image_bytes;
  base.windows = found.windows, base.block_elements = found.block_elements;
  base.stop = &stop_requested();
  SharedOpener opener;
  if (simulate_options.train) train_in(base, found, static_cast<int>(simulate_options.threads), opener);
  std::vector<SimulatedPoint> points = points_of(base);
  const Stopwatch watch;
  if (!simulate_options.json) {
    print_introduction(found, points[0]);
    print_heading(points[0]);
  }
  for (SimulatedPoint& point : points) {
    point.forecast = sim::forecast(point.input);
    if (stop_requested()) return stop_exit_code();
    put_together(point, found);
    if (!simulate_options.json) print_row(point);
  }
  if (simulate_options.json) {
    print_simulate_json(found, points, watch.seconds());
    return 0;
  }
  if (points.size() > 1) print_plot(points);
  std::printf("\nsimulated in %s; evaluation and starting up are not in the times\n", span_text(watch.seconds()).c_str());
  return 0;
}

}  // namespace

extern const Command command_simulate;
const Command command_simulate{.name = "simulate",
                               .doc = "predict how long a job takes on other machines and networks",
                               .declare = declare_simulate,
                               .run = run_simulate};

}  // namespace perigee
