-- Deeplearning4j's example GravesLSTMCharModelling: two LSTMs of 200 units with peepholes on Shakespeare, character by character, by truncated
-- backpropagation through time over 50 steps, XAVIER, L2 and Adam of its version 1.0.0-beta. After training, four samples of 300 characters:
--
--     perigee train models/coming_from/char_lstm_dl4j.lua --out runs/graves
--     perigee generate runs/graves --prompt "T" --tokens 300 --seed 1      # and 2, 3, 4
--
-- Three things differ. Theirs adds up the loss over steps, ours is their mean: Adam does not see the factor, and L2 is a fiftieth of theirs to
-- stand in the same proportion. Their examples of 1,000 characters are shuffled, and begin with a state of zeros; here 32 lanes go through the
-- text, and the state goes on. Their characters are vectors of zeros and a one, which an embedding of that form stands for, that does not train.
local pg = require "perigee"

local steps, vocabulary, units = 50, 66, 200
local text = pg.data.text {
  pg.data_path "text/tinyshakespeare/input.txt", context = steps, streams = 32, targets = "every", max_vocabulary = vocabulary,
  parts = { train = 0.9, test = 0.1 },
}

return pg.experiment {
  name = "char-lstm-dl4j",
  network = pg.sequential {
    defaults = { weight_init = "xavier" },
    pg.embedding { vocabulary, vocabulary, weight_init = "identity", name = "one_hot" },
    pg.lstm { units, peepholes = true, state = "carry", recurrent_init = "xavier" },
    pg.lstm { units, peepholes = true, state = "carry", recurrent_init = "xavier" },
    pg.dense { vocabulary, over = "steps" },
  },
  loss = "cross_entropy",
  optimizer = pg.adam { lr = 0.005 },
  regularization = { l2 = 0.0001 / steps },
  freeze = { "one_hot*" },
  data = { train = text.train, test = text.test, batch = 32 },
  epochs = 1, seed = 12345,
}
