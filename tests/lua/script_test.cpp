// Scripts from outside: what they evaluate to, and how they are refused.
#include "lua/script.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "lua/json.h"
#include "lua/places.h"
#include "src/job/job.h"
#include "tests/core/refusal.h"

namespace perigee {
namespace {

std::string refused(const std::string& script, const LuaOptions& options = {}, ErrorKind kind = ErrorKind::model) {
  try {
    evaluate_script_text(script, "a.lua", options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "not refused";
}

TEST(Script, EvaluatesToAJob) {
  const Json json = evaluate_script_text(R"(
local pg = require "perigee"
return pg.experiment {
  network = pg.sequential { pg.dense { 10 } },
  data = { train = pg.data.digits().train, batch = 32 },
  optimizer = pg.adamw { lr = 0.5 }, seed = 123,
})",
                                         "a.lua");
  EXPECT_EQ(json.find("seed")->as_int(), 123);
  EXPECT_EQ(json.find("optimizer")->find("lr")->as_number(), 0.5);
  const Json& layer = json.find("network")->find("layers")->as_array()[0];
  EXPECT_EQ(layer.find("@")->as_string(), "a.lua:4");
  EXPECT_TRUE(layer.find("out")->is_int());
  EXPECT_EQ(json.find("@")->as_string(), "a.lua:3");
  EXPECT_EQ(Job(json, "a.lua").canonical().dump().find('@'), std::string::npos);
}

TEST(Script, RefusesWhatIsNoExperiment) {
  EXPECT_HAS(refused(""), "a.lua: the script returns nothing");
  EXPECT_HAS(refused("return 5"), "got a number");
  EXPECT_HAS(refused("return {}"), "pg.experiment");
  EXPECT_HAS(refused("return {perigee = 1}, 2"), "more than one value");
  EXPECT_HAS(refused("return require 'perigee'.sequential { require 'perigee'.dense { 3 } }"), "got a 'sequential'");
}

TEST(Script, ErrorsHaveTheirLine) {
  EXPECT_HAS(refused("local x =\n= 3"), "a.lua:2: ");
  EXPECT_HAS(refused("local t = nil\n\nreturn t.x"), "a.lua:3: ");
  EXPECT_HAS(refused("error('boom')"), "a.lua:1: boom");
  EXPECT_HAS(refused("local function f() return f() + 1 end return f()"), "stack overflow");
  EXPECT_HAS(refused("error({})"), "a table value");
}

TEST(Script, ThatLacksItsDataSaysSo) {
  const std::string rows = "local rows = require('perigee').data.csv { 'nowhere.csv' }\n";
  EXPECT_HAS(refused(rows + "return #rows", {}, ErrorKind::data), "a.lua:2: ");
  EXPECT_HAS(refused(rows + "return rows:batch(1, 1)", {}, ErrorKind::data), "cannot be opened");
  EXPECT_HAS(refused("require('perigee').load('nowhere.npy')", {}, ErrorKind::data), "a.lua:1: ");
  EXPECT_HAS(refused(rows + "pcall(function() return #rows end) error('boom')"), "a.lua:2: boom");  // another error than that of the file
}

TEST(Script, RefusesBytecode) {
  EXPECT_HAS(refused("\x1bLJ\x02"), "bytecode");
  EXPECT_HAS(refused("local f = assert(loadstring('\\27LJ\\2')) return f()"), "a.lua:1: ");
  EXPECT_HAS(refused("return string.dump(function() end)"), "a.lua:1: ");
}

TEST(Script, EndlessLoopsEndWhenInterrupted) {
  for (const char* script :
       {"while true do end", "while true do pcall(function() while true do end end) end", "local f = loadstring('while true do end') f()",
        "coroutine.wrap(function() while true do end end)()", "local pg = require 'perigee' while true do pg.dense { 3 } end"}) {
    std::atomic<bool> interrupt{false};
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      interrupt = true;
    });
    EXPECT_HAS(refused(script, {.interrupt = &interrupt}), "interrupted");
    later.join();
  }
}

TEST(Script, MemoryIsCapped) {
  EXPECT_HAS(
      refused("local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end", {.memory_bytes = size_t{32} << 20}, ErrorKind::resources),
      "too much memory");
}

TEST(Script, NeedsMemoryForItsInterpreter) {
  EXPECT_HAS(refused("return 1", {.memory_bytes = 1000}, ErrorKind::resources),
             "script: there is no memory for a Lua interpreter; give scripts more memory, or end other processes");
}

TEST(Script, WhatIsNoJsonIsNamedWithItsPath) {
  EXPECT_HAS(refused("return {perigee = 1, a = {b = print}}"), "a.b: a function cannot be stored");
  EXPECT_HAS(refused("return {perigee = 1, a = {1, nil, 3}}"), "a: a list has holes");
  EXPECT_HAS(refused("return {perigee = 1, a = {1, 2, x = 3}}"), "mixes list entries and named entries");
  EXPECT_HAS(refused("return {perigee = 1, a = {{x = 0/0}}}"), "a[1].x: a number must be finite");
  EXPECT_HAS(refused("local t = {perigee = 1} t.a = {t} return t"), "contains itself");
  EXPECT_HAS(refused("local t = {} local top = {perigee = 1, t = t} for i = 1, 100 do t.t = {} t = t.t end return top"), "64 deep");
  EXPECT_HAS(refused("return {perigee = 1, a = '\\255'}"), "UTF-8");
}

TEST(Script, NumbersKeepTheirKind) {
  const Json json =
      evaluate_script_text("return {perigee = 1, i = 3, d = 0.1, big = 2^53, list = require 'perigee'.list {}, empty = {}}", "a.lua");
  EXPECT_TRUE(json.find("i")->is_int());
  EXPECT_EQ(json.find("d")->as_number(), 0.1);
  EXPECT_EQ(json.find("big")->as_int(), int64_t{1} << 53);
  EXPECT_TRUE(json.find("list")->is_array());
  EXPECT_TRUE(json.find("empty")->is_object());
}

TEST(Places, HaveNoMoreEntriesThanRoom) {
  const Array x = new_array(Type{Dtype::f32, {2}});
  const std::vector<LuaIndex> entries(5);
  std::vector<WindowIndex> room(4);
  EXPECT_HAS(refusal(ErrorKind::model, [&] { from_lua(x, entries, room); }), "an index has too many entries; got 5, expected 4");
}

TEST(Script, MissingFilesAreUsageErrors) {
  try {
    evaluate_script("/nonexistent/a.lua");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
  }
}

}  // namespace
}  // namespace perigee
