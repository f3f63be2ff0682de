-- Sequences of different lengths, with a class for each step: which steps of a noisy signal belong to a pulse. All lie in fields of 40
-- steps; `lengths` says how many of them are there. What stands behind them, here a label that is no class, counts for nothing.
local pg = require "perigee"

local longest = 40

math.randomseed(4)
local function signals(count)
  local data = { x = {}, y = {}, n = {} }
  for index = 1, count do
    local length = math.random(10, longest)
    local first = math.random(1, length - 6)
    local last = first + math.random(4, 8)
    local values, labels = {}, {}
    for step = 1, longest do
      local inside = step >= first and step <= last
      values[step] = step <= length and (inside and 1 or 0) + 1.6 * (math.random() - 0.5) or 0
      labels[step] = step > length and -1 or inside and 1 or 0
    end
    data.x[index], data.y[index], data.n[index] = { values }, labels, length
  end
  return pg.data.arrays(data)
end

return pg.experiment {
  name = "sequences",
  network = pg.sequential {
    pg.conv1d { 16, 5, padding = "same", activation = "relu" },
    pg.conv1d { 16, 5, padding = "same", dilation = 2, activation = "relu" },
    pg.conv1d { 2, 1 }, -- for each step a number per class
  },
  loss = "cross_entropy",
  optimizer = pg.adam { lr = pg.cosine { from = 5e-3 } },
  data = { train = signals(1000), test = signals(300), lengths = { x = "n" }, batch = 25 },
  metrics = { "classification" },
  epochs = 5, seed = 1,
}
