// Arrays of a script's data: what lua/perigee/data.lua calls.
#include <cmath>
#include <memory>
#include <new>
#include <vector>

#include "lua/json.h"
#include "lua/tensor.h"
#include "src/core/error.h"
#include "src/data/stored_arrays.h"

namespace perigee {
namespace {

constexpr const char* kHeld = "perigee.held_arrays";

// Nested lists of numbers, as one array. Element by element, since a script's list may have a hundred million numbers.
class ListReader {
 public:
  ListReader(lua_State* state, std::string name) : L(state), name_(std::move(name)) {}

  Tensor read(int index) {
    measure(index);
    const bool label = name_ == "y" && dims_.size() == 1 && whole(index);
    Tensor values(label ? Dtype::i64 : Dtype::f32, Shape(dims_));
    if (label) fill(index, 0, values.data<int64_t>());
    else fill(index, 0, values.data<float>());
    return values;
  }

 private:
  [[noreturn]] void fail(std::string what, std::string got, std::string expected) const {
    std::string path = name_;
    for (const size_t place : places_) path.append("[").append(std::to_string(place)).append("]");
    throw Error(ErrorKind::model, {.where = path, .what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
  }

  // Dimensions by the first elements; fill() checks all others.
  void measure(int index) {
    lua_pushvalue(L, index);
    while (lua_istable(L, -1)) {
      if (dims_.size() == static_cast<size_t>(kMaxRank)) fail("has too many dimensions", "", "at most " + std::to_string(kMaxRank));
      dims_.push_back(static_cast<int64_t>(lua_objlen(L, -1)));
      lua_rawgeti(L, -1, 1);
      lua_remove(L, -2);
    }
    lua_pop(L, 1);
  }

  bool whole(int index) const {
    for (int64_t i = 1; i <= dims_[0]; ++i) {
      lua_rawgeti(L, index, static_cast<int>(i));
      const double value = lua_tonumber(L, -1);
      lua_pop(L, 1);
      if (value != std::floor(value)) return false;
    }
    return true;
  }

  template <class T>
  T* fill(int index, size_t level, T* out) {
    const auto count = static_cast<size_t>(dims_[level]);
    if (!lua_istable(L, index)) fail("is no list", luaL_typename(L, index), "a list of " + std::to_string(count));
    if (lua_objlen(L, index) != count)
      fail("has another length than the first of its kind", std::to_string(lua_objlen(L, index)), std::to_string(count));
    places_.push_back(0);
    for (size_t i = 1; i <= count; ++i) {
      places_.back() = i;
      lua_rawgeti(L, index, static_cast<int>(i));
      if (level + 1 < dims_.size()) {
        out = fill(lua_gettop(L), level + 1, out);
      } else {
        if (lua_type(L, -1) != LUA_TNUMBER) fail("is no number", luaL_typename(L, -1), "a number");
        const double value = lua_tonumber(L, -1);
        if (!std::isfinite(value)) fail("is not finite", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf", "a number");
        *out++ = static_cast<T>(value);
      }
      lua_pop(L, 1);
    }
    places_.pop_back();
    return out;
  }

  lua_State* L;
  const std::string name_;
  std::vector<int64_t> dims_;
  std::vector<size_t> places_;  // where fill() is
};

int destroy(lua_State* L) {
  static_cast<HeldArrays*>(lua_touserdata(L, 1))->~HeldArrays();
  return 0;
}

// hold(name, tensor or nested lists): the array's name for a job, and the object that keeps the content
int hold(lua_State* L) {
  const std::string name = luaL_checkstring(L, 1);
  luaL_checkstack(L, 4 + 2 * kMaxRank, "a list is nested too deep");
  auto* held = new (lua_newuserdata(L, sizeof(HeldArrays))) HeldArrays;
  if (luaL_newmetatable(L, kHeld)) {
    lua_pushcfunction(L, destroy);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  const int place = lua_gettop(L);
  // A copy of a tensor: the script may go on to change its own.
  const Tensor values = lua_istable(L, 2) ? ListReader(L, name).read(2) : to_tensor(contiguous(check_array(L, 2))).clone();
  push_json(L, held->hold(values));
  lua_pushvalue(L, place);
  return 2;
}

}  // namespace

void add_held_arrays(lua_State* L) {
  lua_pushcfunction(L, report<hold>);
  lua_setfield(L, -2, "hold");
  lua_pushinteger(L, kInlineNumbers);
  lua_setfield(L, -2, "inline_numbers");
}

}  // namespace perigee
