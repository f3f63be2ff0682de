#include "src/model/field_roles.h"

#include <algorithm>

#include "src/model/inference.h"

namespace perigee {
namespace {

struct FieldRolesKind {
  const char* key;
  const char* text;
  FieldRole role;
};
constexpr FieldRolesKind kKinds[] = {{"lengths", "a length", FieldRole::length},
                                     {"masks", "a mask", FieldRole::mask},
                                     {"weights", "a weight", FieldRole::weight},
                                     {"segments", "the segments", FieldRole::segment}};

const char* field_roles_text_of(FieldRole role) {
  return std::find_if(std::begin(kKinds), std::end(kKinds), [&](const FieldRolesKind& kind) { return kind.role == role; })->text;
}

std::vector<NetworkInput> targets_of(const ModelSpec& spec) {
  std::vector<NetworkInput> targets = {spec.target};
  for (const LossHead& head : spec.more_heads) targets.push_back(head.target);
  return targets;
}

const NetworkInput* field_roles_named(const std::vector<NetworkInput>& fields, const std::string& name) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const NetworkInput& field) { return field.name == name && field.role == FieldRole::none; });
  return found == fields.end() ? nullptr : &*found;
}

class Roles {
 public:
  Roles(const DataSource& source, ModelSpec* spec) : source_(source), spec_(*spec), targets_(targets_of(*spec)) {}

  // False: `of` is no field of the job.
  bool add(const FieldRolesKind& kind, const std::string& name, const std::string& of, const std::string& where) {
    const Field& field = source_.fields()[static_cast<size_t>(field_index(source_, name))];
    const NetworkInput role{.name = name, .type = {field.dtype, field.shape}, .role = kind.role, .of = of};
    const NetworkInput *input = field_roles_named(spec_.inputs, of), *target = field_roles_named(targets_, of);
    if (kind.role == FieldRole::weight) input = nullptr;
    if (kind.role == FieldRole::segment) target = nullptr;
    if (!input && !target) return false;
    if (has(kind.role, of)) return true;
    check_role(role, input ? *input : *target, where);
    if (input) found_inputs_.push_back(role);
    if (target) spec_.target_roles.push_back(role);
    return true;
  }

  void add_to_all_targets(const FieldRolesKind& kind, const std::string& name, const std::string& where) {
    for (const NetworkInput& target : targets_) add(kind, name, target.name, where);
  }

  void settle() { spec_.inputs.insert(spec_.inputs.end(), found_inputs_.begin(), found_inputs_.end()); }

  std::vector<std::string> known(FieldRole role) const {
    std::vector<std::string> names;
    for (const NetworkInput& input : spec_.inputs)
      if (role != FieldRole::weight) names.push_back(input.name);
    for (const NetworkInput& target : targets_)
      if (role != FieldRole::segment) names.push_back(target.name);
    return names;
  }

 private:
  bool has(FieldRole role, const std::string& of) const {
    const auto same = [&](const NetworkInput& each) { return each.role == role && each.of == of; };
    return std::any_of(found_inputs_.begin(), found_inputs_.end(), same) ||
           std::any_of(spec_.target_roles.begin(), spec_.target_roles.end(), same);
  }

  const DataSource& source_;
  ModelSpec& spec_;
  const std::vector<NetworkInput> targets_;
  std::vector<NetworkInput> found_inputs_;
};

void read_key(const Config& data, const FieldRolesKind& kind, Roles* roles) {
  const Json* given = data.raw(kind.key);
  const std::string where = data.where() + "." + kind.key;
  if (!given || given->is_null()) return;
  if (given->is_string()) return roles->add_to_all_targets(kind, given->as_string(), where);
  if (!given->is_object()) return;  // an empty table
  for (const auto& [of, name] : given->as_object()) {
    if (of.starts_with('@')) continue;
    if (!name.is_string())
      throw Error(ErrorKind::model, {where + "." + of, "must name a field of the data", name.type_name(), "a name such as \"n\""});
    if (roles->add(kind, name.as_string(), of, where)) continue;
    const std::vector<std::string> known = roles->known(kind.role);
    std::string list;
    for (const std::string& each : known) list += (list.empty() ? "'" : ", '") + each + "'";
    throw Error(ErrorKind::model, {where,
                                   kind.role == FieldRole::weight    ? "'" + of + "' is no target of the job"
                                   : kind.role == FieldRole::segment ? "'" + of + "' is no input of the job"
                                                                     : "'" + of + "' is neither an input nor a target of the job",
                                   "", "one of " + list, nearest_hint(of, known)});
  }
}

}  // namespace

void check_role(const NetworkInput& role, const NetworkInput& of, const std::string& where) {
  const Shape &own = role.type.shape, &about = of.type.shape;
  const auto fail = [&](std::string expected) {
    throw Error(ErrorKind::model, {where, "field '" + role.name + "' cannot be " + field_roles_text_of(role.role) + " of '" + of.name + "'",
                                   role.type.text(), std::move(expected)});
  };
  if (role.role != FieldRole::weight && about.rank() == 0)
    throw Error(ErrorKind::model, {where, "field '" + of.name + "' has one number for each example, and no steps", of.type.text(),
                                   "a sequence: its steps are the last axis"});
  const bool of_example = own.elements() == 1 && own.rank() <= 1;
  const bool of_steps = about.rank() > 0 && own == Shape{about[about.rank() - 1]};
  const std::string steps = about.rank() > 0 ? std::to_string(about[about.rank() - 1]) : "";
  if (role.role == FieldRole::length && (role.type.dtype == Dtype::boolean || !of_example)) fail("an integer for each example");
  if (role.role == FieldRole::mask && !of_steps) fail(steps + " numbers of 0 or 1, one for each step");
  if (role.role == FieldRole::segment && (!of_steps || role.type.dtype == Dtype::boolean))
    fail(steps + " integers: with which step, from 1 on, the sequence of each begins");
  if (role.role == FieldRole::weight && !of_example && !of_steps)
    fail("a number for each example" + (steps.empty() ? "" : ", or " + steps + ", one for each step"));
}

void add_field_roles(const Config& data, const DataSource& source, ModelSpec* spec) {
  Roles roles(source, spec);
  for (const FieldRolesKind& kind : kKinds) read_key(data, kind, &roles);
  for (const Field& field : source.fields())
    for (const FieldRolesKind& kind : kKinds) {
      if (field.role != kind.role) continue;
      if (field.of.empty()) roles.add_to_all_targets(kind, field.name, source.traits().description);
      else roles.add(kind, field.name, field.of, source.traits().description);
    }
  roles.settle();
}

}  // namespace perigee
