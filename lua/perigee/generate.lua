-- run:generate and model:generate: a model of text goes on with a prompt, or writes what becomes of an input.
local native = require "perigee.native"
local where = require "perigee.where"

local generate = {}

-- The options of the C++ side from those that the user gave, and the function that streams the text.
local function read(given)
  if type(given) == "string" then return { prompt = given } end
  if type(given) ~= "table" then
    where.fail('generate takes a text, or options: generate { "ROMEO:", tokens = 200 } or { input = "a text" }; got ' .. where.describe(given))
  end
  local options = {}
  for key, value in pairs(given) do
    if key == 1 then key = "prompt" end
    if key ~= "stream" then options[key] = value end
  end
  local stream = given.stream
  if stream ~= nil and type(stream) ~= "boolean" and type(stream) ~= "function" then
    where.fail("stream is true, or a function that takes each piece of the text; got " .. where.describe(stream))
  end
  return options, stream
end

---The text that follows. `begin` makes a generation of the options, or gives nil and a message.
---@param begin fun(options: table): userdata?, string?
---@param given string|table
---@return string? text nil where stream = true printed it
function generate.text(begin, given)
  local options, stream = read(given)
  local generation, message = begin(options)
  if generation == nil then where.fail(message) end
  local pieces = {}
  while true do
    local piece, problem = native.generation_next(generation)
    if piece == nil then where.fail(problem) end
    if not piece then break end
    pieces[#pieces + 1] = piece
    if stream == true then
      io.write(piece)
      io.flush()
    elseif stream then
      stream(piece)
    end
  end
  if stream == true then io.write "\n" end
  if native.interrupted() then where.fail "interrupted" end
  if stream == true then return end
  return table.concat(pieces)
end

return generate
