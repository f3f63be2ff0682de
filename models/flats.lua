-- A table of your own: the rents of 320 flats in flats.csv, which lies beside this script. Numbers and words are read as they are; a gap is
-- filled with the mean of its column. The network foretells a number, so its last layer has one output and the loss is a squared error.
local pg = require "perigee"

local flats = pg.data.csv { "flats.csv", target = "rent", task = "regress", missing = "mean" }

-- Three parts: the network learns from the first, stops by the second, and is judged by the third, which nothing has seen.
local train, validation, test = flats:split { 0.7, 0.15, 0.15, seed = 1 }

-- Mean 0 and deviation 1, as measured on the training part; saved with the model, so that `perigee predict` takes rows as they are.
local standardize = pg.transform.standardize {}

return pg.experiment {
  name = "flats",
  network = pg.sequential {
    pg.dense { 32, activation = "relu" },
    pg.dense { 32, activation = "relu" },
    pg.dense { 1 },
  },
  loss = "mse",
  optimizer = pg.adam { lr = pg.cosine { from = 3e-2 } },
  data = { train = train:map { standardize }, validation = validation:map { standardize }, test = test:map { standardize }, batch = 16 },
  early_stopping = { metric = "validation.loss", patience = 40 },
  epochs = 200, seed = 1,
}
