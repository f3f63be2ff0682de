-- pg.lambda(function(x) return x * pg.sigmoid(x) end): the function runs once, on values that record what is done to them. What is
-- kept is the list of ops, which any machine can run and differentiate; no Lua code is stored.
--
-- Traced values are FFI structs and not tables, because only those let `==` against a number raise an error instead of being
-- silently false.
local ffi = require "ffi"
local native = require "perigee.native"
local where = require "perigee.where"

local trace = {}

local max_ops = 10000

---@class perigee.Traced
local Traced -- the ctype
local current -- the trace that is being recorded: { serial =, program =, names =, inputs =, allowed = }

local function is_traced(value) return type(value) == "cdata" and ffi.istype(Traced, value) end
trace.is_traced = is_traced

local function record(op, operands, attrs)
  local id = #current.program + 1
  if id > max_ops then
    where.fail(("this function records more than %d ops; loops unroll while it is traced, so it may have one that never ends")
      :format(max_ops))
  end
  local name = "t" .. id
  current.program[id] = { op = op, ["in"] = native.list(operands), out = name, attrs = attrs }
  current.names[id] = name
  return Traced(current.serial, id)
end

local function name_of(value)
  if value.trace ~= current.serial then where.fail("this traced value belongs to another function") end
  return value.id < 0 and current.inputs[-value.id] or current.names[value.id]
end

local function operand(value, op)
  if is_traced(value) then return name_of(value) end
  if type(value) == "number" then
    return current.allowed and value or name_of(record("full", {}, { value = value }))
  end
  where.fail(("%s takes traced values and numbers; got %s"):format(op, where.describe(value)))
end

-- op(a, b, ..., { attrs })
local function apply(op, ...)
  if not current then where.fail("traced values can only be used inside the function that is traced") end
  if current.allowed and not current.allowed[op] then
    where.fail(("%s cannot be used here, where every machine must compute the same bits, element by element; what can: %s"):format(op,
      table.concat(current.allowed, ", ")))
  end
  local arguments, attrs = { ... }, nil
  local last = arguments[#arguments]
  if type(last) == "table" then
    attrs = last
    arguments[#arguments] = nil
  end
  local definition = trace.definitions[op]
  local count = select("#", ...) - (attrs and 1 or 0)
  if count < definition.min or (definition.max >= 0 and count > definition.max) then
    where.fail(("%s takes %s; got %d"):format(op,
      definition.min == definition.max and definition.min .. " operands"
      or definition.max < 0 and "at least " .. definition.min .. " operands"
      or ("%d to %d operands"):format(definition.min, definition.max), count))
  end
  if attrs then
    local fits, problem = pcall(native.check_attributes, op, attrs)
    if not fits then where.fail(problem) end
  end
  local operands = {}
  for index = 1, count do operands[index] = operand(arguments[index], op) end
  return record(op, operands, attrs)
end

trace.definitions, trace.ops = {}, {}
for _, definition in ipairs(native.ops()) do
  trace.definitions[definition.name] = definition
  trace.ops[definition.name] = function(...) return apply(definition.name, ...) end
end

-- Axes count from 0 and include the batch, as in the graph; -1 is the last.
local function reduction(op)
  return function(x, axes, keep)
    if type(axes) == "number" then axes = { axes } end
    return apply(op, x, { axes = native.list(axes or {}), keep = keep or false })
  end
end

trace.friendly = {
  sum = reduction "reduce_sum",
  mean = reduction "reduce_mean",
  max = reduction "reduce_max",
  min = reduction "reduce_min",
  reshape = function(x, shape) return apply("reshape", x, { shape = native.list(shape) }) end,
  transpose = function(x, axes) return apply("transpose", x, { order = native.list(axes) }) end,
  concat = function(values, axis)
    local arguments = { unpack(values) }
    arguments[#arguments + 1] = { axis = axis or 1 }
    return apply("concatenate", unpack(arguments))
  end,
  clamp = function(x, low, high) return apply("minimum", apply("maximum", x, low), high) end,
  eq = function(a, b) return apply("equal", a, b) end,
  ne = function(a, b) return apply("not_equal", a, b) end,
  lt = function(a, b) return apply("less", a, b) end,
  le = function(a, b) return apply("less_equal", a, b) end,
  gt = function(a, b) return apply("greater", a, b) end,
  ge = function(a, b) return apply("greater_equal", a, b) end,
}

local function comparison(symbol, method)
  return function(_, other)
    if other == nil then return false end
    where.fail(("a traced value has no value yet, so `%s` cannot decide; write x:%s(y) and choose with pg.where(x:%s(y), a, b)")
      :format(symbol, method, method))
  end
end

Traced = ffi.metatype(ffi.typeof "struct { int32_t trace; int32_t id; }", {
  __add = function(a, b) return apply("add", a, b) end,
  __sub = function(a, b) return apply("sub", a, b) end,
  __mul = function(a, b) return apply("mul", a, b) end,
  __div = function(a, b) return apply("div", a, b) end,
  __pow = function(a, b) return apply("pow", a, b) end,
  __unm = function(a) return apply("neg", a) end,
  __mod = function() where.fail "% is not defined on traced values" end,
  __len = function() where.fail "a traced value has no length: shapes are known only when the network is built" end,
  __concat = function() where.fail "traced values cannot be put into text" end,
  __tostring = function() return "traced value" end,
  __eq = comparison("==", "eq"),
  __lt = comparison("<", "lt"),
  __le = comparison("<=", "le"),
  __index = function(_, key)
    local method = trace.friendly[key] or rawget(trace.ops, key)
    if method then return method end
    local known = {}
    for name in pairs(trace.friendly) do known[#known + 1] = name end
    for name in pairs(trace.ops) do known[#known + 1] = name end
    where.fail(("a traced value has no method '%s'%s"):format(tostring(key), where.suggestion(key, known)))
  end,
  __newindex = function() where.fail "a traced value cannot be changed; every op makes a new one" end,
})

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

function trace.forbid_all()
  local undo = {
    forbid(math, { "random", "randomseed" },
      "math.random would be drawn only once, while the function is traced; use a dropout or noise layer"),
    forbid(io, names_of(io), "io cannot be used in a traced function: it runs once, before training"),
    forbid(os, names_of(os), "os cannot be used in a traced function: it runs once, before training"),
  }
  return function()
    for _, restore in ipairs(undo) do restore() end
  end
end

local serial = 0

-- Calls `f` with a traced value for each name of `inputs` while what is done to them is recorded. Returns what `f` returns, and the
-- program. `allowed`: a list and set of ops; numbers are then operands and not ops.
local function recorded(inputs, f, allowed)
  if current then where.fail("a traced function cannot trace another") end
  serial = serial + 1
  current = { serial = serial, program = native.list {}, names = {}, inputs = inputs, allowed = allowed }
  local values = {}
  for index = 1, #inputs do values[index] = Traced(serial, -index) end
  local restore = trace.forbid_all()
  local ok, result = pcall(f, values)
  restore()
  local program = current.program
  current = nil
  if not ok then error(result, 0) end
  return result, program
end

---Runs `f` on traced values.
---@param f function
---@return table { inputs =, program =, outputs = }
function trace.run(f)
  if type(f) ~= "function" then where.fail("pg.lambda takes a function; got " .. where.describe(f)) end
  local info = debug.getinfo(f, "u")
  if info.isvararg then where.fail("a traced function needs named parameters, not ...") end
  if info.nparams == 0 then where.fail("a traced function needs at least one parameter") end
  local inputs = native.list {}
  for index = 1, info.nparams do
    inputs[index] = debug.getlocal(f, index)
    -- Parameters named t1, t2 would meet the names of results.
    if inputs[index]:match "^t%d+$" then inputs[index] = "x_" .. inputs[index] end
  end
  local outputs, program = recorded(inputs, function(values)
    local results, names = { f(unpack(values)) }, native.list {}
    if #results == 0 then where.fail("the traced function returns nothing") end
    for index, result in ipairs(results) do
      if not is_traced(result) then
        where.fail(("the traced function returns %s; expected a value computed from its parameters"):format(where.describe(result)))
      end
      names[index] = name_of(result)
    end
    return names
  end)
  return { inputs = inputs, program = program, outputs = outputs }
end

---Runs `f` on one table that has a traced value for each of `names`. What `f` assigns to those of `settable` leaves the program under
---that name, what it returns as `result`. Only ops of `allowed` may be used.
---@param f function
---@param names string[]
---@param settable table<string, boolean>
---@param result string
---@param allowed table
---@return table { program =, outputs = { name = value } }
function trace.fields(f, names, settable, result, allowed)
  local outputs, program = recorded(names, function(values)
    local fields, changed = {}, {}
    for index, name in ipairs(names) do fields[name] = values[index] end
    local function output(name, value)
      if not is_traced(value) then
        where.fail(("%s is %s; expected a value computed from the others"):format(name, where.describe(value)))
      end
      changed[name] = name_of(value)
      return value
    end
    local p = setmetatable({}, {
      __index = function(_, name)
        local value = fields[name]
        if value == nil then where.fail(("there is no '%s' here%s"):format(tostring(name), where.suggestion(name, { unpack(names) }))) end
        return value
      end,
      __newindex = function(_, name, value)
        if not settable[name] then
          local known = {}
          for each in pairs(settable) do known[#known + 1] = each end
          where.fail(("'%s' cannot be assigned, only a state can%s"):format(tostring(name), where.suggestion(name, known)))
        end
        if type(value) == "number" then value = apply("add", value, 0) end
        fields[name] = output(name, value)
      end,
    })
    local returned = f(p)
    if returned == nil then where.fail("the traced function returns nothing; it must return the new " .. result) end
    output(result, returned)
    return changed
  end, allowed)
  return { program = program, outputs = outputs }
end

return trace
