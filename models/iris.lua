-- Fisher's irises: 150 flowers, four measurements each, three species. The table of numbers and words is read as it is; means, deviations
-- and the species' names come from the training part alone and are saved with the model.
local pg = require "perigee"

-- $PERIGEE_DATA/tabular/iris.csv; four numbers and a name a line, without a header.
local flowers = pg.data.csv { pg.data_path "tabular/iris.csv", target = -1 }
local train, test = flowers:split { 0.8, 0.2, seed = 7 }
local standardize = pg.transform.standardize {}

return pg.experiment {
  name = "iris",
  network = pg.sequential {
    pg.dense { 16, activation = "tanh" },
    pg.dense { 3 },
  },
  loss = "cross_entropy",
  optimizer = pg.adam { lr = 0.01 },
  data = { train = train:map { standardize }, test = test:map { standardize }, batch = 16 },
  metrics = { "classification", "roc", "calibration" },
  epochs = 60, seed = 3,
}
