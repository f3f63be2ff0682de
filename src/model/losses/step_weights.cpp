#include "src/model/losses/step_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/convert.h"
#include "src/model/inference.h"
#include "src/nn/loss.h"

namespace perigee {
namespace {

double number_at(const View& view, int64_t i) {
  double value = 0;
  convert(view.dtype, view.as<std::byte>() + static_cast<size_t>(i) * dtype_bytes(view.dtype), Dtype::f64, &value, 1);
  return value;
}

std::string number_text(double value) {
  return std::trunc(value) == value && std::fabs(value) < 1e15 ? std::to_string(static_cast<int64_t>(value)) : Json(value).dump();
}

int64_t step_weights_last_axis(const Shape& shape) { return shape.rank() > 0 ? shape[shape.rank() - 1] : 1; }

// Number `i` of the part, `value`, is none that it may have. Segments: the sequence of the step before goes on, or one begins, or none is there.
bool is_wrong(FieldRole role, int64_t steps, const View& view, int64_t i, double value) {
  if (role == FieldRole::segment)
    return value != 0 && value != static_cast<double>(i % steps + 1) && (i % steps == 0 || value != number_at(view, i - 1));
  if (role == FieldRole::length) return !(value >= 0 && value <= static_cast<double>(steps) && std::trunc(value) == value);
  if (role == FieldRole::mask) return value != 0 && value != 1;
  return !(value >= 0 && std::isfinite(value));
}

}  // namespace

StepWeights::StepWeights(const Model& model, const DataSource& source) {
  const ModelSpec& spec = model.spec();
  const auto part_of = [&](const NetworkInput& role, const Type& of) {
    return Part{.field = static_cast<size_t>(field_index(source, role.name)),
                .role = role.role,
                .steps = step_weights_last_axis(of.shape),
                .elements = role.type.shape.elements(),
                .of = role.of};
  };
  for (const NetworkInput& role : spec.inputs)
    for (const NetworkInput& input : spec.inputs)
      if (role.role != FieldRole::none && input.role == FieldRole::none && input.name == role.of)
        inputs_.push_back(part_of(role, input.type));
  if (spec.target.name.empty() || spec.loss.is_null()) return;
  const auto add_head = [&](const NetworkInput& target, const Json& loss, const Type& output) {
    Head head{.field = static_cast<size_t>(field_index(source, target.name)), .steps = step_weights_last_axis(target.type.shape)};
    head.ignored = ignored_class(loss);
    bool by_step = false;
    for (const NetworkInput& role : spec.target_roles)
      if (role.of == target.name) {
        head.parts.push_back(part_of(role, target.type));
        by_step |= role.role != FieldRole::weight || head.parts.back().elements > 1;
      }
    const bool labels = output.shape.rank() == target.type.shape.rank() + 1;  // numbers that choose among the outputs
    if (head.ignored || (labels && by_step)) head.positions = target.type.shape.elements();
    else if (by_step) head.positions = head.steps;
    if (labels && (head.ignored || by_step)) head.classes = output.shape[0];
    used_ |= head.ignored.has_value() || !head.parts.empty();
    heads_.push_back(std::move(head));
  };
  const auto& outputs = model.output_types();
  add_head(spec.target, spec.loss, outputs.at(0));
  for (const LossHead& head : spec.more_heads) {
    const int place = head.output == 0 ? spec.loss_output : head.output;  // the main one stands in front
    add_head(head.target, head.loss, outputs.at(static_cast<size_t>(place)));
  }
  used_ |= !inputs_.empty();
  for (const Field& field : source.fields()) names_.push_back(field.name);
}

void StepWeights::fill(const Head& head, const Batch& batch, std::vector<double>& into) const {
  into.assign(static_cast<size_t>(batch.size * head.positions), 1);
  const View target = batch.fields[head.field].view();
  if (head.ignored)
    for (size_t i = 0; i < into.size(); ++i) into[i] = number_at(target, static_cast<int64_t>(i)) != static_cast<double>(*head.ignored);
  for (const Part& part : head.parts) {
    const View view = batch.fields[part.field].view();
    for (int64_t n = 0; n < batch.size; ++n) {
      double* const row = into.data() + n * head.positions;
      if (part.elements == 1 && part.role != FieldRole::mask) {
        const double value = number_at(view, n);
        for (int64_t p = 0; p < head.positions; ++p)
          row[p] *= part.role == FieldRole::weight ? value : static_cast<double>(p % part.steps) < value;
        continue;
      }
      for (int64_t p = 0; p < head.positions; ++p) row[p] *= number_at(view, n * part.elements + p % part.elements);
    }
  }
}

std::optional<double> StepWeights::sum_of(const Batch& batch) const {
  const auto sound = [&](const Part& part) {
    const View view = batch.fields[part.field].view();
    for (int64_t i = 0; i < batch.size * part.elements; ++i)
      if (is_wrong(part.role, part.steps, view, i, number_at(view, i))) return false;
    return true;
  };
  if (!std::all_of(inputs_.begin(), inputs_.end(), sound)) return std::nullopt;
  std::optional<double> all;
  for (const Head& head : heads_) {
    if (!std::all_of(head.parts.begin(), head.parts.end(), sound)) return std::nullopt;
    fill(head, batch, scratch_);
    double sum = 0;
    const View target = batch.fields[head.field].view();
    for (size_t i = 0; i < scratch_.size(); ++i) {
      sum += scratch_[i];
      if (head.classes == 0 || scratch_[i] == 0) continue;
      const double label = number_at(target, static_cast<int64_t>(i));
      if (label < 0 || label >= static_cast<double>(head.classes)) return std::nullopt;
    }
    if (all && *all != sum) return std::nullopt;
    all = sum;
  }
  return all ? all : std::optional(static_cast<double>(batch.size));
}

void StepWeights::check_part(const Part& part, const Batch& batch, const std::string& where) const {
  const View view = batch.fields[part.field].view();
  for (int64_t i = 0; i < batch.size * part.elements; ++i) {
    const double value = number_at(view, i);
    if (!is_wrong(part.role, part.steps, view, i, value)) continue;
    const std::string example = std::to_string(batch.ids[static_cast<size_t>(i / part.elements)]);
    Error::Parts parts{.where = where, .got = number_text(value)};
    const std::string &name = names_[part.field], of = " of '" + part.of + "'";
    if (part.role == FieldRole::length) {
      parts.what = "field '" + name + "' of example " + example + " is no length" + of;
      parts.expected = "0 to " + std::to_string(part.steps);
      if (value > static_cast<double>(part.steps)) parts.hint = "pad '" + part.of + "' to the longest example, or cut the length";
    } else if (part.role == FieldRole::mask) {
      parts.what = "field '" + name + "' of example " + example + ", element " + std::to_string(i % part.elements) + " is no mask" + of;
      parts.expected = "0 or 1";
      parts.hint = "fields of other numbers are weights: data.weights";
    } else if (part.role == FieldRole::segment) {
      const std::string step = std::to_string(i % part.elements + 1);
      parts.what =
          "field '" + name + "' of example " + example + ", step " + step + " does not say with which step its sequence" + of + " begins";
      parts.expected = step + " where one begins, else the number of the step before; 0 for padding";
    } else {
      parts.what = "field '" + name + "' of example " + example + " is no weight" + of;
      parts.expected = "a number of at least 0";
    }
    throw Error(ErrorKind::data, std::move(parts));
  }
}

double StepWeights::refuse(const Batch& batch, const std::string& where) const {
  for (const Part& part : inputs_) check_part(part, batch, where);
  for (const Head& head : heads_)
    for (const Part& part : head.parts) check_part(part, batch, where);
  for (const Head& head : heads_) {
    fill(head, batch, scratch_);
    for (size_t i = 0; i < scratch_.size() && head.classes > 0; ++i) {
      const double label = number_at(batch.fields[head.field].view(), static_cast<int64_t>(i));
      if (scratch_[i] == 0 || (label >= 0 && label < static_cast<double>(head.classes))) continue;
      const auto at = static_cast<int64_t>(i);
      throw Error(ErrorKind::data, {.where = where,
                                    .what = "field '" + names_[head.field] + "' of example " +
                                            std::to_string(batch.ids[static_cast<size_t>(at / head.positions)]) + ", element " +
                                            std::to_string(at % head.positions) + " is no class of the network's output",
                                    .got = number_text(label),
                                    .expected = "0 to " + std::to_string(head.classes - 1)});
    }
  }
  const auto sum = [&](const Head& head) {
    fill(head, batch, scratch_);
    return std::accumulate(scratch_.begin(), scratch_.end(), 0.0);
  };
  const double first = sum(heads_.at(0));
  const auto other = std::find_if(heads_.begin(), heads_.end() - 1, [&](const Head& head) { return sum(head) != first; });
  throw Error(ErrorKind::data, {.where = where,
                                .what = "the targets '" + names_[heads_.at(0).field] + "' and '" + names_[other->field] +
                                        "' have different sums of weights, and a step divides its gradient by one",
                                .hint = "give all targets the same lengths, masks and weights"});
}

}  // namespace perigee
