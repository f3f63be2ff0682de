local pg = require "perigee"

local tests = {}

local function grid() return pg.arange(12):reshape(3, 4) end
local function list(x) return x:totable() end

function tests.numbers_give_rows_and_elements()
  local t = grid()
  check.equal(list(t[2]), { 5, 6, 7, 8 })
  check.equal(list(t[-1]), { 9, 10, 11, 12 })
  check.equal(t[{ 2, 3 }], 7)
  check.equal(t[2][3], 7)
  check.equal(t:get({ 2, 3 }).rank, 0)
  check.raises(function() return t[4] end, "index 4 lies outside dimension 1; got f32%[3x4%], expected 1 to 3")
  check.raises(function() return t[0] end, "index 0 lies outside")
  check.raises(function() return t[1.5] end, "whole number; got 1.5")
  check.raises(function() return t[{ 1, 2, 3 }] end, "more entries than the tensor has dimensions")
end

function tests.ranges_include_both_ends_and_run_backwards()
  local t = grid()
  check.equal(list(t[{ { 1, 2 }, 2 }]), { 2, 6 })
  check.equal(list(t[{ {}, { 4, 1, -2 } }]), { { 4, 2 }, { 8, 6 }, { 12, 10 } })
  check.equal(list(t[{ { -1, 1, -1 }, 1 }]), { 9, 5, 1 })
  check.equal(list(t[{ { 2 }, { -2, -1 } }]), { { 7, 8 }, { 11, 12 } })
  check.equal(t[{ { 2, 1 } }].shape, { 0, 4 })
  check.equal(t[{ pg.newaxis, 1 }].shape, { 1, 4 })
  check.raises(function() return t[{ { 1, 4 } }] end, "the range 1 to 4 leaves dimension 1")
  check.raises(function() return t[{ { 1, 2, 0 } }] end, "step cannot be 0")
  check.raises(function() return t[{ "a" }] end, "got 'a'")
end

function tests.windows_share_memory()
  local t = grid()
  local column = t[{ {}, 2 }]
  column:fill(0)
  check.equal(list(t), { { 1, 0, 3, 4 }, { 5, 0, 7, 8 }, { 9, 0, 11, 12 } })
  t.T[1] = pg.tensor { 1, 2, 3 }
  check.equal(list(t[{ {}, 1 }]), { 1, 2, 3 })
  t:reshape(12)[{ { 12, 11, -1 } }] = pg.tensor { -1, -2 }
  check.equal(list(t[3]), { 3, 0, -2, -1 })
  t[{ {}, { 1, 3 } }]:add_(t[{ {}, { 2, 4 } }]) -- they overlap
  check.equal(list(t), { { 1, 3, 7, 4 }, { 2, 7, 15, 8 }, { 3, -2, -3, -1 } })
end

function tests.masks_and_places()
  local t = grid()
  check.equal(list(t[t:gt(9)]), { 10, 11, 12 })
  check.equal(list(t[pg.tensor({ 3, 1 }, { dtype = "i64" })][{ {}, 1 }]), { 9, 1 })
  t[t:gt(9)] = 0
  check.equal(t:sum():item(), 45)
  t[t:le(2)] = pg.tensor { 100, 200, 300, 400, 500 }
  check.equal(list(t), { { 100, 200, 3, 4 }, { 5, 6, 7, 8 }, { 9, 300, 400, 500 } })
  t[pg.tensor({ 1, 3 }, { dtype = "i64" })] = 7
  check.equal(list(t[{ {}, 1 }]), { 7, 5, 7 })
  check.equal(t:set({ 2, 2 }, -1)[{ 2, 2 }], -1)
  t[2] = { 1, 2, 3, 4 }
  check.equal(list(t[2]), { 1, 2, 3, 4 })
  check.raises(function() t[1] = pg.ones(3) end, "does not fit the shape")
  check.raises(function() return t[pg.ones(2):gt(0)] end, "a mask has the shape of the tensor")
  check.raises(function() return t:take({ 4 }) end, "index 4 lies outside dimension 1")
end

function tests.in_place_forms_keep_dtype_and_shape()
  local t = grid()
  check.equal(list(t:clone():add_(1)[1]), { 2, 3, 4, 5 })
  check.equal(list(t:clone():sub_(pg.ones(4), 2)[1]), { -1, 0, 1, 2 })
  check.equal(list(t:clone():add_(t, -1)[1]), { 0, 0, 0, 0 })
  check.equal(list(t:clone():mul_(t)[1]), { 1, 4, 9, 16 })
  check.raises(function() pg.ones(4):add_(t) end, "add_ cannot change the shape")
  check.raises(function() pg.ones { 4, dtype = "i64" }:add_(0.5) end, "add_ would lose what its result has")
end

function tests.data_gives_memory_with_bounds()
  local data
  do
    local t = grid()
    data = t:data()
  end
  collectgarbage()
  check.equal(data[12], 12)
  check.equal(data.size, 12)
  check.equal(data.ptr[0], 1)
  data[1] = 5
  check.equal(data[1], 5)
  check.raises(function() return data[13] end, "index 13 lies outside 1 to 12")
  check.raises(function() data[0] = 1 end, "index 0 lies outside")
  check.raises(function() return grid().T:data() end, "needs dense memory")
end

-- Tensors are freed promptly: a million temporaries, small ones and large ones, leave the process as large as it was.
local function resident_bytes()
  local file = io.open "/proc/self/statm"
  if not file then return 0 end
  local pages = tonumber(file:read "*l":match "%d+ (%d+)")
  file:close()
  return pages * 4096
end

function tests.temporaries_do_not_grow_the_process()
  local a, b = pg.ones(10), pg.ones(10)
  for _ = 1, 1e5 do local _ = a + b end
  local before = resident_bytes()
  for _ = 1, 9e5 do local _ = a + b end
  local large = pg.ones(1000, 1000)
  for _ = 1, 300 do local _ = large + 1 end -- 1.2 GB in all
  local grown = (resident_bytes() - before) / 2 ^ 20
  if grown > 200 then error(("the process has grown by %.0f MiB"):format(grown)) end
end

function tests.files_hold_what_was_put_into_them()
  local folder = os.tmpname()
  os.remove(folder)
  local t = grid()
  for _, name in ipairs { "a.npy", "a.csv" } do
    pg.save(folder .. "/" .. name, t)
    check.equal(pg.load(folder .. "/" .. name):all_equal(t), true)
  end
  for _, name in ipairs { "b.npz", "b.safetensors" } do
    pg.save(folder .. "/" .. name, { first = t, second = t.T:to "i64" })
    local loaded = pg.load(folder .. "/" .. name)
    check.equal(loaded.first:all_equal(t), true)
    check.equal(loaded.second:all_equal(t.T), true)
    check.equal(loaded.second.dtype, "i64")
  end
  local fractions = pg.randn(5, 3) * 1e-3
  for _, name in ipairs { "f.npy", "f.csv" } do
    pg.save(folder .. "/" .. name, fractions.T)
    check.equal(pg.load(folder .. "/" .. name):all_equal(fractions.T), true)
  end
  check.equal(select("#", pg.load(folder .. "/f.npy")), 1)
  for _, dtype in ipairs { "f64", "i32", "u8", "bool" } do
    pg.save(folder .. "/g.npy", t:gt(5):to(dtype))
    local loaded = pg.load(folder .. "/g.npy")
    check.equal(loaded.dtype, dtype)
    check.equal(loaded:all_equal(t:gt(5):to(dtype)), true)
  end
  pg.save(folder .. "/c.safetensors", { x = t }, { metadata = { made = "here" } })
  check.equal(select(2, pg.load(folder .. "/c.safetensors")).made, "here")
  pg.save(folder .. "/c.csv", t, { header = { "a", "b", "c", "d" } })
  check.equal(select(2, pg.load(folder .. "/c.csv")), { "a", "b", "c", "d" })
  local image = pg.randint(0, 255, { 3, 4, 5, dtype = "u8" })
  pg.save(folder .. "/d.png", image)
  check.equal(pg.load(folder .. "/d.png"):all_equal(image), true)
  check.raises(function() pg.save(folder .. "/e.txt", t) end, "tensors have no such format; got '.txt'")
  check.raises(function() pg.load(folder .. "/none.npy") end, "none.npy")
  check.raises(function() pg.save(folder .. "/e.npy", { x = t }) end, "this format holds one tensor")
  check.raises(function() pg.save(folder .. "/e.png", t) end, "an image is u8")
  os.execute("rm -r '" .. folder .. "'")
end

function tests.text_is_aligned_and_abbreviated()
  check.matches(tostring(pg.tensor { { 1, 2 }, { 3, 4 } }), "^ 1%.  2%.\n 3%.  4%.\n%[f32 of 2x2 on cpu, min 1, mean 2.5, max 4%]$")
  check.matches(tostring(pg.tensor { 0.5, -10 }), "^   0%.5000  %-10%.0000\n")
  check.matches(tostring(pg.ones(2):gt(0)), "^ true  true\n%[bool of 2 on cpu%]$")
  check.matches(tostring(pg.zeros(2000)), "^ 0%.  0%.  0%.  %.%.%.  0%.  0%.  0%.\n")
  check.matches(tostring(pg.arange(1, 1200):reshape(30, 40)),
    "^ +1%. +2%. +3%.  %.%.%. +38%. +39%. +40%.\n.*\n +%.%.%.\n.*1200%.\n%[f32 of 30x40 on cpu, min 1, mean 600.5, max 1200%]$")
  check.matches(tostring(pg.zeros(0, 3)), "^%[f32 of 0x3 on cpu%]$")
  check.matches(tostring(pg.tensor { 1 / 0, 0 / 0 }), "inf +%-?nan")
end

function tests.seeds_repeat_draws()
  pg.seed(7)
  local a, b = pg.rand(5), pg.randn(5)
  pg.seed(7)
  check.equal(pg.rand(5):all_equal(a), true)
  check.equal(pg.randn(5):all_equal(b), true)
  check.equal(pg.rand(5):all_equal(a), false)
  pg.seed(8)
  check.equal(pg.rand(5):all_equal(a), false)
  for _, draw in ipairs { function() return pg.randint(1, 1000, { 50 }) end, function() return pg.randperm(50) end } do
    pg.seed(7)
    local first, next_one = draw(), draw()
    pg.seed(7)
    check.equal(draw():all_equal(first), true)
    check.equal(first:all_equal(next_one), false)
  end
  local dice = pg.randint(1, 6, { 6000 })
  check.equal({ dice:min():item(), dice:max():item() }, { 1, 6 })
  check.equal((pg.randperm(100):sort()):all_equal(pg.arange(100)), true)
  local normal = pg.randn(100000)
  check.equal(math.abs(normal:mean():item()) < 0.02 and math.abs(normal:std():item() - 1) < 0.02, true)
end

-- A part of the tensor itself is copied before it is overwritten.
function tests.windows_on_few_elements_share_their_memory()
  local function few() return pg.arange(6):reshape(2, 3) + 0 end
  local function collect() for _ = 1, 3 do collectgarbage() local _ = few() * 2 end end
  local t = few()
  local row, turned, flat, data = t[2], t.T, t:reshape(-1), t:data()
  row:fill(7)
  t:add_(1)
  collect()
  check.equal(list(t), { { 2, 3, 4 }, { 8, 8, 8 } })
  check.equal(list(turned), { { 2, 8 }, { 3, 8 }, { 4, 8 } })
  check.equal(list(flat), { 2, 3, 4, 8, 8, 8 })
  check.equal(data[4], 8)
  row = few()[1] -- of a tensor without other owners
  collect()
  check.equal(list(row), { 1, 2, 3 })
  check.equal(list(flat), { 2, 3, 4, 8, 8, 8 })
  local scale = few()
  local f = pg.compile(function(x) return x * scale end)
  check.equal(list(f(few())), { { 1, 4, 9 }, { 16, 25, 36 } })
  scale:mul_(0)
  collect()
  check.equal(list(f(few())), { { 0, 0, 0 }, { 0, 0, 0 } })
  local x, y = few(), few()
  check.equal(list(x:add_(y)), { { 2, 4, 6 }, { 8, 10, 12 } })
  check.equal(list(x:add_(x)), { { 4, 8, 12 }, { 16, 20, 24 } })
  check.equal(list(x:sub_(y, 2)), { { 2, 4, 6 }, { 8, 10, 12 } })
  check.equal(list(x:copy_(y)), { { 1, 2, 3 }, { 4, 5, 6 } })
  check.equal(list(x:copy_(x.T:reshape(2, 3))), { { 1, 4, 2 }, { 5, 3, 6 } })
  local many = {}
  for i = 1, 1000 do many[i] = few() * i end
  collect()
  local sums = {}
  for i = 1, 1000 do sums[i] = many[i][{ 2, 3 }] end
  collect()
  for i = 1, 1000 do check.equal(sums[i], 6 * i) end
end

function tests.nothing_chooses_nothing()
  for _, shape in ipairs { { 2, 0, 3 }, { 0 }, { 3, 0 } } do
    local places = pg.zeros { dtype = "i64", unpack(shape) }
    check.equal(list(pg.one_hot(places, 2)), list(pg.zeros(unpack(shape))))
    check.equal(#pg.ones(4, 2):take(places).shape, #shape + 1)
  end
end

return tests
