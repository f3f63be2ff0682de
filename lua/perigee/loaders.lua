-- Code that a user's script loads runs uncompiled, so that the count hook always fires and Ctrl-C ends any loop; bytecode is never
-- loaded, because it can crash the interpreter. Our own modules were loaded before this and stay compiled.
local compiled_load, compiled_loadfile = load, loadfile

local function uncompiled(chunk, message)
  if chunk then jit.off(chunk, true) end
  return chunk, message
end

function load(chunk, name, _, ...)
  if type(chunk) == "string" and name == nil then name = chunk end
  return uncompiled(compiled_load(chunk, name, "t", ...))
end

function loadstring(text, name) return load(text, name) end

function loadfile(path, _, ...) return uncompiled(compiled_loadfile(path, "t", ...)) end

function dofile(path) return assert(loadfile(path))() end

string.dump = nil

-- Other languages' names of Lua's values would be nil without a word: `shuffle = False`.
local foreign = { True = "true", False = "false", None = "nil" }
setmetatable(_G, {
  __index = function(_, name)
    local here = foreign[name]
    if here then require("perigee.where").fail(("there is no '%s' in Lua; it is called %s"):format(name, here)) end
  end,
})

-- package.loaders[2] finds Lua files; [3] and [4] load C libraries, which stays as it is: these are the user's own scripts.
package.loaders[2] = function(name)
  local path, tried = package.searchpath(name, package.path)
  if not path then return tried end
  local chunk, message = loadfile(path)
  if not chunk then error(message, 0) end
  return chunk
end
