-- Lua functions as losses and schedules: traced once, stored in the job as data, and trained like those of the library.
local pg = require "perigee"
local native = require "perigee.native"

local tests = {}

pg.seed(9)
local inputs = pg.randn(48, 4)
local classes = pg.data.arrays { x = inputs:totable(), y = pg.randint(0, 2, { 48 }):totable() }
local numbers = pg.data.arrays { x = inputs:totable(), y = pg.randn(48, 3):totable() }
local scalars = pg.data.arrays { x = inputs:totable(), y = pg.randn(48):totable() }

-- The parameters after a short training, of an experiment or of its JSON.
local function trained(options, through_json)
  local outputs = options.outputs or 3
  options.outputs = nil
  options.network = pg.sequential { pg.dense { 6, activation = "tanh" }, pg.dense { outputs } }
  options.optimizer = options.optimizer or pg.sgd { lr = 0.1, momentum = 0.9 }
  options.epochs, options.seed, options.threads = 3, 2, 2
  local job = pg.experiment(options)
  local path = os.tmpname()
  if through_json then
    os.remove(path)
    path = path .. ".json"
    local file = assert(io.open(path, "w"))
    file:write(native.to_json(job))
    file:close()
    job = path
  end
  local run = pg.start(job, { folder = false })
  local state = run:wait(60)
  if state.state ~= "finished" and state.state ~= "done" then error(tostring(run)) end
  local model = os.tmpname() .. ".safetensors"
  run:save(model)
  local loaded = pg.load_model(model)
  os.remove(model)
  os.remove(path)
  return loaded:parameters(), loaded
end

local function check_same(a, b, exactly, relative)
  for name, x in pairs(a) do
    local same = exactly and x:all_equal(b[name]) or not exactly and x:all_close(b[name], relative or 1e-4, 1e-2 * (relative or 1e-4))
    assert(same, name .. "\n" .. tostring(x) .. "\n" .. tostring(b[name]))
  end
end

local function data_of(source) return { train = source, batch = 8 } end

function tests.a_traced_mse_trains_as_the_built_in_one()
  local wanted = trained { data = data_of(numbers), loss = "mse" }
  local function by_example(outputs, targets) return ((outputs - targets) ^ 2):mean(2) end
  local function mean(outputs, targets) return ((outputs - targets) ^ 2):mean() end
  local function terms(outputs, targets) return 0.5 * pg.mean((outputs - targets) ^ 2) + ((targets - outputs) ^ 2):mean() / 2 + 1 end
  for _, loss in ipairs { by_example, mean, terms } do check_same(trained { data = data_of(numbers), loss = loss }, wanted) end
end

function tests.a_traced_cross_entropy_gives_the_bits_of_the_built_in_one()
  local wanted, model = trained { data = data_of(classes), loss = "cross_entropy" }
  local got, own = trained { data = data_of(classes), loss = function(outputs, targets) return pg.cross_entropy(outputs, targets) end }
  check_same(got, wanted, true)
  assert(own(inputs):all_equal(model(inputs))) -- probabilities: the softmax is part of what is predicted
end

local function momentum(p, g, s, now)
  s.m = 0.9 * s.m + g
  return p - now.lr * s.m
end

function tests.a_traced_rule_trains_as_the_built_in_one()
  local wanted = trained { data = data_of(numbers), loss = "mse", optimizer = pg.sgd { lr = 0.1, momentum = 0.9 } }
  for _, state in ipairs { { "m" }, { m = 0 } } do
    local rule = pg.rule { lr = 0.1, state = state, update = momentum }
    check_same(trained { data = data_of(numbers), loss = "mse", optimizer = rule }, wanted)
    check_same(trained({ data = data_of(numbers), loss = "mse", optimizer = rule }, true), wanted)
  end
  check_same(trained { data = data_of(numbers), loss = "mse", optimizer = { lr = 0.1, state = { "m" }, update = momentum } }, wanted)
end

function tests.a_function_alone_is_a_rule()
  local function descent(p, g) return p - 0.1 * g end
  local wanted = trained { data = data_of(numbers), loss = "mse", optimizer = pg.sgd { 0.1 } }
  check_same(trained { data = data_of(numbers), loss = "mse", optimizer = descent }, wanted)
  check_same(trained({ data = data_of(numbers), loss = "mse", optimizer = descent }, true), wanted)
end

function tests.a_traced_rule_knows_its_numbers()
  local function adam(p, g, s, now)
    s.m = 0.9 * s.m + 0.1 * g
    s.v = 0.999 * s.v + 0.001 * g ^ 2
    local m, v = s.m / (1 - 0.9 ^ now.t), s.v / (1 - 0.999 ^ now.t)
    return p - now.lr * m / (pg.sqrt(v) + 1e-8)
  end
  local rate = pg.cosine { from = 0.02 }
  check_same(trained { data = data_of(numbers), loss = "mse", optimizer = pg.rule { lr = rate, state = { "m", "v" }, update = adam } },
    trained { data = data_of(numbers), loss = "mse", optimizer = pg.adam { lr = rate } }, false, 2e-3)
end

-- Lookahead (Zhang et al., 2019) around descent: every fifth step the slow weights go half the way to the fast ones, which begin there again.
function tests.a_rule_may_look_ahead()
  local rule = pg.rule {
    lr = 0.1, state = { "slow" },
    update = function(p, g, s, now)
      local slow = pg.where(now.t:eq(1), p, s.slow)
      local fast = p - now.lr * g
      local is_time = (now.t - 5 * pg.floor(now.t / 5)):eq(0)
      s.slow = pg.where(is_time, slow + 0.5 * (fast - slow), slow)
      return pg.where(is_time, s.slow, fast)
    end,
  }
  local p, fast, slow = pg.tensor { 1, -2, 3 }, { 1, -2, 3 }, { 1, -2, 3 }
  for t = 1, 12 do
    rule:step(p, 2 * p)
    for i = 1, 3 do
      fast[i] = fast[i] - 0.1 * 2 * fast[i]
      if t % 5 == 0 then slow[i] = slow[i] + 0.5 * (fast[i] - slow[i]); fast[i] = slow[i] end
    end
  end
  assert(p:all_close(pg.tensor(fast), 1e-6, 1e-7), tostring(p))
end

function tests.a_rule_says_what_is_wrong()
  local function rule(update, state) return function() pg.rule { state = state, update = update } end end
  check.raises(rule(function(p, _, s) return p - s.mm end, { "m" }), "there is no state 'mm'; known: m")
  check.raises(rule(function(p, g, _, now) return p - now.rate * g end), "there is no now.rate")
  check.raises(rule(function(p, g, s) s.n = g return p end, { "m" }), "'n' cannot be assigned, only a state can")
  check.raises(rule(function() end), "returns nothing; it must return the new parameter")
  check.raises(rule(function(p) return pg.softmax(p, 1) end), "softmax")
  check.raises(rule "p - g", "update is")
end

function tests.classes_can_be_taken_apart()
  local wanted = trained { data = data_of(classes), loss = "cross_entropy" }
  check_same(trained { data = data_of(classes), loss = function(outputs, targets)
    return -(pg.log_softmax(outputs, 2) * pg.one_hot(targets, 3)):sum(2)
  end }, wanted)
end

function tests.a_column_of_outputs_meets_a_row_of_targets()
  local wanted = trained { data = data_of(scalars), loss = "mse", outputs = 1 }
  check_same(trained { data = data_of(scalars), loss = function(o, t) return (o - t) ^ 2 end, outputs = 1 }, wanted)
end

function tests.the_job_holds_the_function_as_data()
  local function loss(outputs, targets) return (pg.tensor { 1, 2, 3 } * (outputs - targets):abs()):mean(2) end
  local first = trained { data = data_of(numbers), loss = loss }
  check_same(trained({ data = data_of(numbers), loss = loss }, true), first, true)
end

function tests.a_layer_s_lambda_is_a_loss_as_well()
  local function f(outputs, targets) return (outputs - targets):abs():mean(2) end
  check_same(trained { data = data_of(numbers), loss = pg.lambda(f) }, trained { data = data_of(numbers), loss = f }, true)
end

function tests.what_is_no_loss_is_told()
  local function with(loss) return function() trained { data = data_of(numbers), loss = loss } end end
  check.raises(with(function(outputs, targets) return (outputs - targets):sum() end), "one number for the whole batch")
  check.raises(with(function(outputs, targets) return (outputs - targets):sum(1) end), "lost the batch")
  check.raises(with(function(outputs) return outputs end), "a loss is a function of outputs and targets; got one of 1")
  check.raises(with(function(outputs, targets) return outputs, targets end), "returns one value; got 2")
  check.raises(with(function() end), "at least one parameter")
  check.raises(with(function(outputs, _) return outputs:sotfmax() end), "no method 'sotfmax'; did you mean 'softmax'")
end

function tests.losses_by_output_may_be_functions()
  local data = pg.data.arrays { x = inputs:totable(), y = pg.randint(0, 2, { 48 }):totable(), z = pg.randn(48, 2):totable() }
  local function parameters(first, second)
    local x = pg.input "x"
    local trunk = pg.dense { 6, activation = "tanh" } (x)
    local run = pg.start(pg.experiment {
      network = pg.graph { inputs = { x }, outputs = { class = pg.dense { 3 } (trunk), value = pg.dense { 2 } (trunk) } },
      loss = { class = first, value = second }, optimizer = pg.sgd { 0.1 }, data = data_of(data), epochs = 2, metrics = { "classification" },
    }, { folder = false })
    run:wait(60)
    local path = os.tmpname() .. ".safetensors"
    run:save(path)
    local model = pg.load_model(path)
    os.remove(path)
    return model:parameters()
  end
  local wanted = parameters({ type = "cross_entropy" }, { type = "mse", target = "z", weight = 2 })
  local function classes_loss(o, t) return pg.cross_entropy(o, t) end
  local function squares(o, t) return ((o - t) ^ 2):mean(2) end
  check_same(parameters(classes_loss, { squares, target = "z", weight = 2 }), wanted)
  -- Weights may be schedules, and functions.
  local falls = parameters(classes_loss, { type = "mse", target = "z", weight = pg.linear { from = 2, to = 0 } })
  assert(not falls["value.weight"]:all_close(wanted["value.weight"], 1e-3, 1e-4))
  check_same(parameters(classes_loss, { squares, target = "z", weight = function(now) return 2 + now.step * 0 end }), wanted)
  check_same(parameters(classes_loss, { type = "mse", target = "z", weight = function(now) return 2 - 2 * now.progress end }), falls)
end

function tests.weights_of_layers_terms_may_be_schedules_and_functions()
  local x = pg.data.arrays { x = pg.rand(48, 4):totable() }
  local function loss(kl)
    local run = pg.start(pg.experiment {
      network = pg.sequential { pg.vae { latent = 2, encoder = { pg.dense { 6 } }, decoder = { pg.dense { 4 } }, kl = kl } },
      loss = "none", target = "x", optimizer = pg.sgd { 0.05 }, data = data_of(x), epochs = 2, seed = 4,
    }, { folder = false })
    local state = tostring(run:wait(60))
    if state:find "failed" then error(state) end
    return run.progress.loss
  end
  local function close(a, b) return math.abs(a - b) < 1e-5 * math.abs(b) end
  local anneals = loss(function(now) return pg.minimum(1, now.step / 6) end)
  assert(close(anneals, loss(pg.ramp { length = 6, by = "step", schedule = 1 })))
  assert(close(loss(function(now) return 0.5 + now.step * 0 end), loss(0.5)))
  assert(not close(anneals, loss(1)) and not close(anneals, loss(0)))
  check.raises(function() loss "much" end, "kl")
end

function tests.a_function_is_a_metric()
  local function within(outputs, targets) return (outputs - targets):abs():lt(0.5):all(2) end
  local run = pg.start(pg.experiment {
    network = pg.sequential { pg.dense { 3 } }, loss = "mse", optimizer = pg.sgd { 0.1 },
    data = { train = numbers, test = numbers, batch = 8 }, epochs = 1, seed = 2,
    metrics = { "regression", within = within, error = function(outputs, targets) return ((outputs - targets) ^ 2):mean() end },
  }, { folder = false })
  run:wait(60)
  local report, path = run:eval(), os.tmpname() .. ".safetensors"
  run:save(path)
  local model = pg.load_model(path)
  os.remove(path)
  local all = numbers:batch(1, #numbers)
  local wanted = within(model(all.x), all.y):to "f32":mean():item()
  assert(math.abs(report.within - wanted) < 1e-6, tostring(report.within) .. " " .. wanted)
  assert(math.abs(report.error - report.mse) < 1e-5)
end

-- Where lengths leave steps out, a metric gets each step as a row: [examples * steps, classes].
function tests.a_metric_of_steps_is_tried_as_it_is_used()
  local x, y, n = {}, {}, {}
  for i = 1, 8 do
    x[i], y[i], n[i] = { {}, {} }, {}, 2 + i % 3
    for t = 1, 5 do x[i][1][t], x[i][2][t], y[i][t] = (i * t) % 3, (i + t) % 2, (i + t) % 3 end
  end
  local data = pg.data.arrays { x = x, y = y, n = n, classes = 3 }
  local run = pg.start(pg.experiment {
    network = pg.sequential { pg.conv1d { 3, kernel = 1 } }, loss = "cross_entropy", optimizer = pg.sgd { 0.1 },
    data = { train = data, test = data, batch = 4, lengths = { x = "n", y = "n" } }, epochs = 1, seed = 2,
    metrics = { sum = function(outputs, _) return (outputs * 0 + pg.tensor { 1, 2, 3 }):sum(2) end },
  }, { folder = false })
  run:wait(60)
  check.equal(run:eval().sum, 6)
end

-- Schedules ------------------------------------------------------------------------------------------------------------------------

function tests.a_function_is_a_schedule()
  local known = pg.sgd { lr = pg.exponential { from = 0.1, gamma = 0.9, by = "step" } }
  local wanted = trained { data = data_of(numbers), loss = "mse", optimizer = known }
  local function own() return pg.sgd { lr = function(now) return 0.1 * 0.9 ^ now.step end } end
  check_same(trained { data = data_of(numbers), loss = "mse", optimizer = own() }, wanted, true)
  check_same(trained({ data = data_of(numbers), loss = "mse", optimizer = own() }, true), wanted, true)
  local w = pg.zeros(1)
  local chosen = pg.sgd { lr = function(now) return pg.where(now.progress:lt(0.5), 2, pg.cos(now.epoch)) end }
  chosen:step(w, pg.ones(1)):step(w, pg.ones(1), { progress = 1 })
  check.equal(w:totable(), { -3 })
  check.equal(pg.sgd { lr = function() return 0.5 end }:step(w, pg.ones(1)) and w[1], -3.5)
end

function tests.what_is_no_schedule_is_told()
  check.raises(function() pg.sgd { lr = function(now) return now.stepp end } end, "there is no 'stepp' here; did you mean 'step'")
  check.raises(function() pg.sgd { lr = function(now) return pg.softmax(now.step) end } end, "softmax cannot be used here")
  check.raises(function() pg.sgd { lr = function(_) end } end, "returns nothing")
  check.raises(function() pg.sgd { lr = function(now) return 1 / now.step end }:step(pg.zeros(1), pg.ones(1)) end, "no finite number; got inf")
end

return tests
