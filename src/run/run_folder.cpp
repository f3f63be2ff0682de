#include "src/run/run_folder.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/io/file.h"
#include "src/io/lines.h"
#include "src/report/page.h"
#include "src/run/run_file.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

// Letters, digits, '-', '_' and '.': a job's name becomes a folder's.
std::string folder_name(const std::string& name) {
  std::string text;
  for (char c : name.substr(0, 80)) text += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' ? c : '-';
  while (!text.empty() && text[0] == '.') text.erase(0, 1);
  return text.empty() ? "job" : text;
}

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return text;
}

void make_folder(const std::string& path) {
  std::error_code status;
  fs::create_directories(path, status);
  if (status) throw Error(ErrorKind::resources, {path, "this folder cannot be made", status.message(), "", "choose another with --out"});
}

bool has_checkpoint(const std::string& run) {
  std::error_code status;
  return fs::exists(run + "/checkpoints", status) && !fs::is_empty(run + "/checkpoints", status);
}

// The numbers of an event under TensorBoard's tags: "train/loss", "test/accuracy".
void add_scalars(TensorboardWriter& writer, const Json& event) {
  const Json *kind = event.find("event"), *step = event.find("step");
  if (!kind || !step || !step->is_int()) return;
  const int64_t at = step->as_int();
  if (*kind == Json("step"))
    for (const char* name : {"loss", "accuracy", "learning_rate", "gradient_norm", "loss_scale", "examples_per_s"})
      if (const Json* value = event.find(name); value && value->is_number())
        writer.scalar(std::string("train/") + name, at, value->as_number());
  if (*kind == Json("epoch")) {
    for (const char* part : {"validation", "test"})
      if (const Json* figures = event.find(part))
        for (const auto& [name, value] : figures->as_object())
          if (value.is_number()) writer.scalar(std::string(part) + "/" + name, at, value.as_number());
    writer.flush();
  }
}

}  // namespace

RunFolder::RunFolder(std::string path, bool made) : path_(std::move(path)), made_(made) {
  log_.reset(std::fopen((path_ + "/log.jsonl").c_str(), "ae"));
  if (!log_)
    throw Error(ErrorKind::resources,
                {path_ + "/log.jsonl", "this file cannot be written", std::strerror(errno), "", "choose another folder with --out"});
  lock_run(fileno(log_.get()));
}

void RunFolder::check_free(const std::string& path) {
  if (!fs::exists(path + "/job.json")) return;
  const bool finished = fs::exists(path + "/model.safetensors");
  std::string what = "this folder already holds a run", hint = "continue it with --resume " + path + ", or choose another folder";
  if (run_is_alive(path)) {
    what = "another process trains in this folder";
    hint = "choose another folder, or stop that run first";
  } else if (!can_resume(path)) {
    if (!finished) what = "this folder holds a run that failed before its first checkpoint";
    hint = "delete it, or choose another folder";
  }
  throw Error(ErrorKind::usage, {.where = path, .what = what, .hint = hint});
}

RunFolder RunFolder::create(const std::string& name, const std::string& path) {
  if (!path.empty()) {
    check_free(path);
    const bool made = !fs::exists(path);
    make_folder(path);
    return RunFolder(path, made);
  }
  make_folder("runs");
  const std::string stem = "runs/" + folder_name(name) + "-" + time_text();
  std::string free = stem;
  std::error_code status;
  for (int i = 2; !fs::create_directory(free, status) && i < 10000; ++i) {
    if (status) throw Error(ErrorKind::resources, {free, "this folder cannot be made", status.message(), "", "choose another with --out"});
    free = stem + "-" + std::to_string(i);
  }
  return RunFolder(free, true);
}

RunFolder RunFolder::open(const std::string& path) {
  if (!fs::exists(path + "/job.json"))
    throw Error(ErrorKind::usage, {path, "there is no run in this folder", "", "a folder with job.json"});
  return RunFolder(path, false);
}

template <class Work>
void RunFolder::quietly(const char* what, Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    if (!warned_) warn(std::string(what) + " could not be written (" + error.what() + "); the run goes on without");
    warned_ = true;
  }
}

void RunFolder::write_text(const std::string& file, const std::string& text) {
  quietly(file.c_str(), [&] { write_file(path_ + "/" + file, as_bytes(text)); });
}

TensorboardWriter* RunFolder::events() {
  if (has_events_ && !tensorboard_) tensorboard_ = std::make_unique<TensorboardWriter>(path_ + "/tensorboard");
  return tensorboard_.get();
}

void RunFolder::log(const Json& event) {
  if (TensorboardWriter* writer = events()) add_scalars(*writer, event);
  quietly("log.jsonl", [&] {
    const std::string line = event.dump() + "\n";
    if (std::fwrite(line.data(), 1, line.size(), log_.get()) != line.size() || std::fflush(log_.get()) != 0) {
      std::clearerr(log_.get());
      throw Error(ErrorKind::resources, {path_ + "/log.jsonl", std::strerror(errno)});
    }
  });
}

void RunFolder::report(const Json& result) {
  write_text("report.json", result.dump(2) + "\n");
  const std::string text = report_text(result);
  if (!text.empty()) write_text("report.txt", text);
}

void RunFolder::curves() {
  quietly("curves.svg", [&] {
    const RunFiles files = read_run_files(path_);
    write_file(path_ + "/curves.svg", as_bytes(curves_svg(files.job_name(), files.events)));
  });
}

void RunFolder::page() {
  if (!has_page_) return;
  quietly("report.html", [&] { write_file(path_ + "/report.html", as_bytes(run_page(read_run_files(path_)))); });
}

void remove_started_run(const std::string& path) {
  std::error_code status;
  if (has_checkpoint(path)) return;
  for (const char* name : {"job.json", "arrays", "log.jsonl", "tensorboard", "details.json", "curves.svg", "report.html", "checkpoints",
                           "ledger", "record.jsonl", "cluster.json", "control.sock"})
    fs::remove_all(fs::path(path) / name, status);
  fs::remove(path, status);  // fails where somebody has put more there
}

bool can_resume(const std::string& path) {
  std::error_code status;
  return has_checkpoint(path) || fs::exists(path + "/ledger", status) || fs::exists(path + "/" + kRepeatsFile, status) ||
         fs::exists(path + "/" + kFirstPhase, status);
}

std::string way_on(const std::string& path) {
  if (!can_resume(path)) return "it has no checkpoint to go on from: train anew";
  return "`perigee train --resume " + path + "` goes on from its last checkpoint";
}

std::string newest_run(const std::string& name) {
  const std::string prefix = folder_name(name) + "-";
  std::vector<std::string> found;
  std::error_code status;
  for (const auto& entry : fs::directory_iterator("runs", status)) {
    const std::string folder = entry.path().filename().string();
    if (!folder.starts_with(prefix) || folder.size() < prefix.size() + 15) continue;
    const std::string rest = folder.substr(prefix.size());
    if (!std::all_of(rest.begin(), rest.end(), [](char c) { return std::isdigit(static_cast<unsigned char>(c)) || c == '-'; })) continue;
    const bool parts = fs::exists(entry.path() / kRepeatsFile, status) || fs::exists(entry.path() / kFirstPhase, status);
    if (parts || has_checkpoint(entry.path().string())) found.push_back(entry.path().string());
  }
  return found.empty() ? "" : *std::max_element(found.begin(), found.end());
}

std::string data_folder_of(const std::string& run) {
  LineReader log(run + "/log.jsonl");
  const std::optional<std::string_view> line = log.next();
  const Json event = line ? json_on_line(*line) : Json();
  const Json* folder = event.find("data_folder");
  return folder && folder->is_string() ? folder->as_string() : ".";
}

std::string run_of_file(const std::string& file) {
  const fs::path folder = fs::absolute(file).lexically_normal().parent_path();
  const bool checkpoint = !fs::exists(folder / "job.json") && fs::exists(folder.parent_path() / "job.json");
  return (checkpoint ? folder.parent_path() : folder).string();
}

}  // namespace perigee
