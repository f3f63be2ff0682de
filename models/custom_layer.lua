-- Your own layer is a Lua function. It runs once, on values that record the operations on them; the record is trained, differentiated and
-- saved, so the model file holds no Lua and needs none.
local pg = require "perigee"
local mnist = pg.data.mnist()

-- Swish with a bump: any op of the graph, arithmetic and numbers.
local function swish(x) return x * pg.sigmoid(x) + 0.1 * pg.exp(-x * x) end

-- The values are not known while the function is traced, so `x < 0` is an error that says so. pg.where computes both branches.
local function leaky(x) return pg.where(x:lt(0), 0.1 * x, x) end

-- Loops work too; they are unrolled.
local function centred(x)
  for _ = 1, 2 do x = x - pg.mean(x, -1, true) end
  return x
end

return pg.experiment {
  name = "custom-layer",
  network = pg.sequential {
    pg.flatten {},
    pg.dense { 128 }, pg.lambda(swish),
    pg.dense { 64 }, pg.lambda(leaky), pg.lambda(centred),
    pg.dense { 10 },
  },
  loss = "cross_entropy",
  optimizer = pg.adamw { lr = 1e-3 },
  data = { train = mnist.train, test = mnist.test, batch = 64 },
  epochs = 3, seed = 123,
}
