#include "src/optim/constraint.h"

#include "src/core/config.h"

namespace perigee {
namespace {

// Offsets of all combinations of the dimensions for which `chosen` is `wanted`.
std::vector<int64_t> offsets(const Shape& shape, const std::vector<bool>& chosen, bool wanted) {
  std::vector<int64_t> result = {0};
  int64_t stride = shape.elements();
  for (int i = 0; i < shape.rank(); ++i) {
    stride = shape[i] > 0 ? stride / shape[i] : 0;
    if (chosen[static_cast<size_t>(i)] != wanted) continue;
    std::vector<int64_t> next;
    for (int64_t base : result)
      for (int64_t k = 0; k < shape[i]; ++k) next.push_back(base + k * stride);
    result = std::move(next);
  }
  return result;
}

bool concerns(const std::string& on, ParamRole role) {
  return on == "all" || (on == "weights" && role == ParamRole::weight) || (on == "bias" && role == ParamRole::bias);
}

}  // namespace

Constraints::Constraints(const Json& description, const std::vector<ParamWindow>& windows, const std::string& where) {
  for (size_t i = 0; i < windows.size(); ++i) {
    if (!windows[i].trainable || windows[i].elements == 0) continue;
    const Json& own = windows[i].constraint.is_null() ? description : windows[i].constraint;
    const std::string place = windows[i].constraint.is_null() ? where : where + " of '" + windows[i].name + "'";
    if (own.is_null()) continue;
    if (!own.is_array()) {
      read(own, static_cast<int>(i), windows[i], place);
      continue;
    }
    for (const Json& item : own.as_array()) read(item, static_cast<int>(i), windows[i], place);
  }
}

void Constraints::read(const Json& description, int index, const ParamWindow& window, const std::string& where) {
  const Config options(description, where);
  const std::string type = options.choice("type", "", {"max_norm", "min_max_norm", "unit_norm", "non_negative"});
  Rule rule{.window = index};
  if (type == "non_negative") rule.kind = Kind::non_negative;
  if (type == "max_norm") rule.max = options.number_in("max", 0, 1e30, 1.0);
  if (type == "unit_norm") rule.min = rule.max = 1;
  if (type == "min_max_norm") {
    rule.max = options.number_in("max", 0, 1e30, 1.0);
    rule.min = options.number_in("min", 0, rule.max, 0.0);
    rule.rate = options.number_in("rate", 0, 1, 1.0);
  }
  const std::string on = options.choice("on", "weights", {"weights", "bias", "all"});
  const std::vector<int64_t> dims = options.integer_list("dims");
  options.reject_unread();
  if (!concerns(on, window.role)) return;
  const int rank = window.shape.rank();
  std::vector<bool> inside(static_cast<size_t>(rank), dims.empty());
  if (dims.empty() && rank > 1) inside[0] = false;
  for (int64_t dim : dims) {
    if (dim < 0 || dim >= rank) {
      options.fail("dims", "names a dimension that '" + window.name + "' has not", std::to_string(dim),
                   "0 to " + std::to_string(rank - 1) + " (shape " + window.shape.text() + ")");
    }
    inside[static_cast<size_t>(dim)] = true;
  }
  rule.members = offsets(window.shape, inside, true);
  rule.starts = offsets(window.shape, inside, false);
  for (int64_t& start : rule.starts) start += window.offset;
  rules_.push_back(std::move(rule));
}

void Constraints::apply_rule(const Rule& rule, void* parameters, const BlockMath& math) {
  const auto members = static_cast<int64_t>(rule.members.size());
  for (int64_t start : rule.starts) {
    std::byte* vector = static_cast<std::byte*>(parameters) + static_cast<size_t>(start) * dtype_bytes(math.dtype);
    if (rule.kind == Kind::non_negative) math.cut_negative(vector, rule.members.data(), members);
    else math.limit_length(vector, rule.members.data(), members, rule.min, rule.max, rule.rate);
  }
}

void Constraints::apply(int part, int parts, void* parameters, const BlockMath& math) const {
  // All rules of one window belong to one thread: they may overlap and their order counts.
  for (const Rule& rule : rules_)
    if (rule.window % parts == part) apply_rule(rule, parameters, math);
}

}  // namespace perigee
