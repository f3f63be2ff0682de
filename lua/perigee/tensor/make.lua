-- How tensors are made: pg.zeros(2, 3), pg.arange(5), pg.randn(64, 784), pg.tensor { {1, 2}, {3, 4} }.
local ffi = require "ffi"
local native = require "perigee.native"
local where = require "perigee.where"
local tensor = require "perigee.tensor"

local makers, functions, Tensor, create, done = tensor.makers, tensor.functions, tensor.type, tensor.create, tensor.done
local is_tensor, describe, dtype_of, check = tensor.is, tensor.describe, tensor.dtype_of, tensor.check

local accepted_options = { dtype = true, device = true }

-- (2, 3), ({2, 3}), ({2, 3, dtype = "f64"}), (2, 3, { dtype = "f64" }) -> shape, options
local function shape_and_options(name, ...)
  local arguments, options, shape = { ... }, {}, {}
  for _, argument in ipairs(arguments) do
    if type(argument) == "number" then
      shape[#shape + 1] = argument
    elseif type(argument) == "table" then
      for index, size in ipairs(argument) do
        if type(size) ~= "number" then where.fail(("%s takes sizes; got %s as number %d"):format(name, where.describe(size), index)) end
        shape[#shape + 1] = size
      end
      for key, value in pairs(argument) do
        if type(key) == "string" then options[key] = value end
      end
    else
      where.fail(("%s takes sizes and a table of options; got %s"):format(name, describe(argument)))
    end
  end
  return shape, options
end

local function check_options(name, options, more)
  for key in pairs(options) do
    if not accepted_options[key] and not (more and more[key]) then
      local known = { "dtype", "device" }
      for each in pairs(more or {}) do known[#known + 1] = each end
      where.fail(("%s has no option '%s'%s"):format(name, key, where.suggestion(key, known)))
    end
  end
  if options.device and options.device ~= "cpu" then
    where.fail(("tensors of scripts lie on the cpu; got device = %s"):format(where.describe(options.device)))
  end
  return options.dtype or "f32"
end

local function filled(name, value)
  ---A tensor of zeros or of ones: pg.zeros(2, 3), pg.ones({2, 3}, { dtype = "i64" }).
  ---@param ... integer|integer[]|{ dtype?: string, device?: string } the sizes, then options
  ---@return perigee.Tensor
  makers[name] = function(...)
    local shape, options = shape_and_options(name, ...)
    local out = create(shape, check_options(name, options))
    check(functions.fill(out, value))
    return out
  end
end
filled("zeros", 0)
filled("ones", 1)

for name, value in pairs { zeros_like = 0, ones_like = 1 } do
  ---A tensor of x's shape, and of its dtype when none is named.
  makers[name] = function(x, options)
    if tensor.is_symbol(x) then return tensor.record("full_like", { value = value }, x) end
    if not is_tensor(x) then
      local traced, result = tensor.traced(name, x)
      if traced then return result end
      where.fail(("%s takes a tensor; got %s"):format(name, describe(x)))
    end
    local out = create(x.shape, options and check_options(name, options) or x.dtype)
    check(functions.fill(out, value))
    return out
  end
end

---A tensor of one value: pg.full({2, 3}, 7), pg.full({2, 3}, 7, { dtype = "i64" }).
---@param shape integer[]
---@param value number
---@param options? { dtype?: string, device?: string }
---@return perigee.Tensor
function makers.full(shape, value, options)
  if type(value) ~= "number" then where.fail("full takes a shape and a number; got " .. describe(value)) end
  local out = create(shape_and_options("full", shape), check_options("full", options or {}))
  check(functions.fill(out, value))
  return out
end

local function writer(name, count, dtype, value)
  if count ~= count or count < 0 or count > 2 ^ 40 then where.fail(name .. " has a step that leads nowhere or too many elements") end
  local out = create({ count }, "f64")
  local data = ffi.cast("double*", out.data_)
  for index = 0, count - 1 do data[index] = value(index) end
  return dtype == "f64" and out or out:to(dtype)
end

---Numbers from `first` to `last`, which is included, by `step`: pg.arange(5) is 1 2 3 4 5.
---@param first number
---@param last? number
---@param step? number
---@return perigee.Tensor
function makers.arange(first, last, step, options)
  local arguments = {}
  for _, argument in pairs { first, last or false, step or false, options or false } do
    if type(argument) == "table" then options = argument elseif argument then arguments[#arguments + 1] = argument end
  end
  first, last, step = unpack(arguments)
  if not last then first, last = 1, first end
  step = step or 1
  if type(first) ~= "number" or type(last) ~= "number" or type(step) ~= "number" or step == 0 then
    where.fail "arange takes a first number, a last one and a step that is not 0"
  end
  local count = math.max(0, math.floor((last - first) / step + 1e-9) + 1)
  return writer("arange", count, check_options("arange", type(options) == "table" and options or {}), function(index) return first + index * step end)
end

---`count` numbers from `first` to `last`, evenly spaced, both included.
---@param first number
---@param last number
---@param count integer
---@return perigee.Tensor
function makers.linspace(first, last, count, options)
  if type(first) ~= "number" or type(last) ~= "number" or type(count) ~= "number" or count < 1 or count % 1 ~= 0 then
    where.fail "linspace takes a first number, a last one and how many"
  end
  local step = count > 1 and (last - first) / (count - 1) or 0
  return writer("linspace", count, check_options("linspace", options or {}), function(index)
    return index == count - 1 and count > 1 and last or first + index * step
  end)
end

---The identity matrix.
---@param rows integer
---@param columns? integer
---@return perigee.Tensor
function makers.eye(rows, columns, options)
  if type(columns) == "table" then columns, options = nil, columns end
  local out = create({ rows, columns or rows }, check_options("eye", options or {}))
  check(functions.fill(out, 0))
  local n = math.min(rows, columns or rows)
  if n > 0 then check(functions.fill(tensor.methods.diagonal(out), 1)) end
  return out
end

local function random(kind, shape, dtype, a, b)
  tensor.not_recorded("a draw; make it outside and pass it in: it")
  local out = Tensor()
  done(native.tensor.random(out, kind, dtype, shape, a, b))
  return out
end

---Uniform on [0, 1), or from low to high: pg.rand(2, 3), pg.rand({2, 3}, { low = -1, high = 1 }).
---@param ... integer|integer[]|{ low?: number, high?: number, dtype?: string } the sizes, then options
---@return perigee.Tensor
function makers.rand(...)
  local shape, options = shape_and_options("rand", ...)
  return random("uniform", shape, check_options("rand", options, { low = true, high = true }), options.low or 0, options.high or 1)
end

---Normal with mean 0 and standard deviation 1, or others: pg.randn(2, 3), pg.randn({2, 3}, { mean = 5, stddev = 2 }).
---@param ... integer|integer[]|{ mean?: number, stddev?: number, dtype?: string } the sizes, then options
---@return perigee.Tensor
function makers.randn(...)
  local shape, options = shape_and_options("randn", ...)
  return random("normal", shape, check_options("randn", options, { mean = true, stddev = true }), options.mean or 0, options.stddev or 1)
end

---Whole numbers from `low` to `high`, both included, as math.random has it: pg.randint(1, 6, {2, 3}).
---@param low integer
---@param high integer
---@param ... any the shape and options
---@return perigee.Tensor
function makers.randint(low, high, ...)
  if type(low) ~= "number" or type(high) ~= "number" then where.fail "randint takes the lowest number, the highest and a shape" end
  local shape, options = shape_and_options("randint", ...)
  options.dtype = options.dtype or "i64"
  return random("integers", shape, check_options("randint", options), low, high)
end

---1 to n in random order.
---@param n integer
---@return perigee.Tensor
function makers.randperm(n) return random("permutation", { n }, "i64") end

---Sets the seed of rand, randn, randint and randperm; a script starts with 0.
---@param number integer
function makers.seed(number) done(native.tensor.seed(number)) end

-- The shape of nested lists; a ragged one is an error that names the entry.
local function shape_of_table(value, shape, depth, path)
  if type(value) ~= "table" then
    if shape[depth] then where.fail(("%s is %s; expected a list of %d"):format(path, where.describe(value), shape[depth])) end
    return
  end
  if shape.full and not shape[depth] then where.fail(("%s is a list; expected a number, as its neighbours are"):format(path)) end
  if not shape[depth] then shape[depth] = #value end
  if #value ~= shape[depth] then where.fail(("%s has %d entries; expected %d, as the first of its kind has"):format(path, #value, shape[depth])) end
  for index = 1, #value do
    shape_of_table(value[index], shape, depth + 1, ("%s[%d]"):format(path, index))
    shape.full = true
  end
end

-- Returns the next place, and whether there were numbers among the booleans.
local function flatten(value, data, place)
  local numbers = #value == 0
  for index = 1, #value do
    local item = value[index]
    if type(item) == "table" then
      local some
      place, some = flatten(item, data, place)
      numbers = numbers or some
    else
      if type(item) == "boolean" then item = item and 1 or 0 else numbers = true end
      if type(item) ~= "number" then where.fail(("a tensor holds numbers; got %s"):format(where.describe(item))) end
      data[place] = item
      place = place + 1
    end
  end
  return place, numbers
end

---A tensor of nested lists, a number, or a copy of a tensor: pg.tensor { {1, 2}, {3, 4} }, pg.tensor({1, 2}, { dtype = "i64" }). Booleans alone give
---a mask.
---@param value table|number|boolean|perigee.Tensor
---@param options? { dtype?: string, device?: string }
---@return perigee.Tensor
function makers.tensor(value, options)
  local dtype = check_options("tensor", options or {})
  if is_tensor(value) then return value:clone():to(options and options.dtype or dtype_of(value)) end
  if type(value) == "boolean" then return makers.tensor({ value }, options):reshape {} end
  if type(value) == "number" then return makers.full({}, value, options) end
  if type(value) ~= "table" then where.fail("pg.tensor takes nested lists, a number or a tensor; got " .. where.describe(value)) end
  local shape = {}
  shape_of_table(value, shape, 1, "the list")
  shape.full = nil
  local out = create(shape, "f64")
  local _, numbers = flatten(value, ffi.cast("double*", out.data_), 0)
  if not numbers and not (options and options.dtype) then dtype = "bool" end
  return dtype == "f64" and out or out:to(dtype)
end
makers.from = makers.tensor
