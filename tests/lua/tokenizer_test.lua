-- pg.tokenizer: numbers, places and texts, and what it refuses.
local pg = require "perigee"
local tests = {}

local file = os.tmpname()

local function written(text)
  local out = assert(io.open(file, "wb"))
  out:write(text)
  out:close()
  return file
end

local content = [[{"model":{"type":"WordPiece","vocab":{"[UNK]":0,"caf":1,"##e":2,"[CLS]":3},"unk_token":"[UNK]"},
  "normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece"},
  "added_tokens":[{"id":3,"content":"[CLS]","special":true,"normalized":false}],
  "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]"}},{"Sequence":{"id":"A"}}],
  "special_tokens":{"[CLS]":{"ids":[3]}}}}]]

function tests.sentences_of_a_text()
  check.equal(table.concat(pg.sentences "Dr. Who came at 5 p.m. on Monday. Nobody knew why!", "|"),
    "Dr. Who came at 5 p.m. on Monday.|Nobody knew why!")
  check.raises(function() pg.sentences(5) end, "sentences takes a text; got")
end

function tests.texts_become_numbers_and_places_and_texts_again()
  local tokenizer = pg.tokenizer(written(content))
  local ids, places = tokenizer:encode "é Café"
  check.equal(table.concat(ids, " "), "3 0 1 2")
  check.equal(places[4][1] .. " " .. places[4][2], "5 6")
  ids, places = tokenizer:encode("é Café", { special = false, bytes = true })
  check.equal(table.concat(ids, " "), "0 1 2")
  check.equal(places[3][1] .. " " .. places[3][2], "6 8")
  check.equal(tokenizer:decode { 3, 1, 2 }, "cafe")
  check.equal(tokenizer:decode({ 3, 1, 2 }, { special = true }), "[CLS] cafe")
  check.equal(tokenizer:token(2), "##e")
  check.equal(tokenizer:token "##e", 2)
  check.equal(tokenizer:token "tea", nil)
  check.equal(tokenizer:size(), 4)
  check.equal(tostring(tokenizer), "a tokenizer of 4 tokens from " .. file)
end

function tests.a_tokenizer_is_learned_from_texts()
  local corpus, out = os.tmpname(), os.tmpname()
  local text = assert(io.open(corpus, "wb"))
  text:write(("low lower lowest\nnew newer newest, é\n"):rep(3))
  text:close()
  local tokenizer = pg.train_tokenizer { corpus, out = out, size = 267, special = { "<end>" } }
  check.equal(tokenizer:size(), 267)
  check.equal(tokenizer:token "<end>", 0)
  -- Hugging Face's tokenizers 0.20 learns these from the same file, in this order.
  local learned = {}
  for number = 257, 266 do learned[#learned + 1] = tokenizer:token(number) end
  check.equal(table.concat(learned, " "), "we lo ne st Ġlo Ġne wer west Ã© ĠÃ©")
  check.equal(tokenizer:decode((tokenizer:encode "lower newest é ☃")), "lower newest é ☃")
  check.equal(pg.train_tokenizer { corpus, out = out, size = 300, min_count = 7 }:size(), 259) -- no other pair comes seven times
  check.raises(function() pg.train_tokenizer {} end, "takes the names of files")
  check.raises(function() pg.train_tokenizer(7) end, "takes files and options")
  check.raises(function() pg.train_tokenizer { corpus, sise = 300 } end, "no option 'sise'.*size")
  check.raises(function() pg.train_tokenizer { corpus, size = 300.5 } end, "'size' is a whole number above 0")
  check.raises(function() pg.train_tokenizer { corpus, size = 256, special = { "<end>" } } end, "'size' is out of range.*got 256, expected 257")
  check.raises(function() pg.train_tokenizer { corpus, out = 7 } end, "'out' is the name of a file")
  check.raises(function() pg.train_tokenizer { corpus, special = { 7 } } end, "'special' is a list of texts")
  check.raises(function() pg.train_tokenizer "/nowhere/corpus.txt" end, "/nowhere/corpus.txt")
  os.remove(corpus)
  os.remove(out)
end

function tests.mistakes_are_told()
  local tokenizer = pg.tokenizer(written(content))
  check.raises(function() pg.tokenizer(7) end, "takes the name of a file")
  check.raises(function() pg.tokenizer "/nowhere/tokenizer.json" end, "cannot be opened")
  check.raises(function() tokenizer:encode(7) end, "takes a text")
  check.raises(function() tokenizer:encode "\255" end, "byte 0: this is not UTF%-8")
  check.raises(function() tokenizer:decode(7) end, "takes a list of numbers")
  check.raises(function() tokenizer:decode { 4 } end, "there is no such token; got 4, expected 0 to 3")
  check.raises(function() tokenizer:token {} end, "takes a number or a text")
  check.raises(function() pg.tokenizer(written "{}") end, "model")
  os.remove(file)
end

return tests
