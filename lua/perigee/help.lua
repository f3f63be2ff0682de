-- The text of `?name`: for entries of the registries from their facts, for functions from the comment above them.
local native = require "perigee.native"
local pg = require "perigee"
local data = require "perigee.data"
local layers = require "perigee.layers"
local rules = require "perigee.rules"
local show = require "perigee.show"
local tensor = require "perigee.tensor"

local help = {}

-- Where each family lives, and where its names stand without it unless an earlier family has them.
local families = {
  { family = "layer", word = "layer", plural = "layers", members = layers.constructors, promoted = true },
  { family = "optimizer", word = "optimiser", plural = "optimisers", members = rules.optimizers, prefix = "optimizer.", promoted = true },
  { family = "schedule", word = "schedule", plural = "schedules", members = rules.schedules, prefix = "schedule.", promoted = true },
  { family = "loss", word = "loss", plural = "losses", members = rules.losses, prefix = "loss." },
  { family = "initializer", word = "initialiser", plural = "initialisers", members = rules.initializers, prefix = "init." },
  { family = "metric", word = "evaluation", plural = "evaluations", members = rules.metrics, prefix = "metric." },
  { family = "source", word = "data source", plural = "data sources", members = data.constructors, prefix = "data." },
  { family = "transform", word = "transform", plural = "transforms", members = data.transforms, prefix = "transform." },
  { family = "policy", word = "averaging policy", plural = "averaging", members = rules.averaging, prefix = "averaging." },
  { family = "op", word = "op on tensors and traced values", plural = "ops", members = pg.op, prefix = "op.", promoted = true },
}

-- The arguments of these are not what they describe: a function, nodes. The comments above them have examples.
local made = { lambda = true, graph = true }

local entries, by_name, by_function

---A field of what `space` names: "pg." and "dense" are pg.dense, but "repeat" is a word of Lua.
---@param space string
---@param name string
---@return string
function help.path(space, name)
  local key = show.key(name)
  return key:sub(1, 1) == "[" and space:gsub("%.$", "") .. key or space .. name
end

local function load_entries()
  if entries then return end
  entries, by_name, by_function = native.reference(), {}, {}
  local families_by_name = {}
  for _, family in ipairs(families) do families_by_name[family.family] = family end
  for _, entry in ipairs(entries) do
    local family = families_by_name[entry.family]
    local make = family and rawget(family.members, entry.name)
    if make then
      entry.word = family.word
      if made[entry.name] then entry.example = nil end
      by_function[make] = entry
      local short = not by_name[entry.name] and family.promoted
      entry.full_path = help.path("pg." .. (family.prefix or ""), entry.name)
      entry.path = short and help.path("pg.", entry.name) or entry.full_path
      by_name[entry.name] = by_name[entry.name] or {}
      table.insert(by_name[entry.name], entry)
      -- A function that is an op on traced values and something else on anything else.
      local shared = rawget(pg, entry.name)
      if short and shared and not by_function[shared] then by_function[shared] = entry end
    end
  end
end

---The registries' facts about a constructor.
---@param value any
---@return table?
function help.entry_of(value)
  load_entries()
  return by_function[value]
end

---All entries, each with its path ("pg.conv2d"), and the options that every layer takes.
---@return table, table
function help.entries()
  load_entries()
  return entries, entries.common
end

-- Families that a description writes as a call: pg.dense { out = 10 }. Anything else is a plain table.
local called = { layer = true, schedule = true, source = true, transform = true }

---A description as one writes it: { type = "dense", out = 10 } is pg.dense { out = 10 }.
---@param description table
---@param entry table what the registries know of it
---@return string
function help.call_text(description, entry)
  local function text(value, without_type)
    if type(value) ~= "table" then return show.source(value) end
    for _, known in ipairs(not without_type and type(value.type) == "string" and by_name[value.type] or {}) do
      if called[known.family] then return help.call_text(value, known) end
    end
    local parts, keys = {}, {}
    for _, each in ipairs(value) do parts[#parts + 1] = text(each) end
    for _, each in ipairs(without_type and value.layers or {}) do
      parts[#parts + 1] = text(type(each) == "string" and { type = each } or each) -- JSON may name a layer alone
    end
    for key in pairs(value) do
      if type(key) == "string" and not (without_type and (key == "type" or key == "layers")) then keys[#keys + 1] = key end
    end
    table.sort(keys)
    for _, key in ipairs(keys) do parts[#parts + 1] = show.key(key) .. " = " .. text(value[key]) end
    return #parts == 0 and "{}" or "{ " .. table.concat(parts, ", ") .. " }"
  end
  return entry.path .. " " .. text(description, true)
end

local function signature(entry)
  if entry.family == "op" then return ("%s(%s)"):format(entry.path, table.concat(entry.positional, ", ")) end
  local parts, unnamed = {}, {}
  for _, name in ipairs(entry.positional) do
    unnamed[name] = true
    parts[#parts + 1] = name
  end
  for _, option in ipairs(entry.options) do
    if not unnamed[option.name] then
      parts[#parts + 1] = option.name .. ((option.fallback and option.fallback:match "^[%w%.%-]+$") and " = " .. option.fallback or "")
    end
  end
  return entry.path .. " {" .. (#parts > 0 and " " .. table.concat(parts, ", ") .. " " or "") .. "}"
end

---"integer, 1: step of the window"
---@param option table
---@return string
function help.note_of(option)
  local note = (option.type or "") .. (option.type and ", " or "")
  note = (note .. (option.fallback or option.required and "required" or "")):gsub(", $", "")
  return note .. (option.doc and (note ~= "" and ": " or "") .. option.doc or "")
end

local function options_table(options, width)
  local lines, widest = {}, 0
  for _, option in ipairs(options) do widest = math.max(widest, #option.name) end
  for index, option in ipairs(options) do
    lines[index] = show.wrap(("  %-" .. widest .. "s  %s"):format(option.name, help.note_of(option)), width, widest + 4):gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

local function entry_text(entry, width)
  local doc = entry.doc or ""
  if #entry.options > 0 then doc = doc:gsub("%s*[;,]? ?[Oo]ptions?:? .*$", "") end -- they are listed below
  local parts = { show.wrap(signature(entry), width, 4), show.wrap(("%s: %s"):format(entry.word, doc), width, 0) }
  if #entry.options > 0 then parts[#parts + 1] = options_table(entry.options, width) end
  if entry.family == "layer" then
    local names = {}
    for index, option in ipairs(entries.common) do names[index] = option.name end
    parts[#parts + 1] = show.wrap("every layer also takes " .. table.concat(names, ", "), width, 2)
  end
  if entry.example then parts[#parts + 1] = show.wrap("example: " .. help.call_text(entry.example, entry), width, 4) end
  return table.concat(parts, "\n") .. "\n"
end

-- The comment that ends in the line above a function, and the line in which it begins: { line, ... }.
local function comment_above(f)
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
help.comment_above = comment_above

-- Options of a function that takes one table, from the annotations above it: ---@field of the class that its ---@param names.
function help.fields_of(f)
  local info = debug.getinfo(f, "S")
  local text = info.source:sub(1, 1) == "=" and native.module_text(info.source:sub(2))
  local comment = text and comment_above(f) or {}
  local options, class = {}, nil
  for _, line in ipairs(comment) do class = class or line:match "^%-%-%-@param%s+[%w_?]+%s+(perigee%.%w+)" end
  if class == "perigee.Experiment" then return native.job_keys "" end
  local begin = class and text:find("---@class " .. class .. "\n", 1, true)
  if not begin then return options end
  for line in text:sub(begin):gmatch "[^\n]+" do
    local name, kind, doc = line:match "^%-%-%-@field%s+([%w_]+)%??%s+(%S+)%s*(.*)$"
    if name then options[#options + 1] = { name = name, type = kind, doc = doc ~= "" and doc or nil }
    elseif not line:find("^%-%-%-@class") then break end
  end
  return options
end

local function function_text(name, f, width)
  local info, comment = debug.getinfo(f, "u"), comment_above(f) or {}
  local arguments, lines = {}, {}
  for index = 1, info.nparams do arguments[index] = debug.getlocal(f, index) or "?" end
  if info.isvararg then arguments[#arguments + 1] = "..." end
  lines[1] = ("%s(%s)"):format(name, table.concat(arguments, ", "))
  for index = 1, #comment - 1 do
    local line = comment[index]:gsub("^%-%-%-?%s?", "")
    line = line:gsub("^@param%s+([%w_?%.]+)%s+", "  %1: "):gsub("^@return%s+", "  gives ")
    if not line:match "^@" then lines[#lines + 1] = show.wrap(line, width, line:match "^  " and 4 or 0) end
  end
  if info.what == "C" then lines[1] = name .. ": a function of Lua or of a library" end
  return table.concat(lines, "\n") .. "\n"
end

help.overview = [[
pg is Perigee's module; what it makes describes networks, data and training as
tables.

  layers        pg.sequential { pg.conv2d { 20, kernel = 5 }, pg.dense { 10 } }
  a job         pg.experiment { network = ..., data = { train = ... },
                  loss = "cross_entropy", optimizer = pg.adamw { lr = 1e-3 } }
  own layers    pg.lambda(function(x) return x * pg.sigmoid(x) end)

?NAME says more: ?pg.conv2d, ?adamw, ?pg.data.csv, ?pg.sequential. Tab lists
names and options. :help lists commands.
]]

local function family_text(family, width)
  local names = {}
  for name in pairs(family.members) do names[#names + 1] = name end
  table.sort(names)
  return show.wrap(("%-14s%s"):format(family.plural, table.concat(names, ", ")), width, 14)
end

local function overview_text(width)
  local parts = { help.overview }
  for _, family in ipairs(families) do parts[#parts + 1] = family_text(family, width) end
  return table.concat(parts, "\n") .. "\n"
end

local most_parents = 10

---Calls `visit(key, value)` for the fields of a value and of what its metatable's __index tables add. Nothing of the user's is called.
---@param value any
---@param visit fun(key: any, value: any)
function help.each_field(value, visit)
  if tensor.is(value) then
    for _, name in ipairs { "rank", "shape", "dtype", "device" } do visit(name, value[name]) end
    value = tensor.methods
  end
  for _ = 1, most_parents do
    if type(value) == "table" then
      for key, field in next, value do visit(key, field) end
    end
    local meta = debug.getmetatable(value)
    if type(meta) ~= "table" then return end
    -- A metatable whose __index is a function may name its fields in __fields.
    value = type(rawget(meta, "__index")) == "table" and rawget(meta, "__index") or rawget(meta, "__fields")
    if type(value) ~= "table" then return end
  end
end

---The value that { "pg", "data", "mnist" } names; nil when it names nothing.
---@param path string[]
---@return any
function help.resolve(path)
  local value = _G
  for _, name in ipairs(path) do
    local found
    help.each_field(value, function(key, each)
      if found == nil and key == name then found = each end
    end)
    if found == nil then return nil end
    value = found
  end
  return value
end

local function fail(name)
  local known = {}
  for each in pairs(by_name) do known[#known + 1] = each end
  for each in pairs(pg) do known[#known + 1] = each end
  local hint = native.nearest(name:match "[^.:]*$", known)
  error(("there is no help for '%s'%s"):format(name, hint ~= "" and "; " .. hint or ""), 0)
end

---The text that `?name` shows.
---@param name string
---@param width integer columns of the terminal
---@return string
function help.text(name, width)
  width = math.max(40, math.min(width - 1, 120))
  load_entries()
  if name == "" or name == "pg" then return overview_text(width) end
  local path = {}
  for part in name:gmatch "[^.:]+" do path[#path + 1] = part end
  local value = help.resolve(path)
  local found = by_function[value] and { by_function[value] } or not name:find "[.:]" and by_name[name]
  if value == nil and not found then value = rawget(pg, name) end
  if value ~= nil and rawequal(value, rawget(pg, path[#path])) then value = tensor.methods[path[#path]] or value end
  if found then
    local texts = {}
    for index, entry in ipairs(found) do texts[index] = entry_text(entry, width) end
    return table.concat(texts, "\n")
  end
  for _, family in ipairs(families) do
    if rawequal(value, family.members) then return family_text(family, width) .. "\n" end
  end
  if type(value) == "function" then return function_text(name, value, width) end
  if value == nil then fail(name) end
  return ("%s is a %s\n%s\n"):format(name, tensor.is(value) and "tensor" or type(value), show.value(value, width))
end

return help
