-- 2200 cases that NumPy computed (make_numpy_cases.py): a line of Lua each, the numbers that it works on and what it must give.
local pg = require "perigee"

local folder = package.path:match "^(.-)/%?%.lua"

local function part(numbers, text)
  local dtype, begin, sizes = text:match "^(%w+):(%d+):([%dx]*)$"
  local shape, count = {}, 1
  for size in sizes:gmatch "%d+" do
    shape[#shape + 1] = tonumber(size)
    count = count * tonumber(size)
  end
  if count == 0 then return pg.zeros { dtype = dtype, unpack(shape) } end
  return numbers[{ { begin + 1, begin + count } }]:reshape(shape):to(dtype)
end

-- Relative to the largest number: sums of f32 may cancel.
local function tolerance(got, operands)
  local narrow = got.dtype == "f32"
  for _, x in ipairs(operands) do narrow = narrow or x.dtype == "f32" end
  return narrow and 5e-5 or 1e-9
end

local function same(got, wanted, operands)
  if not pg.tensor(got.shape):all_equal(pg.tensor(wanted.shape)) then
    return ("shape %s, expected %s"):format(table.concat(got.shape, "x"), table.concat(wanted.shape, "x"))
  end
  if wanted:numel() == 0 then return nil end
  local a, b, bound = got:to "f64", wanted:to "f64", tolerance(got, operands)
  local finite = b:abs():lt(1e300)
  local largest = pg.where(finite, b:abs(), 0):max():item()
  local near = (a - b):abs():le(bound * pg.maximum(b:abs(), math.min(largest, 1)))
  if pg.logical_or(near, a:eq(b)):all():item() == 0 then return "got\n" .. got .. "\nexpected\n" .. wanted end
end

local tests = {}

function tests.two_thousand_cases_are_as_numpy_has_them()
  local file = pg.load(folder .. "/numpy_cases.npz")
  local letters = {}
  for place, byte in ipairs(file.cases:totable()) do letters[place] = string.char(byte) end
  local wrong, number = {}, 0
  for line in table.concat(letters):gmatch "[^\n]+" do
    number = number + 1
    local code, given, wanted = line:match "^(.-)\t(.-)\t(.-)$"
    local operands = {}
    for text in given:gmatch "[^;]+" do operands[#operands + 1] = part(file.operands, text) end
    local ok, got = pcall(assert(loadstring("local pg, x = ... return " .. code)), pg, operands)
    local message = ok and same(got, part(file.results, wanted), operands) or not ok and got
    if message then wrong[#wrong + 1] = ("case %d: %s: %s"):format(number, code, message) end
  end
  check.equal(number, 2200)
  if #wrong > 0 then error(#wrong .. " of 2200\n" .. table.concat(wrong, "\n", 1, math.min(#wrong, 12)), 0) end
end

return tests
