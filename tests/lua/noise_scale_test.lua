-- pg.noise_scale against the covariance of the examples' own gradients.
local pg = require "perigee"
local tests = {}

local function close(a, b, relative) assert(math.abs(a - b) <= relative * math.abs(b), ("%.9g against %.9g"):format(a, b)) end

-- All batches of a cycle over examples with gradients `list`: their estimates have the mean that the formula promises.
function tests.is_the_trace_over_the_squared_norm()
  pg.seed(3)
  local count, size = 4000, 10
  local each = pg.randn(count, 3) * pg.tensor { 1, 2, 0.5 } + pg.tensor { 0.7, -0.4, 0.2 }
  local at = 1
  local function batches()
    if at > count then return nil end
    local batch = { x = each[{ { at, at + size - 1 } }] }
    at = at + size
    return batch
  end
  local found = pg.noise_scale(function(batch) return { w = batch.x:mean(1) } end, batches, size, { most = 1000 })
  local mean = each:mean(1)
  local trace = ((each - mean) ^ 2):sum():item() / (count - 1)
  close(found.noise, trace, 0.1)
  close(found.gradient, (mean * mean):sum():item() - trace / count, 0.02)
  close(found.scale, found.noise / found.gradient, 1e-12)
  check.equal(found.batches, 400)
end

function tests.no_noise_is_a_scale_of_nothing()
  local left = 3
  local found = pg.noise_scale(function() return pg.tensor { 3, 4 } end, function() left = left - 1 return left >= 0 and {} or nil end, 8)
  close(found.gradient, 25, 1e-6)
  assert(math.abs(found.scale) < 1e-5, found.scale)
end

function tests.goes_with_the_gradient_of_a_function()
  local source = pg.data.arrays { x = { { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } }, y = { { 1 }, { 2 }, { 3 }, { 5 } } }
  local gradient = pg.grad(function(w, x, y) return ((x:matmul(w) - y) ^ 2):mean() end)
  local w = pg.zeros(2, 1)
  local found = pg.noise_scale(function(batch) return gradient(w, batch.x, batch.y) end, source:batches(2), 2)
  -- The gradients of the two halves are (-7, -10) and (-50, -58): by hand.
  local a, b = { -7, -10 }, { -50, -58 }
  local squares = (a[1] ^ 2 + a[2] ^ 2 + b[1] ^ 2 + b[2] ^ 2) / 2
  local mean = ((a[1] + b[1]) / 2) ^ 2 + ((a[2] + b[2]) / 2) ^ 2
  close(found.gradient, 2 * mean - squares, 1e-5)
  close(found.noise, 4 * (squares - mean), 1e-5)
end

function tests.says_what_is_wrong()
  check.raises(function() pg.noise_scale(3, 4, 5) end, "takes a function of a batch")
  check.raises(function() pg.noise_scale(print, print) end, "takes the size of the batches")
  check.raises(function() pg.noise_scale(print, function() end, 4) end, "needs two batches or more; there was 0")
end

return tests
