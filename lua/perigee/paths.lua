-- The paths of `--set path=value` in a job, for completion: the keys that are there and those that their reader would take. A path that is
-- offered is one that Job::set takes.
local native = require "perigee.native"
local help = require "perigee.help"
local layers = require "perigee.layers"
local show = require "perigee.show"

local paths = {}

local longest_note = 100
local longest_list = 100 -- of numbers or rows; what is longer is data

-- Which registry the `type` of an object is in, by the key that it stands under; a layer's options that are rules of their own.
local family_of = {
  optimizer = "optimizer", loss = "loss", averaging = "policy", metrics = "metric", layers = "layer", layer = "layer",
  train = "source", test = "source", validation = "source",
}

local function family_at(path)
  if path[1] == "network" and #path == 2 then return "layer" end -- the network is a list of layers
  for index = #path, 1, -1 do
    local key = path[index]
    if path[1] == "optimizer" and index > 1 then return "schedule" end
    if key:find "init$" then return "initializer" end
    if family_of[key] then return family_of[key] end
    if not tonumber(key) and path[index - 1] ~= "layers" and path[index - 1] ~= "nodes" then return nil end
  end
end

local function entry_at(path, kind)
  local family = family_at(path)
  for _, entry in ipairs(kind and family and (help.entries()) or {}) do
    if entry.family == family and entry.name == kind then return entry end
  end
end

local function note_of(value, doc)
  if value == nil then return doc or "" end
  local text = show.source(value):gsub("%s+", " ")
  if doc and doc ~= "" then text = text .. ": " .. doc end
  return #text > longest_note and text:sub(1, longest_note - 3) .. "..." or text
end

-- "network.layers.conv1" and "network.layers.1" are the same.
local function elements(list, path)
  local found, names = {}, {}
  local is_layers = path[1] == "network" and (#path == 1 or path[#path] == "layers")
  if is_layers then names = layers.names(list) end
  for index, value in ipairs(list) do
    if type(value) == "string" and is_layers then value = { type = value } end
    found[#found + 1] = { key = tostring(index), value = value }
    local name = names[index] or (type(value) == "table" and type(value.name) == "string" and value.name)
    if name then found[#found + 1] = { key = name, value = value } end
  end
  return found
end

local function options_of(entry)
  local options = {}
  for _, option in ipairs(entry and entry.options or {}) do options[#options + 1] = option end
  if entry and entry.family == "layer" then
    local _, common = help.entries()
    for _, option in ipairs(common) do options[#options + 1] = option end
  end
  return options
end

-- { key =, value = what it is now, doc = }, ... below an object, or a name that is short for one.
local function members(object, path)
  local found, seen = {}, {}
  local function add(key, value, doc)
    if type(key) ~= "string" or seen[key] or key:sub(1, 1) == "@" or key:find "[.=]" then return end
    seen[key] = true
    found[#found + 1] = { key = key, value = value, doc = doc }
  end
  local docs = {}
  local keys = #path <= 1 and native.job_keys(path[1] or "") or {}
  for _, key in ipairs(keys) do docs[key.name] = key.doc end
  for _, option in ipairs(options_of(entry_at(path, object.type))) do
    docs[option.name] = object[option.name] == nil and help.note_of(option) or option.doc
    add(option.name, object[option.name], docs[option.name])
  end
  for key, value in next, object do add(key, value, docs[key]) end
  for _, key in ipairs(keys) do add(key.name, nil, docs[key.name]) end
  table.sort(found, function(a, b) return a.key < b.key end)
  return found
end

local function is_data(value)
  return type(value) == "table" and #value > longest_list and (type(value[1]) ~= "table" or #value[1] > 0)
end

local function below(value, path)
  if type(value) == "string" and family_at(path) then value = { type = value } end -- "adamw" is short for { type = "adamw" }
  if type(value) ~= "table" or is_data(value) then return {} end
  return #value > 0 and elements(value, path) or members(value, path)
end

local rules = { optimizer = true, schedule = true, loss = true, policy = true, initializer = true, metric = true }

-- The members of a value can be set, the value itself, or both: an lr that is a schedule has options and may become a number.
local function add_texts(found, each, path)
  local value, inner = each.value, {}
  if is_data(value) then return end
  for index, key in ipairs(path) do inner[index] = key end
  inner[#inner + 1] = each.key
  local note = note_of(value, each.doc)
  local entry = each.key ~= "type" and entry_at(inner, type(value) == "table" and value.type or value)
  local rule = entry and rules[entry.family]
  local container = type(value) == "table" and next(value) ~= nil
  if not container or rule then found[#found + 1] = { each.key .. "=", note } end
  if container or rule then found[#found + 1] = { each.key .. ".", not rule and note or "" } end
end

---The candidates for the last part of a path: { text, note, text, note, ... }; "lr=" is a value, "optimizer." goes on.
---@param job table
---@param typed string "network.layers.conv1.ke"
---@return string[]
function paths.complete(job, typed)
  local result, path, value = {}, {}, job
  if typed:find "=" then return result end
  local before, prefix = typed:match "^(.*%.)([^.]*)$"
  for key in (before or ""):gmatch "([^.]*)%." do
    local inner
    for _, each in ipairs(below(value, path)) do
      if each.key == key then inner = each.value end
    end
    if inner == nil then return result end
    path[#path + 1], value = key, inner
  end
  local found = {}
  for _, each in ipairs(below(value, path)) do
    if each.key:sub(1, #(prefix or typed)) == (prefix or typed) then add_texts(found, each, path) end
  end
  for _, each in ipairs(found) do result[#result + 1], result[#result + 2] = each[1], each[2] end
  return result
end

return paths
