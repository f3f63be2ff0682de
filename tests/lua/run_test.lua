-- pg.start: a run beside the script that started it. Nothing here asserts how long something takes; run:wait has a limit so that a run that
-- hangs fails.
local pg = require "perigee"

local function experiment(options)
  local job = {
    name = "beside", loss = "cross_entropy", optimizer = pg.sgd { lr = 0.05 }, epochs = 3, seed = 7,
    network = pg.sequential { pg.flatten {}, pg.dense { 16, name = "hidden", activation = "tanh" }, pg.dense { 10, name = "out" } },
    data = {
      train = pg.data.digits { part = "train", size = 640, endless = false }, test = pg.data.digits { part = "test", size = 100, endless = false },
      batch = 16,
    },
  }
  for key, value in pairs(options or {}) do job[key] = value end
  return pg.experiment(job)
end

local function start(options, more)
  local given = { folder = false, threads = 1 }
  for key, value in pairs(more or {}) do given[key] = value end
  return pg.start(experiment(options), given)
end

local function ended(run)
  local progress = run:wait(60)
  if progress.state ~= "finished" then error(tostring(progress), 2) end
  return progress
end

local function wait_until(run, condition)
  repeat
    if run:wait(0.01).state == "failed" then error(tostring(run), 2) end
  until condition()
end

local tests = {}

function tests.it_trains_to_the_end()
  local run = start()
  local progress = ended(run)
  check.equal(progress.step, 120)
  check.equal(progress.epoch, 3)
  check.equal(progress.examples, 1920)
  check.equal(progress.progress, 1)
  check.matches(run, "run of beside: finished · 100.0 %%")
end

-- The same numbers as an unwatched run: requests between steps change nothing.
function tests.watching_changes_no_bit()
  local quiet, watched = start(), start()
  wait_until(watched, function()
    watched:pause()
    local _ = watched.network.hidden.weight
    watched:eval "test"
    watched:resume()
    return watched.state == "finished"
  end)
  ended(quiet)
  watched:wait(60)
  for _, name in ipairs { "hidden", "out" } do
    check.equal((quiet.network[name].weight - watched.network[name].weight):abs():max():item(), 0)
  end
  check.equal(quiet:eval().loss, watched:eval().loss)
end

function tests.paused_it_stands_still_and_goes_on()
  local run = start { epochs = 100000 }
  local seconds = os.time()
  run:wait(2)  -- events come all the time and do not end it
  assert(os.time() - seconds >= 1, "the wait ended early")
  run:pause()
  wait_until(run, function() return run.state == "paused" end)
  local before = run.progress.step
  local weight = run.network.hidden.weight
  run:wait(0.05)
  check.equal(run.progress.step, before)
  check.equal((run.network.hidden.weight - weight):abs():max():item(), 0)
  run:resume()
  wait_until(run, function() return run.progress.step > before end)
  run:stop()
  check.equal(run:wait(60).state, "stopped")
end

function tests.the_rate_changes_at_the_next_step()
  local run = start { epochs = 100000 }
  run:pause()
  wait_until(run, function() return run.state == "paused" end)
  local weight = run.network.out.weight
  local told
  run:on("set", function(event) told = event.learning_rate end)
  run.lr = 0
  local before = run.progress.step
  run:resume()
  wait_until(run, function() return run.progress.step > before + 3 end)
  check.equal(run.lr, 0)
  check.equal((run.network.out.weight - weight):abs():max():item(), 0) -- SGD at a rate of 0
  check.equal(told, 0)
  run.lr = 0.01
  wait_until(run, function() return run.lr == 0.01 end)
  run:stop()
  run:wait(60)
  check.raises(function() run.lr = "fast" end, "run_test.lua:%d+: .*lr")
  check.raises(function() run.lr = -1 end, "out of range")
  check.raises(function() run.speed = 1 end, "run.speed: is no option that can change")
  check.raises(function() run.state = 1 end, "'state' of a run cannot be set")
end

function tests.options_change_while_it_trains()
  local run = start { epochs = 100000, optimizer = pg.sgd { lr = 0.05, momentum = 0.5 }, clip = { type = "norm", threshold = 3 } }
  wait_until(run, function() return run.progress.step > 0 end)
  local told = {}
  run:on("set", function(event) told[#told + 1] = event.option end)
  check.equal(run.optimizer.momentum, 0.5)
  run.optimizer.momentum = 0.8
  check.equal(run.optimizer.momentum, 0.8)
  run.clip.norm = 0.5
  check.equal(run.clip.norm, 0.5)
  check.equal(run.clip.threshold, 0.5)
  run.batch = 32
  check.equal(run.batch, 32)
  run.epochs = 99999
  check.equal(run.epochs, 99999)
  check.raises(function() run.checkpoint.every_epochs = 7 end, "this run keeps no checkpoints")
  wait_until(run, function() return #told == 4 end)
  check.equal(told, { "optimizer.momentum", "clip.threshold", "data.batch", "epochs" })
  check.equal(tostring(run.optimizer):match "momentum +0.8" ~= nil, true)
  check.raises(function() run.optimizer.momentun = 1 end, "did you mean 'optimizer.momentum'")
  check.raises(function() return run.optimizer.momentun end, "did you mean 'momentum'")
  check.raises(function() run.optimizer.momentum = 2 end, "out of range")
  check.raises(function() run.early_stopping.patience = 3 end, "start the run with early_stopping = ")
  check.raises(function() run.seed = 3 end, "start another run with it")
  check.raises(function() run.loss = "mse" end, 'resume it with set = { "loss=VALUE" }')
  local prompt = require "perigee.prompt"
  _G.steered = run
  local names = prompt.complete("name", { "steered", "optimizer" }, "m", false, {})
  check.equal(names[1], "momentum")
  local help = prompt.help("steered.optimizer.momentum", 100)
  check.equal(help:match "share of the velocity" ~= nil and help:match "0.8" ~= nil, true)
  check.equal(prompt.help("steered.clip", 100):match "threshold" ~= nil, true)
  _G.steered = nil
  run:stop()
  run:wait(60)
end

function tests.figures_and_predictions_are_those_of_the_parameters()
  local run = start()
  ended(run)
  local x = pg.rand(5, 1, 28, 28)
  local w1, b1, w2, b2 = run.network.hidden.weight, run.network.hidden.bias, run.network.out.weight, run.network.out.bias
  local flat = x:reshape(5, 784)
  -- Weights are [in, out] or [out, in]: what fits.
  local function dense(h, w, b) return h:matmul(w.shape[1] == h.shape[2] and w or w:t()) + b end
  local scores = dense(dense(flat, w1, b1):tanh(), w2, b2)
  local expected = scores:softmax(2)
  check.equal((run:predict(x) - expected):abs():max():item() < 1e-5, true)
  check.equal(run:predict(x[1]).shape, { 1, 10 })
  check.raises(function() run:predict(pg.zeros(3, 4)) end, "does not fit the input 'x'; got f32%[3x4%]")
  -- A file of the same numbers gives the same, with places counted from 1.
  local file = os.tmpname() .. ".npy"
  pg.save(file, x)
  local results = run:predict(file, { layers = { "hidden" } })
  os.remove(file)
  check.equal(#results, 5)
  for i, result in ipairs(results) do
    local row = run:predict(x[i])[1]
    check.equal(result.index, i)
    check.equal(math.abs(result.probabilities[result.class] - row:max():item()) < 1e-6, true)
    check.equal(result.label, tostring(result.class - 1))
    check.equal(math.abs(result.layers.hidden[3] - dense(flat, w1, b1):tanh()[i][3]) < 1e-5, true)
  end
  check.raises(function() run:predict { { x = { 1, 2 } } } end, "do not fit the model's input 'x'")
  check.raises(function() run:predict(x, { layers = "hidden" }) end, "a tensor is raw")
  check.raises(function() run:predict(file, { layers = 7 }) end, "must be names of layers")
  check.raises(function() run:eval "validation" end, "no part 'validation'")
  check.raises(function() return run.network.hiden end, "no 'hiden'; did you mean 'hidden'")
end

function tests.events_come_in_order_and_curves_grow()
  local run, seen = start(), {}
  run:on("epoch", function(event) seen[#seen + 1] = event.epoch end)
  run:on("over", function(event) seen[#seen + 1] = event.state end)
  ended(run)
  check.equal(seen, { 1, 2, 3, "finished" })
  check.equal(#run.curves["test.accuracy"], 3)
  check.matches(run:plot "test.loss", "test.loss\n.*┤")
  check.raises(function() run:plot "los" end, "no curve 'los'; did you mean 'loss'")
  check.raises(function() run:on("epochs", print) end, "no event 'epochs'; did you mean 'epoch'")
  check.raises(function() return run.progres end, "no 'progres'; did you mean 'progress'")
end

local function read_all(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "*a"
  file:close()
  return text
end

function tests.what_is_no_number_is_a_gap_in_a_curve()
  local native, path = require("perigee.native").run, os.tmpname()
  local points = { { 1, 4 }, { 2, 3 }, { 3, 0 / 0 }, { 4, math.huge }, { 5, -math.huge }, { 6, 2 }, { 7, 1 } }
  check.equal(native.write_chart(path .. ".svg", "t", "loss", points, false), true)
  local svg = read_all(path .. ".svg")
  assert(not svg:find "nan" and not svg:find "inf", svg)
  local strokes = 0 -- pieces of the curve: from 1 to 2 and from 6 to 7
  for path_data in svg:gmatch ' d="([^"]*)"' do strokes = math.max(strokes, select(2, path_data:gsub("M", ""))) end
  check.equal(strokes, 2)
  check.equal(native.write_chart(path .. ".png", "t", "loss", points, true), true)
  check.equal(read_all(path .. ".png"):sub(2, 4), "PNG")
  -- More points than a chart draws: the gap is still one.
  for index = 1, 5000 do points[index] = { index, index % 7 } end
  points[2500][2] = 0 / 0
  native.write_chart(path .. ".svg", "t", "loss", points, false)
  svg, strokes = read_all(path .. ".svg"), 0
  for path_data in svg:gmatch ' d="([^"]*)"' do strokes = math.max(strokes, select(2, path_data:gsub("M", ""))) end
  check.equal(strokes, 2)
  for _, ending in ipairs { "", ".svg", ".png" } do os.remove(path .. ending) end
  local text = require("perigee.plot").text("t", { { 1, 1 }, { 2, 0 }, { 3, 1000 } }, { log = true, width = 30, height = 4 })
  check.matches(text, "1e%+03┤")
end

function tests.settings_hold_for_an_experiment_too()
  local run = pg.start(experiment(), { folder = false, set = { "epochs=1" } })
  check.equal(run:wait(60).epoch, 1)
  check.raises(function() pg.start(experiment(), { set = "epoch=1" }) end, "did you mean 'epochs'")
  check.raises(function() pg.start(experiment(), { set = "epochs" }) end, "path=value")
  check.raises(function() pg.start(experiment(), { agents = { "127.0.0.1:1" }, set = "epoch=1" }) end, "did you mean 'epochs'")
end

function tests.a_run_that_cannot_begin_fails_and_says_why()
  local run = pg.start(experiment { loss = "mse" }, { folder = false })
  local progress = run:wait(60)
  check.equal(progress.state, "failed")
  check.raises(function() run:eval() end, "it failed: ")
  check.raises(function() pg.start "models/there_is_none.lua" end, "no such file")
  check.raises(function() pg.start(7) end, "run_test.lua:%d+: pg.start takes")
  check.raises(function() pg.start(experiment(), { thread = 1 }) end, "did you mean 'threads'")
end

-- Runs without a reference train on, and end with the interpreter.
function tests.nobody_holds_it()
  start { epochs = 100000 }
  start { epochs = 100000 }
  collectgarbage()
  collectgarbage()
end

return tests
