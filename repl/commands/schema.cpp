// `perigee schema`: what a job may say, for editors that check job.json and job.yaml, and as the reference to read.
#include <CLI/App.hpp>
#include <cstdio>

#include "cluster/policy/families.h"
#include "lua/state.h"
#include "repl/commands/command.h"
#include "src/schema/json_schema.h"

namespace perigee {
namespace {

bool markdown = false;

void declare_schema(CLI::App& app) { app.add_flag("--markdown", markdown, "print the reference instead, lua/REFERENCE.md"); }

int print_reference() {
  LuaState lua({});
  lua_State* L = lua.raw();
  lua.load("return require('perigee.reference').page()", "reference");
  lua.call(0, 1);
  size_t length = 0;
  const char* text = lua_tolstring(L, -1, &length);
  return std::fwrite(text, 1, length, stdout) != length;
}

int run_schema() {
  if (markdown) return print_reference();
  const std::string text = job_json_schema(all_families()).dump(2) + "\n";
  return std::fputs(text.c_str(), stdout) < 0;
}

}  // namespace

extern const Command command_schema;
const Command command_schema{
    .name = "schema", .doc = "print a JSON Schema of jobs, or the reference of all options", .declare = declare_schema, .run = run_schema};

}  // namespace perigee
