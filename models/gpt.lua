-- A small GPT (Radford et al. 2019) on Shakespeare, character by character: 4 blocks of 128 features with 4 heads, 0.8 million parameters. The
-- settings are those of nanoGPT's example for a laptop. The loss is in nats a character: ln 66 = 4.19 if all are equally likely.
--
--     perigee train models/gpt.lua
--     perigee train models/gpt.lua --set network.layers.3.layers=6 --steps 5000
local pg = require "perigee"

local steps, features, vocabulary = 64, 128, 66

-- $PERIGEE_DATA/text/tinyshakespeare/input.txt: 1.1 million characters, 65 different ones; the 66th number represents all others.
-- `targets = "every"` gives each step of a window the character behind it.
local function text(stride)
  return pg.data.text {
    pg.data_path "text/tinyshakespeare/input.txt", context = steps, stride = stride, targets = "every", max_vocabulary = vocabulary,
    parts = { train = 0.9, test = 0.1 },
  }
end

local normal = { type = "normal", stddev = 0.02 }

return pg.experiment {
  name = "gpt",
  network = pg.sequential {
    pg.embedding { vocabulary, features, name = "tokens", weight_init = normal },  -- [64 steps] -> [128 features, 64 steps]
    pg.positions {},
    pg.transformer { layers = 4, heads = 4, causal = true, activation = { type = "gelu", approximate = "tanh" } },
    pg.dense { vocabulary, over = "steps", tied = "tokens", bias = false },  -- a number for each character, at each step
  },
  loss = "cross_entropy",
  optimizer = pg.adamw {
    lr = pg.cosine { from = 1e-3, to = 1e-4, warmup = 0.05 },
    beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1,
  },
  data = { train = text(1).train, test = text(steps).test, batch = 12 },
  steps = 2000, seed = 123,
}
