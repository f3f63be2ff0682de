// The files of a run: runs/<name>-<time>/ with job.json, arrays/ (of a script), log.jsonl, TensorBoard events, checkpoints/, report.txt and
// report.json, details.json, curves.svg, report.html, model.safetensors. Writing here never fails the run: what goes wrong is a warning, once.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "src/core/json.h"
#include "src/io/plot/tensorboard.h"

namespace perigee {

class RunFolder {
 public:
  // Makes `path`, or runs/<name>-<date>-<time> when it is empty (with a number behind it when that is taken). Error(resources) when it
  // cannot be made, Error(usage) when `path` already holds a run.
  static RunFolder create(const std::string& name, const std::string& path = "");
  static void check_free(const std::string& path);  // of a run; Error(usage)
  // An earlier run, to be continued: its log is kept and appended to. Error(usage) when there is none.
  static RunFolder open(const std::string& path);

  const std::string& path() const { return path_; }
  bool made() const { return made_; }  // by create(): nothing was there before
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  std::string model_file() const { return path_ + "/model.safetensors"; }

  void write_text(const std::string& file, const std::string& text);
  // Appends one line to log.jsonl, and the figures of "step" and "epoch" events to the TensorBoard file.
  void log(const Json& event);
  // report.json and report.txt from an evaluation's result.
  void report(const Json& result);
  // curves.svg from the log.
  void curves();
  // report.html from the other files (src/report/page.h), unless the job is to have none. The last one to be written.
  void page();
  void leave_out_page() { has_page_ = false; }
  // The TensorBoard file, made when the first event comes; null: the job is to have none.
  TensorboardWriter* events();
  void leave_out_events() { has_events_ = false; }

 private:
  RunFolder(std::string path, bool made);
  template <class Work>
  void quietly(const char* what, Work work);

  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Closer> log_;
  std::unique_ptr<TensorboardWriter> tensorboard_;
  bool made_, has_page_ = true, has_events_ = true, warned_ = false;
};

// Takes away the files that a start writes, and the folder when nothing else is in it. Nothing happens where there is a checkpoint.
void remove_started_run(const std::string& path);

// In the folder of a run whose phases several workers train: the first one's folder.
inline constexpr const char* kFirstPhase = "phase-1";

// There is something in the folder that `perigee train --resume` goes on from: a checkpoint, a ledger, the runs of a job repeated.
bool can_resume(const std::string& path);
// "`perigee train --resume RUN` goes on from its last checkpoint", or that there is none.
std::string way_on(const std::string& path);

// In the folder that holds the runs of one job repeated (`perigee train --folds`, `--seeds`): what is repeated.
inline constexpr const char* kRepeatsFile = "repeats.json";

// The newest folder runs/<name>-* that has checkpoints, or in which a job is repeated; empty when there is none.
std::string newest_run(const std::string& name);

// The folder that relative paths in a run's job start from, as its log says; "." when it does not.
std::string data_folder_of(const std::string& run);

// The run folder that a model or a checkpoint lies in; its own folder when that is none.
std::string run_of_file(const std::string& file);

// A table of classes and the confusion matrix as text; empty for results that have neither.
std::string report_text(const Json& result);

// An SVG of the loss and the accuracy (or another figure) over epochs, from a run's events.
std::string curves_svg(const std::string& title, const std::vector<Json>& events);

}  // namespace perigee
