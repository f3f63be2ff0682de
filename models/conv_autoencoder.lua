-- A convolutional autoencoder: strides reduce a digit to 8 maps of 4 x 4, and transposed convolutions draw it from them. It has a
-- twentieth of the parameters of models/autoencoder.lua, since a filter sees every place of a digit.
local pg = require "perigee"
local mnist = pg.data.mnist()

return pg.experiment {
  name = "conv-autoencoder",
  network = pg.sequential {
    pg.conv2d { 16, kernel = 3, stride = 2, padding = 1, activation = "relu" }, -- 14 x 14
    pg.conv2d { 32, kernel = 3, stride = 2, padding = 1, activation = "relu" }, -- 7 x 7
    pg.conv2d { 8, kernel = 3, stride = 2, padding = 1, name = "code" }, -- 4 x 4
    pg.deconv2d { 32, kernel = 3, stride = 2, padding = 1, activation = "relu" }, -- 7 x 7
    pg.deconv2d { 16, kernel = 4, stride = 2, padding = 1, activation = "relu" }, -- 14 x 14
    pg.deconv2d { 1, kernel = 4, stride = 2, padding = 1, activation = "sigmoid" }, -- 28 x 28
  },
  loss = "mse",
  target = "x",
  optimizer = pg.adam { lr = 1e-3 },
  data = { train = mnist.train, test = mnist.test, batch = 64 },
  epochs = 5, seed = 123,
}
