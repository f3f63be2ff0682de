-- Transfer learning: a network learns from 8,000 drawn digits, of which there are as many as one likes, and goes on with 50 photographed
-- ones. Its convolutions have learned strokes and stay as they are; only the last layer learns from the photographs, either anew or from where
-- it is. The same network without the drawn digits shows what they were worth.
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
local drawn = pg.data.digits { part = "train", size = 8000, endless = false }
local base = train { network = network "digits", optimizer = pg.adam { lr = 2e-3 }, data = { train = drawn, batch = 64 }, epochs = 3 }
local file = os.tmpname()
base:save(file)

local mnist = pg.data.mnist()
local function photographed(head, pretrained)
  local run = train {
    network = network(head), optimizer = pg.adam { lr = 3e-3 }, pretrained = pretrained, epochs = 30,
    data = { train = mnist.train:take(50), test = mnist.test:take(2000), batch = 10 },
  }
  return 100 * run:eval("test").accuracy
end

print(("50 photographed digits alone:       %.1f %%"):format(photographed "digits"))
-- For other classes than the drawn ones the last layer would begin anew: with a name of its own it has no parameters in the file, and `skip`
-- says that this is meant.
print(("after drawn ones, a new last layer: %.1f %%"):format(photographed("new", { model = file, freeze = { "conv*" }, skip = { "new.*" } })))
print(("after drawn ones, all of it:        %.1f %%"):format(photographed("digits", { model = file, freeze = { "conv*" } })))
os.remove(file)
