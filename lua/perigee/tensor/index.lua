-- `t[...]`: windows on a tensor, which share its memory, and choices by mask or list, which are copies.
--   t[2]              row 2 (a number where t has one dimension)       t[-1]  the last
--   t[{ {1, 3}, 2 }]  rows 1 to 3 of column 2                          t[{ {}, {9, 1, -2} }]  all rows, columns 9 7 5 3 1
--   t[mask]           where a mask of t's shape holds, as a list       t[places]  the rows that a tensor of whole numbers names
local ffi = require "ffi"
local native = require "perigee.native"
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local Tensor, methods, functions = tensor.type, tensor.methods, tensor.functions
local is_tensor, done, check, own, share = tensor.is, tensor.done, tensor.check, tensor.own, tensor.share
local window_call, item_call = functions.window, functions.item

local max_entries = 16
local entries = ffi.new("perigee_index[?]", max_entries)
local item_buffer = ffi.new "double[1]"
local at, range, whole, new_axis = 0, 1, 2, 3

---In an index: a new dimension of size 1.
local NewAxis = setmetatable({}, { __tostring = function() return "pg.newaxis" end })
tensor.makers.newaxis = NewAxis

local function number_or_fail(value, fallback, what)
  if value == nil then return fallback end
  if type(value) ~= "number" or value % 1 ~= 0 then
    where.fail(("%s of a range is %s; expected a whole number"):format(what, where.describe(value)))
  end
  return value
end

-- Writes one entry; returns whether it leaves a dimension.
local function write_entry(place, entry)
  local to = entries[place]
  to.start, to.stop, to.step = 1, -1, 1
  if type(entry) == "number" then
    if entry % 1 ~= 0 then where.fail(("an index is a whole number; got %s"):format(tostring(entry))) end
    to.kind, to.start = at, entry
    return false
  elseif rawequal(entry, NewAxis) then
    to.kind = new_axis
  elseif type(entry) == "table" then
    if #entry > 3 then where.fail(("a range is {first, last} or {first, last, step}; got %d numbers"):format(#entry)) end
    to.step = number_or_fail(entry[3], 1, "the step")
    to.start, to.stop = number_or_fail(entry[1], 1, "the beginning"), number_or_fail(entry[2], -1, "the end")
    to.kind = next(entry) == nil and whole or range
  else
    where.fail(("an index has numbers, ranges {first, last, step} and {} for all; got %s%s"):format(tensor.describe(entry),
      is_tensor(entry) and "; masks and places stand alone, x[mask], or choose along an axis, x:take(places, axis)" or ""))
  end
  return true
end

-- Fills `entries`; returns how many, and whether every one is a single place.
local function write_index(index)
  if type(index) == "number" then return 1, not write_entry(0, index) end
  local places = true
  local count = #index
  if count > max_entries then where.fail(("an index has at most %d entries; got %d"):format(max_entries, count)) end
  for place = 1, count do
    if write_entry(place - 1, index[place]) then places = false end
  end
  return count, places
end

local function window(x, count)
  local out = Tensor()
  local status = window_call(share(x), entries, count, out)
  own(out)
  check(status)
  return out
end

local function is_mask(x) return tensor.dtype_of(x) == "bool" end

local function chosen(x, index)
  local out = Tensor()
  if is_mask(index) then done(native.tensor.masked_select(out, x, index))
  else done(native.tensor.take(out, x, 0, index)) end
  return out
end

function tensor.index(x, index)
  if is_tensor(index) then return chosen(x, index) end
  if type(index) ~= "number" and type(index) ~= "table" then
    where.fail(("a tensor is indexed by numbers, a table, a mask or a tensor of places; got %s"):format(tensor.describe(index)))
  end
  local count, places = write_index(index)
  local out = window(x, count)
  if places and out.rank == 0 then
    item_call(out, item_buffer)
    return item_buffer[0]
  end
  return out
end

-- One after the other: there is no window on rows in any order.
local function assign_rows(x, places, value)
  places = places:reshape { -1 }
  for index = 1, #places do
    local row = window(x, write_index(places[index]))
    if is_tensor(value) then row:copy_(value.rank == x.rank and value:get(index) or value) else row:fill(value) end
  end
end

function tensor.assign(x, index, value)
  if tensor.recording then tensor.not_recorded "setting elements" end
  if type(value) == "table" then value = tensor.makers.tensor(value, { dtype = "f64" }) end
  if type(value) == "boolean" then value = value and 1 or 0 end
  if type(value) ~= "number" and not is_tensor(value) then
    where.fail("elements are set to a number, a tensor or a list; got " .. tensor.describe(value))
  end
  if is_tensor(index) then
    if not is_mask(index) then return assign_rows(x, index, value) end
    if type(value) == "number" then value = tensor.makers.full({}, value, { dtype = "f64" }) end
    done(native.tensor.masked_assign(x, index, value))
    return
  end
  if type(index) ~= "number" and type(index) ~= "table" then
    where.fail("a tensor is indexed by numbers or a table; got " .. tensor.describe(index))
  end
  local part = window(x, (write_index(index)))
  if type(value) == "number" then part:fill(value) else part:copy_(value) end
end

---x[index] as a tensor, also where it is one element.
---@param index number|table|perigee.Tensor
---@return perigee.Tensor
function methods.get(x, index)
  if is_tensor(index) then return chosen(x, index) end
  return window(x, (write_index(index)))
end

---x[index] = value; returns x.
function methods.set(x, index, value)
  tensor.assign(x, index, value)
  return x
end

---The places where x is not 0, from 1: one row each, i64.
function methods.nonzero(x)
  tensor.need("nonzero", x)
  local out = Tensor()
  done(native.tensor.nonzero(out, x))
  return out
end

-- Raw memory -------------------------------------------------------------------------------------------------------------------

---@class perigee.Data
---@field ptr ffi.cdata*  pointer to the first element; valid while this object lives
---@field size integer

---The elements without copying: an object that owns the memory, data[1] to data[#data]; its `.ptr` is the FFI pointer.
---@return perigee.Data
function methods.data(x)
  tensor.need("data", x)
  if not x:is_contiguous() then where.fail("data() needs dense memory, and this is a window with gaps: x:contiguous():data()") end
  local owner = x:contiguous() -- another handle on the same storage
  local ptr, size = ffi.cast(tensor.pointers[x.dtype], owner.data_), x:numel()
  local function checked(index)
    if type(index) ~= "number" or index < 1 or index > size or index % 1 ~= 0 then
      where.fail(("index %s lies outside 1 to %d"):format(tostring(index), size))
    end
    return index - 1
  end
  local data = newproxy(true) -- a userdata: tables have no __len
  local meta = getmetatable(data)
  meta.__fields = { "ptr", "size" }
  function meta.__index(_, index)
    if index == "ptr" then return ptr end
    if index == "size" then return size end
    return tonumber(ptr[checked(index)])
  end
  function meta.__newindex(_, index, value) ptr[checked(index)] = value end
  function meta.__len() return size end
  function meta.__tostring() return "data of " .. tensor.type_text(owner) end
  return data
end

---Nested Lua lists; a number where x has no dimensions.
function methods.totable(x)
  if x.rank == 0 then return x:item() end
  local values = tensor.dtype_of(x) == "f64" and x:contiguous() or x:to("f64"):contiguous()
  local data, place = ffi.cast("const double*", values.data_), 0
  local shape = x.shape
  local function build(axis)
    local list = {}
    for index = 1, shape[axis] do
      if axis == #shape then
        list[index] = data[place]
        place = place + 1
      else
        list[index] = build(axis + 1)
      end
    end
    return list
  end
  local list = build(1)
  tensor.keep(values)
  return list
end

return tensor
