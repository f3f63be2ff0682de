-- Anomalies among 10,000 digits that a network has not seen. A variational autoencoder learns nine kinds and finds the tenth strange where it is
-- improbable (An & Cho 2015): a 9 looks much like what it knows. A one-class network learns one kind and finds strange what lies outside
-- (Chalapathy et al. 2018). The figure is the area under the ROC curve: 0.5 is guessing.
--
--     perigee -e 'dofile "models/programs/anomaly.lua"'                      -- the digit 9, seed 1
--     perigee -e 'arg = { 4, 2 } dofile "models/programs/anomaly.lua"'       -- the digit 4, seed 2
--     perigee -e 'small = true dofile "models/programs/anomaly.lua"'         -- seconds
local pg = require "perigee"
local left_out, seed = arg and tonumber(arg[1]) or 9, arg and tonumber(arg[2]) or 1
local small = rawget(_G, "small")
local mnist = pg.data.mnist()
pg.seed(seed)

-- The pixels of the digits of a part, and which of them are of the kind that is left out.
local function digits(source, count)
  local batch = source:batch(1, count)
  return batch.x:reshape(count, 784), batch.y:eq(left_out + 1)
end

local function learn(network, x, options)
  options.network, options.loss, options.target, options.seed = network, "none", "x", seed
  options.data = { train = pg.data.arrays { x = x }, batch = 128 }
  local run, file = pg.start(pg.experiment(options), { folder = false }), os.tmpname()
  run:wait()
  run:save(file)
  local model = pg.load_model(file)
  os.remove(file)
  return model
end

-- The share of pairs, one of each kind, in which the anomaly has the higher score.
local function area(scores, anomalous)
  local order = scores:argsort()
  local ranks = pg.zeros(scores.shape[1])
  ranks[order] = pg.arange(1, scores.shape[1]):to(ranks.dtype)
  local n = anomalous:to("f64"):sum():item()
  local sum = (ranks:to("f64") * anomalous:to("f64")):sum():item()
  return (sum - n * (n + 1) / 2) / (n * (scores.shape[1] - n))
end

local x, wrong = digits(mnist.train, small and 3000 or 60000)
x = x[wrong:eq(0)]
local test, anomalous = digits(mnist.test, small and 1000 or 10000)

local autoencoder = pg.variational(learn(pg.sequential {
  pg.vae { latent = 20, encoder = { pg.dense { 400, activation = "relu" } }, decoder = { pg.dense { 400, activation = "relu" }, pg.dense { 784 } } },
}, x, { optimizer = pg.adam { lr = 1e-3 }, epochs = small and 2 or 10 }))
local score = -autoencoder:reconstruction_log_probability(test, { samples = 16 })
print(("variational autoencoder: AUC %.4f"):format(area(score, anomalous)))

-- The other way round: a one-class network learns the left-out kind alone, and all others are the anomalies.
local one, others = digits(mnist.train, small and 3000 or 60000)
local outside = learn(pg.sequential { pg.ocnn { hidden = 32, nu = 0.04, activation = "sigmoid" } }, one[others:eq(1)],
  { optimizer = pg.adam { lr = 1e-3 }, epochs = small and 2 or 40 })
print(("one-class network: AUC %.4f"):format(area(-outside(test):reshape(-1), 1 - anomalous:to "f32")))
