-- Timed by tests/bench/tensors.py: element-wise ops and reductions from a script, and a training loop of one's own. One line of JSON each. Run as
-- perigee -e 'THREADS, SECONDS = 1, 0.5 dofile "tests/bench/tensors.lua"'.
local ffi = require "ffi"
local pg = require "perigee"

ffi.cdef "typedef struct { long s, n; } bench_time; int clock_gettime(int clock, bench_time* time);"
local clock = ffi.new "bench_time"
local threads, seconds = _G.THREADS, _G.SECONDS

-- 2: CPU time of this process; 1: wall clock.
local function now(kind)
  ffi.C.clock_gettime(kind, clock)
  return tonumber(clock.s) + tonumber(clock.n) * 1e-9
end

local kind = threads == 1 and 2 or 1

-- The best of several repeats: other work on the machine only ever adds.
local function seconds_of(f)
  local count, best = 1, math.huge
  local function repeat_of(n)
    local begin = now(kind)
    for _ = 1, n do f() end
    return now(kind) - begin
  end
  while repeat_of(count) < seconds / 8 do count = count * 2 end
  for _ = 1, 12 do best = math.min(best, repeat_of(count) / count) end
  return best
end

local function report(name, value) print(('{"name": "%s", "value": %.6g}'):format(name, value)) end

if threads == 1 then
  local x, y = pg.ones(10), pg.ones(10)
  report("x + y", 1e9 * seconds_of(function() local _ = x + y end))
  report("x + 1", 1e9 * seconds_of(function() local _ = x + 1 end))
  report("exp(x)", 1e9 * seconds_of(function() local _ = x:exp() end))
  for _, name in ipairs { "log", "tanh", "sigmoid", "sqrt" } do report(name .. "(x)", 1e9 * seconds_of(function() local _ = x[name](x) end)) end
  report("x += y", 1e9 * seconds_of(function() x:add_(y) end))
  for _, dtype in ipairs { "f32", "f64", "i64", "i32" } do
    local many = (pg.rand(1000, 1000) * 100):to(dtype)
    report("sum of 1e6 " .. dtype, 1e9 * seconds_of(function() local _ = many:sum() end))
    report("max of columns, 1e6 " .. dtype, 1e9 * seconds_of(function() local _ = many:max(1) end))
    report("max of rows, 1e6 " .. dtype, 1e9 * seconds_of(function() local _ = many:max(2) end))
  end
end

-- 784-500-500-10, batch 64, SGD with momentum: the row mlp_sgd of bench.py.
pg.seed(1)
local data, labels = pg.randn(4096, 784), pg.randint(1, 10, { 4096 })
local function layer(inputs, outputs) return { w = pg.randn(outputs, inputs) / math.sqrt(inputs), b = pg.zeros(outputs) } end
local function like(layers)
  local zeros = {}
  for index, each in ipairs(layers) do zeros[index] = { w = each.w * 0, b = each.b * 0 } end
  return zeros
end
local parameters = { layer(784, 500), layer(500, 500), layer(500, 10) }
local momentum = like(parameters)

local function loss(p, x, y)
  for index = 1, 2 do x = pg.linear(x, p[index].w, p[index].b, { activation = "relu" }) end
  return pg.cross_entropy(pg.linear(x, p[3].w, p[3].b), y):mean()
end

local step = pg.compile(function(p, m, x, y, rate)
  local value, gradient = pg.value_and_grad(loss)(p, x, y)
  local new, moved = {}, {}
  for index, each in ipairs(p) do
    new[index], moved[index] = {}, {}
    for name, parameter in pairs(each) do
      moved[index][name] = 0.9 * m[index][name] + gradient[index][name]
      new[index][name] = parameter - rate * moved[index][name]
    end
  end
  return value, new, moved
end, { threads = threads, donate = { 1, 2 } })

local at = 0
report("images", 64 / seconds_of(function()
  at = at % 4096
  local rows = { { at + 1, at + 64 } }
  local _
  _, parameters, momentum = step(parameters, momentum, data[rows], labels[rows], 0.01)
  at = at + 64
end))
