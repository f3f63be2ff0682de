#include "repl/commands/train/repeated.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "src/core/error.h"
#include "src/io/file.h"
#include "src/report/run_files.h"
#include "src/run/checkpoint_folder.h"
#include "src/run/run_folder.h"
#include "src/run/run_log.h"

namespace perigee {
namespace {

constexpr const char* kResult = "/result.json";  // of a run that is finished

Json read_json(const std::string& path) { return Json::parse(as_text(read_file(path, 1 << 26)), path); }

// Mean and standard deviation of a sample (n - 1).
Json spread_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  Json spread(Json::Object{{"mean", mean}});
  if (values.size() > 1) spread.set("deviation", std::sqrt(squares / (n - 1)));
  const auto [least, most] = std::ranges::minmax(values);
  spread.set("least", least);
  spread.set("most", most);
  return spread;
}

// For the figures that all finished runs have.
Json spreads(const Json::Array& runs) {
  Json all = Json::object();
  if (runs.empty()) return all;
  for (const auto& [name, unused] : runs[0].find("figures")->as_object()) {
    std::vector<double> values;
    for (const Json& run : runs)
      if (const Json* found = run.find("figures")->find(name); found && found->is_number()) values.push_back(found->as_number());
    if (values.size() == runs.size()) all.set(name, spread_of(values));
  }
  return all;
}

void add_figures(Json& figures, const std::string& part, const Json& of) {
  for (const auto& [name, value] : of.as_object())
    if (value.is_number() && name != "examples") figures.set(std::string(part).append(".").append(name), value);
}

class RepeatedRun {
 public:
  RepeatedRun(const Job& job, const Repeats& repeats, const RepeatedOptions& options)
      : job_(job), options_(options), repeats_(repeats), all_(repeats.runs(job)) {
    folder_ = open_run_folder(job, options.session.out, options.session.resume);
    if (options.session.resume.empty()) repeats_.write(path());
    Json runs = Json::array();
    for (const Repeat& each : all_) runs.push(each.name);
    std::error_code status;
    const std::string data = std::filesystem::absolute(job.folder(), status).lexically_normal().string();
    folder_->log(Json(Json::Object{{"event", "repeats"}, {"name", job.name()}, {"data_folder", data}, {"runs", std::move(runs)}}));
  }

  bool run(const std::atomic<bool>& stop) {
    try {
      for (size_t i = 0; i < all_.size(); ++i) {
        if (take_over(all_[i])) {
          tell_end(i);
          continue;
        }
        if (stop || !train(i)) return sum_up("interrupted"), false;
      }
    } catch (const Error&) {
      sum_up("failed");
      throw;
    }
    sum_up("");
    return true;
  }

 private:
  std::string path() const { return folder_->path(); }
  std::string path_of(const Repeat& repeat) const { return path() + "/" + repeat.name; }

  void tell(const Json& event) {
    folder_->log(event);
    options_.show(event);
  }

  Json about(const char* event, size_t place) const {
    return Json(
        Json::Object{{"event", event}, {"run", all_[place].name}, {"number", static_cast<int64_t>(place) + 1}, {"of", std::ssize(all_)}});
  }

  // Tells of the run that was finished last.
  void tell_end(size_t place) {
    Json event = about("repeat_end", place);
    event.set("figures", *finished_.back().find("figures"));
    tell(event);
  }

  // A run that was finished before.
  bool take_over(const Repeat& repeat) {
    const std::string file = path_of(repeat) + kResult;
    Json result = file_exists(file) ? read_json(file) : Json();
    const Json* figures = result.find("figures");
    if (!figures || !figures->is_object()) return false;
    finished_.push_back(std::move(result));
    return true;
  }

  // False: it was stopped.
  bool train(size_t place) {
    const Repeat& repeat = all_[place];
    const std::string own = path_of(repeat);
    tell(about("repeat", place));
    SessionOptions session = options_.session;
    const bool begun = !CheckpointFolder(own + "/checkpoints", 1).files().empty();
    session.out = begun ? "" : own;
    session.resume = begun ? own : "";
    std::error_code status;
    if (!begun) std::filesystem::remove_all(own, status);  // of a run that ended before its first checkpoint
    const Json end = options_.train(repeats_.job_of(job_, repeat), std::move(session));
    if (const Json* why = end.find("stopped"); why && *why == Json("interrupted")) return false;
    keep(repeat, end);
    tell_end(place);
    return true;
  }

  void keep(const Repeat& repeat, const Json& end) {
    Json result(Json::Object{{"run", repeat.name}, {"seed", repeat.seed}});
    if (repeat.fold > 0) result.set("fold", repeat.fold);
    result.set("folder", path_of(repeat));
    Json figures = Json::object();
    if (const Json* test = end.find("test")) add_figures(figures, "test", *test);
    add_figures_of_epoch(figures, path_of(repeat));
    result.set("figures", std::move(figures));
    for (const char* key : {"model", "stopped", "steps", "seconds"})
      if (const Json* value = end.find(key)) result.set(key, *value);
    write_file(path_of(repeat) + kResult, as_bytes(result.dump(2) + "\n"));
    finished_.push_back(std::move(result));
  }

  // Those of training and validation, as the last epoch's event has them.
  static void add_figures_of_epoch(Json& figures, const std::string& folder) {
    const RunFiles run = read_run_files(folder);
    const Json* epoch = run.last("epoch");
    if (!epoch) return;
    if (const Json* validation = epoch->find("validation"); validation && validation->is_object())
      add_figures(figures, "validation", *validation);
    for (const char* name : {"loss", "accuracy"})
      if (const Json* value = epoch->find(name); value && value->is_number()) figures.set(std::string("train.") + name, *value);
  }

  void sum_up(const std::string& stopped) {
    Json summary(Json::Object{{"event", "summary"}, {"folder", path()}, {"runs", finished_}, {"figures", spreads(finished_)}});
    if (!stopped.empty()) {
      Json missing = Json::array();
      for (size_t i = finished_.size(); i < all_.size(); ++i) missing.push(all_[i].name);
      summary.set("stopped", stopped);
      summary.set("missing", std::move(missing));
      summary.set("resume", options_.resume_command(path()));
    }
    folder_->write_text("summary.json", summary.dump(2) + "\n");
    tell(summary);
  }

  const Job& job_;
  const RepeatedOptions& options_;
  const Repeats repeats_;
  const std::vector<Repeat> all_;
  std::unique_ptr<RunFolder> folder_;
  Json::Array finished_;
};

}  // namespace

bool train_repeated(const Job& job, Repeats repeats, const RepeatedOptions& options, const std::atomic<bool>& stop) {
  {  // refuses what is wrong before there is a folder
    Session first(repeats.job_of(job, repeats.runs(job)[0]), {.trainer = options.session.trainer, .folder = false});
    if (options.session.resume.empty() && options.stratify && repeats.folds() > 0) repeats.stratify(job, first.trainer().train_source());
  }
  return RepeatedRun(job, repeats, options).run(stop);
}

}  // namespace perigee
