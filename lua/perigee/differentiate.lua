-- pg.grad, pg.value_and_grad, pg.jacobian, pg.compile: a function of tensors is called once with values that record what is done to them, the
-- record is differentiated and compiled, and later calls with the same shapes and dtypes run it. Tensors from outside that it uses are read
-- anew at each call; numbers among the arguments stay numbers that may change without recording again.
local ffi = require "ffi"
local native = require("perigee.native").tensor
local list = require("perigee.native").list
local tensor = require "perigee.tensor"
local forbid_all = require "perigee.trace_forbidden"
require "perigee.trace" -- makes the values that record
local where = require "perigee.where"

local methods, makers = tensor.methods, tensor.makers
local is_tensor, done, describe = tensor.is, tensor.done, tensor.describe
local Tensor = tensor.type

---@class perigee.Symbol: perigee.Tensor
local Symbol -- the ctype
local current -- the recording in progress: { serial =, recorder =, types =, masks = }
local serials = 0
local max_kept = 64 -- recordings of one function, by shapes

local function is_symbol(value) return type(value) == "cdata" and ffi.istype(Symbol, value) end
tensor.is_symbol = is_symbol

local function check_current(value)
  if not current then where.fail("a value of a recorded function can only be used inside that function") end
  if value and value.serial_ ~= current.serial then where.fail("this value belongs to another recorded function") end
end

local function new_symbol(id) return Symbol(current.serial, id) end

local function id_of(value)
  if is_symbol(value) then
    check_current(value)
    return value.id_
  end
  return done(native.capture(current.recorder, value))
end

function tensor.record(name, attrs, ...)
  check_current()
  local count, operands = select("#", ...), {}
  for index = 1, count do
    local operand = select(index, ...)
    if is_symbol(operand) or is_tensor(operand) then
      operands[2 * index - 1], operands[2 * index] = true, id_of(operand)
    elseif type(operand) == "number" then
      operands[2 * index - 1], operands[2 * index] = false, operand
    elseif operand ~= nil then
      where.fail(("%s takes tensors and numbers; got %s"):format(name, describe(operand)))
    end
  end
  local results = done(native.record(current.recorder, name, attrs, operands, count))
  for index, id in ipairs(results) do results[index] = new_symbol(id) end
  return unpack(results)
end

---Records the forward pass of a network (lua/perigee/network.lua).
function tensor.record_network(handle, inputs, parameters, linked)
  check_current()
  local input_ids, parameter_ids = {}, {}
  for place, x in ipairs(inputs) do input_ids[place] = id_of(x) end
  for place, x in ipairs(parameters) do parameter_ids[place] = id_of(x) end
  local results = done(native.network_record(handle, current.recorder, input_ids, parameter_ids, linked))
  for place, id in ipairs(results) do results[place] = new_symbol(id) end
  return unpack(results)
end

local function type_of(x)
  check_current(x)
  local known = current.types[x.id_]
  if not known then
    local dtype, shape = native.value_type(current.recorder, x.id_)
    known = { dtype = done(dtype, shape), shape = shape }
    current.types[x.id_] = known
  end
  return known
end

local properties = {
  shape = function(x) return { unpack(type_of(x).shape) } end,
  dtype = function(x) return type_of(x).dtype end,
  rank = function(x) return #type_of(x).shape end,
  device = function() return "cpu" end,
  T = function(x) return methods.transpose(x) end,
}

-- The rows of x where a mask holds. The mask is from outside, else their number is unknown; when it has changed, the next call records anew.
local function chosen_by(x, mask)
  if is_symbol(mask) then
    where.fail("a mask that is computed from arguments gives a shape that is not known while the function is recorded;"
      .. " write pg.where(mask, x, 0), or make the mask outside of the function")
  end
  local shape, masked = x.shape, mask.shape
  for axis, size in ipairs(masked) do
    if shape[axis] ~= size then where.fail(("a mask %s does not fit %s"):format(tensor.type_text(mask), tensor.type_text(x))) end
  end
  current.masks[#current.masks + 1] = { given = mask, seen = mask:clone() }
  local places, rest = mask:reshape { -1 }:nonzero():reshape { -1 }, { -1 }
  for axis = #masked + 1, #shape do rest[#rest + 1] = shape[axis] end
  return tensor.record("gather", { axis = 0 }, methods.reshape(x, rest), places - 1)
end

-- One entry as start, stop and step from 0, steps upwards, whether it runs backwards, and its size.
local function range_of(entry, size, axis, x)
  local function place(number) return number < 0 and number + size + 1 or number end
  local range = type(entry) == "number" and { entry, entry } or entry
  if type(range) ~= "table" then
    where.fail(("an index has numbers and ranges; got %s; places choose along an axis, x:take(places, axis)"):format(describe(entry)))
  end
  local first, last, step = place(range[1] or 1), place(range[2] or -1), range[3] or 1
  if step == 0 then where.fail "a range's step cannot be 0" end
  local distance = step > 0 and last - first or first - last
  if distance < 0 then return 0, 0, 1, false, 0 end
  if math.min(first, last) < 1 or math.max(first, last) > size then
    where.fail(("the range %d to %d leaves dimension %d of %s"):format(first, last, axis, tensor.type_text(x)))
  end
  local width = math.abs(step)
  local count = math.floor(distance / width) + 1
  if step > 0 then return first - 1, last, width, false, count end
  return first - 1 - (count - 1) * width, first, width, count > 1, count
end

-- x[...] with numbers and ranges.
local function index(x, entries)
  if type(entries) == "number" then entries = { entries } end
  if is_tensor(entries) or is_symbol(entries) then
    if entries.dtype == "bool" then return chosen_by(x, entries) end
    return methods.take(x, entries)
  end
  if type(entries) ~= "table" then where.fail("a tensor is indexed by numbers or a table; got " .. describe(entries)) end
  local shape = x.shape
  local start, stop, step, result, backwards, axis = {}, {}, {}, {}, {}, 0
  for _, entry in ipairs(entries) do
    if rawequal(entry, makers.newaxis) then
      result[#result + 1] = 1
    else
      axis = axis + 1
      local size = shape[axis]
      if not size then where.fail(("an index has more entries than %s has dimensions"):format(tensor.type_text(x))) end
      local first, last, width, turned, count = range_of(entry, size, axis, x)
      start[axis], stop[axis], step[axis] = first, last, width
      if turned then backwards[#backwards + 1] = { axis = axis - 1, count = count } end
      if type(entry) == "table" then result[#result + 1] = count end
    end
  end
  for each = axis + 1, #shape do result[#result + 1] = shape[each] end
  local part = axis == 0 and x or tensor.record("slice", { start = list(start), stop = list(stop), step = list(step) }, x)
  for _, each in ipairs(backwards) do
    part = tensor.record("gather", { axis = each.axis }, part, makers.arange(each.count - 1, 0, -1, { dtype = "i64" }))
  end
  return methods.reshape(part, result)
end

local function comparison(symbol, method)
  return function(a, b)
    if type(a) == "nil" or type(b) == "nil" then return false end
    where.fail(("a recorded value has no value yet, so `%s` cannot decide; write x:%s(y) and choose with pg.where"):format(symbol, method))
  end
end

Symbol = ffi.metatype(ffi.typeof "struct { const int32_t serial_; const int32_t id_; }", {
  __add = methods.add, __sub = methods.sub, __mul = methods.mul, __div = methods.div, __pow = methods.pow, __mod = methods.mod,
  __unm = methods.neg,
  __len = function(x) return type_of(x).shape[1] or where.fail "a tensor without dimensions has no length" end,
  __eq = comparison("==", "eq"), __lt = comparison("<", "lt"), __le = comparison("<=", "le"),
  __concat = function(a, b) return tostring(a) .. tostring(b) end,
  __tostring = function(x) return "recorded " .. tensor.type_text(x) end,
  __index = function(x, key)
    if type(key) ~= "string" then return index(x, key) end
    local property = properties[key]
    if property then return property(x) end
    return methods[key] or tensor.unknown_method(key)
  end,
  __newindex = function() where.fail "a recorded value cannot be changed; every op makes a new one: pg.where(mask, value, x)" end,
})

-- Arguments and results: tensors and numbers in nested tables --------------------------------------------------------------------

local function sorted_keys(value)
  local keys = {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) == type(b) then return a < b end
    return type(a) == "number"
  end)
  return keys
end

local function is_plain(value) return type(value) == "table" and getmetatable(value) == nil end

-- Appends the tensors and numbers in `value` to `leaves` and what makes calls alike to `key`.
local function flatten(value, leaves, key)
  if is_tensor(value) then
    leaves[#leaves + 1] = value
    key[#key + 1] = value.dtype_
    for axis = 0, value.rank - 1 do key[#key + 1] = tonumber(value.dims_[axis]) end
    key[#key + 1] = "t"
  elseif type(value) == "number" then
    leaves[#leaves + 1] = value
    key[#key + 1] = "n"
  elseif is_plain(value) then
    for _, name in ipairs(sorted_keys(value)) do
      key[#key + 1] = name
      flatten(value[name], leaves, key)
    end
    key[#key + 1] = "}"
  elseif is_symbol(value) then
    leaves[#leaves + 1] = value
  else
    key[#key + 1] = tostring(value)
  end
end

-- The same nesting with each tensor and number replaced by change(leaf).
local function map(value, change)
  if is_tensor(value) or is_symbol(value) or type(value) == "number" then return change(value) end
  if not is_plain(value) then return value end
  local result = {}
  for _, name in ipairs(sorted_keys(value)) do result[name] = map(value[name], change) end
  return result
end

local function has_symbol(...)
  for position = 1, select("#", ...) do
    local value = select(position, ...)
    if is_symbol(value) then return true end
    if is_plain(value) then
      for _, each in pairs(value) do
        if has_symbol(each) then return true end
      end
    end
  end
  return false
end

-- Recording ------------------------------------------------------------------------------------------------------------------------

-- Calls f on symbols for the leaves of `arguments`. Returns { call =, results = (nested, with places instead of tensors), count = }.
local function record(f, arguments, count, static, options)
  local outer = current
  serials = serials + 1
  current = { serial = serials, recorder = done(native.recorder()), types = {}, masks = {} }
  tensor.recording = true
  local restore = forbid_all()
  local recording = { masks = current.masks }
  local ok, message = pcall(function()
    local symbols, donated, leaves = {}, {}, 0
    for position = 1, count do
      symbols[position] = static[position] and arguments[position] or map(arguments[position], function(leaf)
        leaves = leaves + 1
        if options.donated[position] and is_tensor(leaf) then donated[#donated + 1] = leaves - 1 end
        return new_symbol(done(native.argument(current.recorder, is_tensor(leaf) and leaf or nil)))
      end)
    end
    local results, ids = { f(unpack(symbols, 1, count)) }, {}
    recording.results = map(results, function(leaf)
      if type(leaf) == "number" then return leaf end
      ids[#ids + 1] = id_of(leaf)
      return new_symbol(#ids) -- its place
    end)
    recording.size = #ids
    if #ids == 0 then where.fail "the function returns no tensor" end
    recording.call = done(native.compile(current.recorder, ids, options.threads or 0, donated))
  end)
  restore()
  current, tensor.recording = outer, outer ~= nil
  if not ok then error(message, 0) end
  return recording
end

local function run(recording, leaves)
  local arguments, count = { unpack(leaves) }, #leaves
  local results = {}
  for place = 1, recording.size do
    results[place] = Tensor()
    arguments[count + place] = results[place]
  end
  done(native.call(recording.call, count, unpack(arguments, 1, count + recording.size)))
  return unpack(map(recording.results, function(leaf) return type(leaf) == "number" and leaf or results[leaf.id_] end))
end

-- Whether the masks that shapes were taken from are as they were.
local function is_current(recording)
  for _, mask in ipairs(recording.masks) do
    if not mask.given:all_equal(mask.seen) then return false end
  end
  return true
end

local function check_function(name, f)
  if type(f) ~= "function" then where.fail(("%s takes a function; got %s"):format(name, describe(f))) end
  return f
end

---f recorded once for each set of shapes and dtypes of its arguments, and run as a plan. Arguments and results are tensors, numbers and nested
---tables of them. options: { static = { 3 } } names arguments that are not recorded: each value is a recording of its own; { donate = { 1 } }
---arguments that are not used afterwards, whose memory results may take, as an update's old parameters are; threads.
---@param f function
---@param options? { static?: integer[], donate?: integer[], threads?: integer }
---@return function
function makers.compile(f, options)
  check_function("compile", f)
  options = options or {}
  for name in pairs(options) do
    if name ~= "static" and name ~= "donate" and name ~= "threads" then
      where.fail(("compile has no option '%s'%s"):format(tostring(name), where.suggestion(name, { "static", "donate", "threads" })))
    end
  end
  local kept, number, static, donated = {}, 0, {}, {}
  for _, position in ipairs(options.static or {}) do static[position] = true end
  for _, position in ipairs(options.donate or {}) do donated[position] = true end
  return function(...)
    if has_symbol(...) then return f(...) end
    local arguments, count = { ... }, select("#", ...)
    local leaves, key = {}, {}
    for position = 1, count do
      if static[position] then key[#key + 1] = tostring(arguments[position]) else flatten(arguments[position], leaves, key) end
      key[#key + 1] = ","
    end
    key = table.concat(key, " ")
    local recording = kept[key]
    if not recording or not is_current(recording) then
      if number == max_kept then kept, number = {}, 0 end
      number = kept[key] and number or number + 1
      recording = record(f, arguments, count, static, { threads = options.threads, donated = donated })
      kept[key] = recording
    end
    return run(recording, leaves)
  end
end

-- Gradients ------------------------------------------------------------------------------------------------------------------------

local function is_real(x) return x.dtype == "f32" or x.dtype == "f64" end

-- Inside a recording: f's results, and the gradients of the first with respect to arguments `wrt`, nested as they are.
local function differentiate(f, wrt, name, ...)
  local arguments, count = { ... }, select("#", ...)
  local targets = {}
  for _, position in ipairs(wrt) do
    if position > count then where.fail(("%s: there is no argument %d"):format(name, position)) end
    arguments[position] = map(arguments[position], function(leaf)
      if type(leaf) == "number" then
        where.fail(("%s: argument %d has a number; gradients are with respect to tensors, such as pg.tensor(3)"):format(name, position))
      end
      if not is_real(leaf) then where.fail(("%s: there is no gradient with respect to %s"):format(name, tensor.type_text(leaf))) end
      -- A value of its own: what the caller computed from the same tensor does not count.
      local own = tensor.record("reshape", { shape = list(leaf.shape) }, leaf)
      targets[#targets + 1] = own.id_
      return own
    end)
  end
  local results = { f(unpack(arguments, 1, count)) }
  if not is_symbol(results[1]) then
    where.fail(("%s: the function returns %s; expected one number that depends on its arguments"):format(name, describe(results[1])))
  end
  check_current(results[1])
  local gradients, next_one = done(native.gradients(current.recorder, results[1].id_, targets)), 0
  local nested = {}
  for place, position in ipairs(wrt) do
    nested[place] = map(arguments[position], function()
      next_one = next_one + 1
      return new_symbol(gradients[next_one])
    end)
  end
  return results, nested
end

local function positions(name, wrt)
  if wrt == nil then return { 1 } end
  if type(wrt) == "number" then wrt = { wrt } end
  if type(wrt) ~= "table" or #wrt == 0 then where.fail(("%s takes a function and the places of arguments; got %s"):format(name, describe(wrt))) end
  return wrt
end

---A function that returns what f returns first, its gradients with respect to arguments `wrt` (the first when it is not given; a place or a list
---of places), then what else f returns. f returns one number, as a tensor. A gradient is nested as its argument is.
---@param f function
---@param wrt? integer|integer[]
---@return function
function makers.value_and_grad(f, wrt)
  check_function("value_and_grad", f)
  wrt = positions("value_and_grad", wrt)
  return makers.compile(function(...)
    local results, nested = differentiate(f, wrt, "value_and_grad", ...)
    local all = { results[1], unpack(nested) }
    for place = 2, #results do all[#all + 1] = results[place] end
    return unpack(all)
  end)
end

---The gradients alone.
---@param f function
---@param wrt? integer|integer[]
---@return function
function makers.grad(f, wrt)
  check_function("grad", f)
  wrt = positions("grad", wrt)
  return makers.compile(function(...)
    local _, nested = differentiate(f, wrt, "grad", ...)
    return unpack(nested)
  end)
end

---The derivatives of each element of f's result with respect to each of its first argument, a tensor: shape (result's..., argument's...).
---@param f function
---@return function
function makers.jacobian(f)
  check_function("jacobian", f)
  local value = makers.compile(f)
  local row = makers.grad(function(x, seed, ...) return methods.sum(f(x, ...) * seed) end)
  return function(x, ...)
    if not is_tensor(x) and not is_symbol(x) then where.fail("jacobian: the first argument is " .. describe(x) .. "; expected a tensor") end
    local y, rows = value(x, ...), {}
    local size, shape = methods.numel(y), y.shape
    for place = 1, size do
      local seed = makers.zeros { size, dtype = y.dtype }
      local at = tensor.recording
      tensor.recording = false -- the seed is a constant of the recording
      seed[place] = 1
      tensor.recording = at
      rows[place] = row(x, methods.reshape(seed, shape), ...)
    end
    for _, length in ipairs(x.shape) do shape[#shape + 1] = length end
    return methods.reshape(methods.stack(rows), shape)
  end
end

return makers
