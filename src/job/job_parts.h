// The jobs inside a job: its "phases", which follow each other, and its "objectives", which take turns in each step. Each part is a job of its
// own: the whole with the keys that the part has instead.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/job/job.h"

namespace perigee {

size_t phase_count(const Job& job);                                   // 0: the job has none
std::string phase_name(const Job& job, size_t i);                     // "phase 2" where it has no name
Job phase_job(const Job& job, size_t i);                              // without "phases"; its pretrained model is the first one's alone
int64_t examples_planned(const Job& job, int64_t examples_of_epoch);  // of a job without phases; 0: endless

size_t objective_count(const Job& job);  // 0: the job has none
struct Objective {
  std::string name;                  // "objective 2" where it has none
  std::vector<std::string> updates;  // patterns of the parameters that it changes
  int64_t every = 1;                 // steps from one of its updates to the next
};
Objective objective_of(const Job& job, size_t i);
Job objective_job(const Job& job, size_t i);  // with its loss and what belongs to its update; "objectives" stays

// A job whose phases alone have networks gets that of the last one.
void complete_job(Json* job);
// Checks what a schema cannot. Error(model).
void check_parts(const Json& job, const std::string& where);

}  // namespace perigee
