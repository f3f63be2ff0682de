-- A denoising autoencoder (Vincent et al. 2008): three pixels in ten of a digit are set to 0, and the network restores the whole digit. What its
-- middle has learned for that is worth more to a classifier with few labels than the pixels themselves: models/programs/probe.lua measures it.
-- The decoder uses the encoder's weights the other way round.
local pg = require "perigee"
local mnist = pg.data.mnist()

return pg.experiment {
  name = "denoising-mnist",
  network = pg.sequential {
    pg.flatten {},
    pg.masking_noise { 0.3 },
    pg.dense { 512, activation = "sigmoid", name = "code" },
    pg.dense { 784, tied = "code", transposed = true },
    pg.reshape { { 1, 28, 28 } },
  },
  loss = "reconstruction_cross_entropy",
  target = "x",
  optimizer = pg.adam { lr = 1e-3 },
  data = { train = mnist.train, test = mnist.test, batch = 100 },
  epochs = 10, seed = 123,
}
