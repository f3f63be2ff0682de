-- A generative adversarial network (Goodfellow et al., 2014) with convolutions (DCGAN: Radford et al., 2016): two objectives take turns in each step.
-- The judge learns to tell digits from what the maker draws of noise; the maker learns to be taken for real. Layers that the judge uses on both
-- are called twice and have their parameters once.
local pg = require "perigee"
local mnist = pg.data.mnist()

local x, z = pg.input "x", pg.input "z"

-- The names say what belongs to whom.
local maker = pg.sequential {
  pg.dense { 64 * 7 * 7, name = "maker1" }, pg.reshape { { 64, 7, 7 } }, pg.batchnorm { name = "maker2" }, pg.activation { "relu" },
  pg.deconv2d { 32, kernel = 4, stride = 2, padding = 1, name = "maker3" }, pg.batchnorm { name = "maker4" }, pg.activation { "relu" },
  pg.deconv2d { 1, kernel = 4, stride = 2, padding = 1, activation = "sigmoid", name = "maker5" },
}
local judge = pg.sequential {
  pg.conv2d { 32, kernel = 4, stride = 2, padding = 1, activation = "leaky_relu", name = "judge1" },
  pg.conv2d { 64, kernel = 4, stride = 2, padding = 1, activation = "leaky_relu", name = "judge2" },
  pg.flatten {}, pg.dense { 1, name = "judge3" },
}
local drawn = maker(z)
local function named(name, scores) return pg.reshape { { 1 }, name = name }(scores) end

-- log(1 + exp(-s)) of the score s of what is to be taken for real; the target plays no part.
local function real_is(scores, _) return pg.softplus(-scores):mean(2) end
local function false_is(scores, _) return pg.softplus(scores):mean(2) end

return pg.experiment {
  name = "gan",
  network = pg.graph { inputs = { x, z }, outputs = { named("real", judge(x)), named("fake", judge(drawn)), drawn } },
  inputs = { "x", "z" }, target = "x",
  optimizer = pg.adam { lr = 2e-4, beta1 = 0.5 },
  objectives = {
    { name = "judge", loss = { real = real_is, fake = false_is }, updates = "judge*" },
    { name = "maker", loss = { fake = real_is }, updates = "maker*" },
  },
  data = { train = mnist.train:with_noise { size = 64 }, batch = 64 },
  epochs = 5, seed = 1,
}
