-- Translation: dates as people write them into the form of ISO 8601, character by character. An encoder reads the date both ways, a decoder
-- writes, and looks at each step at the characters that it needs (attention). In training the decoder reads what it should have written so far
-- ("teacher forcing"); afterwards it reads what it has written itself:
--
--     perigee train models/translate.lua --out runs/translate
--     perigee generate runs/translate --input "May 3, 1999" --temperature 0
--
-- programs/translate.lua says how many dates are then right to the letter. Other texts: pg.data.text_pairs { "pairs.tsv" }.
local pg = require "perigee"

local months = { "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December" }

local function written_as_people_do(year, month, day)
  local name, short = months[month], months[month]:sub(1, 3)
  local forms = {
    ("%d %s %d"):format(day, name, year), ("%s %d, %d"):format(name, day, year), ("%d %s %d"):format(day, short, year),
    ("%s %d, %d"):format(short:upper(), day, year), ("%d.%d.%d"):format(day, month, year), ("%d/%d/%d"):format(month, day, year),
  }
  return forms[math.random(#forms)]
end

math.randomseed(5)
local function dates(count)
  local pairs = { inputs = {}, outputs = {}, length = 18, output_length = 11 }
  for index = 1, count do
    local year, month, day = math.random(1950, 2049), math.random(12), math.random(28)
    pairs.inputs[index], pairs.outputs[index] = written_as_people_do(year, month, day), ("%04d-%02d-%02d"):format(year, month, day)
  end
  return pg.data.text_pairs(pairs)
end

local read, written = pg.input "x", pg.input "d"
local memory = pg.sequential { pg.embedding { 64, 24 }, pg.lstm { 40, bidirectional = "concat" } } (read)
local states = pg.sequential { pg.embedding { 16, 16 }, pg.lstm { 80 } } (written)
local seen = pg.attention { heads = 2 } (states, memory)
local scores = pg.time_distributed { pg.dense { 16 } } (pg.concat {} (states, seen)) -- of characters, the unknown and the end

return pg.experiment {
  name = "translate",
  inputs = { "x", "d" },
  network = pg.graph { inputs = { read, written }, outputs = { scores } },
  loss = "cross_entropy",
  optimizer = pg.adam { lr = pg.cosine { from = 1e-2 } },
  data = { train = dates(6000), test = dates(300), batch = 50 },
  metrics = { "tokens", "transcription" }, -- of a decoder that reads what it should have written
  epochs = 4, seed = 1,
}
