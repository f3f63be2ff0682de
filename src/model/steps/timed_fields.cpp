#include "src/model/steps/timed_fields.h"

#include <algorithm>

#include "kernels/convert.h"

namespace perigee {
namespace {

constexpr int64_t kMostSizes = 16, kApart = 8;
static_assert(3 * kMostSizes <= kMostPlans, "whole sub-batches and two kinds of rests keep their plans");

int64_t timed_fields_last_axis(const NetworkInput& field) {
  const Shape& shape = field.type.shape;
  return shape.rank() > 0 ? shape[shape.rank() - 1] : 0;
}

bool ends(const NetworkInput& role) { return role.role == FieldRole::length || role.role == FieldRole::mask; }

void cut_timed_fields(NetworkInput* field, const TimedFields& timed, int64_t steps) {
  if (timed.has(field->name)) field->type.shape = field->type.shape.with(field->type.shape.rank() - 1, steps);
}

int64_t integer_at(const View& view, int64_t i) {
  int64_t value = 0;
  convert(view.dtype, view.as<std::byte>() + static_cast<size_t>(i) * dtype_bytes(view.dtype), Dtype::i64, &value, 1);
  return value;
}

}  // namespace

bool TimedFields::has(const std::string& name) const { return std::find(names.begin(), names.end(), name) != names.end(); }

std::optional<TimedFields> timed_fields(const ModelSpec& spec) {
  TimedFields timed;
  bool same = true;
  // Whether `field` is one that ends with the others; its roles of single steps end with it.
  const auto add = [&](const NetworkInput& field, const std::vector<NetworkInput>& roles) {
    const auto of_field = [&](const NetworkInput& role) { return role.of == field.name; };
    if (std::none_of(roles.begin(), roles.end(), [&](const NetworkInput& role) { return of_field(role) && ends(role); })) return;
    if (timed.steps == 0) timed.steps = timed_fields_last_axis(field);
    same &= timed_fields_last_axis(field) == timed.steps;
    timed.names.push_back(field.name);
    for (const NetworkInput& role : roles) {
      if (!of_field(role)) continue;
      if (ends(role) && timed.ends.empty()) timed.ends = role.name, timed.role = role.role;
      same &= !ends(role) || role.name == timed.ends;
      if (role.role != FieldRole::length && role.type.shape.elements() == timed.steps && !timed.has(role.name))
        timed.names.push_back(role.name);
    }
  };
  for (const NetworkInput& input : spec.inputs)
    if (input.role == FieldRole::none) add(input, spec.inputs);
  if (timed.ends.empty()) return std::nullopt;
  add(spec.target, spec.target_roles);
  for (const LossHead& head : spec.more_heads) add(head.target, spec.target_roles);
  return same && timed.steps > 0 ? std::optional(timed) : std::nullopt;
}

ModelSpec with_steps(ModelSpec spec, int64_t steps) {
  const std::optional<TimedFields> timed = timed_fields(spec);
  for (NetworkInput& input : spec.inputs) cut_timed_fields(&input, *timed, steps);
  for (NetworkInput& role : spec.target_roles) cut_timed_fields(&role, *timed, steps);
  for (LossHead& head : spec.more_heads) cut_timed_fields(&head.target, *timed, steps);
  cut_timed_fields(&spec.target, *timed, steps);
  return spec;
}

int stepped_input(const ModelSpec& spec, const Shape& output) {
  int found = -1;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const Shape& shape = spec.inputs[i].type.shape;
    if (spec.inputs[i].role != FieldRole::none || shape.rank() < 1 || output.rank() < 1) continue;
    if (shape[shape.rank() - 1] == output[output.rank() - 1]) found = static_cast<int>(i);
  }
  return found;
}

std::vector<int64_t> plan_steps(const Model& model) {
  const std::optional<TimedFields> timed = timed_fields(model.spec());
  if (!timed) return {};
  const int64_t apart = (timed->steps + kMostSizes * kApart - 1) / (kMostSizes * kApart) * kApart;
  std::vector<int64_t> sizes = {timed->steps};
  while (sizes.back() > apart && model.fits(sizes.back() - apart)) sizes.push_back(sizes.back() - apart);
  std::reverse(sizes.begin(), sizes.end());
  return sizes.size() > 1 ? sizes : std::vector<int64_t>{};
}

int64_t steps_there(FieldRole role, const View& field, int64_t row, int64_t steps) {
  if (role == FieldRole::length) return std::clamp<int64_t>(integer_at(field, row), 0, steps);
  int64_t last = steps;
  while (last > 0 && integer_at(field, row * steps + last - 1) == 0) --last;
  return last;
}

}  // namespace perigee
