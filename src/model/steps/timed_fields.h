// The fields whose steps one field of lengths (or a mask) ends. Examples that are computed together and are all shorter need a plan of so many
// steps only: what is padding for all of them costs nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/data/loader.h"
#include "src/model/model.h"

namespace perigee {

struct TimedFields {
  std::string ends;  // the field of lengths, or the mask
  FieldRole role = FieldRole::length;
  int64_t steps = 0;               // of the last axis of each of `names`
  std::vector<std::string> names;  // inputs, targets, masks, weights of steps
  bool has(const std::string& name) const;
};

// Empty where nothing ends an input, or where inputs or targets end differently.
std::optional<TimedFields> timed_fields(const ModelSpec& spec);

// `spec` where each of the timed fields has `steps` steps.
ModelSpec with_steps(ModelSpec spec, int64_t steps);

// The input that a session reads step by step, which is the last one with as many steps as the output; -1: none is. Others are there from
// the beginning.
int stepped_input(const ModelSpec& spec, const Shape& output);

// Steps of plans for shorter examples, ascending, all steps last: at most sixteen, apart by a multiple of eight, so that layers with a stride
// meet the same steps. Empty where the model has no timed fields, or cannot be built with fewer steps.
std::vector<int64_t> plan_steps(const Model& model);

// The steps of example `row` of a batch's `field`, which has the role: at most `steps`.
int64_t steps_there(FieldRole role, const View& field, int64_t row, int64_t steps);

}  // namespace perigee
