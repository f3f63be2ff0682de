-- pg.scan: on tensors, whose steps run one after the other, and in traced functions, where it is one op; both must agree.
local pg = require "perigee"
local tests = {}

local w, u = pg.tensor { { 0.5, -0.3 }, { 0.2, 0.7 }, { -0.6, 0.1 } }, pg.tensor { { 0.4, 0.9 }, { -0.8, 0.3 } }
local x = pg.randn(4, 3, 6)

local function cell(h, part)
  h = pg.tanh(part:matmul(w) + h:matmul(u))
  return h, h * 2
end

local function close(a, b) check.equal(a:all_close(b, 1e-5, 1e-6), true) end

-- Runs f as pg.lambda has traced it, on the same input.
local function traced(f, ...) return pg.sequential { pg.lambda(f) }:init(1, ...)(...) end

function tests.a_traced_loop_gives_what_tensors_give()
  for _, options in ipairs { {}, { reverse = true }, { recompute = 4 }, { reverse = true, recompute = 4 } } do
    local last, results = pg.scan(cell, pg.zeros(4, 2), x, options)
    check.equal(results.shape[3], 6)
    close(last, (options.reverse and results[{ {}, {}, 1 }] or results[{ {}, {}, 6 }]) / 2)
    close(traced(function(a)
      local function listed(carried, parts)
        local h, y = cell(carried[1], parts[1])
        return { h }, { y }
      end
      return (pg.scan(listed, { pg.zeros(2) }, { a }, options))[1]
    end, x), last)
    close(traced(function(a)
      local _, each = pg.scan(cell, pg.zeros(2), a, options)
      return each
    end, x), results)
  end
end

function tests.the_program_does_not_grow_with_the_steps()
  local layer = pg.lambda(function(a) return (pg.scan(cell, pg.zeros(2), a)) end)
  check.equal(#layer.program < 6, true)
  check.equal(layer.program[#layer.program].op, "scan")
end

function tests.a_mask_passes_over_steps()
  local counts = pg.tensor { { 1, 1, 1, 1, 1, 1 }, { 1, 1, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0, 0 }, { 1, 0, 1, 0, 0, 0 } }
  local last, results = pg.scan(cell, pg.zeros(4, 2), x, { mask = counts })
  local full = pg.scan(cell, pg.zeros(1, 2), x[{ { 1, 1 } }])
  local short = pg.scan(cell, pg.zeros(1, 2), x[{ { 2, 2 }, {}, { 1, 2 } }])
  close(last[{ { 1, 1 } }], full)
  close(last[{ { 2, 2 } }], short)
  close(last[3], pg.zeros(2))
  close(results[{ 2, {}, { 3, 6 } }], pg.zeros(2, 4))
  close(traced(function(a) return (pg.scan(cell, pg.zeros(2), a, { mask = pg.where(a:sum(2):gt(-100), 1, 0) })) end, x),
    (pg.scan(cell, pg.zeros(4, 2), x)))
  close(traced(function(a)
    local inside = a[{ {}, 1 }]:gt(0)
    return (pg.scan(cell, pg.zeros(2), a, { mask = inside }))
  end, x), (pg.scan(cell, pg.zeros(4, 2), x, { mask = x[{ {}, 1 }]:gt(0):to "f32" })))
end

function tests.steps_read_values_around_the_loop_and_loops_nest()
  local function f(a)
    local around = a:mean(3) -- by example
    return (pg.scan(function(sum, part)
      return pg.scan(function(inner) return inner * 0.5 + part:sum(2) + around:sum(2) end, sum, nil, { length = 3 })
    end, a[{ {}, 1, 1 }], a))
  end
  close(traced(f, x), f(x))
end

function tests.gradients_of_tensors_are_those_of_a_traced_loop()
  local function loss(a) return ((pg.scan(cell, pg.zeros(4, 2), a)) ^ 2):sum() end
  local gradient = pg.grad(loss)(x)
  local h = 1e-3
  for _, place in ipairs { { 1, 1, 1 }, { 2, 2, 3 }, { 4, 3, 6 } } do
    local step = pg.zeros(4, 3, 6)
    step[place] = h
    local difference = (loss(x + step) - loss(x - step)) / (2 * h)
    check.equal(math.abs((difference - gradient[place]):item()) < 1e-2, true)
  end
end

function tests.it_trains()
  local values = pg.randn(256, 1, 8)
  local layer = pg.lambda(function(a)
    local wi, wh = pg.parameter("wi", { 1, 8 }), pg.parameter("wh", { 8, 8 })
    return (pg.scan(function(h, part) return pg.tanh(part:matmul(wi) + h:matmul(wh)) end, pg.zeros(8), a))
  end)
  local function last_loss(threads)
    local run = pg.start(pg.experiment {
      network = pg.sequential { layer, pg.dense { 1 } }, loss = "mse", optimizer = pg.adam { lr = 1e-2 },
      data = { train = pg.data.arrays { x = values, y = values:sum(3) }, batch = 32 }, epochs = 10, seed = 1, threads = threads,
    }, { folder = false })
    run:wait(60)
    return run.progress.train_loss or run.progress.loss
  end
  local one, two = last_loss(1), last_loss(2)
  check.equal(one < 2, true) -- the sum of eight numbers has a variance of 8
  check.equal(math.abs(one - two) < 0.05 * (1 + one), true)
end

function tests.it_says_what_is_wrong()
  check.raises(function() pg.scan(cell, pg.zeros(4, 2), x, { revers = true }) end, "no option 'revers'; did you mean 'reverse'")
  check.raises(function() pg.scan(cell, pg.zeros(4, 2), x[1][1]) end, "expected a tensor .examples, ..., steps")
  check.raises(function() pg.scan("cell", pg.zeros(4, 2), x) end, "scan takes a function of one step")
  check.raises(function() pg.scan(cell, pg.zeros(4, 2)) end, "there is no step")
  check.raises(function() pg.scan(cell, pg.zeros(4, 2), { x, pg.randn(4, 3, 5) }) end, "sequence 2 has 5 steps; expected 6")
  check.raises(function() pg.scan(function(h) return { h } end, pg.zeros(4, 2), x) end, "expected what it was given: one value")
  check.raises(function() traced(function(a) return (pg.scan(function() return 1 end, pg.zeros(2), a)) end, x) end,
    "the step of pg.scan gives 1")
  local kept
  check.raises(function()
    traced(function(a)
      pg.scan(function(h, part)
        kept = part
        return h
      end, pg.zeros(2), a)
      return kept
    end, x)
  end, "belongs to a step of pg.scan")
  check.raises(function() traced(function(a) return (pg.scan(function(h) return h:sum(2) end, pg.zeros(2), a)) end, x) end,
    "what the step carries on has another type than what it was given")
end

return tests
