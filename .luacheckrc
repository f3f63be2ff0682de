-- LuaJIT's dialect; scripts get Perigee by `require "perigee"`, so nothing is global.
std = "luajit"
max_line_length = 150
codes = true
self = false
-- It replaces the loaders of scripts, which are globals.
files["lua/perigee/loaders.lua"] = { globals = { "load", "loadstring", "loadfile", "dofile", "string", "package" } }
files["tests/"] = { std = "luajit", globals = { "check" } }
exclude_files = { "build*/", "runs/", "tests/**/bad_*.lua", "tests/**/bad/**" }
