-- A siamese network decides whether two noisy waves have the same pitch. The same tower is called twice, so both waves pass the same
-- layers with the same parameters; the decision depends on the distance between the two results.
local pg = require "perigee"

-- The pairs are made here, as plain Lua tables. Fields may have any names; the graph refers to them by pg.input.
math.randomseed(42)
local function wave(pitch)
  local phase, samples = math.random() * 6.28, {}
  for t = 1, 32 do samples[t] = math.sin(phase + t * pitch) + 0.3 * (math.random() - 0.5) end
  return samples
end

local function pairs_of(count)
  local data = { left = {}, right = {}, same = {} }
  for index = 1, count do
    local pitch, same = 0.3 + 0.1 * math.random(0, 5), index % 2
    data.left[index] = wave(pitch)
    data.right[index] = wave(same == 1 and pitch or pitch + 0.1 * math.random(2, 5))
    data.same[index] = { same }
  end
  return pg.data.arrays(data)
end

local left, right = pg.input "left", pg.input "right"
local tower = pg.sequential { pg.dense { 64, activation = "relu" }, pg.dense { 32, activation = "relu" }, pg.dense { 8 } }
local apart = pg.lambda(function(a, b) return pg.abs(a - b) end)
local decide = pg.dense { 1 }

return pg.experiment {
  name = "siamese",
  network = pg.graph { inputs = { left, right }, outputs = { decide(apart(tower(left), tower(right))) } },
  inputs = { "left", "right" }, target = "same",
  loss = "binary_cross_entropy",
  optimizer = pg.adam { lr = 2e-3 },
  data = { train = pairs_of(1500), test = pairs_of(300), batch = 50 },
  metrics = { "binary", "roc" },
  epochs = 40, seed = 123,
}
