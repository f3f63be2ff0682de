-- A variational autoencoder (Kingma & Welling 2014) with 20 numbers for a digit. The loss is -ELBO: what it costs to restore the digit from a
-- draw of its code, and the code's divergence from the standard normal. models/programs/vae.lua draws new digits with it.
local pg = require "perigee"
local mnist = pg.data.mnist()

return pg.experiment {
  name = "vae-mnist",
  network = pg.sequential {
    pg.vae {
      latent = 20,
      encoder = { pg.dense { 400, activation = "relu" } },
      decoder = { pg.dense { 400, activation = "relu" }, pg.dense { 784 } },
    },
  },
  loss = "none",
  target = "x",
  optimizer = pg.adam { lr = 1e-3 },
  data = { train = mnist.train, test = mnist.test, batch = 128 },
  epochs = 10, seed = 1,
}
