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

constexpr Option kOn{"on", "name", "weights", "which parameters", {}, {"weights", "bias", "all"}};
constexpr Option kDims{"dims", "list of integers", "all but the first", "dimensions of one vector, from 0"};
constexpr Option kMax{"max", "number", "1", "largest length of a vector", {0, 1e30}};
constexpr Option kMaxNorm[] = {kMax, kOn, kDims};
constexpr Option kMinMaxNorm[] = {kMax,
                                  {"min", "number", "0", "smallest length of a vector", {0, 1e30}},
                                  {"rate", "number", "1", "share of the way to it that is made", {0, 1}},
                                  kOn,
                                  kDims};
constexpr Option kNoNumbers[] = {kOn, kDims};
constexpr NamedSchema kConstraintKinds[] = {
    {"max_norm", "Longer vectors are shortened to `max`.", {.options = kMaxNorm}},
    {"min_max_norm", "Vectors are made as long as `min` and as short as `max`.", {.options = kMinMaxNorm}},
    {"unit_norm", "Vectors have length 1.", {.options = kNoNumbers}},
    {"non_negative", "What is below 0 becomes 0.", {.options = kNoNumbers}}};

}  // namespace

std::span<const NamedSchema> constraint_kinds() { return kConstraintKinds; }

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
  const Config options = with_kind(Config(description, where), constraint_kinds());
  const std::string type = options.string("type");
  Rule rule{.window = index};
  if (type == "non_negative") rule.kind = Kind::non_negative;
  if (type == "max_norm") rule.max = options.number("max");
  if (type == "unit_norm") rule.min = rule.max = 1;
  if (type == "min_max_norm") {
    rule.max = options.number("max");
    rule.min = options.number_in("min", 0, rule.max, 0.0);
    rule.rate = options.number("rate");
  }
  const std::string on = options.choice("on");
  const std::vector<int64_t> dims = options.integer_list("dims");
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
