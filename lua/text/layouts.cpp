// t-SNE and k-means for Lua: what lua/perigee/text/layouts.lua calls.
#include <cmath>

#include "lua/json.h"
#include "lua/state.h"
#include "lua/tensor.h"
#include "src/core/cores.h"
#include "src/vectors/kmeans.h"
#include "src/vectors/tsne.h"

namespace perigee {
namespace {

VectorRows rows_at(lua_State* L, int index, const char* where) {
  const Tensor x = to_tensor(cast(contiguous(check_array(L, index)), Dtype::f32));
  if (x.shape().rank() != 2 || x.elements() == 0)
    throw Error(ErrorKind::usage,
                {.where = where, .what = "the tensor has no rows of numbers", .got = x.shape().text(), .expected = "[rows, numbers]"});
  VectorRows rows(x.shape()[0], x.shape()[1]);
  for (int64_t i = 0; i < rows.rows; ++i) std::copy_n(x.data<float>() + i * rows.size, rows.size, rows.row(i));
  for (int64_t i = 0; i < x.elements(); ++i)
    if (!std::isfinite(x.data<float>()[i]))
      throw Error(ErrorKind::usage, {.where = where, .what = "the tensor has a number that is not finite"});
  return rows;
}

void give_rows(lua_State* L, int index, const VectorRows& rows) {
  Tensor values(Dtype::f32, Shape{rows.rows, rows.size});
  for (int64_t i = 0; i < rows.rows; ++i) std::copy_n(rows.row(i), rows.size, values.data<float>() + i * rows.size);
  give_array(L, index, values);
}

// layout_tsne(x, { options }, out): divergence
int layout_tsne(lua_State* L) {
  const TsneOptions options = tsne_options(to_json(L, 2, "tsne"), "tsne");
  const std::atomic<bool>* const interrupt = lua_options(L).interrupt;
  const TsneResult result = tsne(rows_at(L, 1, "tsne"), options, interrupt);
  if (!result.complete) throw Error(ErrorKind::usage, {.what = "interrupted"});
  give_rows(L, 3, result.places);
  lua_pushnumber(L, result.divergence);
  return 1;
}

// layout_kmeans(x, groups, tries, steps, seed, groups out, centres out): inertia
int layout_kmeans(lua_State* L) {
  const std::atomic<bool>* const interrupt = lua_options(L).interrupt;
  const KMeansResult result = kmeans(rows_at(L, 1, "kmeans"), luaL_checkinteger(L, 2), luaL_checkinteger(L, 3), luaL_checkinteger(L, 4),
                                     available_cores(), static_cast<uint64_t>(luaL_checknumber(L, 5)), interrupt);
  if (interrupt != nullptr && *interrupt) throw Error(ErrorKind::usage, {.what = "interrupted"});
  std::vector<int64_t> groups;
  for (const int32_t group : result.groups) groups.push_back(group + 1);
  give_array(L, 6, Tensor::from<int64_t>(Shape{static_cast<int64_t>(groups.size())}, groups));
  give_rows(L, 7, result.centres);
  lua_pushnumber(L, result.inertia);
  return 1;
}

}  // namespace

void add_layout_functions(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"layout_tsne", report<layout_tsne>}, {"layout_kmeans", report<layout_kmeans>}, {nullptr, nullptr}};
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
