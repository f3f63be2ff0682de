-- `luarocks --lua-version 5.1 make lua/perigee-0.1.0-1.rockspec` in a checkout; LuaJIT alone can run it.
rockspec_format = "3.0"
package = "perigee"
version = "0.1.0-1"
source = { url = "." }
description = {
  summary = "Trains neural networks on one machine or on many",
  detailed = "Networks, data and training are Lua tables; a C++ runtime executes them. Tensors and differentiation in Lua.",
  license = "Apache-2.0",
}
supported_platforms = { "linux" }
dependencies = { "lua == 5.1" }
build = {
  type = "command",
  build_command = "test -f build/build.ninja || meson setup build --buildtype=release && ninja -C build lua/module/perigee.so",
  install_command = "cp -L build/lua/module/perigee.so build/repl/libperigee.so.0 $(LIBDIR)",
}
