-- Line charts in the terminal, of braille dots: two columns and four rows of them in each character.
local plot = {}

local kDots = { { 0x01, 0x02, 0x04, 0x40 }, { 0x08, 0x10, 0x20, 0x80 } } -- by column, by row from the top
local bit = require "bit"

local function braille(mask)
  local code = 0x2800 + mask
  return string.char(0xe0 + bit.rshift(code, 12), 0x80 + bit.band(bit.rshift(code, 6), 0x3f), 0x80 + bit.band(code, 0x3f))
end

local function is_finite(x) return x == x and x ~= math.huge and x ~= -math.huge end

-- The numbers of an axis, in as few digits as tell its ends apart.
local function label(value, span)
  if span == 0 then return ("%.4g"):format(value) end
  local digits = math.max(0, math.min(6, math.ceil(2 - math.log10(span)))) + 0 -- not -0, which prints its sign
  if math.abs(value) >= 1e6 or (value ~= 0 and digits == 6 and math.abs(value) < 1e-4) then return ("%.2e"):format(value) end
  return ("%." .. digits .. "f"):format(value)
end

local function range_of(points, index, low, high)
  for _, point in ipairs(points) do
    local value = point[index]
    low, high = math.min(low, value), math.max(high, value)
  end
  return low, high
end

---A chart as text.
---@param title string
---@param points number[][]  { {x, y}, ... }, x ascending; numbers that are not finite leave a gap
---@param options? { width?: integer, height?: integer, x_label?: string, log?: boolean }  in characters; default 72 x 16
---@return string
function plot.text(title, points, options)
  options = options or {}
  local width, height = options.width or 72, options.height or 16
  if options.log then
    local powers = {}
    for index, point in ipairs(points) do powers[index] = { point[1], point[2] > 0 and math.log10(point[2]) or 0 / 0 } end
    points = powers
  end
  local finite = {}
  for _, point in ipairs(points) do
    if is_finite(point[1]) and is_finite(point[2]) then finite[#finite + 1] = point end
  end
  if #finite == 0 then return title .. ": nothing to plot yet" end
  local x_low, x_high = range_of(finite, 1, math.huge, -math.huge)
  local y_low, y_high = range_of(finite, 2, math.huge, -math.huge)
  local y_span, x_span = y_high - y_low, x_high - x_low
  local top, bottom = label(y_high, y_span), label(y_low, y_span)
  if options.log then top, bottom = ("%.3g"):format(10 ^ y_high), ("%.3g"):format(10 ^ y_low) end
  local margin = math.max(#top, #bottom)
  local columns, rows = (width - margin - 2) * 2, height * 4
  local cells = {}

  local function place(point)
    local x = x_span > 0 and (point[1] - x_low) / x_span or 0.5
    local y = y_span > 0 and (point[2] - y_low) / y_span or 0.5
    return math.floor(x * (columns - 1) + 0.5), math.floor((1 - y) * (rows - 1) + 0.5)
  end
  local function dot(x, y)
    local cell = math.floor(y / 4) * columns + math.floor(x / 2)
    cells[cell] = bit.bor(cells[cell] or 0, kDots[x % 2 + 1][y % 4 + 1])
  end
  local function line(x0, y0, x1, y1)
    local steps = math.max(math.abs(x1 - x0), math.abs(y1 - y0), 1)
    for i = 0, steps do
      dot(math.floor(x0 + (x1 - x0) * i / steps + 0.5), math.floor(y0 + (y1 - y0) * i / steps + 0.5))
    end
  end

  local last_x, last_y
  for _, point in ipairs(points) do
    if not (is_finite(point[1]) and is_finite(point[2])) then
      last_x = nil
    else
      local x, y = place(point)
      line(last_x or x, last_y or y, x, y)
      last_x, last_y = x, y
    end
  end

  local lines = { (" "):rep(margin + 2) .. title }
  for row = 0, height - 1 do
    local mark = row == 0 and top or row == height - 1 and bottom or ""
    local text = { (" "):rep(margin - #mark), mark, row == 0 and "┤" or row == height - 1 and "┤" or "│" }
    local last = -1
    for column = 0, columns / 2 - 1 do
      if cells[row * columns + column] then last = column end
    end
    for column = 0, last do text[#text + 1] = braille(cells[row * columns + column] or 0) end
    lines[#lines + 1] = table.concat(text)
  end
  local left, right = label(x_low, x_span), label(x_high, x_span)
  local middle = options.x_label or ""
  local space = math.max(2, columns / 2 - #left - #right - #middle)
  lines[#lines + 1] = (" "):rep(margin + 1)
    .. left .. (" "):rep(math.floor(space / 2)) .. middle .. (" "):rep(math.ceil(space / 2)) .. right
  return table.concat(lines, "\n")
end

return plot
