-- pg.tokenizer: texts as numbers of tokens, by a file of Hugging Face's tokenizers or of SentencePiece.
local core = require("perigee.native").tensor
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local done = tensor.done
local handles = setmetatable({}, { __mode = "k" })
local files = setmetatable({}, { __mode = "k" })

---@class perigee.Tokenizer
local Tokenizer = {}
Tokenizer.__index = Tokenizer
Tokenizer.__fields = Tokenizer

function Tokenizer:__tostring() return ("a tokenizer of %d tokens from %s"):format(self:size(), files[self]) end

---One more than the largest number of a token.
---@return integer
function Tokenizer:size() return done(core.tokenizer_size(handles[self])) end

---The numbers of a text's tokens, and where each stands: { from, to }, characters counted from 0, `to` not included, as Hugging Face gives them.
---options: special = false leaves out special tokens such as [CLS], bytes = true counts bytes.
---@param text string
---@param options? { special?: boolean, bytes?: boolean }
---@return integer[], integer[][]
function Tokenizer:encode(text, options)
  if type(text) ~= "string" then where.fail("tokenizer:encode takes a text; got " .. where.describe(text)) end
  options = options or {}
  local ids, flat = core.tokenizer_encode(handles[self], text, options.special ~= false, options.bytes == true)
  if ids == nil then where.fail(flat) end
  local places = {}
  for place = 1, #ids do places[place] = { flat[2 * place - 1], flat[2 * place] } end
  return ids, places
end

---The text of tokens; special ones are left out, unless options.special is true.
---@param ids integer[]
---@param options? { special?: boolean }
---@return string
function Tokenizer:decode(ids, options)
  if type(ids) ~= "table" then where.fail("tokenizer:decode takes a list of numbers; got " .. where.describe(ids)) end
  return done(core.tokenizer_decode(handles[self], ids, not (options and options.special)))
end

---The text of a token by its number, or the number by the text; nil when there is none.
---@param token integer|string
---@return string|integer|nil
function Tokenizer:token(token)
  if type(token) ~= "number" and type(token) ~= "string" then
    where.fail("tokenizer:token takes a number or a text; got " .. where.describe(token))
  end
  return done(core.tokenizer_token(handles[self], token)) or nil
end

local tokenizer = {}

---A tokenizer from a tokenizer.json of Hugging Face or a .model of SentencePiece: the same numbers and places as there.
---@param file string
---@return perigee.Tokenizer
function tokenizer.tokenizer(file)
  if type(file) ~= "string" then where.fail("tokenizer takes the name of a file; got " .. where.describe(file)) end
  local handle, message = core.tokenizer_open(file)
  if handle == nil then where.fail(message) end
  local made = setmetatable({}, Tokenizer)
  handles[made], files[made] = handle, file
  return made
end

---The sentences of a text, without the blanks between them. Rules for English; an empty line ends a sentence too.
---@param text string
---@return string[]
function tokenizer.sentences(text)
  if type(text) ~= "string" then where.fail("sentences takes a text; got " .. where.describe(text)) end
  return done(core.text_sentences(text))
end

local known = { "out", "size", "min_count", "special" }

local function check_texts(name, texts)
  local list = type(texts) == "table" and texts or {}
  for _, text in ipairs(list) do
    if type(text) ~= "string" or text == "" then
      where.fail(("train_tokenizer: %s is a list of texts; got %s in it"):format(name, where.describe(text)))
    end
  end
  return list
end

---A tokenizer of one's own, learned from files of text (also .gz and .xz), one or a list: byte pairs as GPT-2's, with the same merges as Hugging
---Face's BpeTrainer. It is written to `out`, a tokenizer.json, which pg.data.text and other programs read.
---Options: out ("tokenizer.json"), size (8000, tokens at most), min_count (2, a pair comes so many times), special (none, a list of texts such as
---"<|endoftext|>", the first numbers).
---@param options { [integer]: string, out?: string, size?: integer, min_count?: integer, special?: string[] }
---@return perigee.Tokenizer
function tokenizer.train_tokenizer(options)
  if type(options) == "string" then options = { options } end
  if type(options) ~= "table" then where.fail("train_tokenizer takes files and options; got " .. where.describe(options)) end
  for key in pairs(options) do
    if type(key) ~= "number" then
      local is_known = false
      for _, name in ipairs(known) do is_known = is_known or name == key end
      local nearest = is_known or where.suggestion(tostring(key), { unpack(known) })
      if not is_known then where.fail(("train_tokenizer has no option '%s'%s"):format(tostring(key), nearest)) end
    end
  end
  local corpus, special = check_texts("the first argument", options), check_texts("'special'", options.special)
  if #corpus == 0 then where.fail 'train_tokenizer takes the names of files: pg.train_tokenizer { "corpus.txt", size = 8000 }' end
  local size, min_count, out = options.size or 8000, options.min_count or 2, options.out or "tokenizer.json"
  for name, value in pairs { size = size, min_count = min_count } do
    if type(value) ~= "number" or value % 1 ~= 0 or value < 1 then
      where.fail(("train_tokenizer: '%s' is a whole number above 0; got %s"):format(name, where.describe(value)))
    end
  end
  if type(out) ~= "string" then where.fail("train_tokenizer: 'out' is the name of a file; got " .. where.describe(out)) end
  local _, message = core.tokenizer_train(corpus, size, min_count, special, out)
  if message ~= nil then where.fail(message) end
  return tokenizer.tokenizer(out)
end

return tokenizer
