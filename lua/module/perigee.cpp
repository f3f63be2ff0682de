// perigee.so, which `require "perigee"` of a stock LuaJIT finds in package.cpath. All of it is in libperigee.
struct lua_State;

extern "C" int perigee_luaopen(lua_State* L);
extern "C" __attribute__((visibility("default"))) int luaopen_perigee(lua_State* L) { return perigee_luaopen(L); }
