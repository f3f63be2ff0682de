// t-SNE and k-means for Lua: what lua/perigee/text/layouts.lua calls.
#include <cmath>
#include <limits>

#include "lua/json.h"
#include "lua/object.h"
#include "lua/state.h"
#include "lua/tensor.h"
#include "src/core/cores.h"
#include "src/vectors/rows/kmeans.h"
#include "src/vectors/rows/neighbour_index.h"
#include "src/vectors/rows/tsne.h"

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

void give_layouts_rows(lua_State* L, int index, const VectorRows& rows) {
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
  give_layouts_rows(L, 3, result.places);
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
  give_layouts_rows(L, 7, result.centres);
  lua_pushnumber(L, result.inertia);
  return 1;
}

constexpr char kIndex[] = "perigee.neighbours";

struct HeldIndex {
  std::unique_ptr<NeighbourIndex> index;
  int64_t numbers = 0;  // of a row
};

// layout_index(x, { options }): index
int layout_index(lua_State* L) {
  const VectorRows rows = rows_at(L, 1, "neighbours");
  auto index = neighbour_index(rows, index_options(to_json(L, 2, "neighbours"), "neighbours"), lua_options(L).interrupt);
  if (index == nullptr) throw Error(ErrorKind::usage, {.what = "interrupted"});
  HeldIndex& held = push_object<HeldIndex>(L, kIndex);
  held.index = std::move(index), held.numbers = rows.size;
  return 1;
}

// layout_nearest(index, rows, count, effort, numbers out, distances out), of all rows
int layout_nearest(lua_State* L) {
  const HeldIndex& held = object_at<HeldIndex>(L, 1, kIndex);
  const VectorRows queries = rows_at(L, 2, "neighbours:nearest");
  if (queries.size != held.numbers)
    throw Error(ErrorKind::usage, {.where = "neighbours:nearest",
                                   .what = "the rows have another length than those of the index",
                                   .got = std::to_string(queries.size),
                                   .expected = std::to_string(held.numbers)});
  const int64_t count = std::min<int64_t>(luaL_checkinteger(L, 3), held.index->size()), effort = luaL_checkinteger(L, 4);
  const std::atomic<bool>* const interrupt = lua_options(L).interrupt;
  Tensor numbers(Dtype::i64, Shape{queries.rows, count}), distances(Dtype::f32, Shape{queries.rows, count});
  for (int64_t i = 0; i < queries.rows; ++i) {
    if (interrupt != nullptr && *interrupt) throw Error(ErrorKind::usage, {.what = "interrupted"});
    const std::vector<NearRow> found = held.index->nearest({queries.row(i), static_cast<size_t>(queries.size)}, count, effort);
    for (int64_t k = 0; k < count; ++k) {  // an approximate index may have fewer in reach
      const bool there = k < static_cast<int64_t>(found.size());
      numbers.data<int64_t>()[i * count + k] = there ? found[static_cast<size_t>(k)].row + 1 : 0;
      distances.data<float>()[i * count + k] = there ? found[static_cast<size_t>(k)].distance : std::numeric_limits<float>::infinity();
    }
  }
  give_array(L, 5, numbers);
  give_array(L, 6, distances);
  lua_pushboolean(L, 1);
  return 1;
}

}  // namespace

void add_layout_functions(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"layout_tsne", report<layout_tsne>},
                                        {"layout_kmeans", report<layout_kmeans>},
                                        {"layout_index", report<layout_index>},
                                        {"layout_nearest", report<layout_nearest>},
                                        {nullptr, nullptr}};
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
