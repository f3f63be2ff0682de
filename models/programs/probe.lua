-- Denoising autoencoders against raw pixels: a linear classifier learns from 1,000 labelled digits, once from their pixels, once from the codes of
-- models/denoising.lua, which has seen 60,000 digits without labels.
--
--     perigee train models/denoising.lua --out runs/denoising
--     perigee -e 'arg = { "runs/denoising" } dofile "models/programs/probe.lua"'
local pg = require "perigee"
local mnist = pg.data.mnist()
local p = pg.load_model(arg and arg[1] or "runs/denoising"):parameters()

local function pixels(x) return x:reshape(-1, 784) end
local function codes(x) return (pixels(x):matmul(p["code.weight"].T) + p["code.bias"]):sigmoid() end

local function features(source, count, of)
  local batch = source:batch(1, count)
  return pg.data.arrays { x = of(batch.x), y = batch.y - 1 }  -- classes of arrays count from 0
end

-- The best of four strengths of weight decay by 5,000 other digits, then judged by the 10,000 of the test part.
local function probe(name, of)
  local train, other = features(mnist.train:take(1000), 1000, of), features(mnist.train:take(5000, 1000), 5000, of)
  local test = features(mnist.test, 10000, of)
  local function accuracy(l2, judge)
    local run = pg.start(pg.experiment {
      network = pg.sequential { pg.dense { 10 } }, loss = "cross_entropy", optimizer = pg.adam { lr = 3e-3 }, regularization = { l2 = l2 },
      data = { train = train, test = judge, batch = 100 }, epochs = 60, seed = 1,
    }, { folder = false })
    run:wait()
    return 100 * run:eval("test").accuracy
  end
  local chosen, most = 0, 0
  for _, l2 in ipairs { 0, 1e-3, 1e-2, 3e-2 } do
    local found = accuracy(l2, other)
    if found > most then chosen, most = l2, found end
  end
  local result = accuracy(chosen, test)
  print(("%-7s %.2f %% right, with l2 = %g"):format(name, result, chosen))
  return result
end

local raw = probe("pixels", pixels)
print(("codes are better by %.2f points"):format(probe("codes", codes) - raw))
