-- Which digit is said? As digits_spoken.lua, but the network itself makes cepstra of the waveforms: they are computed where it runs, on a GPU too,
-- and are a part of the model, so that `predict`, servers and the C API give it recordings as they are.
local pg = require "perigee"

-- $PERIGEE_DATA/fsdd/: recordings/DIGIT_SPEAKER_NUMBER.wav of 8 kHz. The publishers' test part is numbers 0 to 4 of each digit and speaker.
local function recordings(files)
  return pg.data.audio {
    pg.data_path "fsdd/free-spoken-digit-dataset-recordings.tar.xz", files = files, label = "{class}_*.wav", seconds = 1.2,
  }
end

local train = recordings { "*_[5-9].wav", "*_[1-4][0-9].wav" }

return pg.experiment {
  name = "digits-waves",
  network = pg.sequential {
    -- [1 channel, steps] -> [26 features, frames]: thirteen coefficients and their slopes, 25 ms every ten ms.
    pg.mfcc { 13, deltas = 1, standardize = true, rate = 8000 },
    pg.gru { 64, layers = 2, bidirectional = "concat", stack_dropout = 0.3 }, -- -> [128 features, frames]
    pg.global_pool { "average" },                                             -- over the frames that are there
    pg.dropout { 0.5 },
    pg.dense { 10 },
  },
  loss = "cross_entropy",
  optimizer = pg.adamw { lr = pg.cosine { from = 5e-3 }, weight_decay = 1e-2 },
  data = {
    train = train:map { pg.transform.gain {}, pg.transform.time_shift { 400 } },
    test = recordings { "*_[0-4].wav" },
    batch = 32,
  },
  metrics = { "classification" },
  epochs = 12, seed = 1,
}
