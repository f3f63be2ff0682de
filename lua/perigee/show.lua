-- Values as text for a person: tables in the order of their keys, long ones cut, networks and experiments as tables of layers.
local layers = require "perigee.layers"
local data = require "perigee.data"
local tensor = require "perigee.tensor"

local show = {}

local most_entries, most_depth, most_text = 150, 8, 2000

local keywords = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true until while"):gmatch "%a+" do
  keywords[word] = true
end

-- Continued lines begin with `indent` blanks.
function show.wrap(text, width, indent)
  local lines, line = {}, ""
  for blanks, word in text:gmatch "(%s*)(%S+)" do
    if line ~= "" and #line + #blanks + #word > width and #line > indent then
      lines[#lines + 1] = line
      line = (" "):rep(indent) .. word
    else
      line = line .. blanks .. word
    end
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

local function quoted(text)
  local rest = #text > most_text and (" .. (%d bytes)"):format(#text) or ""
  text = text:sub(1, most_text):gsub('[%c"\\]', function(c)
    return c == "\n" and "\\n" or c == "\t" and "\\t" or c == "\r" and "\\r" or (c == '"' or c == "\\") and "\\" .. c or ("\\%03d"):format(c:byte())
  end)
  return '"' .. text .. '"' .. rest
end

local function number_text(value)
  if value ~= value then return "nan" end
  if value == math.huge or value == -math.huge then return value > 0 and "inf" or "-inf" end
  if value == math.floor(value) and math.abs(value) < 2 ^ 53 then return value == 0 and 1 / value < 0 and "-0" or ("%.0f"):format(value) end
  for digits = 14, 16 do
    local short = ("%." .. digits .. "g"):format(value)
    if tonumber(short) == value then return short end
  end
  return ("%.17g"):format(value)
end

local function key_text(key, value_of)
  if type(key) == "string" and key:match "^[%a_][%w_]*$" and not keywords[key] then return key end
  return "[" .. value_of(key) .. "]"
end

---A key of a table as Lua source.
---@param key string
---@return string
function show.key(key) return key_text(key, quoted) end

-- "type" and names that tell what something is stand first; then numbers, then names in order.
local first_keys = { type = 1, name = 2 }
local function sorted_keys(value, count)
  local keys = {}
  for key in next, value do
    if not (type(key) == "number" and key >= 1 and key <= count and key % 1 == 0) and key ~= "@" then keys[#keys + 1] = key end
  end
  table.sort(keys, function(a, b)
    local kind_a, kind_b = type(a), type(b)
    if kind_a ~= kind_b then return kind_a < kind_b end
    if kind_a == "number" then return a < b end
    if kind_a ~= "string" then return tostring(a) < tostring(b) end
    local rank_a, rank_b = first_keys[a] or 3, first_keys[b] or 3
    if rank_a ~= rank_b then return rank_a < rank_b end
    return a < b
  end)
  return keys
end

local Printer = {}
Printer.__index = Printer

function Printer:own_text(value)
  local meta = debug.getmetatable(value)
  if type(meta) ~= "table" or rawget(meta, "__tostring") == nil then return nil end
  local ok, text = pcall(tostring, value)
  return ok and text or "<" .. type(value) .. " that cannot be shown: " .. tostring(text) .. ">"
end

-- The constructor's name in front of its options.
local function maker_of(value)
  if data.is_source(value) then return "pg.data." .. tostring(data.description(value).type) end
  local kind = rawget(value, "type")
  if type(kind) ~= "string" then return nil end
  if layers.is_layer(value) then return "pg." .. kind end
end

function Printer:parts(value, depth, column, skip_type)
  local parts, count = {}, #value
  for index = 1, count do
    if self.entries >= most_entries then
      parts[#parts + 1] = ("... %d more"):format(count - index + 1)
      return parts, false
    end
    parts[#parts + 1] = self:text(rawget(value, index), depth + 1, column + 2)
  end
  for _, key in ipairs(sorted_keys(value, count)) do
    if self.entries >= most_entries then
      parts[#parts + 1] = "..."
      return parts, false
    end
    if not (skip_type and key == "type") then
      local name = key_text(key, function(each) return self:text(each, depth + 1, column + 2) end)
      parts[#parts + 1] = name .. " = " .. self:text(rawget(value, key), depth + 1, column + 2)
    end
  end
  return parts, count == #parts
end

function Printer:table_text(value, depth, column, maker)
  local own = self:own_text(value)
  if own then return own end
  if self.open[value] then return "{ contains itself }" end
  if depth >= most_depth then return "{...}" end
  self.open[value] = true
  maker = maker or maker_of(value)
  local parts, plain_list = self:parts(value, depth, column, maker ~= nil)
  self.open[value] = nil
  local head = maker and maker .. " " or ""
  if #parts == 0 then return head .. "{}" end
  local line = head .. "{ " .. table.concat(parts, ", ") .. " }"
  if column + #line <= self.width and not line:find "\n" then return line end
  local indent = (" "):rep(column + 2)
  local body
  if plain_list and not line:find "\n" then
    body = indent .. show.wrap(table.concat(parts, ", "), self.width - column - 2, 0):gsub("\n", "\n" .. indent)
  else
    body = indent .. table.concat(parts, ",\n" .. indent)
  end
  return head .. "{\n" .. body .. "\n" .. (" "):rep(column) .. "}"
end

function Printer:text(value, depth, column)
  self.entries = self.entries + 1
  local kind = type(value)
  if kind == "number" then return number_text(value) end
  if kind == "string" then return quoted(value) end
  if kind == "table" then return self:table_text(value, depth, column) end
  if kind == "function" then
    local entry = self.names and self.names(value)
    return entry and "function: " .. entry.path or tostring(value)
  end
  if kind == "userdata" and value == require("perigee.native").null then return "pg.null" end
  if data.is_source(value) then return self:table_text(data.description(value), depth, column, maker_of(value)) end
  if kind == "cdata" and depth > 0 and tensor.is(value) then return "tensor " .. tensor.type_text(value) end
  return self:own_text(value) or tostring(value)
end

---A table as Lua source, in one line.
---@param value any
---@return string
function show.source(value)
  return setmetatable({ entries = 0, width = math.huge, open = {} }, Printer):text(value, 0, 0)
end

local Text = { __tostring = function(self) return self.text end }
function Text.__index(text, key)
  local asked = rawget(text, "asked")
  return asked and asked(key) or nil
end

---Lines that print as they are; `.text` is the string.
---@param text string
---@param picture? fun(kind: string): string the same as a sequence for a terminal that shows "kitty" or "sixel" pictures
---@param asked? fun(key: any) what is done where the lines are asked for a field
---@return table
function show.text(text, picture, asked) return setmetatable({ text = text, picture = picture, asked = asked }, Text) end

---The picture of such lines; nil: there is none.
---@param value any
---@return (fun(kind: string): string)?
function show.picture_of(value)
  return type(value) == "table" and getmetatable(value) == Text and rawget(value, "picture") or nil
end

-- Networks ------------------------------------------------------------------------------------------------------------------

function show.aligned(rows)
  local widths = {}
  for _, row in ipairs(rows) do
    for column = 1, #row - 1 do widths[column] = math.max(widths[column] or 0, #row[column]) end
  end
  local lines = {}
  for index, row in ipairs(rows) do
    local line = ""
    for column, text in ipairs(row) do line = line .. (widths[column] and text .. (" "):rep(widths[column] - #text + 2) or text) end
    lines[index] = line:gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

local function options_text(layer, printer)
  local rest = {}
  for key, value in next, layer do
    if key ~= "type" and key ~= "name" and key ~= "@" then rest[key] = value end
  end
  local text = printer:text(rest, 0, 0):gsub("^{ ?", ""):gsub(" ?}$", "")
  return text:gsub("%s*\n%s*", " ")
end

-- Without data there are no shapes: layers and their options.
local function network_text(network, width)
  local rows = { { "layer", "type", "options" } }
  local nodes = network.layers or network.nodes or {}
  local names = layers.names(nodes)
  for index, node in ipairs(nodes) do
    local layer = node.layer or node
    local printer = setmetatable({ entries = 0, width = math.huge, open = {} }, Printer)
    local options = options_text(layer, printer)
    if node.inputs then options = "of " .. table.concat(node.inputs, ", ") .. (options ~= "" and "; " or "") .. options end
    rows[#rows + 1] = { names[index], layer.type, #options > width - 30 and options:sub(1, math.max(20, width - 33)) .. "..." or options }
  end
  return show.aligned(rows)
end

local function is_network(value)
  return layers.is_sequential(value) or (rawget(value, "type") == "graph" and type(rawget(value, "nodes")) == "table")
end

---One value.
---@param value any
---@param width integer
---@param options? { names?: function, describe?: function } what tells functions' names, and what makes a table of an experiment
---@return string
function show.value(value, width, options)
  options = options or {}
  if type(value) == "table" and not debug.getmetatable(value) and rawget(value, "perigee") and options.describe then
    local ok, text = pcall(options.describe, value)
    if ok then return (text:gsub("\n$", "")) end
    local plain = setmetatable({ entries = 0, width = width, open = {}, names = options.names }, Printer):text(value, 0, 0)
    return plain .. "\nno table of its layers: " .. tostring(text)
  end
  if type(value) == "table" and is_network(value) then return network_text(value, width) end
  return setmetatable({ entries = 0, width = width, open = {}, names = options.names }, Printer):text(value, 0, 0)
end

return show
