-- Help about a function that no registry has: from the comment above it, its parameters, and the op that it computes.
local native = require "perigee.native"
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local help_function = {}

-- The comment that ends in the line above a function, and the line in which it begins: { line, ... }.
local function comment_above(f)
  f = where.original(f)
  local info = debug.getinfo(f, "S")
  local text = info.source:sub(1, 1) == "=" and native.module_text(info.source:sub(2))
  if not text and info.source:sub(1, 1) == "@" then
    local file = io.open(info.source:sub(2))
    text = file and file:read "*a"
    if file then file:close() end
  end
  if not text then return nil end
  local lines = {}
  for line in (text .. "\n"):gmatch "(.-)\n" do
    lines[#lines + 1] = line
    if #lines == info.linedefined then break end
  end
  local first = #lines
  while first > 1 and lines[first - 1]:match "^%s*%-%-" do first = first - 1 end
  local comment = {}
  for index = first, #lines do comment[#comment + 1] = lines[index]:gsub("^%s+", "") end
  return comment
end
help_function.comment_above = comment_above

-- Functions whose options a registry has, by the class that their annotations name.
local registered = { ["perigee.WordVectorOptions"] = "word_vectors", ["perigee.NeighbourOptions"] = "neighbours" }

-- Options of a function that takes one table, from the annotations above it: ---@field of the class that its ---@param names.
function help_function.fields_of(f)
  f = where.original(f)
  local info = debug.getinfo(f, "S")
  local text = info.source:sub(1, 1) == "=" and native.module_text(info.source:sub(2))
  local comment = text and comment_above(f) or {}
  local options, class = {}, nil
  for _, line in ipairs(comment) do class = class or line:match "^%-%-%-@param%s+[%w_?]+%s+(perigee%.%w+)" end
  if class == "perigee.Experiment" then return native.job_keys "" end
  for _, entry in ipairs(registered[class] and native.reference() or {}) do
    if entry.family == registered[class] then return entry.options end
  end
  local begin = class and text:find("---@class " .. class .. "\n", 1, true)
  if not begin then return options end
  for line in text:sub(begin):gmatch "[^\n]+" do
    local name, kind, doc = line:match "^%-%-%-@field%s+([%w_]+)%??%s+(%S+)%s*(.*)$"
    if name then options[#options + 1] = { name = name, type = kind, doc = doc ~= "" and doc or nil }
    elseif not line:find("^%-%-%-@class") then break end
  end
  return options
end

-- The paragraphs of a comment: lines are joined, but for an indented one and for annotations.
local function paragraphs(comment)
  local list, joins = {}, false
  for _, line in ipairs(comment) do
    line = line:gsub("^%-%-%-?%s?", "")
    local annotation = line:match "^@"
    line = line:gsub("^@param%s+([%w_?%.]+)%s+", "  %1: "):gsub("^@return%s+", "  gives ")
    if line:match "^@" then
      joins = false
    elseif joins and line ~= "" and not line:match "^  " then
      list[#list].text = list[#list].text .. " " .. line
    else
      list[#list + 1] = { text = line, annotation = annotation ~= nil }
      joins = not annotation and line ~= "" and not line:match "^  "
    end
  end
  return list
end

local op_docs

-- The sentence of the op that one of our functions computes, where it has none of its own; nil for any other function.
local function op_doc(name, f, commented)
  if not op_docs then
    op_docs = {}
    for _, op in ipairs(native.ops()) do op_docs[op.name] = op.doc end
  end
  local short = name:match "[%w_]+$"
  local op = tensor.op_of[short] or not commented and short
  return debug.getinfo(f, "S").source:sub(1, 1) == "=" and op_docs[op] or nil
end

---zeros(...), sum(x, axes, keep)
---@param name string
---@param f function
---@return string
function help_function.call_of(name, f)
  f = where.original(f)
  local info, arguments = debug.getinfo(f, "u"), {}
  for index = 1, info.nparams do arguments[index] = debug.getlocal(f, index) or "?" end
  if info.isvararg then arguments[#arguments + 1] = "..." end
  return ("%s(%s)"):format(name, table.concat(arguments, ", "))
end

---The sentences about a function, from the op that it computes and from the comment above it; then its annotations, a line each.
---@param name string
---@param f function
---@return string, string[]
function help_function.doc(name, f)
  local sentences, annotations, comment = {}, {}, comment_above(f) or {}
  comment[#comment] = nil -- the function's first line
  for _, paragraph in ipairs(paragraphs(comment)) do
    local list = paragraph.annotation and annotations or sentences
    list[#list + 1] = paragraph.text
  end
  local doc = op_doc(name, f, #sentences > 0)
  if doc then table.insert(sentences, 1, doc) end
  return table.concat(sentences, "\n"), annotations
end

return help_function
