// Linear algebra: what lua/perigee/tensor_linalg.lua calls.
#include "lua/tensor.h"
#include "src/eager/linalg.h"

namespace perigee {
namespace {

int give_all(lua_State* L, std::vector<Array> results) {
  for (size_t i = 0; i < results.size(); ++i) give_array(L, static_cast<int>(i) + 1, std::move(results[i]));
  lua_pushboolean(L, 1);
  return 1;
}

int solve_of(lua_State* L) { return give_all(L, {solve(check_array(L, 2), check_array(L, 3))}); }
int inverse_of(lua_State* L) { return give_all(L, {inverse(check_array(L, 2))}); }
int cholesky_of(lua_State* L) { return give_all(L, {cholesky(check_array(L, 2))}); }
int qr_of(lua_State* L) { return give_all(L, qr(check_array(L, 3))); }
int svd_of(lua_State* L) { return give_all(L, svd(check_array(L, 4))); }
int eigh_of(lua_State* L) { return give_all(L, eigen_symmetric(check_array(L, 3))); }

}  // namespace

// Fresh tensors for the results first, then the operands.
void add_linear_algebra(lua_State* L) {
  static const luaL_Reg kFunctions[] = {
      {"solve", report<solve_of>}, {"inv", report<inverse_of>}, {"cholesky", report<cholesky_of>},
      {"qr", report<qr_of>},       {"svd", report<svd_of>},     {"eigh", report<eigh_of>},
      {nullptr, nullptr},
  };
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
