-- An autoencoder: the network reduces a digit to 32 numbers and draws it from them. The target is the input itself, target = "x",
-- so no labels are needed.
local pg = require "perigee"
local mnist = pg.data.mnist()

return pg.experiment {
  name = "autoencoder-mnist",
  network = pg.sequential {
    pg.flatten {},
    pg.dense { 256, activation = "relu" },
    pg.dense { 32, name = "code" },
    pg.dense { 256, activation = "relu" },
    pg.dense { 784, activation = "sigmoid" },
    pg.reshape { { 1, 28, 28 } },
  },
  loss = "mse",
  target = "x",
  optimizer = pg.adam { lr = 1e-3 },
  data = { train = mnist.train, test = mnist.test, batch = 64 },
  epochs = 5, seed = 123,
}
