-- Which digit is said? Recordings of six speakers, as they are downloaded: the Free Spoken Digit Dataset (Jackson et al.), 3,000 files of 8 kHz
-- in one archive. A GRU hears the cepstrum of each recording from both ends.
local pg = require "perigee"

-- $PERIGEE_DATA/fsdd/: recordings/DIGIT_SPEAKER_NUMBER.wav. The publishers' test part is numbers 0 to 4 of each digit and speaker.
local function recordings(files)
  return pg.data.audio {
    pg.data_path "fsdd/free-spoken-digit-dataset-recordings.tar.xz", files = files, label = "{class}_*.wav", seconds = 1.2,
  }
end

-- Thirteen coefficients and their slopes in each frame of 25 ms, ten ms apart: [1 channel, steps] -> [26 features, frames].
local hear = pg.transform.mfcc { 13, deltas = 1, standardize = true }
local train = recordings { "*_[5-9].wav", "*_[1-4][0-9].wav" }
local augment = { pg.transform.gain {}, pg.transform.time_shift { 400 } }

return pg.experiment {
  name = "digits-spoken",
  network = pg.sequential {
    pg.gru { 64, layers = 2, bidirectional = "concat", stack_dropout = 0.3 }, -- [26 features, frames] -> [128 features, frames]
    pg.global_pool { "average" },                                             -- over the frames that are there
    pg.dropout { 0.5 },
    pg.dense { 10 },
  },
  loss = "cross_entropy",
  optimizer = pg.adamw { lr = pg.cosine { from = 5e-3 }, weight_decay = 1e-2 },
  data = {
    train = train:map { augment[1], augment[2], hear, pg.transform.spec_augment { rows = 4, steps = 10 } },
    test = recordings { "*_[0-4].wav" }:map { hear },
    batch = 32,
  },
  metrics = { "classification" },
  epochs = 12, seed = 1,
}
