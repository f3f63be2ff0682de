// Steps on columns: select, drop, order, rename, copy, derive.
#include <algorithm>

#include "src/core/error.h"
#include "src/data/table/expression/expression.h"
#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

std::unique_ptr<Step> open_select(const Config& config, const StepContext& context) {
  return step_of(
      [names = config.string_list("select"), where = context.where](Frame& frame) {
        Frame out{.rows = frame.rows, .sequences = frame.sequences, .numbers = frame.numbers};
        for (const size_t c : columns_of(frame, names, where)) out.add(frame.schema.columns[c], frame.columns[c]);
        frame = std::move(out);
      },
      true);
}

std::unique_ptr<Step> open_drop(const Config& config, const StepContext& context) {
  return step_of(
      [names = config.string_list("drop"), where = context.where](Frame& frame) {
        for (const std::string& name : names) frame.remove(frame.schema.at(name, where));
      },
      true);
}

std::unique_ptr<Step> open_order(const Config& config, const StepContext& context) {
  return step_of(
      [names = config.string_list("order"), where = context.where](Frame& frame) {
        Frame out{.rows = frame.rows, .sequences = frame.sequences, .numbers = frame.numbers};
        for (const size_t c : columns_of(frame, names, where)) out.add(frame.schema.columns[c], frame.columns[c]);
        for (size_t c = 0; c < frame.columns.size(); ++c)
          if (out.schema.find(frame.schema.columns[c].name) < 0) out.add(frame.schema.columns[c], std::move(frame.columns[c]));
        frame = std::move(out);
      },
      true);
}

std::vector<std::pair<std::string, std::string>> pairs(const Config& config, const char* key) {
  std::vector<std::pair<std::string, std::string>> list;
  const Json* object = config.raw(key);
  if (object == nullptr || !object->is_object())
    config.fail(key, "must map names to texts", object == nullptr ? "nothing" : shown(*object));
  for (const auto& [name, value] : object->as_object()) {
    if (name.starts_with('@')) continue;
    if (!value.is_string()) config.fail(key, "must map names to texts", shown(value));
    list.emplace_back(name, value.as_string());
  }
  return list;
}

std::unique_ptr<Step> open_rename(const Config& config, const StepContext& context) {
  return step_of(
      [names = pairs(config, "rename"), where = context.where](Frame& frame) {
        TableSchema renamed = frame.schema;
        for (const auto& [from, to] : names) renamed.columns[frame.schema.at(from, where)].name = to;
        std::vector<std::string> all = renamed.names();
        std::sort(all.begin(), all.end());
        if (const auto twice = std::adjacent_find(all.begin(), all.end()); twice != all.end())
          throw Error(ErrorKind::data, {.where = where, .what = "two columns get one name", .got = "'" + *twice + "'"});
        frame.schema = std::move(renamed);
      },
      true);
}

std::unique_ptr<Step> open_copy(const Config& config, const StepContext& context) {
  return step_of(
      [names = pairs(config, "copy"), where = context.where](Frame& frame) {
        for (const auto& [to, from] : names) {
          const size_t c = frame.schema.at(from, where);
          ColumnSpec spec = frame.schema.columns[c];
          spec.name = to;
          Column column = frame.columns[c];
          frame.add(std::move(spec), std::move(column), static_cast<int64_t>(c) + 1);
        }
      },
      true);
}

std::unique_ptr<Step> open_derive(const Config& config, const StepContext& context) {
  struct Derived {
    std::string name;
    Expression formula;
  };
  // A step may be copied, a formula not.
  auto list = std::make_shared<std::vector<Derived>>();
  for (const auto& [name, formula] : pairs(config, "derive")) list->push_back({name, Expression(formula, context.where)});
  return step_of(
      [list, after = config.string("after", ""), where = context.where](Frame& frame) {
        int64_t before = after.empty() ? -1 : static_cast<int64_t>(frame.schema.at(after, where)) + 1;
        for (const Derived& each : *list) {
          ColumnSpec spec{.name = each.name};
          Column column = each.formula.of(frame);
          spec.type = column.type;
          const int64_t old = frame.schema.find(each.name);
          if (old >= 0) each.formula.limits(frame.schema.columns[static_cast<size_t>(old)], spec);
          frame.add(std::move(spec), std::move(column), before);
          if (old < 0 && before >= 0) ++before;
        }
      },
      true);
}

constexpr Option kSelect[] = {{"select", "list of names", nullptr, "the columns that stay, in this order"}};
constexpr Option kDrop[] = {{"drop", "list of names", nullptr, "the columns that go"}};
constexpr Option kOrder[] = {{"order", "list of names", nullptr, "the first columns; the others follow in their order"}};
constexpr Option kRename[] = {{"rename", "{name: text, ...}", nullptr, "old names to new ones"}};
constexpr Option kCopy[] = {{"copy", "{name: text, ...}", nullptr, "new names to the columns that they copy"}};
constexpr Option kDerive[] = {{"derive", "{name: text, ...}", nullptr, "new or changed columns to their formulas"},
                              {"after", "name", "the end", "the column that new ones follow"}};

}  // namespace

extern const StepDef step_select, step_drop, step_order, step_rename, step_copy, step_derive;
const StepDef step_select{"select", "keeps columns", {.options = kSelect}, open_select};
const StepDef step_drop{"drop", "leaves columns out", {.options = kDrop}, open_drop};
const StepDef step_order{"order", "changes the order of columns", {.options = kOrder}, open_order};
const StepDef step_rename{"rename", "renames columns", {.options = kRename}, open_rename};
const StepDef step_copy{"copy", "copies columns, each behind its original", {.options = kCopy}, open_copy};
const StepDef step_derive{"derive", "computes columns by formulas", {.options = kDerive}, open_derive};

}  // namespace perigee::tables
