-- Greedy layer-wise pretraining, then fine-tuning: a run of three phases. Each of the first two trains one more layer of a denoising
-- autoencoder, without labels, while the layers before it stay as they are; the third one trains a classifier that begins with the
-- encoder. A phase takes over the parameters of the phases before by their names, so the layers that go on have names.
local pg = require "perigee"
local mnist = pg.data.mnist()

local function encoder(index, out) return pg.dense { out, activation = "relu", name = "encoder" .. index } end
local decoder1 = pg.dense { 784, activation = "sigmoid", name = "decoder1" }
local decoder2 = pg.dense { 256, activation = "relu", name = "decoder2" }

return pg.experiment {
  name = "stacked",
  optimizer = pg.adam { lr = 1e-3 },
  data = { train = mnist.train, test = mnist.test, batch = 64 },
  phases = {
    {
      name = "first layer",
      network = pg.sequential { pg.flatten {}, pg.dropout { 0.25 }, encoder(1, 256), decoder1, pg.reshape { { 1, 28, 28 } } },
      loss = "mse", target = "x", epochs = 3,
    },
    {
      name = "second layer",
      network = pg.sequential {
        pg.flatten {}, encoder(1, 256), pg.dropout { 0.25 }, encoder(2, 64), decoder2, decoder1, pg.reshape { { 1, 28, 28 } },
      },
      loss = "mse", target = "x", epochs = 3,
      freeze = { "encoder1.*", "decoder1.*" },
    },
    {
      name = "fine-tuning",
      network = pg.sequential { pg.flatten {}, encoder(1, 256), encoder(2, 64), pg.dense { 10, name = "classes" } },
      loss = "cross_entropy", epochs = 4,
      optimizer = pg.adam { lr = pg.schedule.cosine { from = 1e-3 } },
    },
  },
  seed = 7,
}
