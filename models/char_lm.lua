-- A small language model: it predicts the thirteenth character of Shakespeare from the twelve before it (Bengio et al. 2003, with characters
-- for words). A table of learned vectors represents each character; dense layers follow and end in one number per character. The loss is in
-- nats: ln 66 = 4.19 if all characters are equally likely, 3.3 if only their frequencies are known.
local pg = require "perigee"

-- $PERIGEE_DATA/text/tinyshakespeare/input.txt: 1.1 million characters, 65 different ones; the 66th number represents all others.
local context, vocabulary = 12, 66

-- The text is split before windows are taken, so that no window of the test part overlaps one of the training part. The vocabulary comes
-- from the training part and is saved with the model.
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
  -- A window starts at every character, so one epoch sees each character twelve times; 6,250 steps are 0.8 million windows.
  steps = 6250, seed = 123,
}
