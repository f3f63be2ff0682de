-- Denoising autoencoders against raw pixels: a linear classifier learns from 1,000 labelled digits, once from their pixels, once from the codes of
-- models/denoising.lua, which has seen 60,000 digits without labels.
--
--     perigee train models/denoising.lua --out runs/denoising
--     perigee -e 'arg = { "runs/denoising" } dofile "models/programs/probe.lua"'
local pg = require "perigee"
local mnist = pg.data.mnist()
local run = arg and arg[1] or "runs/denoising"

-- Weight decay is chosen for each on 5,000 other digits, since pixels need more of it than codes.
local function probe(layers, pretrained, l2, part)
  layers[#layers + 1] = pg.dense { 10, name = "probe" }
  local started = pg.start(pg.experiment {
    network = pg.sequential(layers), loss = "cross_entropy", optimizer = pg.adam { lr = 3e-3 }, pretrained = pretrained,
    regularization = { l2 = l2 }, data = { train = mnist.train:take(1000), test = part, batch = 100 }, epochs = 150, seed = 1,
  }, { folder = false })
  started:wait()
  return 100 * started:eval("test").accuracy
end

local function best(name, make, pretrained)
  local chosen, most = nil, 0
  for _, l2 in ipairs { 0, 1e-3, 1e-2 } do
    local accuracy = probe(make(), pretrained, l2, mnist.train:skip(1000):take(5000))
    if accuracy > most then chosen, most = l2, accuracy end
  end
  local accuracy = probe(make(), pretrained, chosen, mnist.test)
  print(("%-7s l2 %-6g %.2f %%"):format(name, chosen, accuracy))
  return accuracy
end

local pixels = best("pixels", function() return { pg.flatten {} } end)
local codes = best("codes", function()
  return { pg.flatten {}, pg.dense { 512, activation = "sigmoid", name = "code" } }
end, { model = run, freeze = { "code.*" }, skip = { "probe.*" } })
print(("better by %.2f points"):format(codes - pixels))
