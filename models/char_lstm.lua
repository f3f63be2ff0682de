-- A recurrent language model: an LSTM reads Shakespeare character by character and predicts the next one at every step (Karpathy 2015). The
-- loss is in nats a character: ln 66 = 4.19 if all characters are equally likely; the windows of models/char_lm.lua come to about 1.8.
--
--     perigee train models/char_lstm.lua
local pg = require "perigee"

local steps, vocabulary = 64, 66

-- $PERIGEE_DATA/text/tinyshakespeare/input.txt: 1.1 million characters, in 32 streams: row i of a batch goes on where row i of the batch before
-- ended, and with `state = "carry"` the LSTM goes on with what it remembers (truncated backpropagation through time). An epoch sees each
-- character once; `targets = "every"` gives each step of a window the character behind it. Such a network trains on the CPU, in one process.
local text = pg.data.text {
  pg.data_path "text/tinyshakespeare/input.txt", context = steps, streams = 32, targets = "every", max_vocabulary = vocabulary,
  parts = { train = 0.9, test = 0.1 },
}

return pg.experiment {
  name = "char-lstm",
  network = pg.sequential {
    pg.embedding { vocabulary, 64 },                 -- [64 steps] -> [64 features, 64 steps]
    pg.lstm { 256, state = "carry" },                -- -> [256 features, 64 steps]
    pg.time_distributed { pg.dense { vocabulary } }, -- -> a number for each character, at each step
  },
  loss = "cross_entropy",
  optimizer = pg.adamw { lr = pg.cosine { from = 4e-3 } },
  data = { train = text.train, test = text.test, batch = 32 },
  epochs = 8, seed = 123,
}
