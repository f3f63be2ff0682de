-- How a tensor prints: rows of aligned numbers, abbreviated in the middle where they are many, then shape, type, device and what is in it.
local ffi = require "ffi"
local tensor = require "perigee.tensor"

local many, most_lines, edge = 1000, 60, 3 -- elements and lines from which it is abbreviated, and how many places stay at each end

local function is_real(dtype) return dtype == "f32" or dtype == "f64" or dtype == "f16" or dtype == "bf16" end

-- The places along a dimension that are shown; false stands for those left out.
local function shown(size, short, ends)
  local places = {}
  ends = ends or edge
  if not short or size <= 2 * ends then
    for index = 1, size do places[index] = index end
    return places
  end
  for index = 1, ends do places[#places + 1] = index end
  places[#places + 1] = false
  for index = size - ends + 1, size do places[#places + 1] = index end
  return places
end

-- In the dimensions before the matrices fewer places stay, for each of them is a matrix.
local function places_of(shape, axis, short) return shown(shape[axis], short, axis < #shape - 1 and 1 or edge) end

-- One format for all numbers, so that they stand in columns: whole numbers plainly, a wide span of sizes in exponents.
local function formatter(values, dtype)
  if dtype == "bool" then return function(x) return x ~= 0 and "true" or "false" end end
  local largest, smallest, whole = 0, math.huge, true
  for _, value in ipairs(values) do
    local size = math.abs(value)
    if size < math.huge and size == size then
      largest = math.max(largest, size)
      if size > 0 then smallest = math.min(smallest, size) end
      if value % 1 ~= 0 then whole = false end
    end
  end
  if not is_real(dtype) then return function(x) return ("%.0f"):format(x) end end
  if whole and largest < 1e8 then return function(x) return x == x and math.abs(x) < math.huge and ("%d."):format(x) or tostring(x) end end
  if largest >= 1e5 or (smallest < 1e-4 and largest / smallest > 1e3) or largest < 1e-3 then
    return function(x) return ("%.4e"):format(x) end
  end
  return function(x) return ("%.4f"):format(x) end
end

local function collect(data, shape, strides, axis, offset, short, values)
  if axis > #shape then
    values[#values + 1] = tonumber(data[offset])
    return
  end
  for _, place in ipairs(places_of(shape, axis, short)) do
    if place then collect(data, shape, strides, axis + 1, offset + (place - 1) * strides[axis], short, values) end
  end
end

-- `at`: the places in the dimensions before this one, which label the matrices of a tensor of more dimensions.
local function render(shape, axis, short, cells, state, lines, at)
  if axis == #shape then
    local row = {}
    for _, place in ipairs(places_of(shape, axis, short)) do
      if place then
        state.next = state.next + 1
        row[#row + 1] = cells[state.next]
      else
        row[#row + 1] = "..."
      end
    end
    lines[#lines + 1] = " " .. table.concat(row, "  ")
    return
  end
  if axis == #shape - 1 and axis > 1 then lines[#lines + 1] = ("[%s]"):format(table.concat(at, ", ")) end
  for _, place in ipairs(places_of(shape, axis, short)) do
    if place then
      at[axis] = place
      render(shape, axis + 1, short, cells, state, lines, at)
      at[axis] = nil
    else
      lines[#lines + 1] = axis < #shape - 1 and "..." or "  ..."
    end
  end
end

local function summary(x)
  local text = ("[%s of %s on %s"):format(x.dtype, #x.shape == 0 and "no dimensions" or table.concat(x.shape, "x"), x.device)
  if x:numel() < 2 or x.dtype == "bool" then return text .. "]" end
  local low, high, mean = x:min():item(), x:max():item(), x:to("f64"):mean():item()
  return text .. (", min %.6g, mean %.6g, max %.6g]"):format(low, mean, high)
end

---@param x perigee.Tensor
---@return string
function tensor.text(x)
  local shape, count = x.shape, x:numel()
  if count == 0 then return summary(x) end
  local lines_needed = #shape > 1 and count / shape[#shape] + (#shape > 2 and count / shape[#shape] / shape[#shape - 1] or 0) or 1
  local short = count > many or lines_needed > most_lines
  local values, strides = {}, {}
  local numbers = x
  for index = 1, #shape do strides[index] = tonumber(x.strides_[index - 1]) end
  if x.dtype == "f16" or x.dtype == "bf16" then
    numbers = x:to("f32"):contiguous()
    for index = 1, #shape do strides[index] = tonumber(numbers.strides_[index - 1]) end
  end
  collect(ffi.cast(tensor.pointers[numbers.dtype], numbers.data_), shape, strides, 1, 0, short, values)
  local format, width, cells = formatter(values, x.dtype), 0, {}
  for index, value in ipairs(values) do
    cells[index] = format(value)
    width = math.max(width, #cells[index])
  end
  for index, cell in ipairs(cells) do cells[index] = (" "):rep(width - #cell) .. cell end
  local lines = {}
  if #shape == 0 then lines[1] = " " .. cells[1] else render(shape, 1, short, cells, { next = 0 }, lines, {}) end
  lines[#lines + 1] = summary(x)
  tensor.keep(numbers)
  return table.concat(lines, "\n")
end

return tensor
