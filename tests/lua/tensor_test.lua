local pg = require "perigee"

local tests = {}

local function list(x) return x:totable() end

function tests.makes_tensors()
  check.equal(list(pg.zeros(2, 3)), { { 0, 0, 0 }, { 0, 0, 0 } })
  check.equal(list(pg.ones { 2, dtype = "i64" }), { 1, 1 })
  check.equal(list(pg.full({ 2 }, 7, { dtype = "u8" })), { 7, 7 })
  check.equal(list(pg.arange(4)), { 1, 2, 3, 4 })
  check.equal(list(pg.arange(5, 1, -2)), { 5, 3, 1 })
  check.equal(list(pg.arange(0, 1, 0.25)), { 0, 0.25, 0.5, 0.75, 1 })
  check.equal(list(pg.linspace(0, 1, 3)), { 0, 0.5, 1 })
  check.equal(list(pg.eye(2)), { { 1, 0 }, { 0, 1 } })
  check.equal(list(pg.eye(2, 3)), { { 1, 0, 0 }, { 0, 1, 0 } })
  check.equal(pg.tensor { { 1, 2 }, { 3, 4 } }.shape, { 2, 2 })
  check.equal(pg.tensor({ true, false }, { dtype = "bool" }).dtype, "bool")
  check.equal(pg.tensor(3):item(), 3)
end

function tests.refuses_ragged_lists_and_unknown_names()
  check.raises(function() pg.tensor { { 1, 2 }, { 3 } } end, "tensor_test.lua:%d+: the list%[2%] has 1 entries; expected 2")
  check.raises(function() pg.tensor { { 1, 2 }, 3 } end, "the list%[2%] is 3; expected a list of 2")
  check.raises(function() pg.tensor { 1, { 2 } } end, "the list%[2%] is a list; expected a number")
  check.raises(function() pg.zeros(2, { dtyp = "f32" }) end, "zeros has no option 'dtyp'; did you mean 'dtype'")
  check.raises(function() pg.zeros(2, { dtype = "f31" }) end, "there is no dtype 'f31'; did you mean 'f32'")
  check.raises(function() pg.zeros(-1) end, "size 1 of a shape is %-1")
  check.raises(function() pg.zeros(2 ^ 40, 2 ^ 40) end, "too large")
  check.raises(function() pg.ones(2, 2):pad { befor = { 1, 0 } } end, "tensor_test.lua:%d+: pad: unknown key 'befor'; did you mean 'before'")
  check.raises(function() return pg.ones(2):summ() end, "no method 'summ'; did you mean 'sum'")
end

function tests.operators_broadcast_and_promote()
  local a = pg.tensor { { 1, 2, 3 }, { 4, 5, 6 } }
  check.equal(list(a + 1), { { 2, 3, 4 }, { 5, 6, 7 } })
  check.equal(list(1 - a), { { 0, -1, -2 }, { -3, -4, -5 } })
  check.equal(list(a * pg.tensor { 1, 10, 100 }), { { 1, 20, 300 }, { 4, 50, 600 } })
  check.equal(list(-a[1] ^ 2), { -1, -4, -9 })
  check.equal(list(a[2] % 4), { 0, 1, 2 })
  local whole = pg.tensor({ 7, -7 }, { dtype = "i64" })
  check.equal((whole + 1).dtype, "i64")
  check.equal((whole + 0.5).dtype, "f32")
  check.equal(list(whole / 2), { 3.5, -3.5 })
  check.equal((whole + pg.ones { 2, dtype = "f64" }).dtype, "f64")
  check.raises(function() return a + pg.zeros(2, 2) end, "add: shapes do not fit together; got f32%[2x3%] and f32%[2x2%]")
  check.raises(function() return a + "x" end, "add takes tensors and numbers; got 'x'")
end

function tests.comparisons_raise_and_name_the_method()
  local a = pg.ones(2)
  check.raises(function() return a == 1 end, "x:eq%(y%)")
  check.raises(function() return a < 1 end, "x:lt%(y%)")
  check.raises(function() return a <= a end, "x:le%(y%)")
  check.equal(a == nil, false)
  check.equal(a:all_equal(pg.ones(2)), true)
  check.equal(list(a:gt(0)), { 1, 1 })
end

-- As NumPy's: 2^40 + 1 squared is 2^80 + 2^41 + 1, of which 64 bits are 2^41 + 1.
function tests.integers_wrap_around()
  local x = pg.full({ 40 }, 2 ^ 40 + 1, { dtype = "i64" })
  for _, square in ipairs { x * x, x:pow(2), x:square() } do check.equal(square[1], 2 ^ 41 + 1) end
  local lowest = pg.full({ 40 }, -2 ^ 52, { dtype = "i64" }) * 2048
  for _, same in ipairs { -lowest, lowest:abs(), lowest + lowest + lowest } do check.equal(same[1], -2 ^ 63) end
  check.equal((lowest - 1)[1], 2 ^ 63) -- the largest, 2^63 - 1, as a double
  check.equal((x[{ { 1, 2 } }]:prod()):item(), 2 ^ 41 + 1)
end

-- NumPy's and PyTorch's results by these names.
function tests.small_things()
  check.equal(pg.tensor({ true, false }).dtype, "bool")
  check.equal(pg.tensor({ { true }, { 1 } }).dtype, "f32")
  check.equal(pg.tensor(true).dtype .. #pg.tensor(true).shape, "bool0")
  check.equal(pg.ones(3):dot(pg.ones(3)).shape, {})
  check.equal(pg.ones(3):matmul(pg.ones(2, 3, 4)).shape, { 2, 4 })
  check.equal(pg.ones(2, 3, 4):matmul(pg.ones(4)).shape, { 2, 3 })
  check.equal(pg.tensor({ 3, 1 }, { dtype = "i32" }):max().dtype, "i32")
  check.equal(pg.tensor({ 3, 1 }, { dtype = "u8" }):min():item(), 1)
  check.equal(pg.tensor({ 3, 1 }, { dtype = "i32" }):sum().dtype, "i64")
  local x = pg.tensor { 1, 5, 9 }
  x:clamp_(2, 6)
  check.equal(list(x), { 2, 5, 6 })
  check.equal(list(x:fill_(3)), { 3, 3, 3 })
  check.equal(list(x:zero_()), { 0, 0, 0 })
  check.equal(pg.ones_like(pg.zeros(2, 1, { dtype = "i64" })).dtype, "i64")
  check.equal(list(pg.compile(function(a) return a + pg.ones_like(a) end)(pg.zeros(2))), { 1, 1 })
  check.raises(function() pg.zeros(2, { dtype = "int64" }) end, "no dtype 'int64'; did you mean 'i64'?")
  check.raises(function() return x[{ pg.tensor({ 1 }, { dtype = "i64" }) }] end, "x:take%(places, axis%)")
  check.raises(function() return x:take({ 1 }, x) end, "no axis a tensor f32%[3%] of f32%[3%]")
  local data = pg.arange(6):reshape(2, 3):data()
  check.equal(#data, 6)
  check.equal(data.size, 6)
  check.equal(data[6], 6)
  check.equal(tostring(data), "data of f32[2x3]")
  check.raises(function() return data[7] end, "index 7 lies outside 1 to 6")
  check.raises(function() data.size = 3 end, "index size lies outside 1 to 6")
  collectgarbage()
  data[1] = 7
  check.equal(data.ptr[0], 7)
end

-- The same numbers whatever way an op takes: few elements, many, with gaps.
function tests.few_elements_are_computed_as_many()
  pg.seed(9)
  local x, y = pg.rand(600) + 0.5, pg.rand(600) + 0.5
  for _, name in ipairs { "exp", "log", "tanh", "sigmoid", "sqrt", "erf", "sin", "relu", "reciprocal", "logical_not" } do
    local whole = x[name](x)
    check.equal(x[{ { 1, 10 } }][name](x[{ { 1, 10 } }]):all_equal(whole[{ { 1, 10 } }]), true)
    check.equal(x[{ { 1, 599, 7 } }][name](x[{ { 1, 599, 7 } }]):all_equal(whole[{ { 1, 599, 7 } }]), true)
  end
  for _, name in ipairs { "add", "div", "pow", "maximum", "mod", "less" } do
    local whole, scaled = x[name](x, y), x[name](x, 0.7)
    check.equal(x[{ { 1, 10 } }][name](x[{ { 1, 10 } }], y[{ { 1, 10 } }]):all_equal(whole[{ { 1, 10 } }]), true)
    check.equal(x[{ { 1, 10 } }][name](x[{ { 1, 10 } }], 0.7):all_equal(scaled[{ { 1, 10 } }]), true)
    check.equal(x[{ { 600, 1, -3 } }][name](x[{ { 600, 1, -3 } }], 0.7):all_equal(scaled[{ { 600, 1, -3 } }]), true)
  end
end

-- Threads take parts of a call; of two rows that lie side by side in memory each part has elements two apart.
function tests.reductions_of_what_does_not_lie_dense_in_a_part()
  for _, dtype in ipairs { "f32", "f64", "i64", "i32", "u8" } do
    for rows = 1, 3 do
      local x = (pg.arange(40000 * rows):mod(7)):to(dtype):reshape(40000, rows)
      local turned, dense = x.T, x.T:clone()
      for _, name in ipairs { "sum", "max", "min" } do
        check.equal(list(turned[name](turned, 2)), list(dense[name](dense, 2)), dtype .. " " .. name)
      end
      local cube = x:reshape(100, 400, rows):permute(3, 2, 1)
      check.equal(list(cube:sum(3):reshape(-1)), list(cube:clone():sum(3):reshape(-1)), dtype)
    end
  end
end

function tests.places_from_the_end_mean_the_same_recorded()
  local x = pg.arange(5)
  local last = pg.compile(function(v) return v:narrow(1, -2, 2) * 1 end)
  check.equal(list(last(x)), { 4, 5 })
  check.equal(list(x:narrow(1, -2, 2)), { 4, 5 })
  check.raises(function() pg.compile(function(v) return v:narrow(1, 4, 3) * 1 end)(x) end, "outside")
end

function tests.targets_whose_elements_are_one_are_refused()
  check.raises(function() pg.zeros(1, 3):expand(4, 3):add_(1) end, "one and the same")
end

function tests.logsumexp_of_infinities()
  local huge = math.huge
  check.equal(pg.tensor({ -huge, -huge }):logsumexp():item(), -huge)
  check.equal(pg.tensor({ huge, 1 }):logsumexp():item(), huge)
end

function tests.rows_are_set_one_by_one()
  local x = pg.zeros(4)
  x[pg.tensor({ 2, 4 }, { dtype = "i64" })] = pg.tensor { 5, 6 }
  check.equal(list(x), { 0, 5, 0, 6 })
end

return tests
