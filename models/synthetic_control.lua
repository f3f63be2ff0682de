-- Control charts of a process, one number a minute for an hour: which of six things happens? It goes on as ever, it swings, it climbs, it
-- sinks, or it jumps up or down at some moment (Alcock and Manolopoulos 1999, UCI). A GRU reads the chart step by step; its last state is
-- what it has understood.
local pg = require "perigee"

-- $PERIGEE_DATA/timeseries/uci_synthetic_control/synthetic_control.data: 600 rows of 60 numbers, a hundred rows of each class in turn. The
-- file has no labels, so the script reads the rows and gives each its class.
local rows = pg.data.csv {
  pg.data_path "timeseries/uci_synthetic_control/synthetic_control.data", delimiter = " ", header = false, target = false,
}
local classes = { "normal", "cyclic", "increasing", "decreasing", "upward shift", "downward shift" }

local labels = {}
for row = 1, #rows do labels[row] = math.floor((row - 1) / 100) end

-- A sequence is features x steps: here one feature.
local charts = pg.data.arrays { x = rows:batch(1, #rows).x:reshape(#rows, 1, 60), y = labels, class_names = classes }
local train, test = charts:split { 0.5, 0.5, seed = 1 }
local standardize = pg.transform.standardize {} -- one mean and one deviation for all steps

return pg.experiment {
  name = "synthetic-control",
  network = pg.sequential {
    pg.gru { 64, bidirectional = "concat", returns = "last" }, -- [1 feature, 60 steps] -> 128 features
    pg.dense { #classes },
  },
  loss = "cross_entropy",
  optimizer = pg.adamw { lr = pg.cosine { from = 1e-2 } },
  clip = { type = "norm" },
  data = { train = train:map { standardize }, test = test:map { standardize }, batch = 20 },
  epochs = 40, seed = 1,
}
