// Optimisers of tensors: what lua/perigee/optimizer.lua calls.
#include <string>

#include "lua/json.h"
#include "lua/object.h"
#include "lua/tensor.h"
#include "src/core/error.h"
#include "src/model/network_function.h"
#include "src/optim/tensor_optimizer.h"

namespace perigee {
namespace {

constexpr const char* kOptimizer = "perigee.optimizer";

TensorOptimizer& optimizer_at(lua_State* L, int index) { return object_at<TensorOptimizer>(L, index, kOptimizer); }

std::vector<Array> arrays_at(lua_State* L, int first, size_t count) {
  std::vector<Array> arrays;
  for (size_t i = 0; i < count; ++i) arrays.push_back(check_array(L, first + static_cast<int>(i)));
  return arrays;
}

// optimizer(rule, where, network or nil, { names }, parameter...): without a network, tensors of one dimension are biases, others weights
int new_optimizer(lua_State* L) {
  const Json rule = to_json(L, 1, "optimizer"), names = to_json(L, 4, "names");
  const std::string where = luaL_checkstring(L, 2);
  const std::vector<Array> like = arrays_at(L, 5, names.as_array().size());
  NetworkFunction* network = lua_isnil(L, 3) ? nullptr : &object_at<NetworkFunction>(L, 3, kNetworkObject);
  std::vector<ParamWindow> windows;
  for (size_t i = 0; i < like.size(); ++i) {
    const std::string& name = names.as_array()[i].as_string();
    const int known = network ? network->model().params().find(name) : -1;
    ParamWindow window;
    if (known >= 0) window = network->model().params().windows()[static_cast<size_t>(known)];
    else window.role = like[i].view.rank < 2 ? ParamRole::bias : ParamRole::weight;
    window.name = name;
    windows.push_back(std::move(window));
  }
  push_object<TensorOptimizer>(L, kOptimizer, rule, std::move(windows), like, where);
  return 1;
}

// optimizer_step(optimizer, epoch, progress, parameter..., gradient...): steps so far, learning rate
int optimizer_step(lua_State* L) {
  TensorOptimizer& optimizer = optimizer_at(L, 1);
  const size_t count = optimizer.windows().size();
  StepProgress now;
  now.epoch = luaL_checknumber(L, 2);
  now.progress = luaL_checknumber(L, 3);
  optimizer.step(arrays_at(L, 4, count), arrays_at(L, 4 + static_cast<int>(count), count), now);
  lua_pushnumber(L, static_cast<double>(optimizer.steps()));
  lua_pushnumber(L, optimizer.learning_rate());
  return 2;
}

}  // namespace

void add_optimizer_functions(lua_State* L) {
  static const luaL_Reg kFunctions[] = {
      {"optimizer", report<new_optimizer>},
      {"optimizer_step", report<optimizer_step>},
      {nullptr, nullptr},
  };
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
