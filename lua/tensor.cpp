#include "lua/tensor.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <vector>

#include "lua/guard.h"
#include "lua/json.h"
#include "lua/places.h"
#include "lua/state.h"
#include "src/core/error.h"
#include "src/eager/eager.h"
#include "src/eager/einsum.h"
#include "src/eager/random.h"
#include "src/eager/window.h"

namespace perigee {
namespace {

// The FFI struct: { void* storage[2]; void* data; uint8_t dtype; int32_t rank; int64_t dims[8], strides[8]; double room[8]; }
// An Array, and room for few elements: a result that fits lies there and owns nothing. It needs no finaliser, which takes LuaJIT longer than the op does.
// Before its memory is shared (windows, recorded values, files) it is moved to a storage, and gets one.
static_assert(sizeof(Array) == 160 && sizeof(std::shared_ptr<Storage>) == 16 && offsetof(View, dtype) == 8 && offsetof(View, rank) == 12 &&
              offsetof(View, dims) == 16 && offsetof(View, strides) == 80);

enum Status { kDone = 0, kFailed = 1, kCollect = 2 };

thread_local char last_error[2048];

template <class F>
int attempt(F f) noexcept {
  try {
    f();
    return ArrayBytes::due() ? kCollect : kDone;
  } catch (const std::exception& error) {
    std::snprintf(last_error, sizeof last_error, "%s", error.what());
  }
  return kFailed;
}

void give_tensor_lua(Array* out, Array result) {
  ArrayBytes::add(result);
  new (out) Array(std::move(result));  // the memory is zero until now
}

std::span<std::byte> room_of(const Array* x) {
  constexpr size_t kRoom = 64;
  return {reinterpret_cast<std::byte*>(const_cast<Array*>(x)) + sizeof(Array), kRoom};
}

bool holds_itself(const Array& x) { return !x.storage && x.view.data == room_of(&x).data(); }

void move_to_storage(Array& x) {
  Array moved = new_array(x.view);
  std::memcpy(moved.view.data, x.view.data, static_cast<size_t>(x.view.elements()) * dtype_bytes(x.view.dtype));
  x = std::move(moved);
}

EagerOperand operand(const Array* array, double number) { return {array, number}; }

extern "C" {

static int tensor_unary(int op, const Array* a, Array* out) noexcept {
  return attempt([&] {
    if (eager_few(static_cast<Elementwise>(op), *a, nullptr, 0, room_of(out), out)) return;
    const EagerOperand operands[] = {operand(a, 0)};
    give_tensor_lua(out, eager_elementwise(static_cast<Elementwise>(op), operands));
  });
}

static int tensor_binary(int op, const Array* a, const Array* b, double number, Array* out) noexcept {
  return attempt([&] {
    if (a && eager_few(static_cast<Elementwise>(op), *a, b, number, room_of(out), out)) return;
    const EagerOperand operands[] = {operand(a, number), operand(b, number)};
    give_tensor_lua(out, eager_elementwise(static_cast<Elementwise>(op), operands));
  });
}

static int tensor_where(const Array* condition, const Array* a, double x, const Array* b, double y, Array* out) noexcept {
  return attempt([&] {
    const EagerOperand operands[] = {operand(condition, 0), operand(a, x), operand(b, y)};
    give_tensor_lua(out, eager_elementwise(Elementwise::where, operands));
  });
}

static int tensor_into(int op, const Array* target, const Array* b, double number) noexcept {
  return attempt([&] {
    const EagerOperand operands[] = {operand(target, 0), operand(b, number)};
    const auto element = static_cast<Elementwise>(op);
    eager_elementwise_into(element, std::span(operands, static_cast<size_t>(elementwise_arity(element))), *target);
  });
}

static int tensor_add_scaled(const Array* target, const Array* x, double scale) noexcept {
  return attempt([&] { eager_add_scaled(*target, *x, scale); });
}

// Moves elements that the tensor holds itself to a storage; the caller gives it a finaliser.
static int tensor_share(Array* x) noexcept {
  return attempt([&] {
    if (holds_itself(*x)) move_to_storage(*x);
  });
}

static int tensor_window(const Array* x, const LuaIndex* indices, int count, Array* out) noexcept {
  return attempt([&] {
    std::array<WindowIndex, kMostLuaIndices> room;
    give_tensor_lua(out, window(*x, from_lua(*x, std::span(indices, static_cast<size_t>(count)), room)));
  });
}

static int tensor_new(int dtype, int rank, const int64_t* dims, Array* out) noexcept {
  return attempt([&] { give_tensor_lua(out, new_array({static_cast<Dtype>(dtype), Shape(std::vector<int64_t>(dims, dims + rank))})); });
}

static int tensor_fill(const Array* x, double value) noexcept {
  return attempt([&] {
    Array number = new_array(Type{Dtype::f64, Shape()});
    *number.view.as<double>() = value;
    copy_into(cast(number, x->view.dtype), *x);
  });
}

static int tensor_copy(const Array* from, const Array* to) noexcept {
  return attempt([&] { copy_into(*from, *to); });
}

static int tensor_item(const Array* x, double* out) noexcept {
  return attempt([&] { *out = item(*x); });
}

static int tensor_cast(const Array* x, int dtype, Array* out) noexcept {
  return attempt([&] { give_tensor_lua(out, cast(*x, static_cast<Dtype>(dtype))); });
}

static int tensor_contiguous(const Array* x, Array* out) noexcept {
  return attempt([&] { give_tensor_lua(out, contiguous(*x)); });
}

static const char* tensor_error() noexcept { return last_error; }
static void tensor_collected() noexcept { ArrayBytes::collected(); }
}

// In the order of `struct perigee_tensor_functions` in lua/perigee/tensor.lua.
struct TensorFunctions {
  decltype(&tensor_unary) unary = tensor_unary;
  decltype(&tensor_binary) binary = tensor_binary;
  decltype(&tensor_where) where = tensor_where;
  decltype(&tensor_into) into = tensor_into;
  decltype(&tensor_add_scaled) add_scaled = tensor_add_scaled;
  decltype(&tensor_share) share = tensor_share;
  decltype(&tensor_window) window = tensor_window;
  decltype(&tensor_new) create = tensor_new;
  decltype(&tensor_fill) fill = tensor_fill;
  decltype(&tensor_copy) copy = tensor_copy;
  decltype(&tensor_item) item = tensor_item;
  decltype(&tensor_cast) cast = tensor_cast;
  decltype(&tensor_contiguous) contiguous = tensor_contiguous;
  decltype(&tensor_error) error = tensor_error;
  decltype(&tensor_collected) collected = tensor_collected;
};
constexpr TensorFunctions kFunctions;

// release(tensor): its finaliser. One that was never given anything is zero, which is an empty Array.
int release(lua_State* L) {
  auto* array = static_cast<Array*>(const_cast<void*>(lua_topointer(L, 1)));
  ArrayBytes::remove(*array);
  array->~Array();
  return 0;
}

constexpr char kOwnerKey = 0;  // its address is the registry key of the function that gives a tensor its finaliser

// owner(function)
int set_owner(lua_State* L) {
  lua_pushlightuserdata(L, const_cast<char*>(&kOwnerKey));
  lua_pushvalue(L, 1);
  lua_rawset(L, LUA_REGISTRYINDEX);
  return 0;
}

void give_finaliser(lua_State* L, int index) {
  lua_pushlightuserdata(L, const_cast<char*>(&kOwnerKey));
  lua_rawget(L, LUA_REGISTRYINDEX);
  lua_pushvalue(L, index);
  if (lua_pcall(L, 1, 0, 0) == 0) return;
  lua_pop(L, 1);
  throw Error(ErrorKind::resources,
              {.what = "there is no memory for a tensor", .hint = "drop tensors that are not used any more, then collectgarbage()"});
}

Type type_at(lua_State* L, int index) {
  const Dtype dtype = dtype_from_name(luaL_checkstring(L, index));
  std::vector<int64_t> dims;
  for (size_t i = 1; i <= lua_objlen(L, index + 1); ++i) {
    lua_rawgeti(L, index + 1, static_cast<int>(i));
    dims.push_back(static_cast<int64_t>(lua_tonumber(L, -1)));
    lua_pop(L, 1);
  }
  return {dtype, Shape(dims)};
}

// The results of an op beyond its first, until Lua has made tensors for it; one per thread is enough.
thread_local std::vector<Array> more_results;

// apply(name, attrs, out, in...): number of results
int apply(lua_State* L) {
  const OpDef& op = op_named(luaL_checkstring(L, 1));
  Json attrs = lua_isnil(L, 2) ? Json::object() : to_json(L, 2, op.name);
  if (attrs.is_array() && attrs.as_array().empty()) attrs = Json::object();
  std::vector<Array> in;
  std::vector<Dtype> dtypes;
  for (int i = 4; i <= lua_gettop(L); ++i) {
    const Array* given = optional_array(L, i);
    in.push_back(given ? *given : Array());
    dtypes.push_back(given ? given->view.dtype : Dtype::boolean);  // the narrowest
  }
  const std::vector<Dtype> wanted = operand_dtypes(op, dtypes);
  std::vector<const Array*> operands;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].defined()) in[i] = cast(in[i], wanted[i]);
    operands.push_back(in[i].defined() ? &in[i] : nullptr);
  }
  more_results = eager_apply(op, operands, attrs);
  give_array(L, 3, std::move(more_results[0]));
  lua_pushinteger(L, static_cast<lua_Integer>(more_results.size()));
  return 1;
}

// einsum(formula, out, in...)
int einsum_of(lua_State* L) {
  const std::string formula = luaL_checkstring(L, 1);
  std::vector<Array> operands;
  for (int i = 3; i <= lua_gettop(L); ++i) operands.push_back(check_array(L, i));
  give_array(L, 2, einsum(formula, operands));
  lua_pushboolean(L, 1);
  return 1;
}

// result(index, out): of the last apply, from 2
int result(lua_State* L) {
  const auto index = static_cast<size_t>(luaL_checkinteger(L, 1)) - 1;
  if (index >= more_results.size())
    throw Error(
        ErrorKind::usage,
        {.what = "there is no such result", .got = std::to_string(index + 1), .expected = "1 to " + std::to_string(more_results.size())});
  give_array(L, 2, std::move(more_results[index]));
  lua_pushboolean(L, 1);
  return 1;
}

// elementwise(): {name = {op =, arity =}}
int elementwise(lua_State* L) {
  lua_newtable(L);
  for (int i = 0; i <= static_cast<int>(Elementwise::where); ++i) {
    const auto op = static_cast<Elementwise>(i);
    lua_createtable(L, 0, 2);
    lua_pushinteger(L, i);
    lua_setfield(L, -2, "op");
    lua_pushinteger(L, elementwise_arity(op));
    lua_setfield(L, -2, "arity");
    lua_setfield(L, -2, elementwise_name(op));
  }
  return 1;
}

int done(lua_State* L) {
  lua_pushboolean(L, 1);
  return 1;
}

int axis_at(lua_State* L, int index) { return static_cast<int>(luaL_checkinteger(L, index)); }

int take_along_of(lua_State* L) {
  const Array &x = check_array(L, 2), &places = check_array(L, 4);
  give_array(L, 1, take_along(x, axis_at(L, 3), places_from_lua(x, axis_at(L, 3), places)));
  return done(L);
}

int take_of(lua_State* L) {
  const Array &x = check_array(L, 2), &places = check_array(L, 4);
  give_array(L, 1, take(x, axis_at(L, 3), places_from_lua(x, axis_at(L, 3), places)));
  return done(L);
}

// check_choices(op, numbers, count, labels): whether numbers from 1 choose among `count` things
int check_choices_of(lua_State* L) {
  check_choices(luaL_checkstring(L, 1), check_array(L, 2), 1, static_cast<int64_t>(luaL_checknumber(L, 3)), lua_toboolean(L, 4) != 0);
  return done(L);
}

int nonzero_of(lua_State* L) {
  give_array(L, 1, places_to_lua(nonzero(check_array(L, 2))));
  return done(L);
}

int masked_select_of(lua_State* L) {
  give_array(L, 1, masked_select(check_array(L, 2), check_array(L, 3)));
  return done(L);
}

int masked_assign_to(lua_State* L) {
  masked_assign(check_array(L, 1), check_array(L, 2), check_array(L, 3));
  return done(L);
}

// Ends what runs, as the hook of lua/state.cpp does, which compiled code does not call. From now on every instruction of interpreted code asks.
int interrupt(lua_State* L) {
  lua_sethook(L, lua_gethook(L), LUA_MASKCOUNT, 1);
  return luaL_error(L, "interrupted");
}

RandomStream& stream_of(lua_State* L) { return *static_cast<RandomStream*>(lua_touserdata(L, lua_upvalueindex(1))); }

// random(out, kind, dtype, dims, a, b)
int random(lua_State* L) {
  const std::string_view kind = luaL_checkstring(L, 2);
  const Type type = type_at(L, 3);
  const double a = luaL_optnumber(L, 5, 0), b = luaL_optnumber(L, 6, 1);
  RandomStream& stream = stream_of(L);
  give_array(L, 1,
             kind == "uniform"    ? stream.uniform(type, a, b)
             : kind == "normal"   ? stream.normal(type, a, b)
             : kind == "integers" ? stream.integers(type, static_cast<int64_t>(a), static_cast<int64_t>(b))
                                  : places_to_lua(stream.permutation(type.shape.elements())));
  return done(L);
}

int seed(lua_State* L) {
  stream_of(L).seed(static_cast<uint64_t>(static_cast<int64_t>(luaL_checknumber(L, 1))));
  return done(L);
}

}  // namespace

Array& check_array(lua_State* L, int index) {
  Array* array = optional_array(L, index);
  if (!array || !array->defined())
    throw Error(
        ErrorKind::usage,
        {.what = "a tensor is missing", .got = luaL_typename(L, index), .expected = "a tensor as argument " + std::to_string(index)});
  return *array;
}

namespace {

Array* cdata_at(lua_State* L, int index) {
  constexpr int kCdata = 10;  // LUA_TCDATA, which lua.h does not have
  return lua_type(L, index) == kCdata ? static_cast<Array*>(const_cast<void*>(lua_topointer(L, index))) : nullptr;
}

}  // namespace

Array* optional_array(lua_State* L, int index) {
  Array* array = cdata_at(L, index);
  if (array && holds_itself(*array)) {
    move_to_storage(*array);
    give_finaliser(L, index);
  }
  return array;
}

void give_array(lua_State* L, int index, Array result) {
  Array* out = cdata_at(L, index);
  if (!out)
    throw Error(ErrorKind::usage, {.what = "there is no place for a result",
                                   .got = luaL_typename(L, index),
                                   .expected = "a tensor as argument " + std::to_string(index)});
  give_tensor_lua(out, std::move(result));
  give_finaliser(L, index);
}

void add_tensor_functions(lua_State* L) {
  static const luaL_Reg kPlain[] = {
      {"release", release},
      {"owner", set_owner},
      {"interrupt", interrupt},
      {"apply", report<apply>},
      {"einsum", report<einsum_of>},
      {"result", report<result>},
      {"elementwise", guard<elementwise>},
      {"take_along", report<take_along_of>},
      {"take", report<take_of>},
      {"check_choices", report<check_choices_of>},
      {"nonzero", report<nonzero_of>},
      {"masked_select", report<masked_select_of>},
      {"masked_assign", report<masked_assign_to>},
      {nullptr, nullptr},
  };
  luaL_register(L, nullptr, kPlain);
  lua_pushlightuserdata(L, const_cast<TensorFunctions*>(&kFunctions));
  lua_setfield(L, -2, "functions");
  static const std::atomic<bool> kNever = false;
  const std::atomic<bool>* flag = lua_options(L).interrupt;
  static_assert(sizeof *flag == 1 && std::atomic<bool>::is_always_lock_free);  // Lua reads the byte
  lua_pushlightuserdata(L, const_cast<std::atomic<bool>*>(flag ? flag : &kNever));
  lua_setfield(L, -2, "interrupt_flag");
  new (lua_newuserdata(L, sizeof(RandomStream))) RandomStream;  // trivial to destroy
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, report<random>, 1);
  lua_setfield(L, -3, "random");
  lua_pushcclosure(L, report<seed>, 1);
  lua_setfield(L, -2, "seed");
}

}  // namespace perigee
