-- Translation: dates as people write them into the form of ISO 8601, character by character. An encoder reads the date both ways, a decoder
-- writes, and looks at each step at the characters that it needs (attention). In training the decoder reads what it should have written so far
-- ("teacher forcing"); afterwards it reads what it has written itself. What counts is how many dates are then right to the letter.
--
--     perigee -e 'dofile "models/programs/translate.lua"'
local pg = require "perigee"

local months = { "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December" }
local longest, written = 18, 10 -- characters of a date, and of its translation

local function written_as_people_do(year, month, day)
  local name, short = months[month], months[month]:sub(1, 3)
  local forms = {
    ("%d %s %d"):format(day, name, year), ("%s %d, %d"):format(name, day, year), ("%d %s %d"):format(day, short, year),
    ("%s %d, %d"):format(short:upper(), day, year), ("%d.%d.%d"):format(day, month, year), ("%d/%d/%d"):format(month, day, year),
  }
  return forms[math.random(#forms)]
end

-- Numbers of characters, from 0; the first one of each alphabet is the padding, or what the decoder reads before it has written anything.
local function alphabet(text)
  local list, number = { "<none>" }, {}
  for character in text:gmatch "." do list[#list + 1], number[character] = character, #list end
  return { list = list, number = number }
end
local letters, signs = alphabet " ,./0123456789ABCDEFGJLMNOPRSTUVYabceghilmnoprstuvy", alphabet "-0123456789"

math.randomseed(5)
local function dates(count)
  local data, texts = { x = {}, d = {}, y = {}, n = {} }, {}
  for index = 1, count do
    local year, month, day = math.random(1950, 2049), math.random(12), math.random(28)
    local given, wanted = written_as_people_do(year, month, day), ("%04d-%02d-%02d"):format(year, month, day)
    local x, y, d = {}, {}, { 0 }
    for place = 1, longest do x[place] = letters.number[given:sub(place, place)] or 0 end
    for place = 1, written do y[place] = signs.number[wanted:sub(place, place)] end
    for place = 2, written do d[place] = y[place - 1] end
    data.x[index], data.d[index], data.y[index], data.n[index], texts[index] = x, d, y, #given, wanted
  end
  data.class_names = signs.list
  return data, texts
end

local source, output = pg.input "x", pg.input "d"
local memory = pg.sequential { pg.embedding { #letters.list, 24 }, pg.lstm { 40, bidirectional = "concat" } } (source)
local states = pg.sequential { pg.embedding { #signs.list, 16 }, pg.lstm { 80 } } (output)
local seen = pg.attention { heads = 2 } (states, memory)
local scores = pg.time_distributed { pg.dense { #signs.list } } (pg.concat {} (states, seen))

local test, wanted = dates(300)
local run = pg.start(pg.experiment {
  name = "translate",
  inputs = { "x", "d" },
  network = pg.graph { inputs = { source, output }, outputs = { scores } },
  loss = "cross_entropy",
  optimizer = pg.adam { lr = pg.cosine { from = 1e-2 } },
  data = { train = pg.data.arrays((dates(6000))), test = pg.data.arrays(test), lengths = { x = "n" }, batch = 50 },
  metrics = { "tokens", "transcription" }, -- of a decoder that reads what it should have written
  epochs = 3, seed = 1,
}, { folder = false })
run:wait()
local figures = run:eval "test"
print(("teacher forcing: perplexity %.3f a character, %.1f %% of the dates right"):format(figures.perplexity,
  100 * figures["transcription.sequence_accuracy"]))

-- All dates at once, a character of each at a time.
local file = os.tmpname()
run:save(file)
local model = pg.load_model(file)
os.remove(file)
local x, n, read, texts = pg.tensor(test.x), pg.tensor(test.n), {}, {}
for index = 1, #wanted do read[index], texts[index] = {}, "" end
for _, row in ipairs(read) do
  for place = 1, written do row[place] = 0 end
end
for place = 1, written do
  local likeliest = model { x = x, d = pg.tensor(read), n = n }:argmax(2):totable() -- places from 1: number 0 is the first
  for index, row in ipairs(read) do
    local sign = likeliest[index][place] - 1
    texts[index] = texts[index] .. signs.list[sign + 1]
    if place < written then row[place + 1] = sign end
  end
end
local result = pg.text_scores(texts, wanted)
print(("by itself: %.1f %% of the dates right, character error rate %.2f %%, BLEU %.1f"):format(100 * result.equal,
  100 * result.character_error_rate, result.bleu))
