-- A language model in its smallest form: from twelve characters of Shakespeare, foretell the thirteenth (Bengio et al. 2003, with characters
-- for words). Every character is looked up in a table of learned vectors; what follows is an ordinary network that ends in one number per
-- character. The loss is in nats: ln 66 = 4.19 when every character is thought equally likely, 3.3 when only their frequencies are known.
local pg = require "perigee"

-- $PERIGEE_DATA/text/tinyshakespeare/input.txt: 1.1 million characters, 65 different ones; one number more stands for any other.
local context, vocabulary = 12, 66

-- The text is cut before windows are taken from it, so that no window of the test part overlaps one that was trained on. Which characters
-- there are is learnt from the training part and stored with the model: other texts are read with the same numbers.
local text = pg.data.text {
  pg.data_path "text/tinyshakespeare/input.txt", context = context, max_vocabulary = vocabulary,
  parts = { train = 0.9, test = 0.1 },
}

return pg.experiment {
  name = "char-lm",
  network = pg.sequential {
    pg.embedding { vocabulary, 12 },   -- [12 positions] -> [12 features, 12 positions]
    pg.flatten {},
    pg.dense { 192, activation = "relu" },
    pg.dense { 96, activation = "relu" },
    pg.dense { vocabulary },
  },
  loss = "cross_entropy",
  optimizer = pg.adamw { lr = pg.cosine { from = 2e-3 } },
  data = { train = text.train, test = text.test, batch = 128 },
  -- Windows begin at every character, so that one epoch sees each character twelve times; 6,250 steps are 0.8 million windows.
  steps = 6250, seed = 123,
}
