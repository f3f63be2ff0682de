// Runs every tests/lua/*_test.lua: each returns a table of functions, each function is one test. The files see
// `check.equal(a, b)`, `check.matches(text, pattern)` and `check.raises(function, pattern)`.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lua/state.h"

namespace perigee {
namespace {

constexpr const char* kPrelude = R"lua(
check = {}
local function show(value)
  local described = type(value) == "table" or (type(value) == "userdata" and getmetatable(value)) -- a source of data
  if not described then return tostring(value) end
  return require("perigee.native").to_json(value)
end
function check.equal(got, wanted)
  local a, b = show(got), show(wanted)
  if a ~= b then error("got " .. a .. "\nexpected " .. b, 2) end
end
function check.matches(text, pattern)
  if not tostring(text):find(pattern) then error("'" .. tostring(text) .. "' does not match '" .. pattern .. "'", 2) end
end
function check.raises(f, pattern)
  local ok, message = pcall(f)
  if ok then error("no error was raised; expected one like '" .. pattern .. "'", 2) end
  if not tostring(message):find(pattern) then error("the error was '" .. tostring(message) .. "', not like '" .. pattern .. "'", 2) end
  return message
end
)lua";

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Leaves the file's table of tests on the stack.
void load_tests(LuaState& lua, const std::filesystem::path& file) {
  lua.load(kPrelude, "prelude");
  lua.call(0, 0);
  lua.load(read(file), file.filename().string());
  lua.call(0, 1);
  if (!lua_istable(lua.raw(), -1)) throw Error(ErrorKind::model, {file.string(), "a test file returns a table of functions"});
}

class LuaTest : public testing::Test {
 public:
  LuaTest(std::filesystem::path file, std::string name) : file_(std::move(file)), name_(std::move(name)) {}

  void TestBody() override {
    try {
      LuaState lua(LuaOptions{.folder = file_.parent_path().string()});
      load_tests(lua, file_);
      lua_getfield(lua.raw(), -1, name_.c_str());
      lua.call(0, 0);
    } catch (const Error& error) {
      FAIL() << error.what();
    }
  }

 private:
  std::filesystem::path file_;
  std::string name_;
};

void register_file(const std::filesystem::path& file) {
  LuaState lua(LuaOptions{.folder = file.parent_path().string()});
  load_tests(lua, file);
  std::vector<std::string> names;
  for (lua_pushnil(lua.raw()); lua_next(lua.raw(), -2); lua_pop(lua.raw(), 1)) names.emplace_back(lua_tostring(lua.raw(), -2));
  std::sort(names.begin(), names.end());
  const std::string suite = "Lua_" + file.stem().string();
  for (const std::string& name : names)
    testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, file.c_str(), 1,
                          [file, name]() -> testing::Test* { return std::make_unique<LuaTest>(file, name).release(); });
}

}  // namespace
}  // namespace perigee

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(PERIGEE_TEST_FOLDER))
    if (entry.path().string().ends_with("_test.lua")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  try {
    for (const auto& file : files) perigee::register_file(file);
  } catch (const perigee::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return RUN_ALL_TESTS();
}
