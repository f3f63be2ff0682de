-- Which of seven kinds of trees covers a piece of forest: 20,000 rows of the UCI repository's "Covertype", from the file as it is downloaded:
-- ten measurements, and 44 columns of 0 and 1. A step makes the angle of the slope's direction two numbers, so that 359 degrees lie beside 0.
local pg = require "perigee"

local numbers = { "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "north", "east", "water", "hydro", "fire", "road" }
local cover = pg.data.table {
  pg.data_path "tabular/covtype.20k.data.gz",
  steps = {
    { derive = { north = "cos(c1 * 3.14159265 / 180)", east = "sin(c1 * 3.14159265 / 180)", water = "c0 - c4", hydro = "sqrt(c3 ^ 2 + c4 ^ 2)",
                 fire = "c9 - c3", road = "c5 - c3" }, after = "c9" },
    { normalize = numbers },
  },
  target = "c54", task = "classify",
}
local train, test = cover:split { 0.8, 0.2, seed = 1 }

return pg.experiment {
  name = "covtype",
  network = pg.sequential {
    pg.dense { 256, activation = "relu" },
    pg.dense { 256, activation = "relu" },
    pg.dropout { 0.1 },
    pg.dense { 7 },
  },
  loss = "cross_entropy",
  optimizer = pg.adamw { lr = pg.cosine { from = 3e-3 }, weight_decay = 1e-3 },
  data = { train = train, test = test, batch = 128 },
  metrics = { "classification" },
  epochs = 30, seed = 1,
}
