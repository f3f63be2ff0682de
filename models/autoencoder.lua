-- An autoencoder: a digit is squeezed through 32 numbers and drawn again from them. What it is compared with is its own input, so
-- it needs no labels: target = "x".
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
