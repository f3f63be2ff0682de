// map: whole texts become others.
#include <algorithm>
#include <map>
#include <string>

#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

std::unique_ptr<Step> open_map(const Config& config, const StepContext& context) {
  std::map<std::string, std::string, std::less<>> values;
  const Json* object = config.raw("values");
  if (object != nullptr && object->is_object())
    for (const auto& [from, to] : object->as_object())
      if (to.is_string()) values.emplace(from, to.as_string());
  const bool other = config.has("other");
  return step_of(
      [names = config.string_list("map"), values, keep = config.string_list("keep"), other, to = config.string("other", ""),
       where = context.where](Frame& frame) {
        for (const size_t c : columns_of(frame, names, where, [](Type t) { return t == Type::text || t == Type::category; })) {
          Column out(Type::text);
          for (int64_t r = 0; r < frame.rows; ++r) {
            if (frame.columns[c].is_missing(r)) {
              out.add_missing();
              continue;
            }
            const std::string text = cell_text(frame.columns[c], frame.schema.columns[c], r);
            const auto found = values.find(text);
            if (found != values.end()) out.add_text(found->second);
            else out.add_text(other && std::find(keep.begin(), keep.end(), text) == keep.end() ? to : text);
          }
          frame.columns[c] = std::move(out);
          frame.schema.columns[c] = {.name = frame.schema.columns[c].name, .type = Type::text};
        }
      },
      true);
}

constexpr Option kMap[] = {{"map", "list of names", nullptr, "columns of texts"},
                           {"values", "{name: text, ...}", "{}", "old texts to new ones"},
                           {"other", "string", "as it is", "what all other texts become"},
                           {"keep", "list of names", "[]", "texts that 'other' leaves alone"}};

}  // namespace

extern const StepDef step_map;
const StepDef step_map{"map", "replaces whole texts", {.options = kMap}, open_map};

}  // namespace perigee::tables
