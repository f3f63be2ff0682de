// The averaging policies that the program has are those that their Lua files describe: each is traced anew and compared with what is
// committed. `preset_test --write` writes what is traced, after a file of lua/perigee/averaging was changed.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "cluster/policy/policy.h"
#include "cluster/policy/presets/presets.h"
#include "lua/json.h"
#include "lua/state.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

const fs::path kScripts = fs::path(PERIGEE_ROOT) / "lua/perigee/averaging", kTraced = fs::path(PERIGEE_ROOT) / "cluster/policy/presets";

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string trace(const std::string& name) {
  LuaState lua({});
  lua.load(read(kScripts / (name + ".lua")), name + ".lua");
  lua.call(0, 1);
  return to_json(lua.raw(), -1, name).dump(2) + "\n";
}

std::set<std::string> names_in(const fs::path& folder, const std::string& extension) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == extension) names.insert(entry.path().stem().string());
  return names;
}

TEST(Presets, AreWhatTheirScriptsDescribe) {
  std::set<std::string> known;
  for (const Preset& preset : presets()) {
    known.insert(preset.name);
    EXPECT_EQ(trace(preset.name), read(kTraced / (std::string(preset.name) + ".json"))) << "write it anew: preset_test --write";
    EXPECT_EQ(std::string(preset.text), read(kTraced / (std::string(preset.name) + ".json")))
        << "the program was built before the file changed";
  }
  EXPECT_EQ(known, names_in(kScripts, ".lua"));
  EXPECT_EQ(known, names_in(kTraced, ".json"));
}

TEST(Presets, AreShort) {
  for (const std::string& name : names_in(kScripts, ".lua")) {
    const std::string text = read(kScripts / (name + ".lua"));
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 25) << name;
  }
}

TEST(Presets, CanBeUsedByNameAlone) {
  for (const PolicyDef& def : all_policies()) {
    if (def.own_knobs) continue;
    const Json name(def.name);
    EXPECT_EQ(read_policy(&name, "").name, def.name);
    EXPECT_FALSE(def.doc.empty());
    for (const Option& option : def.options) EXPECT_NE(*option.doc, 0) << def.name << " " << option.name;
  }
}

}  // namespace
}  // namespace perigee

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 2 && std::string(argv[1]) == "--write") {
    for (const std::string& name : perigee::names_in(perigee::kScripts, ".lua"))
      std::ofstream(perigee::kTraced / (name + ".json"), std::ios::binary) << perigee::trace(name);
    return 0;
  }
  return RUN_ALL_TESTS();
}
