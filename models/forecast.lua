-- Forecasting: next month's sales from the last two years. A series becomes examples by a window that slides along it. The windows are cut
-- in the order of time: the network is tested on the last years, of which it has seen nothing.
local pg = require "perigee"

-- Forty years of monthly sales, made here: growth, a season, and chance.
math.randomseed(11)
local sales = {}
for month = 1, 480 do
  local season = 1 + 0.3 * math.sin(2 * math.pi * month / 12) + 0.15 * math.cos(4 * math.pi * month / 12)
  sales[month] = 100 * 1.004 ^ month * season * (1 + 0.06 * (math.random() - 0.5))
end

-- A window's values are logarithms less that of its last month, so that 1950 and 1980 look alike: the network learns relative changes.
local length = 24
local function windows(first, last)
  local data = { x = {}, y = {} }
  for next_month = first + length, last do
    local now, window = math.log(sales[next_month - 1]), {}
    for step = 1, length do window[step] = math.log(sales[next_month - 1 - length + step]) - now end
    data.x[#data.x + 1], data.y[#data.y + 1] = window, { math.log(sales[next_month]) - now }
  end
  return pg.data.arrays(data)
end

return pg.experiment {
  name = "forecast",
  network = pg.sequential {
    pg.dense { 32, activation = "tanh" },
    pg.dense { 1 },
  },
  loss = "mse",
  optimizer = pg.adamw { lr = pg.cosine { from = 1e-2 }, weight_decay = 1e-2 },
  data = { train = windows(1, 384), test = windows(385 - length, 480), batch = 16 },
  metrics = { "regression" }, -- R2 is the share of the changes that is foretold
  epochs = 60, seed = 1,
}
