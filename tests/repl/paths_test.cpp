// Completion of `--set` against what Job::set takes: everything that is offered is taken, and everything that a job has is offered.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>

#include "lua/job_file.h"
#include "lua/state.h"
#include "src/core/error.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

class Paths : public testing::Test {
 protected:
  std::vector<std::string> offered(const Json& job, const std::string& typed) {
    lua_.load("local text, typed = ... return require('perigee.prompt').paths(text, {}, typed)", "paths");
    if (&job == last_) {
      lua_pushnil(lua_.raw());
    } else {
      const std::string text = job.dump();
      lua_pushlstring(lua_.raw(), text.data(), text.size());
    }
    last_ = &job;
    lua_pushlstring(lua_.raw(), typed.data(), typed.size());
    lua_.call(2, 1);
    std::vector<std::string> found;
    for (int i = 1; i <= static_cast<int>(lua_objlen(lua_.raw(), -1)); i += 2) {
      lua_rawgeti(lua_.raw(), -1, i);
      found.push_back(typed.substr(0, typed.rfind('.') + 1) + lua_tostring(lua_.raw(), -1));
      lua_pop(lua_.raw(), 1);
    }
    lua_settop(lua_.raw(), 0);
    return found;
  }

  // All that can be reached by Tab alone.
  void walk(const Json& job, const std::string& typed, std::set<std::string>* values) {
    ASSERT_LT(typed.size(), 200u) << typed << " goes on for ever";
    for (const std::string& path : offered(job, typed)) {
      if (path.ends_with('=')) EXPECT_TRUE(values->insert(path.substr(0, path.size() - 1)).second) << path << " is offered twice";
      else walk(job, path, values);
    }
  }

  LuaState lua_{{}};
  const Json* last_ = nullptr;
};

void leaves(const Json& json, const std::string& path, std::vector<std::string>* found) {
  if (json.is_object())
    for (const auto& [key, value] : json.as_object()) leaves(value, path.empty() ? key : path + "." + key, found);
  else if (json.is_array() && json.as_array().size() > 100 && !json.as_array()[0].is_object()) return;  // data
  else if (json.is_array() && !json.as_array().empty())
    for (size_t i = 0; i < json.as_array().size(); ++i) leaves(json.as_array()[i], path + "." + std::to_string(i + 1), found);
  else found->push_back(path);
}

TEST_F(Paths, AreThoseThatJobsTake) {
  size_t models = 0;
  for (const auto& entry : fs::directory_iterator(PERIGEE_MODELS)) {
    if (entry.path().extension() != ".lua") continue;
    SCOPED_TRACE(entry.path());
    std::optional<Job> loaded;
    try {
      loaded = load_job(entry.path().string(), {}, {});
    } catch (const Error& error) {  // the script itself reads data, which are not here
      if (error.kind() != ErrorKind::data || std::getenv("PERIGEE_DATA") != nullptr) throw;
      continue;
    }
    ++models;
    last_ = nullptr;
    const Job job(loaded->canonical(), entry.path().filename().string());
    std::set<std::string> values;
    walk(job.json(), "", &values);
    EXPECT_GT(values.size(), 60u);
    for (const std::string& path : values) {
      Job changed = job;
      try {
        changed.set(path, "null");
      } catch (const Error& error) {
        // The path is what counts: a value of another type may be refused.
        if (error.kind() == ErrorKind::usage) ADD_FAILURE() << entry.path().filename() << ": " << path << ": " << error.what();
      }
    }
    std::vector<std::string> there;
    leaves(job.json(), "", &there);
    for (const std::string& path : there) EXPECT_TRUE(values.contains(path)) << entry.path().filename() << ": " << path;
  }
  EXPECT_GT(models, 6u);
}

TEST_F(Paths, OptionsThatAreNotGivenAreKnown) {
  const Json job = Json::parse(R"({"network": [{"type": "conv2d", "out": 2, "name": "first"}, "flatten"], "optimizer": "adamw",
                                   "averaging": {"type": "diloco"}, "loss": {"type": "huber", "delta": 1}})",
                               "job");
  const auto is = [&](const std::string& typed, const std::vector<std::string>& wanted) {
    EXPECT_EQ(offered(job, typed), wanted) << typed;
  };
  is("optim", {"optimizer=", "optimizer."});
  is("optimizer.weight", {"optimizer.weight_decay="});
  is("network.first.ke", {"network.first.kernel="});
  is("network.1.ke", {"network.1.kernel="});
  is("averaging.codec_", {});
  is("averaging.cod", {"averaging.codec="});
  is("data.ba", {});  // the job has no data: nothing is below
  is("loss.de", {"loss.delta="});
  is("seed=1", {});
  is("nothing.", {});
  is("optimizer..", {});
}

}  // namespace
}  // namespace perigee
