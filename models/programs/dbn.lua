-- A deep belief network (Hinton & Salakhutdinov 2006): restricted Boltzmann machines are trained one on the other, without labels; their weights
-- are where a network of dense layers then begins to learn the labels. Momentum rises after five epochs of each machine.
--
-- The folder of the fine-tuning gets filters.png, what 64 hidden units of the first machine look for.
--
--     perigee -e 'dofile "models/programs/dbn.lua"'                         -- 784-500-500-2000-10
--     perigee -e 'small = true dofile "models/programs/dbn.lua"'            -- 784-200-200-10, a minute
--
-- On several machines, in two terminals or more, each of the runs is shared by the workers that are there:
--
--     perigee -e 'listen = "127.0.0.1:7700" dofile "models/programs/dbn.lua"'        -- the coordinator of 2014's `-t master`
--     while perigee worker --join 127.0.0.1:7700; do :; done                         -- a worker, `-t worker`, for run after run
local pg = require "perigee"
local mnist = pg.data.mnist()
local small, listen = rawget(_G, "small"), rawget(_G, "listen")
local sizes = small and { 200, 200 } or { 500, 500, 2000 }
local examples, epochs, tuning = small and 20000 or 60000, small and 5 or 15, small and 10 or 60
local train = mnist.train:take(examples)

local function learn(description, out)
  description.data.batch = description.data.batch or 100
  description.seed = 1
  local options = { out = out, listen = listen }
  if not out and not listen then options.folder = false end
  local run = pg.start(pg.experiment(description), options)
  run:wait()
  return run
end

local file, known, filters = os.tmpname(), nil, nil
for depth = 1, #sizes do
  local layers = { pg.flatten {} }
  for below = 1, depth do
    layers[#layers + 1] = pg.rbm { sizes[below], name = "rbm" .. below, trainable = below == depth }
  end
  local run = learn {
    network = pg.sequential(layers), loss = "none", target = "x", data = { train = train }, epochs = epochs,
    optimizer = pg.sgd { lr = 0.1, momentum = function(now) return pg.where(now.epoch:lt(5), 0.5, 0.9) end },
    regularization = { l2 = 2e-4 },
    pretrained = known and { model = known, skip = { ("rbm%d.*"):format(depth) } },
  }
  if listen then known = run.progress.folder .. "/model.safetensors" -- the parameters are in the workers
  else
    run:save(file)
    known = file
  end
  if depth == 1 then filters = pg.boltzmann(pg.load_model(known)).weight:narrow(1, 1, 64):clone() end
  print(("machine %d: squared error of a reconstruction %.2f"):format(depth, run.progress.loss))
end

local layers = { pg.flatten {} }
for depth, size in ipairs(sizes) do layers[#layers + 1] = pg.dense { size, activation = "sigmoid", name = "rbm" .. depth } end
layers[#layers + 1] = pg.dense { 10, name = "labels" }
local run = learn({
  network = pg.sequential(layers), loss = "cross_entropy", data = { train = train, test = mnist.test }, epochs = tuning,
  optimizer = pg.sgd { lr = pg.cosine { from = 0.1 }, momentum = 0.9 },
  pretrained = { model = known, skip = { "labels.*" } },
}, not small and "runs/dbn" or nil)
if listen then print("perigee eval " .. run.progress.folder)
else print(("test error %.2f %%"):format(100 - 100 * run:eval("test").accuracy)) end
os.remove(file)
local picture = small and file .. ".png" or run.progress.folder .. "/filters.png"
pg.plot(filters:reshape(64, 1, 28, 28), { file = picture, columns = 8 })
if small then os.remove(picture) end
