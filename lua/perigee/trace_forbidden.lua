-- Functions of Lua that a traced function cannot use; they are errors while it runs.
local tensor = require "perigee.tensor"
local where = require "perigee.where"

-- Chance, files and clocks would be frozen at their first answer, so they are errors while a function is traced.
local function forbid(library, names, hint)
  local saved = {}
  for _, name in ipairs(names) do
    saved[name] = library[name]
    library[name] = function() where.fail(hint) end
  end
  return function()
    for name, value in pairs(saved) do library[name] = value end
  end
end

local function names_of(library)
  local names = {}
  for name, value in pairs(library) do
    if type(value) == "function" then names[#names + 1] = name end
  end
  return names
end

-- Functions of Lua's math take numbers alone; the error of the C function would name neither its line nor what to write.
local math_instead = {
  max = "pg.maximum(x, y)", min = "pg.minimum(x, y)", pow = "x ^ y", log10 = "pg.log(x) / math.log(10)", fmod = "x - y * pg.floor(x / y)",
  deg = "x * 180 / math.pi", rad = "x * math.pi / 180",
}

local function is_ours(value) return tensor.is_traced(value) or tensor.is(value) or tensor.is_symbol(value) end

local function refuse_ours(library)
  local saved = {}
  for name, plain in pairs(library) do
    if type(plain) == "function" then
      saved[name] = plain
      library[name] = function(...)
        for place = 1, select("#", ...) do
          if is_ours((select(place, ...))) then
            local known = math_instead[name] or tensor.methods[name] and ("pg.%s(x)"):format(name)
            where.fail(("math.%s takes numbers and not traced values or tensors; write %s"):format(name, known or "it with functions of pg"))
          end
        end
        return plain(...)
      end
    end
  end
  return function()
    for name, plain in pairs(saved) do library[name] = plain end
  end
end

---Makes them errors.
---@return function which makes them usable again
return function()
  local undo = {
    refuse_ours(math),
    forbid(math, { "random", "randomseed" },
      "math.random would be drawn only once, while the function is traced; use a dropout or noise layer"),
    forbid(io, names_of(io), "io cannot be used in a traced function: it runs once, before training"),
    forbid(os, names_of(os), "os cannot be used in a traced function: it runs once, before training"),
  }
  return function()
    for place = #undo, 1, -1 do undo[place]() end
  end
end
