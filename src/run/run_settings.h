// The options of a job that can change while it trains: "optimizer.momentum", "clip.threshold", "early_stopping.patience", "data.batch". It knows
// which ones there are, why the others cannot, and what was changed; a session or a coordinator does what follows from a change.
#pragma once

#include <string>
#include <vector>

#include "src/job/job.h"
#include "src/model/model.h"

namespace perigee {

class RunSettings {
 public:
  struct Change {
    std::string option;  // its full name
    Json value;
    Json before;  // in the job itself; null: it is not there
  };

  // A weight in the loss that is a schedule in the job, as option_of_factor() (loss_factors.h) calls it.
  struct Term {
    std::string option;
    Json schedule;
  };

  // Several processes change what the optimiser goes by and the weights in the loss, and nothing else.
  explicit RunSettings(Job job, std::vector<Term> terms = {}, bool several = false)
      : job_(std::move(job)), terms_(std::move(terms)), several_(several) {}

  // The full name: "lr" is "optimizer.lr", "batch" is "data.batch", "clip.norm" is the threshold of a clip of that type. Error(usage) that says
  // why an option cannot change, and what to do, or which name is near.
  std::string resolve(const std::string& option) const;
  // The job with all changes, and with one more. Error(model) when the value is none of the option's.
  Json with(const std::string& resolved, const Json& value) const;
  Json changed() const;
  Json changed_terms() const;  // {"loss.digit.weight": 0.5}: those that were changed; they are not in changed()
  void keep(const std::string& resolved, const Json& value);

  // {"optimizer.lr": {"value", "type", "fallback", "doc"}, ...}: what can change, as it is now.
  Json list() const;
  const std::vector<Change>& changes() const { return changes_; }
  // For checkpoints. What a job says otherwise now than when it was changed is as the job says.
  Json state() const;
  std::vector<Change> changes_of(const Json& state) const;

 private:
  const Term* term(const std::string& option) const;
  const Option* option_named(const std::string& name) const;
  const Json* value_before(const std::string& name) const;
  std::vector<std::string> names() const;

  Job job_;
  std::vector<Term> terms_;
  bool several_;
  std::vector<Change> changes_;
};

// Those of one of several workers, with {"optimizer.lr": 0.01} set.
RunSettings settings_of(const Job& job, const Json& set);

std::vector<RunSettings::Term> terms_of(const Model& model);

}  // namespace perigee
