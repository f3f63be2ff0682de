-- Tensors: pg.zeros(2, 3), x + y, x:sum(1). A tensor is an FFI struct that holds a C++ array (lua/tensor.cpp); views share memory. Places and
-- axes count from 1; negative ones from the end. This file has the type and its element-wise ops; tensor/make.lua how tensors are made,
-- tensor/in_place.lua what changes them, tensor/ops.lua the other ops, tensor/index.lua `t[...]`, tensor/text.lua how they print.
local ffi = require "ffi"
local native = require "perigee.native"
local where = require "perigee.where"

ffi.cdef [[
typedef struct perigee_tensor {
  void* const storage_[2]; void* const data_; const uint8_t dtype_; const int32_t rank; const int64_t dims_[8]; const int64_t strides_[8];
  const double room_[8];
} perigee_tensor;
typedef struct perigee_index { int64_t kind, start, stop, step; } perigee_index;
typedef struct perigee_tensor_functions {
  int (*unary)(int op, const perigee_tensor* a, perigee_tensor* out);
  int (*binary)(int op, const perigee_tensor* a, const perigee_tensor* b, double number, perigee_tensor* out);
  int (*where)(const perigee_tensor* c, const perigee_tensor* a, double x, const perigee_tensor* b, double y, perigee_tensor* out);
  int (*into)(int op, const perigee_tensor* target, const perigee_tensor* b, double number);
  int (*add_scaled)(const perigee_tensor* target, const perigee_tensor* x, double scale);
  int (*share)(perigee_tensor* x);
  int (*window)(const perigee_tensor* x, const perigee_index* indices, int count, perigee_tensor* out);
  int (*create)(int dtype, int rank, const int64_t* dims, perigee_tensor* out);
  int (*fill)(const perigee_tensor* x, double value);
  int (*copy)(const perigee_tensor* from, const perigee_tensor* to);
  int (*item)(const perigee_tensor* x, double* out);
  int (*cast)(const perigee_tensor* x, int dtype, perigee_tensor* out);
  int (*contiguous)(const perigee_tensor* x, perigee_tensor* out);
  const char* (*error)(void);
  void (*collected)(void);
} perigee_tensor_functions;
]]

-- A tensor whose memory lies outside of it has a finaliser. A collector that goes on quickly once it has begun leaves fewer of them waiting, which
-- stay in the cache: one that is made and dropped takes 290 ns instead of 470.
collectgarbage("setstepmul", 4000)

local functions = ffi.cast("const perigee_tensor_functions*", native.tensor.functions)
local Tensor = ffi.typeof "perigee_tensor"
local istype = ffi.istype
local unary_call, binary_call, where_call = functions.unary, functions.binary, functions.where
local create_call, item_call, error_call, collected_call = functions.create, functions.item, functions.error, functions.collected

local tensor = { functions = functions, type = Tensor }

-- Not 0 when Ctrl-C was pressed. Code that LuaJIT compiled calls no hooks, so that ops ask themselves.
local stop = ffi.cast("const uint8_t*", native.tensor.interrupt_flag)

-- Raises errors at the script's line. 2: so much memory lies outside Lua that the collector, which does not see it, must run.
local function settle(status)
  if stop[0] ~= 0 then native.tensor.interrupt() end
  if status == 1 then where.fail(ffi.string(error_call())) end
  if status == 0 then return end
  collectgarbage()
  collected_call()
end

local function check(status)
  if status ~= 0 or stop[0] ~= 0 then settle(status) end
end
tensor.check = check

-- Few elements lie in the tensor itself (lua/tensor.cpp); what has a storage gets the finaliser that frees it.
local release, gc = native.tensor.release, ffi.gc
local function own(x)
  if x.storage_[0] ~= nil then gc(x, release) end
  return x
end
native.tensor.owner(own)
tensor.own = own

-- Before another tensor looks at x's memory.
local function share(x)
  if x.storage_[0] ~= nil then return x end
  check(functions.share(x))
  return own(x)
end
tensor.share = share

-- For Lua C functions, which return nothing and a message when they fail.
local function done(value, message)
  if stop[0] ~= 0 then settle(0) end
  if value == nil then where.fail(message) end
  return value
end
tensor.done = done

local function is_tensor(value) return istype(Tensor, value) end
tensor.is = is_tensor

-- Called after the last use of a pointer into a tensor's memory: until then the tensor is reachable.
function tensor.keep(_) end

-- differentiate.lua sets these: whether a value stands for a tensor of a function that is being recorded, and what records an op on it.
tensor.is_symbol = function(_) return false end
tensor.record = nil
-- trace.lua sets this: whether one of the operands is traced, and the result of the op on them.
tensor.traced = function(_, ...) return false, ... end
tensor.is_traced = function(_) return false end

---@class perigee.Tensor
---@field rank integer     number of dimensions
---@field shape integer[]
---@field dtype string     "f32", "f64", "f16", "bf16", "i32", "i64", "u8" or "bool"
---@field device string    "cpu"
---@operator add(perigee.Tensor|number): perigee.Tensor
---@operator sub(perigee.Tensor|number): perigee.Tensor
---@operator mul(perigee.Tensor|number): perigee.Tensor
---@operator div(perigee.Tensor|number): perigee.Tensor
---@operator pow(perigee.Tensor|number): perigee.Tensor
---@operator mod(perigee.Tensor|number): perigee.Tensor
---@operator unm: perigee.Tensor
local methods = {} -- of tensors, and what pg.NAME(tensor, ...) calls
tensor.methods = methods
tensor.makers = {} -- pg.NAME(...) that make tensors

-- Types --------------------------------------------------------------------------------------------------------------------

local dtype_names = { [0] = "f32", "f64", "f16", "bf16", "i32", "i64", "u8", "bool" }
local dtypes, ctypes = {}, {
  f32 = "float", f64 = "double", i32 = "int32_t", i64 = "int64_t", u8 = "uint8_t", bool = "uint8_t", f16 = "uint16_t", bf16 = "uint16_t",
}
for number, name in pairs(dtype_names) do
  dtypes[name] = number
  ctypes[name] = ffi.typeof("$*", ffi.typeof(ctypes[name]))
end
tensor.dtypes, tensor.pointers = dtypes, ctypes

-- Other libraries' names of dtypes, for the hint.
local elsewhere = {
  float = "f32", float32 = "f32", double = "f64", float64 = "f64", half = "f16", float16 = "f16", bfloat16 = "bf16", int = "i32", int32 = "i32",
  long = "i64", int64 = "i64", byte = "u8", uint8 = "u8", boolean = "bool",
}

local function dtype_number(name)
  local number = dtypes[name]
  if not number then
    local known = {}
    for each in pairs(dtypes) do known[#known + 1] = each end
    if elsewhere[name] then where.fail(("there is no dtype '%s'; did you mean '%s'?"):format(name, elsewhere[name])) end
    where.fail(("there is no dtype %s%s"):format(where.describe(name), where.suggestion(name, known)))
  end
  return number
end
tensor.dtype_number = dtype_number

local function dtype_of(x) return dtype_names[x.dtype_] end
tensor.dtype_of = dtype_of

local function shape_of(x)
  local shape = {}
  for index = 1, x.rank do shape[index] = tonumber(x.dims_[index - 1]) end
  return shape
end
tensor.shape_of = shape_of

---"f32[2x3]"
local function type_text(x) return ("%s[%s]"):format(x.dtype, table.concat(x.shape, "x")) end
tensor.type_text = type_text

local function describe(value)
  if is_tensor(value) or tensor.is_symbol(value) then return "a tensor " .. type_text(value) end
  if type(value) == "cdata" then return "a " .. tostring(value) end
  return where.describe(value)
end
tensor.describe = describe

-- Memory ---------------------------------------------------------------------------------------------------------------------

local dims_buffer = ffi.new "int64_t[8]"

-- A new tensor of undefined content.
local function create(shape, dtype)
  if #shape > 8 then where.fail(("a tensor has at most 8 dimensions; got %d"):format(#shape)) end
  for index, size in ipairs(shape) do
    if type(size) ~= "number" or size < 0 or size % 1 ~= 0 then
      where.fail(("size %d of a shape is %s; expected a whole number from 0"):format(index, where.describe(size)))
    end
    dims_buffer[index - 1] = size
  end
  local out = Tensor()
  local status = create_call(dtype_number(dtype), #shape, dims_buffer, out)
  own(out)
  check(status)
  return out
end
tensor.create = create

-- Refuses an immediate change or draw while a function is recorded: it would happen then and never again.
local function not_recorded(what)
  if tensor.recording then where.fail(what .. " would happen once, while the function is recorded, and not when it runs") end
end
tensor.not_recorded = not_recorded

-- Element-wise -----------------------------------------------------------------------------------------------------------------

local elementwise = native.tensor.elementwise()
tensor.elementwise = elementwise
-- For help: functions whose text begins with that of an op: { sum = "reduce_sum" }.
tensor.op_of = {}

local function wrong_operand(name, ...)
  for index = 1, select("#", ...) do
    local value = select(index, ...)
    if not is_tensor(value) and type(value) ~= "number" and not tensor.is_symbol(value) then
      where.fail(("%s takes tensors and numbers; got %s"):format(name, describe(value)))
    end
  end
  where.fail(name .. " needs at least one tensor")
end
tensor.wrong_operand = wrong_operand

local function other(name, ...)
  for index = 1, select("#", ...) do
    if tensor.is_symbol((select(index, ...))) then return tensor.record(name, nil, ...) end
  end
  local traced, result = tensor.traced(name, ...)
  if traced then return result end
  wrong_operand(name, ...)
end

local function unary(name)
  local op = elementwise[name].op
  return function(a)
    if not istype(Tensor, a) then return other(name, a) end
    local out = Tensor()
    local status = unary_call(op, a, out)
    if out.storage_[0] ~= nil then gc(out, release) end
    if status ~= 0 or stop[0] ~= 0 then settle(status) end
    return out
  end
end

local function binary(name)
  local op = elementwise[name].op
  return function(a, b)
    local out = Tensor()
    local status
    if istype(Tensor, a) then
      if istype(Tensor, b) then status = binary_call(op, a, b, 0, out)
      elseif type(b) == "number" then status = binary_call(op, a, nil, b, out)
      else return other(name, a, b) end
    elseif type(a) == "number" and istype(Tensor, b) then status = binary_call(op, nil, b, a, out)
    else return other(name, a, b) end
    if out.storage_[0] ~= nil then gc(out, release) end
    if status ~= 0 or stop[0] ~= 0 then settle(status) end
    return out
  end
end

for name, definition in pairs(elementwise) do
  if definition.arity == 1 then methods[name] = unary(name)
  elseif definition.arity == 2 then methods[name] = binary(name) end
end

---a where the condition holds, else b.
---@param condition perigee.Tensor
---@param a perigee.Tensor|number
---@param b perigee.Tensor|number
---@return perigee.Tensor
function methods.where(condition, a, b)
  if not is_tensor(condition) or tensor.is_symbol(a) or tensor.is_symbol(b) then return other("where", condition, a, b) end
  local a_is, b_is = is_tensor(a), is_tensor(b)
  if not (a_is or type(a) == "number") or not (b_is or type(b) == "number") then wrong_operand("where", condition, a, b) end
  local out = Tensor()
  local status = where_call(condition, a_is and a or nil, a_is and 0 or a, b_is and b or nil, b_is and 0 or b, out)
  own(out)
  check(status)
  return out
end

-- Other basics -----------------------------------------------------------------------------------------------------------------

local item_buffer = ffi.new "double[1]"

---The number that a tensor of one element holds.
---@return number
function methods.item(x)
  if not is_tensor(x) then where.fail("item takes a tensor of one element; got " .. describe(x)) end
  check(item_call(x, item_buffer))
  return item_buffer[0]
end

---A dense copy.
---@return perigee.Tensor
function methods.clone(x)
  local out = create(shape_of(x), dtype_of(x))
  check(functions.copy(x, out))
  return out
end

---Dense in row-major order: x itself where it is already.
function methods.contiguous(x)
  if tensor.is_symbol(x) then return x end
  local out = Tensor()
  local status = functions.contiguous(share(x), out)
  own(out)
  check(status)
  return out
end

---Another dtype: x:to "f64"; x itself where it has that dtype.
---@param dtype string
---@return perigee.Tensor
function methods.to(x, dtype)
  local number = dtype_number(dtype)
  if tensor.is_symbol(x) then return tensor.record("cast", { dtype = dtype }, x) end
  if x.dtype_ == number then return x end
  local out = Tensor()
  local status = functions.cast(x, number, out)
  own(out)
  check(status)
  return out
end

local sizes = { f32 = 4, f64 = 8, f16 = 2, bf16 = 2, i32 = 4, i64 = 8, u8 = 1, bool = 1 }

---Number of elements.
function methods.numel(x)
  local count = 1
  for _, size in ipairs(x.shape) do count = count * size end
  return count
end

---Bytes of the elements.
function methods.nbytes(x) return methods.numel(x) * sizes[x.dtype] end

---Size of dimension `axis`, from 1; or all of them.
---@param axis? integer
function methods.size(x, axis)
  local shape = x.shape
  if axis == nil then return unpack(shape) end
  return shape[tensor.axis(x, axis)]
end

---0-based axis of ops as a place in `shape`, from 1.
function tensor.axis(x, axis)
  local rank = x.rank
  if type(axis) ~= "number" or axis % 1 ~= 0 or axis == 0 or axis > rank or axis < -rank then
    where.fail(("there is no axis %s of %s; axes count from 1, or from the end with -1"):format(describe(axis), type_text(x)))
  end
  return axis > 0 and axis or axis + rank + 1
end

---Whether the elements lie in row-major order without gaps.
---@return boolean
function methods.is_contiguous(x)
  local expected = 1
  for index = x.rank - 1, 0, -1 do
    local size = tonumber(x.dims_[index])
    if size ~= 1 and tonumber(x.strides_[index]) ~= expected then return false end
    expected = expected * size
  end
  return true
end

-- The type -----------------------------------------------------------------------------------------------------------------------

local properties = {
  shape = shape_of,
  dtype = dtype_of,
  device = function() return "cpu" end,
  T = function(x) return methods.transpose(x) end,
}

local function unknown_method(key)
  local known = {}
  for name in pairs(methods) do known[#known + 1] = name end
  where.fail(("a tensor has no method '%s'%s"):format(tostring(key), where.suggestion(key, known)))
end
tensor.unknown_method = unknown_method

local function comparison(symbol, method)
  return function(a, b)
    if type(a) == "nil" or type(b) == "nil" then return false end -- `a == nil` would ask this function again
    where.fail(("`%s` cannot compare element by element; write x:%s(y), or x:all_equal(y) for one answer"):format(symbol, method))
  end
end

local metatable = {
  __add = methods.add,
  __sub = methods.sub,
  __mul = methods.mul,
  __div = methods.div,
  __pow = methods.pow,
  __mod = methods.mod,
  __unm = methods.neg,
  __len = function(x)
    if x.rank == 0 then where.fail "a tensor without dimensions has no length" end
    return tonumber(x.dims_[0])
  end,
  __eq = comparison("==", "eq"),
  __lt = comparison("<", "lt"),
  __le = comparison("<=", "le"),
  __concat = function(a, b)
    if is_tensor(a) and is_tensor(b) then
      where.fail "`..` joins texts; pg.concatenate { a, b } joins tensors, tostring(a) .. tostring(b) their texts"
    end
    return tostring(a) .. tostring(b)
  end,
  __tostring = function(x) return require("perigee.tensor.text").text(x) end, -- loaded when it is needed
  __index = function(x, key)
    if type(key) == "string" then
      local method = methods[key]
      if method then return method end
      local property = properties[key]
      if property then return property(x) end
      unknown_method(key)
    end
    return tensor.index(x, key)
  end,
  __newindex = function(x, key, value)
    if type(key) == "string" then where.fail(("a tensor's '%s' cannot be set; elements are: t[i] = 1, t:set(index, value)"):format(key)) end
    tensor.assign(x, key, value)
  end,
}
tensor.metatable = metatable
ffi.metatype(Tensor, metatable)

return tensor
