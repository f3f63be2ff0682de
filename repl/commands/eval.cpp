// `perigee eval`: judges a trained model on a part of its job's data, or on other data.
#include <CLI/App.hpp>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "repl/commands/command.h"
#include "repl/commands/load.h"
#include "repl/commands/predict/slices.h"
#include "repl/display/display.h"
#include "repl/signals.h"
#include "repl/standard_input.h"
#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/data/table/examples/table_source.h"
#include "src/model/device/device_choice.h"
#include "src/model/evaluator.h"
#include "src/model/records/record_reader.h"
#include "src/run/checkpoint.h"
#include "src/run/run_folder.h"
#include "src/run/session.h"

namespace perigee {
namespace {

struct EvalOptions {
  std::string model, part = "test", data, log = "pretty", device = "cpu";
  std::vector<std::string> metrics;
  int64_t threads = 0, workers = 1;
  std::string slice;
} eval_options;

void declare_eval(CLI::App& app) {
  app.add_option("model", eval_options.model, "a model file, or the folder of a finished run")->required();
  app.add_option("--part", eval_options.part, "the part of the job's data: test, validation or train");
  app.add_option("--data", eval_options.data,
                 "other data, read as the job's with what the model has fitted: a file, a folder of images, - for standard input (CSV or "
                 "JSON Lines), or a source as JSON, as in '{\"type\": \"csv\", \"file\": \"new.csv\"}'");
  app.add_option("--metric", eval_options.metrics, "an evaluation by name, such as roc; may be given several times")
      ->allow_extra_args(false);
  app.add_option("--threads", eval_options.threads, "the default is one per core")->check(CLI::PositiveNumber);
  app.add_option("--device", eval_options.device,
                 "cpu, cuda, cuda:N, cuda:0-3 (which take batches in turns), or auto: a GPU where there is one");
  app.add_option("--workers", eval_options.workers, "share the examples out to so many processes")->check(CLI::Range(1, 1024));
  app.add_option("--log", eval_options.log, "pretty, plain or json");
  app.add_option("--slice", eval_options.slice, "print what one of several processes has seen")->group("");
}

// The part of the job's data to judge on.
Json part_description(const LoadedModel& loaded) {
  const Json* data = loaded.job.find("data");
  const Json* part = data ? data->find(eval_options.part) : nullptr;
  if (!part || part->is_null()) {
    std::vector<std::string> parts;
    for (const char* name : {"train", "validation", "test"})
      if (data && data->find(name)) parts.emplace_back(name);
    std::string hint = nearest_hint(eval_options.part, parts);
    if (hint.empty())
      hint = (parts.empty() ? "" : "--part " + parts[0] + " judges it on what the job has, ") + std::string("--data FILE on other data");
    throw Error(ErrorKind::usage,
                {"--part", "the model's job has no data of this name", "'" + eval_options.part + "'", "", std::move(hint)});
  }
  return with_fitted(*part, loaded.fitted);
}

// A model lies in its run folder, whose log knows where the job's relative paths start; what is given here starts from here.
SourcePtr open_data(const LoadedModel& loaded, const std::string& path) {
  if (eval_options.data.empty()) {
    const std::string run = std::filesystem::path(path).parent_path().string();
    const Json description = part_description(loaded);
    return open_source(Config(description, path + ": data." + eval_options.part), data_folder_of(run.empty() ? "." : run));
  }
  const RecordReader reader(loaded.model->spec(), loaded.job, loaded.fitted);
  if (eval_options.data == "-") {
    if (eval_options.workers > 1 || !eval_options.slice.empty())
      throw Error(ErrorKind::usage,
                  {.where = "--data -", .what = "standard input is read once, by one process", .hint = "write it to a file first"});
    return reader.open_labelled_table(read_standard_input(), kStandardInput);
  }
  const bool json = eval_options.data.find_first_not_of(" \t\n") != std::string::npos &&
                    eval_options.data[eval_options.data.find_first_not_of(" \t\n")] == '{';
  if (!json && !file_exists(eval_options.data) && !folder_exists(eval_options.data))
    throw Error(ErrorKind::usage,
                {.where = "--data " + eval_options.data,
                 .what = "there is no such file",
                 .expected = "a file, a folder, -, or a source as JSON such as {\"type\": \"csv\", \"file\": \"new.csv\"}",
                 .hint = nearby_hint(eval_options.data)});
  const Json description = json ? Json::parse(eval_options.data, "--data") : reader.describe(eval_options.data);
  return reader.open_labelled(description, json ? "--data" : eval_options.data, ".");
}

Json metrics_of(const LoadedModel& loaded) {
  if (eval_options.metrics.empty()) {
    const Json* metrics = loaded.job.find("metrics");
    return metrics ? *metrics : Json();
  }
  Json list = Json::array();
  for (const std::string& name : eval_options.metrics) list.push(name);
  return list;
}

int eval_threads() {
  if (eval_options.threads > 0) return static_cast<int>(eval_options.threads);
  return static_cast<int>(std::max<int64_t>(1, std::max(1u, std::thread::hardware_concurrency()) / eval_options.workers));
}

// The same command for one slice.
std::vector<std::string> eval_slice_arguments() {
  std::vector<std::string> words = {
      "eval",     eval_options.model, "--part", eval_options.part, "--threads", std::to_string(eval_threads()),
      "--device", eval_options.device};
  if (!eval_options.data.empty()) words.insert(words.end(), {"--data", eval_options.data});
  for (const std::string& metric : eval_options.metrics) words.insert(words.end(), {"--metric", metric});
  return words;
}

std::string eval_text_in(std::FILE* file) {
  std::string text;
  char buffer[65536];
  for (size_t size; (size = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, size);
  return text;
}

Json evaluate_eval(Evaluator& evaluator, const Json& metrics, const std::string& where) {
  if (eval_options.workers <= 1) return evaluator.run(&stop_requested());
  std::vector<Json> states;
  run_slices(eval_slice_arguments(), eval_options.workers,
             [&](std::FILE* output) { states.push_back(Json::parse(eval_text_in(output), "a worker")); });
  if (stop_requested()) return {};
  return evaluation_report(metrics, evaluator.task(), evaluator.source().traits().description, states, where);
}

int run_eval() {
  if (eval_options.log != "json" && eval_options.log != "pretty" && eval_options.log != "plain")
    throw Error(ErrorKind::usage, {"--log", "there is no such log", "'" + eval_options.log + "'", "pretty, plain or json",
                                   nearest_hint(eval_options.log, {"pretty", "plain", "json"})});
  watch_signals("\nstopping; once more to quit at once\n");
  const std::string path = model_path(eval_options.model);
  LoadedModel loaded = load_model(path);
  loaded.job = with_array_files(loaded.job, run_of_file(path));
  const SourcePtr source = open_data(loaded, path);
  ThreadTeam team(eval_options.workers > 1 ? 1 : eval_threads());
  const Json metrics = metrics_of(loaded);
  // The process that shares the examples out computes nothing.
  const bool shares_out = eval_options.workers > 1 && eval_options.slice.empty();
  const std::optional<int> worker =
      eval_options.slice.empty() ? std::nullopt : std::optional(static_cast<int>(parse_slice(eval_options.slice).index));
  const ModelSite site(*loaded.model, loaded.job, shares_out ? "cpu" : eval_options.device, "--device", worker);
  Evaluator evaluator(*loaded.model, team, source, metrics.is_null() ? nullptr : &metrics, path, site.devices());
  if (!eval_options.slice.empty()) {
    const auto [begin, end] = parse_slice(eval_options.slice).of(source->size());
    const Json state = evaluator.state(begin, end, &stop_requested());
    if (!state.is_null()) std::printf("%s\n", state.dump().c_str());
    return state.is_null() ? stop_exit_code() : 0;
  }
  const Json result = evaluate_eval(evaluator, metrics, path);
  if (result.is_null()) return stop_exit_code();
  if (eval_options.log == "json") {
    Json event = Json(Json::Object{
        {"event", "end"}, {"test", scalar_figures(result)}, {"data", source->traits().description}, {"model", path}, {"report", result}});
    std::printf("%s\n", event.dump().c_str());
  } else {
    std::printf("%s on %s\n\n%s", path.c_str(), source->traits().description.c_str(), report_text(result).c_str());
  }
  std::fflush(stdout);
  for (const std::string& line : remark_lines(source->traits().remarks)) warn(line);
  return 0;
}

}  // namespace

extern const Command command_eval;
const Command command_eval{.name = "eval", .doc = "judge a trained model on test data", .declare = declare_eval, .run = run_eval};

}  // namespace perigee
