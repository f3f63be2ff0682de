-- pg.lambda(function(x) return x * pg.sigmoid(x) end): the function runs once, on values that record what is done to them. What is
-- kept is the list of ops, which any machine can run and differentiate; no Lua code is stored.
--
-- Traced values are FFI structs and not tables, because only those let `==` against a number raise an error instead of being
-- silently false.
local ffi = require "ffi"
local native = require "perigee.native"
local tensor = require "perigee.tensor"
local forbid_all = require "perigee.trace_forbidden"
local where = require "perigee.where"

local trace = {}

local max_ops = 10000
local max_constant = 65536 -- elements of a tensor that is written into a job

---@class perigee.Traced
local Traced -- the ctype
local Size -- of a dimension of a traced value: a number once the network is built
-- The trace that is being recorded: { serial =, program =, count = of values, names =, inputs =, allowed =, sizes =, constants = }.
local current

local function is_traced(value) return type(value) == "cdata" and ffi.istype(Traced, value) end
local function is_size(value) return type(value) == "cdata" and ffi.istype(Size, value) end
trace.is_traced = is_traced

---Whether a value stands for something that is being traced.
trace.is_size = is_size
function trace.is_symbol(value) return is_traced(value) or is_size(value) end

local Shape = {} -- metatable of `x.shape`
function trace.is_shape(value) return type(value) == "table" and getmetatable(value) == Shape end

local function check_current(value)
  if not current then where.fail("traced values can only be used inside the function that is traced") end
  if value and value.trace_ ~= current.serial then where.fail "this traced value belongs to another function" end
end

local function name_of(value)
  check_current(value)
  if value.id_ < 0 then return current.inputs[-value.id_] end
  return current.names[value.id_] or where.fail "this value belongs to a step of pg.scan; what the step returns leaves it"
end

local function size_json(value)
  check_current(value)
  return current.sizes[value.id_]
end

local function new_size(json)
  local id = #current.sizes + 1
  current.sizes[id] = json
  return Size(current.serial, id)
end

-- Attributes as they are stored; with `plain`, as they are checked: a number stands for each size.
local function stored(value, plain)
  if is_size(value) then return plain and 1 or size_json(value) end
  if type(value) ~= "table" then return value end
  if trace.is_shape(value) then return plain and native.list { 1 } or { shape = name_of(value.of) } end
  local copy = {}
  for key, each in pairs(value) do copy[key] = stored(each, plain) end
  return #value > 0 and native.list(copy) or debug.getmetatable(value) and native.list(copy) or copy
end
trace.stored = stored

local function check_allowed(op)
  if current.allowed and not current.allowed[op] then
    where.fail(("%s cannot be used here, where every machine must compute the same bits, element by element; what can: %s"):format(op,
      table.concat(current.allowed, ", ")))
  end
end

local function new_value()
  current.count = current.count + 1
  if current.count > max_ops then
    where.fail(("this function records more than %d ops; loops unroll while it is traced, so it may have one that never ends; pg.scan loops"
      .. " over the steps of sequences"):format(max_ops))
  end
  current.names[current.count] = "t" .. current.count
  return Traced(current.serial, current.count)
end

local function record(op, operands, attrs)
  check_allowed(op)
  local value = new_value()
  table.insert(current.program, { op = op, ["in"] = native.list(operands), out = name_of(value), attrs = attrs })
  return value
end

local function finite(number)
  if number ~= number or math.abs(number) == math.huge then
    where.fail(("a job cannot hold %s; a large number does as well: -1e9 where a softmax is to give 0"):format(tostring(number)))
  end
  return number
end

-- A tensor from outside, or a list of numbers: its elements become part of the job.
local function constant(value)
  if type(value) == "table" then value = tensor.makers.tensor(value) end
  local known = current.constants[value]
  if known then return known end
  local count = value:numel()
  if count > max_constant then
    where.fail(("a tensor of %d elements is too large to be written into a job; expected at most %d; a field of the data or a layer's parameter"
      .. " may be larger"):format(count, max_constant))
  end
  local dtype, flat = value.dtype, value:reshape { -1 }:totable()
  for _, number in ipairs(flat) do finite(number) end
  if dtype ~= "bool" then dtype = (dtype == "i64" or dtype == "i32" or dtype == "u8") and "i64" or "f32" end
  known = record("constant", {}, { shape = native.list(value.shape), values = native.list(flat), dtype = dtype })
  current.constants[value] = known
  return known
end

local function is_list(value) return type(value) == "table" and getmetatable(value) == nil and value[1] ~= nil end

local function operand(value, op)
  if is_traced(value) then return name_of(value) end
  if type(value) == "number" then return finite(value) end
  if is_size(value) then return size_json(value) end
  if tensor.is(value) or is_list(value) then return name_of(constant(value)) end
  where.fail(("%s takes traced values, tensors and numbers; got %s"):format(op, tensor.describe(value)))
end

-- An op of the graph or a form (src/nn/program_forms.h), its attributes as they are stored.
local function apply(op, attrs, ...)
  check_current()
  check_allowed(op)
  if attrs and trace.definitions[op] then
    local fits, problem = pcall(native.check_attributes, op, stored(attrs, true))
    if not fits then where.fail(problem) end
  end
  local operands = {}
  for index = 1, select("#", ...) do operands[index] = operand((select(index, ...)), op) end
  return record(op, operands, attrs and stored(attrs, false))
end
trace.apply = apply

-- An op by its own name, with attributes as a last table: op(a, b, ..., { attrs }).
local function apply_op(op, ...)
  check_current()
  local arguments, attrs, count = { ... }, nil, select("#", ...)
  local last = arguments[count]
  if count > 0 and type(last) == "table" and not is_list(last) then
    attrs, count = last, count - 1
  end
  local definition = trace.definitions[op]
  if count < definition.min or (definition.max >= 0 and count > definition.max) then
    where.fail(("%s takes %s; got %d"):format(op,
      definition.min == definition.max and definition.min .. " operands"
      or definition.max < 0 and "at least " .. definition.min .. " operands"
      or ("%d to %d operands"):format(definition.min, definition.max), count))
  end
  return apply(op, attrs, unpack(arguments, 1, count))
end

trace.definitions, trace.ops, trace.friendly = {}, {}, {}
for _, definition in ipairs(native.ops()) do
  trace.definitions[definition.name] = definition
  trace.ops[definition.name] = function(...) return apply_op(definition.name, ...) end
end

---An axis as ops have it, from 0; negative ones count from the end.
function trace.axis(axis)
  if type(axis) ~= "number" or axis % 1 ~= 0 or axis == 0 then
    where.fail(("there is no axis %s; axes count from 1, which is the batch, or from the end with -1"):format(tensor.describe(axis)))
  end
  return axis > 0 and axis - 1 or axis
end

---The size of an axis: a number that is known when the network is built.
function trace.size(x, axis) return new_size { size = name_of(x), axis = trace.axis(axis) } end

Shape.__index = function(self, axis) return trace.size(rawget(self, "of"), axis) end
Shape.__newindex = function() where.fail "a shape cannot be changed" end
Shape.__tostring = function() return "the shape of a traced value, known when the network is built" end

-- x[2], x[{ {}, {1, 3} }]; places and ranges as tensors have them.
local function at_index(x, entries)
  if is_traced(entries) then return trace.friendly.take(x, entries) end
  if tensor.is(entries) then
    if entries.dtype ~= "bool" then return trace.friendly.take(x, entries) end
    where.fail "a mask gives a shape that depends on its values; write pg.where(mask, x, 0)"
  end
  if type(entries) ~= "table" then entries = { entries } end
  local list = native.list {}
  for place, entry in ipairs(entries) do
    if rawequal(entry, tensor.makers.newaxis) then list[place] = "new"
    elseif type(entry) == "table" then list[place] = native.list { unpack(entry) }
    elseif type(entry) == "number" or is_size(entry) then list[place] = entry
    else
      where.fail(("an index has numbers, ranges {first, last, step} and {} for all; got %s"):format(tensor.describe(entry)))
    end
  end
  return apply("index", { axis = 0, entries = list }, x)
end

local function comparison(symbol, method)
  return function(_, other)
    if other == nil then return false end
    where.fail(("a traced value has no value yet, so `%s` cannot decide; write x:%s(y) and choose with pg.where(x:%s(y), a, b)")
      :format(symbol, method, method))
  end
end

local properties = {
  shape = function(x) return setmetatable({ of = x }, Shape) end,
  T = function(x) return trace.friendly.transpose(x) end,
}
for name, instead in pairs {
  rank = "axes count from the end with -1", dtype = "x:to \"f32\" makes it known", device = "where the job trains is the job's option",
} do
  properties[name] = function()
    where.fail(("a traced value's %s is known only when the network is built; %s"):format(name, instead))
  end
end

local function unknown_method(key)
  if tensor.methods[key] then
    where.fail(("%s works on tensors and not on traced values: what it does or gives depends on elements or shapes, which are not known"
      .. " while a function is traced"):format(key))
  end
  local known = {}
  for name in pairs(trace.friendly) do known[#known + 1] = name end
  for name in pairs(trace.ops) do known[#known + 1] = name end
  where.fail(("a traced value has no method '%s'%s"):format(tostring(key), where.suggestion(key, known)))
end
trace.unknown_method = unknown_method

-- Operators of traced values; of a size and a number they give sizes.
local function arithmetic(op)
  return function(a, b)
    local sizes = (is_size(a) or type(a) == "number") and (is_size(b) or type(b) == "number")
    if not sizes then return apply(op, nil, a, b) end
    check_current()
    return new_size { [op] = native.list { is_size(a) and size_json(a) or a, is_size(b) and size_json(b) or b } }
  end
end

local operators = {
  __add = arithmetic "add", __sub = arithmetic "sub", __mul = arithmetic "mul", __div = arithmetic "div", __pow = arithmetic "pow",
}

local function ctype(extra)
  local metatable = { __eq = comparison("==", "eq"), __lt = comparison("<", "lt"), __le = comparison("<=", "le") }
  for name, operator in pairs(operators) do metatable[name] = operator end
  for name, each in pairs(extra) do metatable[name] = each end
  return ffi.metatype(ffi.typeof "struct { int32_t trace_; int32_t id_; }", metatable)
end

Traced = ctype {
  __unm = function(a) return apply("neg", nil, a) end,
  __mod = function() where.fail "% is not defined on traced values" end,
  __len = function(x) return trace.size(x, 1) end,
  __concat = function() where.fail "traced values cannot be put into text" end,
  __tostring = function() return "traced value" end,
  __index = function(x, key)
    if type(key) ~= "string" then return at_index(x, key) end
    local property = properties[key]
    if property then return property(x) end
    return trace.friendly[key] or rawget(trace.ops, key) or unknown_method(key)
  end,
  __newindex = function() where.fail "a traced value cannot be changed; every op makes a new one" end,
}

local function undecided() where.fail "a size of a traced value is known only when the network is built, so that nothing can be decided by it" end
Size = ctype {
  __unm = function(a) return arithmetic "mul" (a, -1) end,
  __eq = undecided, __lt = undecided, __le = undecided,
  __concat = undecided,
  __tostring = function() return "a size that is known when the network is built" end,
  __index = function(_, key) where.fail(("a size has no '%s'; it is a number"):format(tostring(key))) end,
}

tensor.is_traced = trace.is_symbol

-- `w * x` where w is a tensor and x is traced: tensors' operators ask here.
function tensor.traced(name, ...)
  for place = 1, select("#", ...) do
    if trace.is_symbol((select(place, ...))) then return true, (trace.friendly[name] or trace.ops[name])(...) end
  end
  return false
end

-- An error inside of a function that is traced, at a line of the user's: a call at a function's end has left no line of its own.
local function placed(message, at)
  if type(message) ~= "string" then return message end
  if message:find "number expected, got cdata" then
    message = message:gsub("^perigee[%w_%.]*:%d+: ", "") .. "; a traced value is no number yet: functions of pg take it, as pg.abs(x) does"
  end
  if not at or message:match "^[^\n]-:%d+: " then return message end
  return at .. ": " .. message
end

local serial = 0

-- Calls `f` with a traced value for each name of `inputs` while what is done to them is recorded. Returns what `f` returns, and the
-- program. `allowed`: a list and set of ops; numbers are then operands and not ops. `at`: where the user's function begins.
local function recorded(inputs, f, allowed, at)
  if current then where.fail("a traced function cannot trace another") end
  serial = serial + 1
  current = {
    serial = serial, program = native.list {}, count = 0, names = {}, inputs = inputs, allowed = allowed, sizes = {}, constants = {},
  }
  local values = {}
  for index = 1, #inputs do values[index] = Traced(serial, -index) end
  local restore = forbid_all()
  local ok, result = pcall(f, values)
  restore()
  local program = current.program
  current = nil
  if not ok then error(placed(result, at), 0) end
  return result, program
end

trace.recorded, trace.name_of, trace.max_ops = recorded, name_of, max_ops

---Records one step of a loop, f(carries, steps), as a program of its own that may name the values around it.
---@param f function takes two lists of traced values; returns two
---@param carries integer
---@param steps integer
---@return table { inputs =, program =, outputs = }
---@return integer of results beside the carried values
function trace.body(f, carries, steps)
  check_allowed "scan"
  local around = { program = current.program, constants = current.constants, first = current.count + 1 }
  current.program, current.constants = native.list {}, setmetatable({}, { __index = around.constants })
  local inputs, given = native.list {}, { {}, {} }
  for place = 1, carries + steps do
    local value = new_value()
    inputs[place] = name_of(value)
    table.insert(given[place <= carries and 1 or 2], value)
  end
  local carried, results = f(given[1], given[2])
  local outputs = native.list {}
  for _, list in ipairs { carried, results } do
    for _, value in ipairs(list) do
      if not is_traced(value) then
        where.fail(("the step of pg.scan gives %s; expected values computed from those that it is given"):format(where.describe(value)))
      end
      table.insert(outputs, name_of(value))
    end
  end
  local body = { inputs = inputs, program = current.program, outputs = outputs }
  for id = around.first, current.count do current.names[id] = nil end
  current.program, current.constants = around.program, around.constants
  return body, #results
end

---A loop that trace.body has recorded; `operands` are the first carried values, then the sequences.
---@return perigee.Traced[]
function trace.loop(operands, results, attrs)
  local names, out, values = {}, native.list {}, {}
  for place, value in ipairs(operands) do names[place] = operand(value, "scan") end
  for place = 1, attrs.carries + results do
    values[place] = new_value()
    out[place] = name_of(values[place])
  end
  table.insert(current.program, { op = "scan", ["in"] = native.list(names), out = out, attrs = attrs })
  return values
end

---The trace that is being recorded; nil outside of one.
function trace.current() return current end

---A value of the trace by another name than that of an op's result; `number` counts such values.
function trace.named(name, number)
  current.names[max_ops + number] = name
  return Traced(current.serial, max_ops + number)
end

---Runs `f` on one table that has a traced value for each of `names`. What `f` assigns to those of `settable` leaves the program under
---that name, what it returns as `result`. Only ops of `allowed` may be used.
---@param f function
---@param names string[]
---@param settable table<string, boolean>
---@param result string
---@param allowed table
---@param at? string
---@return table { program =, outputs = { name = value } }
function trace.fields(f, names, settable, result, allowed, at)
  local outputs, program = recorded(names, function(values)
    local fields, changed = {}, {}
    for index, name in ipairs(names) do fields[name] = values[index] end
    local function output(name, value)
      if not is_traced(value) then
        where.fail(("the traced function gives %s as its %s; expected one number computed from those that it is given: %s"):format(
          where.describe(value), name, table.concat(names, ", ")))
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
        if type(value) == "number" then value = apply("add", nil, value, 0) end
        fields[name] = output(name, value)
      end,
    })
    local returned = f(p)
    if returned == nil then where.fail("the traced function returns nothing; it must return the new " .. result) end
    output(result, returned)
    return changed
  end, allowed, at)
  return { program = program, outputs = outputs }
end

return trace
