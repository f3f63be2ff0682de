-- The network of lenet.lua, trained exactly as in Deeplearning4j's article: Adagrad, L2, negative log likelihood. About 98 % after five
-- epochs; the difference from lenet.lua is the optimiser.
local pg = require "perigee"
local mnist = pg.data.mnist()

return pg.experiment {
  name = "lenet-dl4j",
  network = pg.sequential {
    defaults = { weight_init = "xavier" }, -- for every layer that sets no other
    pg.conv2d { 20, kernel = 5, activation = "relu" },
    pg.maxpool { 2 },
    pg.conv2d { 50, kernel = 5, stride = 2, activation = "relu" },
    pg.maxpool { 2 },
    pg.dense { 200, activation = "relu" },
    pg.dense { 10, activation = "softmax" },
  },
  loss = "negative_log_likelihood", -- takes probabilities, so the last layer has a softmax
  optimizer = pg.adagrad { lr = 0.1 },
  regularization = { l2 = 0.0005 },
  data = { train = mnist.train, test = mnist.test, batch = 32 },
  epochs = 5, seed = 123,
  averaging = pg.averaging.periodic { every = 5 },
}
