#include "lua/reference.h"

#include <string>
#include <vector>

#include "cluster/policy/families.h"
#include "lua/json.h"
#include "src/graph/op.h"
#include "src/nn/layer.h"

namespace perigee {
namespace {

struct OptionText {
  std::string name, type, fallback, doc;
  bool required = false;
};

struct Entry {
  const char* family = "";
  std::string name, doc, example;
  std::vector<OptionText> options;
  std::vector<std::string> positional;
};

class Writer {
 public:
  explicit Writer(lua_State* state) : L(state) { lua_newtable(L); }

  void add(const Entry& entry) {
    lua_newtable(L);
    text("family", entry.family);
    text("name", entry.name);
    text("doc", entry.doc);
    if (!entry.example.empty()) {
      push_json(L, Json::parse(entry.example, entry.name));
      lua_setfield(L, -2, "example");
    }
    add_options("options", entry.options);
    lua_newtable(L);
    for (size_t i = 0; i < entry.positional.size(); ++i) {
      lua_pushstring(L, entry.positional[i].c_str());
      lua_rawseti(L, -2, static_cast<int>(i + 1));
    }
    lua_setfield(L, -2, "positional");
    lua_rawseti(L, -2, ++count_);
  }

  void add_options(const char* key, const std::vector<OptionText>& options) {
    lua_newtable(L);
    for (size_t i = 0; i < options.size(); ++i) {
      lua_newtable(L);
      text("name", options[i].name);
      text("type", options[i].type);
      text("fallback", options[i].fallback);
      text("doc", options[i].doc);
      lua_pushboolean(L, options[i].required);
      lua_setfield(L, -2, "required");
      lua_rawseti(L, -2, static_cast<int>(i + 1));
    }
    lua_setfield(L, -2, key);
  }

 private:
  void text(const char* key, const std::string& value) {
    if (value.empty()) return;
    lua_pushlstring(L, value.data(), value.size());
    lua_setfield(L, -2, key);
  }

  lua_State* L;
  int count_ = 0;
};

std::string or_empty(const char* text) { return text ? text : ""; }

std::vector<OptionText> options_of(const std::vector<const Option*>& options) {
  std::vector<OptionText> texts;
  for (const Option* option : options)
    texts.push_back({option->name, type_text(*option), or_empty(option->fallback), or_empty(option->doc), option->required()});
  return texts;
}

std::vector<OptionText> own_options(const Schema& schema) {
  std::vector<const Option*> own;
  for (const Option& option : schema.options) own.push_back(&option);
  return options_of(own);
}

}  // namespace

int push_reference(lua_State* L) {
  luaL_checkstack(L, 8, "reference");
  Writer writer(L);
  for (const Family& family : all_families())
    for (const FamilyMember& member : family.members) {
      // The options of every layer are listed once.
      const bool layer = family.name == std::string("layer");
      writer.add({family.name,
                  member.name,
                  member.doc,
                  member.example,
                  layer ? own_options(member.schema) : options_of(member.schema.all()),
                  {member.schema.positional.begin(), member.schema.positional.end()}});
    }
  for (const OpDef* def : all_ops()) {
    std::vector<std::string> operands;
    for (int i = 0; i < (def->max_inputs < 0 ? 2 : def->max_inputs); ++i) operands.push_back(std::string(1, static_cast<char>('a' + i)));
    if (def->max_inputs != 0) writer.add({"op", def->name, or_empty(def->doc), "", {}, operands});
  }
  writer.add_options("common", own_options(common_layer_schema));
  return 1;
}

}  // namespace perigee
