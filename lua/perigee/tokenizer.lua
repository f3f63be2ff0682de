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

return tokenizer
