-- pg.find_rate: the run that it makes, what it suggests, what it refuses.
local pg = require "perigee"
local tests = {}

local function job(more)
  local given = {
    network = pg.sequential { pg.dense { 10 } },
    loss = "cross_entropy",
    optimizer = pg.sgd { lr = 123 },
    data = { train = pg.data.digits({ size = 200 }).train, batch = 20 },
    seed = 3,
    threads = 1,
  }
  for key, value in pairs(more or {}) do given[key] = value end
  return pg.experiment(given)
end

function tests.rates_grow_by_the_same_factor_and_losses_are_those_of_such_a_run()
  local experiment = job()
  local found = pg.find_rate(experiment, { from = 1e-4, to = 1e-1, steps = 31 })
  check.equal(#found.rates, 31)
  for step, rate in ipairs(found.rates) do check.equal(math.abs(rate / (1e-4 * 10 ^ (3 * (step - 1) / 30)) - 1) < 1e-9, true) end
  check.equal(experiment.optimizer.lr, 123) -- the experiment is as it was
  local run = pg.start(job { optimizer = pg.sgd { lr = pg.exponential { from = 1e-4, gamma = 10 ^ 0.1, by = "step" } }, steps = 31 },
    { folder = false, events_every = 1 })
  local losses = {}
  run:on("step", function(event) losses[#losses + 1] = event.loss end)
  run:wait(60)
  check.equal(#losses, 31)
  for step, loss in ipairs(losses) do check.equal(math.abs(found.losses[step] - loss) < 1e-6, true) end
end

function tests.it_ends_when_the_loss_explodes_and_suggests_a_rate_before()
  local found = pg.find_rate(job { optimizer = "sgd" }, { from = 1e-4, to = 1e4, steps = 200 })
  check.equal(#found.rates < 200, true)
  check.equal(found.suggestion > 1e-4 and found.suggestion < found.rates[#found.rates], true)
  check.equal(tostring(found):match "falls fastest at" ~= nil, true)
end

function tests.its_chart_is_a_text_or_a_file()
  local found = pg.find_rate(job(), { from = 1e-3, to = 1, steps = 20 })
  check.equal(tostring(found:plot { height = 4, width = 40 }):match "log10%(rate%)" ~= nil, true)
  local path = os.tmpname() .. ".svg"
  check.equal(found:plot { file = path }, path)
  check.equal(io.open(path):read "*a":match "^<svg" ~= nil, true)
  os.remove(path)
  check.equal(tostring(pg.plot(found.rates, found.losses)):match "┤" ~= nil, true)
end

function tests.it_says_what_is_wrong()
  check.raises(function() pg.find_rate(job(), { form = 1e-4 }) end, "no option 'form'; did you mean 'from'")
  check.raises(function() pg.find_rate(job(), { from = 1, to = 1e-4 }) end, "from a small rate above 0 to a larger one")
  check.raises(function() pg.find_rate(job(), { steps = 5 }) end, "10 to 10000 steps; got steps = 5")
  check.raises(function() pg.find_rate(job { loss = "mse_" }) end, "there is no loss 'mse_'")
  check.raises(function() pg.find_rate "lenet" end, "pg.find_rate takes an experiment")
end

return tests
