-- A graph with two outputs: from the same picture one branch says which shape it shows, the other how large it is. Both branches share
-- their first layers; each output has its own loss and its own field of the data, and `weight` balances the two.
local pg = require "perigee"

-- Pictures of 16x16 pixels, made here: a filled square or circle with a soft edge, of any radius and at any place, in noise.
math.randomseed(3)
local function drawing(round, radius)
  local row, column, pixels = math.random(6, 11), math.random(6, 11), {}
  for y = 1, 16 do
    pixels[y] = {}
    for x = 1, 16 do
      local dy, dx = math.abs(y - row), math.abs(x - column)
      local distance = round and math.sqrt(dy * dy + dx * dx) or math.max(dy, dx)
      pixels[y][x] = math.max(0, math.min(1, radius + 0.5 - distance)) + 0.3 * math.random()
    end
  end
  return { pixels }
end

local function drawings(count)
  local data = { x = {}, shape = {}, size = {} }
  for index = 1, count do
    local round, radius = index % 2 == 1, 2 + 3 * math.random()
    data.x[index], data.shape[index], data.size[index] = drawing(round, radius), { round and 1 or 0 }, { radius }
  end
  return pg.data.arrays(data)
end

local picture = pg.input "x"
local seen = pg.sequential {
  pg.conv2d { 16, kernel = 3, padding = 1, activation = "relu" }, pg.maxpool { 2 },
  pg.conv2d { 16, kernel = 3, padding = 1, activation = "relu" }, pg.maxpool { 2 },
  pg.flatten {}, pg.dense { 32, activation = "relu" },
}(picture)

return pg.experiment {
  name = "two-outputs",
  network = pg.graph {
    inputs = { picture },
    outputs = { pg.dense { 1, name = "kind" }(seen), pg.dense { 1, name = "radius" }(seen) },
  },
  loss = {
    kind = { type = "binary_cross_entropy", target = "shape" },
    radius = { type = "mse", target = "size", weight = 0.2 },
  },
  optimizer = pg.adam { lr = pg.cosine { from = 5e-3 } },
  data = { train = drawings(1500), test = drawings(300), batch = 30 },
  metrics = { "binary" }, -- of the first output
  epochs = 12, seed = 1,
}
