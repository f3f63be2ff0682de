-- A small GPT that learns from sentences, each of which stands alone: 7,500 of film reviews, of 48 words on average and cut at 64. In a row for each
-- 81 % would be padding; `packed` puts several into each row of 256 words, of which 0.1 % is. No word looks at another sentence, positions
-- begin anew, and the last word of a sentence foretells nothing: losses and gradients are those of the sentences one by one.
--
--     perigee train models/sentences.lua
--     perigee train models/sentences.lua --set data.train.most=1      -- a row for each sentence, to compare
local pg = require "perigee"

local words, longest, row, features = 4000, 64, 256, 128

-- $PERIGEE_DATA/docs/review_polarity.tar.gz, as published. Words that are not among the most frequent ones are one word, <unknown>.
local reviews = pg.data.documents {
  pg.data_path "docs/review_polarity.tar.gz", sentences = true, length = longest, max_vocabulary = words, folds = 10, fold = 10,
}

local normal = { type = "normal", stddev = 0.02 }

return pg.experiment {
  name = "sentences",
  network = pg.sequential {
    pg.embedding { words, features, name = "words", weight_init = normal }, -- [256 steps] -> [128 features, 256 steps]
    pg.positions {},
    pg.transformer { layers = 2, heads = 4, causal = true },
    pg.dense { words, over = "steps", tied = "words", bias = false }, -- a number for each word that may come next
  },
  loss = pg.loss.cross_entropy { ignore = -1 },
  optimizer = pg.adamw { lr = pg.cosine { from = 2e-3, to = 2e-4, warmup = 0.05 }, weight_decay = 0.1 },
  data = {
    train = reviews.train:packed { row, next = "y" },
    test = reviews.test:packed { row, next = "y" },
    batch = 8,
  },
  steps = 1000, seed = 1,
}
