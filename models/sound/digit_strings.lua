-- Hears what is said: strings of three to seven digits, and no word of where one ends: an LSTM that goes both ways says what it hears at each step,
-- and the loss `ctc` takes every way of saying the right digits in the right order (Graves et al., 2006).
--
--     perigee train models/sound/digit_strings.lua --out heard
--     perigee predict heard my_number.wav --beams 10
local pg = require "perigee"

-- The recordings are those of digits_spoken.lua, of which some by one speaker are put in one file. For recordings of your own leave this out:
-- strings = "my/folder", and a table with the columns path and text.
local cache = (os.getenv "XDG_CACHE_HOME" or (os.getenv "HOME" or "/tmp") .. "/.cache") .. "/perigee"
local strings = cache .. "/digit_strings"

-- The samples of a recording of 8 kHz and 16 bits; they follow 44 bytes in each of these files.
local function samples_of(digit, speaker, number)
  local file = assert(io.open(("%s/recordings/%d_%s_%d.wav"):format(strings, digit, speaker, number), "rb"))
  local samples = file:read("*a"):sub(45)
  file:close()
  return samples
end

local function little(value, bytes)
  local text = ""
  for i = 0, bytes - 1 do text = text .. string.char(math.floor(value / 256 ^ i) % 256) end
  return text
end

local function write_wav(path, samples)
  local file = assert(io.open(path, "wb"))
  file:write("RIFF", little(#samples + 36, 4), "WAVEfmt ", little(16, 4), little(1, 2), little(1, 2), little(8000, 4), little(16000, 4),
    little(2, 2), little(16, 2), "data", little(#samples, 4), samples)
  file:close()
end

-- `count` strings of the recordings first..last of each digit and speaker, and the table PART.csv of what they say.
local function make_part(part, count, first, last)
  local speakers = { "george", "jackson", "lucas", "nicolas", "theo", "yweweler" }
  local rows = { "path,text" }
  for i = 1, count do
    local speaker, digits, samples = speakers[math.random(#speakers)], {}, {}
    for k = 1, math.random(3, 7) do
      digits[k] = math.random(0, 9)
      samples[k] = samples_of(digits[k], speaker, math.random(first, last))
    end
    rows[i + 1] = ("%s%d.wav,%s"):format(part, i, table.concat(digits))
    write_wav(("%s/%s%d.wav"):format(strings, part, i), table.concat(samples))
  end
  local file = assert(io.open(("%s/%s.csv"):format(strings, part), "w"))
  file:write(table.concat(rows, "\n"), "\n")
  file:close()
end

if not io.open(strings .. "/test.csv") then
  local archive = pg.data_path "fsdd/free-spoken-digit-dataset-recordings.tar.xz"
  os.execute(("mkdir -p '%s' && tar xJf '%s' -C '%s'"):format(strings, archive, strings))
  math.randomseed(1)
  make_part("train", 3000, 5, 49)
  make_part("test", 300, 0, 4)
end

local hear = pg.transform.mfcc { 13, deltas = 1, standardize = true }  -- [1 channel, steps] -> [26 features, frames]
local function said(part)
  return pg.data.audio { strings, table = strings .. "/" .. part .. ".csv", seconds = 4.5 }
end

return pg.experiment {
  name = "digit-strings",
  network = pg.sequential {
    pg.conv1d { 96, kernel = 5, stride = 2, padding = 2, activation = "relu" },  -- a step for two frames
    pg.lstm { 96, layers = 2, bidirectional = "concat", stack_dropout = 0.2 },
    pg.dense { 11, over = "steps" },  -- ten digits, and the blank between them
  },
  loss = "ctc",
  optimizer = pg.adamw { lr = pg.cosine { from = 3e-3, warmup = 0.05 } },
  clip = { type = "norm", threshold = 1 },
  data = {
    train = said("train"):map { hear, pg.transform.spec_augment { rows = 4, steps = 8 } },
    test = said("test"):map { hear },
    batch = 16,
  },
  metrics = { "transcription" },
  epochs = 5, seed = 1,
}
