-- A Wasserstein GAN with gradient penalty (Gulrajani et al., 2017): the judge's score is a distance, so its gradient is held to a norm of 1 at points
-- between real digits and made ones. The penalty is a loss of a gradient, pg.input_gradient, and trains by second derivatives. The judge learns in
-- every step, the maker in each fifth.
local pg = require "perigee"
local mnist = pg.data.mnist()

local x, z, share = pg.input "x", pg.input "z", pg.input "share"

local maker = pg.sequential {
  pg.dense { 256, activation = "relu", name = "maker1" }, pg.dense { 512, activation = "relu", name = "maker2" },
  pg.dense { 784, activation = "sigmoid", name = "maker3" },
}
local judge = pg.sequential {
  pg.dense { 512, activation = "leaky_relu", name = "judge1" }, pg.dense { 256, activation = "leaky_relu", name = "judge2" },
  pg.dense { 1, name = "judge3" },
}
local flat = pg.flatten {}(x)
local drawn = maker(z)
local between = pg.lambda(function(a, b, s) return a + (s + 1) / 2 * (b - a) end)(flat, drawn, share)
local slope = pg.input_gradient(judge(between), between)
local penalty = pg.lambda(function(g) return (pg.sqrt((g ^ 2):sum(2, true) + 1e-12) - 1) ^ 2 end, { name = "penalty" })(slope)
local function named(name, scores) return pg.reshape { { 1 }, name = name }(scores) end

local function up(score, _) return score:mean(2) end
local function down(score, _) return -score:mean(2) end
local adam = pg.adam { lr = 1e-4, beta1 = 0.5, beta2 = 0.9 }

return pg.experiment {
  name = "wgan-gp",
  network = pg.graph { inputs = { x, z, share }, outputs = { named("real", judge(flat)), named("fake", judge(drawn)), penalty, drawn } },
  inputs = { "x", "z", "share" }, target = "x",
  optimizer = adam,
  objectives = {
    { name = "judge", loss = { real = down, fake = up, penalty = { up, weight = 10 } }, updates = "judge*" },
    { name = "maker", loss = { fake = down }, updates = "maker*", every = 5 },
  },
  data = {
    train = mnist.train:with_noise { size = 64 }:with_noise { field = "share", size = 1, distribution = "uniform" },
    batch = 64,
  },
  epochs = 20, seed = 1,
}
