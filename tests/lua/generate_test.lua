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

-- A letter becomes the next one of the alphabet: an encoder reads, a decoder with attention writes.
function tests.a_text_becomes_another()
  local inputs, outputs = {}, {}
  for first in ("abcd"):gmatch "." do
    for second in ("abcd"):gmatch "." do
      inputs[#inputs + 1], outputs[#outputs + 1] = first .. second, (first .. second):gsub(".", { a = "b", b = "c", c = "d", d = "a" })
    end
  end
  local read, written = pg.input "x", pg.input "d"
  local memory = pg.sequential { pg.embedding { 5, 8 }, pg.gru { 16, bidirectional = "concat" } } (read)
  local states = pg.sequential { pg.embedding { 6, 8 }, pg.gru { 32 } } (written)
  local scores = pg.dense { 6, over = "steps" } (pg.concat {} (states, pg.attention { heads = 2 } (states, memory)))
  local pairs = pg.data.text_pairs { inputs = inputs, outputs = outputs }
  local run = pg.start(pg.experiment {
    name = "next-letter", inputs = { "x", "d" }, network = pg.graph { inputs = { read, written }, outputs = { scores } },
    loss = "cross_entropy", optimizer = pg.adam { lr = 0.02 }, epochs = 60, seed = 3, data = { train = pairs, batch = 8 },
  }, { folder = false, threads = 1 })
  check.equal(run:wait(60).state, "finished")
  check.equal(run:generate { input = "da", temperature = 0 }, "ab")
  check.equal(run:generate { input = "da", prompt = "a", beams = 2 }, "b")
  local file = os.tmpname()
  run:save(file)
  local model = pg.load_model(file)
  os.remove(file)
  check.equal(model:generate { input = "bd", temperature = 0 }, "ca")
  check.raises(function() model:generate "bd" end, "model:generate: input: the model reads one text and writes another")
  check.raises(function() run:generate { input = "b?" } end, "run:generate: input: byte 1")
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
  check.raises(function() run:generate { tokens = 5 } end, "goes on with a text, and has none")
  check.raises(function() run:generate { input = "one, " } end, "reads no other")
  check.raises(function() run:generate(5) end, "generate takes a text")
  check.raises(function() run:generate { "one, ", stream = 1 } end, "stream is true, or a function")
end

return tests
