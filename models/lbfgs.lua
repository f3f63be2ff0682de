-- L-BFGS on all examples at once: each step looks back at the last ten for the curvature of the loss and searches along a line, so that there is
-- no learning rate to choose. It suits small networks and data that one step can take whole; for others take pg.adam.
local pg = require "perigee"
local digits = pg.data.mnist()

return pg.experiment {
  name = "lbfgs",
  network = pg.sequential { pg.flatten {}, pg.dense { 32, activation = "tanh" }, pg.dense { 10 } },
  loss = "cross_entropy",
  regularization = { l2 = 1e-4 },
  optimizer = pg.lbfgs { history = 10 }, -- or pg.cg {}: conjugate gradients
  data = { train = digits.train:take(5000), test = digits.test, batch = 5000, shuffle = false },
  epochs = 60, seed = 1, -- an epoch is one step
}
