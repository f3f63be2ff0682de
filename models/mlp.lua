-- A multilayer perceptron on MNIST: it does not know which pixels are neighbours and still reaches more than 98 %. Dropout reduces
-- overfitting; 10 % of the training part are set aside to measure it, and the best epoch is kept.
local pg = require "perigee"
local mnist = pg.data.mnist()
local train, validation = mnist.train:split { 0.9, 0.1, seed = 1 }

return pg.experiment {
  name = "mlp-mnist",
  network = pg.sequential {
    pg.flatten {},
    pg.dense { 500, activation = "relu", dropout = 0.2 },
    pg.dense { 500, activation = "relu", dropout = 0.2 },
    pg.dense { 10 },
  },
  loss = { type = "cross_entropy", label_smoothing = 0.05 },
  optimizer = pg.adam { lr = pg.one_cycle { max = 2e-3 } },
  data = { train = train, validation = validation, test = mnist.test, batch = 64 },
  early_stopping = { metric = "validation.loss", patience = 3 },
  epochs = 10, seed = 123,
}
