// `perigee train --folds K`, `--seeds N`: trains the same job several times, one run after the other, and sums up what came out.
#pragma once

#include <functional>
#include <string>

#include "repl/commands/train/repeats.h"
#include "src/run/session.h"

namespace perigee {

struct RepeatedOptions {
  SessionOptions session;  // out: the folder that the runs lie in; resume: such a folder, whose finished runs are taken over
  bool stratify = true;
  std::function<Json(const Job& job, SessionOptions options)> train;  // makes one run; gives its event "end"
  std::function<void(const Json& event)> show;  // "repeat" before each run, "repeat_end" after it, "summary" in the end
  std::function<std::string(const std::string& folder)> resume_command;
};

// True when all runs are finished; false when `stop` became true or a run was stopped. What is finished is summed up in any case:
// {"event": "summary", "folder": ..., "runs": [{"run": "fold-1", "figures": {"test.loss": ...}, ...}],
//  "figures": {"test.loss": {"mean": ..., "deviation": ...}}}, in summary.json too. Error of a run that failed.
bool train_repeated(const Job& job, Repeats repeats, const RepeatedOptions& options, const std::atomic<bool>& stop);

}  // namespace perigee
