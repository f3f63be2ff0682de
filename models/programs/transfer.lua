-- Transfer learning: a network learns from 20,000 drawn digits, of which there are as many as one likes, and goes on with 200 photographed
-- ones. Its convolutions have learned strokes and stay as they are; only the new head is trained. The same network without the drawn digits
-- shows what that was worth.
--
--     perigee -e 'dofile "models/programs/transfer.lua"'
local pg = require "perigee"

local function network(head)
  return pg.sequential {
    pg.conv2d { 16, kernel = 5, activation = "relu", name = "conv1" }, pg.maxpool { 2 },
    pg.conv2d { 32, kernel = 5, activation = "relu", name = "conv2" }, pg.maxpool { 2 },
    pg.dense { 10, name = head },
  }
end

local function train(description)
  description.loss, description.seed = "cross_entropy", 1
  local run = pg.start(pg.experiment(description), { folder = false })
  run:wait()
  return run
end

-- The first training; its parameters go into a file.
local drawn = pg.data.digits { part = "train", size = 20000, endless = false }
local base = train { network = network "drawn", optimizer = pg.adam { lr = 2e-3 }, data = { train = drawn, batch = 64 }, epochs = 1 }
local file = os.tmpname()
base:save(file)

local mnist = pg.data.mnist()
local few = { train = mnist.train:take(200), test = mnist.test, batch = 20 }

-- The new head has a name of its own, so the file has no parameters for it, and what the file has for the old one is skipped.
local transferred = train {
  network = network "head", optimizer = pg.adam { lr = 3e-3 }, data = few, epochs = 30,
  pretrained = { model = file, freeze = { "conv*" }, skip = { "head.*" } },
}
local alone = train { network = network "head", optimizer = pg.adam { lr = 3e-3 }, data = few, epochs = 30 }
os.remove(file)

print(("with 200 photographed digits alone: %.1f %%"):format(100 * alone:eval("test").accuracy))
print(("after 20,000 drawn ones:            %.1f %%"):format(100 * transferred:eval("test").accuracy))
