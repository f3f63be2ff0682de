#include "lua/reference.h"

#include <string>
#include <vector>

#include "cluster/policy/families.h"
#include "lua/json.h"
#include "src/graph/op.h"
#include "src/nn/layer.h"

namespace perigee {
namespace {

struct Entry {
  const char* family = "";
  std::string name, doc, example;
  std::vector<const Option*> options;
  std::vector<std::string> positional;
};

void set_reference_text(lua_State* L, const char* key, const std::string& value) {
  if (value.empty()) return;
  lua_pushlstring(L, value.data(), value.size());
  lua_setfield(L, -2, key);
}

std::string or_empty(const char* text) { return text ? text : ""; }

// "from 1 to 8", or nothing where any number will do.
std::string range_text(const Option& option) {
  if (option.range.low == OptionRange{}.low && option.range.high == OptionRange{}.high) return "";
  const std::string text = expected_text(option), type = option.type->text;
  const size_t at = text.rfind(type);
  return at == std::string::npos || at + type.size() >= text.size() ? "" : text.substr(at + type.size() + 1);
}

class Writer {
 public:
  explicit Writer(lua_State* state) : L(state) { lua_newtable(L); }

  void add(const Entry& entry) {
    lua_newtable(L);
    set_reference_text(L, "family", entry.family);
    set_reference_text(L, "name", entry.name);
    set_reference_text(L, "doc", entry.doc);
    if (!entry.example.empty()) {
      push_json(L, Json::parse(entry.example, entry.name));
      lua_setfield(L, -2, "example");
    }
    push_options(L, entry.options);
    lua_setfield(L, -2, "options");
    lua_newtable(L);
    for (size_t i = 0; i < entry.positional.size(); ++i) {
      lua_pushstring(L, entry.positional[i].c_str());
      lua_rawseti(L, -2, static_cast<int>(i + 1));
    }
    lua_setfield(L, -2, "positional");
    lua_rawseti(L, -2, ++count_);
  }

 private:
  lua_State* L;
  int count_ = 0;
};

std::vector<const Option*> own_options(const Schema& schema) {
  std::vector<const Option*> own;
  for (const Option& option : schema.options) own.push_back(&option);
  return own;
}

Entry entry_of(const Family& family, const FamilyMember& member) {
  // The options of every layer are listed once.
  const bool layer = family.name == std::string("layer");
  return {family.name,
          member.name,
          member.doc,
          member.example,
          layer ? own_options(member.schema) : member.schema.all(),
          {member.schema.positional.begin(), member.schema.positional.end()}};
}

Entry entry_of(const OpDef& op) {
  std::vector<std::string> operands;
  for (int i = 0; i < (op.max_inputs < 0 ? 2 : op.max_inputs); ++i) operands.push_back(std::string(1, static_cast<char>('a' + i)));
  return {"op", op.name, or_empty(op.doc), "", own_options(op.attributes), operands};
}

}  // namespace

void push_options(lua_State* L, const std::vector<const Option*>& options) {
  lua_newtable(L);
  for (size_t i = 0; i < options.size(); ++i) {
    const Option& option = *options[i];
    lua_newtable(L);
    set_reference_text(L, "name", option.name);
    set_reference_text(L, "type", type_text(option));
    set_reference_text(L, "range", range_text(option));
    set_reference_text(L, "fallback", or_empty(option.fallback));
    set_reference_text(L, "doc", or_empty(option.doc));
    set_reference_text(L, "units", or_empty(option.units));
    set_reference_text(L, "family", or_empty(option.type->family));
    lua_pushboolean(L, option.required());
    lua_setfield(L, -2, "required");
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
}

int push_reference(lua_State* L) {
  luaL_checkstack(L, 8, "reference");
  Writer writer(L);
  for (const Family& family : all_families()) {
    for (const FamilyMember& member : family.members) writer.add(entry_of(family, member));
    if (family.plain != nullptr) writer.add({family.name, family.name, "", "", own_options(*family.plain), {}});
  }
  for (const OpDef* op : all_ops())
    if (op->max_inputs != 0 && !op->internal) writer.add(entry_of(*op));
  push_options(L, own_options(common_layer_schema));
  lua_setfield(L, -2, "common");
  return 1;
}

}  // namespace perigee
