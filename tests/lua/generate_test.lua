-- model:generate and run:generate: what a small model of text goes on with.
local pg = require "perigee"

local path = os.tmpname()
do
  local file = assert(io.open(path, "w"))
  file:write(("one, two, three; "):rep(40))
  file:close()
end

local function experiment(epochs)
  return pg.experiment {
    name = "small-text", loss = "cross_entropy", optimizer = pg.adam { lr = 0.02 }, epochs = epochs, seed = 3,
    network = pg.sequential {
      pg.embedding { 14, 6 }, pg.flatten {}, pg.dense { 32, activation = "tanh" }, pg.dense { 14 },
    },
    data = { train = pg.data.text { path, context = 4 }, batch = 32 },
  }
end

local tests = {}

function tests.a_run_goes_on_with_a_text()
  local run = pg.start(experiment(20), { folder = false, threads = 1 })
  check.equal(run:wait(60).state, "finished")
  local options = { "one, ", tokens = 12, temperature = 0 }
  check.equal(run:generate(options), "two, three; ")
  local pieces = {}
  options.stream = function(piece) pieces[#pieces + 1] = piece end
  check.equal(run:generate(options), "two, three; ")
  check.equal(#pieces, 12)
  local file = os.tmpname()
  run:save(file)
  local model = pg.load_model(file)
  check.equal(model:generate { "one, ", tokens = 12, beams = 3 }, "two, three; ")
  check.equal(model:generate { "one, ", tokens = 40, temperature = 0, stop = { ";" } }, "two, three")
  check.equal(model:generate { "one, ", tokens = 30, temperature = 5, seed = 4 }, model:generate { "one, ", tokens = 30, temperature = 5, seed = 4 })
  check.equal(#model:generate "one, ", 200)
  os.remove(file)
end

function tests.it_trains_on_meanwhile()
  local run = pg.start(experiment(100000), { folder = false, threads = 1 })
  run:wait(0.2)
  check.equal(#run:generate { "one, ", tokens = 50 }, 50)
  check.equal(run.state, "training")
  run:stop()
  run:wait(60)
end

function tests.it_says_what_is_wrong()
  local run = pg.start(experiment(1), { folder = false, threads = 1 })
  run:wait(60)
  check.raises(function() run:generate { "one, ", tokns = 5 } end, "did you mean 'tokens'")
  check.raises(function() run:generate { "one, Z" } end, "not in the model's vocabulary")
  check.raises(function() run:generate { "" } end, "nothing to go on from")
  check.raises(function() run:generate(5) end, "generate takes a text")
  check.raises(function() run:generate { "one, ", stream = 1 } end, "stream is true, or a function")
end

return tests
