-- The text of `?name`: for entries of the registries from their facts, for functions from the comment above them.
local native = require "perigee.native"
local pg = require "perigee"
local data = require "perigee.data"
local help_function = require "perigee.help.function"
local help_job = require "perigee.help.job"
local topics = require "perigee.help.topics"
local layers = require "perigee.layers"
local rules = require "perigee.rules"
local show = require "perigee.show"
local tensor = require "perigee.tensor"

local help = { source_examples = topics.source_examples }

for name in pairs(getmetatable(pg).later) do
  local _ = pg[name] -- loads it: what pg lists has help
end

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
  { family = "policy", word = "averaging policy", plural = "averaging", members = pg.averaging, prefix = "averaging." },
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
      if (short or entry.family == "op") and shared and not by_function[shared] then by_function[shared] = entry end
    end
  end
end

---The members of a family, also of those that no constructor makes, such as clip.
---@param family string
---@return table[]
function help.members(family)
  load_entries()
  local members = {}
  for _, entry in ipairs(entries) do
    if entry.family == family then members[#members + 1] = entry end
  end
  return members
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
    local inside = without_type and type(value.layers) == "table" -- of a transformer or a recurrent layer it is a number
    for _, each in ipairs(inside and value.layers or {}) do
      parts[#parts + 1] = text(type(each) == "string" and { type = each } or each) -- JSON may name a layer alone
    end
    for key in pairs(value) do
      if type(key) == "string" and not (without_type and key == "type" or inside and key == "layers") then keys[#keys + 1] = key end
    end
    table.sort(keys)
    for _, key in ipairs(keys) do parts[#parts + 1] = show.key(key) .. " = " .. text(value[key]) end
    return #parts == 0 and "{}" or "{ " .. table.concat(parts, ", ") .. " }"
  end
  return entry.path .. " " .. text(description, true)
end

---A definition's text as sentences, without the options, which are listed beside it.
---@param entry table
---@return string
function help.sentence(entry)
  local doc = entry.doc or ""
  if #entry.options > 0 then doc = doc:gsub("%s*[;,]? ?[Oo]ptions?:? .*$", "") end
  if doc:find "^%l%l+[ ,]" then doc = doc:sub(1, 1):upper() .. doc:sub(2) end
  return (doc == "" or doc:find "%.$") and doc or doc .. "."
end

---pg.conv2d { out, kernel, stride = 1 }
---@param entry table
---@return string
function help.signature(entry)
  if entry.family == "op" then
    local arguments, attributes = { unpack(entry.positional) }, {}
    for index, option in ipairs(entry.options) do attributes[index] = option.name end
    if #attributes > 0 then arguments[#arguments + 1] = "{ " .. table.concat(attributes, ", ") .. " }" end
    return ("%s(%s)"):format(entry.path, table.concat(arguments, ", "))
  end
  local parts, unnamed = {}, {}
  for _, name in ipairs(entry.positional) do
    unnamed[name] = true
    parts[#parts + 1] = name
  end
  for _, option in ipairs(entry.options) do
    if not unnamed[option.name] then
      local fallback = option.fallback and help_job.default(option):match "^[%w%.%-]+$"
      parts[#parts + 1] = option.name .. (fallback and fallback ~= "optional" and " = " .. fallback or "")
    end
  end
  return entry.path .. " {" .. (#parts > 0 and " " .. table.concat(parts, ", ") .. " " or "") .. "}"
end

---"integer, 1: step of the window"
---@param option table
---@return string
function help.note_of(option)
  local note = (option.type or "") .. (option.type and ", " or "")
  local fallback = option.type and help_job.default(option) or option.fallback or option.required and "required" or ""
  if fallback ~= "" and not fallback:find "[%w%[]" then fallback = '"' .. fallback .. '"' end -- the comma of csv's delimiter
  note = (note .. fallback):gsub(", $", "")
  if option.doc then note = note .. (note ~= "" and ": " or "") .. option.doc .. (option.units and ", in " .. option.units or "") end
  return option.example and ("%s; as in %s"):format(note, help_job.example(option)) or note
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
  local parts = { show.wrap(help.signature(entry), width, 4), show.wrap(("%s: %s"):format(entry.word, help.sentence(entry)), width, 0) }
  if #entry.options > 0 then parts[#parts + 1] = options_table(entry.options, width) end
  if entry.family == "layer" then
    local names = {}
    for index, option in ipairs(entries.common) do names[index] = option.name end
    parts[#parts + 1] = show.wrap("every layer also takes " .. table.concat(names, ", "), width, 2)
  end
  if entry.family == "source" and topics.source_examples[entry.name] then parts[#parts + 1] = "example: " .. topics.source_examples[entry.name] end
  if entry.example then parts[#parts + 1] = show.wrap("example: " .. help.call_text(entry.example, entry), width, 4) end
  return table.concat(parts, "\n") .. "\n"
end

local function function_text(name, f, width)
  if debug.getinfo(f, "S").what == "C" then return name .. ": a function of Lua or of a library\n" end
  local doc, annotations = help_function.doc(name, f)
  local lines = { help_function.call_of(name, f) }
  for line in doc:gmatch "[^\n]+" do lines[#lines + 1] = show.wrap(line, width, line:match "^  " and 4 or 0) end
  for _, line in ipairs(annotations) do lines[#lines + 1] = show.wrap(line, width, 4) end
  return table.concat(lines, "\n") .. "\n"
end

-- An op whose function takes more than operands and attributes says what that takes.
local function op_text(entry, width)
  local method = tensor.methods[entry.name]
  local own = method and not (debug.getinfo(method, "u").isvararg and debug.getinfo(method, "u").nparams == 0)
  if not own or #entry.options == 0 then return entry_text(entry, width) end
  return function_text(entry.path, method, width) .. ("as an op, with its attributes: %s\n"):format(help.signature({
    family = "op", path = entry.full_path, positional = entry.positional, options = entry.options })) .. options_table(entry.options, width) .. "\n"
end

-- Kinds that no constructor makes: the tables of clip = { type = "norm" } or regularization = { l2 = 1e-4 }.
local function kinds_text(members, width)
  local parts = {}
  for index, entry in ipairs(members) do
    local following = members[index + 1]
    local options = #entry.options > 0 and options_table(entry.options, width) or nil
    if entry.name ~= entry.family then parts[#parts + 1] = show.wrap(('type = "%s": %s'):format(entry.name, help.sentence(entry)), width, 4) end
    if options and not (following and options_table(following.options, width) == options) then parts[#parts + 1] = options end
  end
  return table.concat(parts, "\n")
end

local function family_text(family, width)
  local names = {}
  for name in pairs(family.members) do names[#names + 1] = name end
  table.sort(names)
  return show.wrap(("%-14s%s"):format(family.plural, table.concat(names, ", ")), width, 14)
end

-- A key of a job: what it is, the keys of its own where it is a section, what may stand there where it names a family.
local function key_text(found, width)
  local option, parts = found.option, {}
  local place = found.section == "" and "pg.experiment { %s }" or "pg.experiment { " .. found.section .. " = { %s } }"
  parts[1] = show.wrap(place:format(help_job.example(option)), width, 4)
  local type_text = option.type .. (option.range and " " .. option.range or "")
  local rest = ("%s, %s: %s%s"):format(type_text, help_job.default(option), option.doc, option.units and ", in " .. option.units or "")
  parts[2] = show.wrap("key of a job: " .. rest .. ".", width, 0)
  local section = found.section == "" and native.job_keys(option.name) or {}
  if #section > 0 then parts[#parts + 1] = options_table(section, width) end
  for _, family in ipairs(families) do
    if family.family == option.family then
      parts[#parts + 1] = family_text(family, width)
      return table.concat(parts, "\n") .. "\n"
    end
  end
  if option.family then parts[#parts + 1] = kinds_text(help.members(option.family), width) end
  return table.concat(parts, "\n") .. "\n"
end

local function keys_text(name, width)
  local texts = {}
  for index, found in ipairs(help_job.find(name)) do texts[index] = key_text(found, width) end
  return #texts > 0 and table.concat(texts, "\n") or nil
end

help.overview = [[
pg is Perigee's module; what it makes describes networks, data and training as
tables.

  layers        pg.sequential { pg.conv2d { 20, kernel = 5 }, pg.dense { 10 } }
  a job         pg.experiment { network = ..., data = { train = ... },
                  loss = "cross_entropy", optimizer = pg.adamw { lr = 1e-3 } }
  own layers    pg.lambda(function(x) return x * pg.sigmoid(x) end)

?NAME says more: ?pg.conv2d, ?adamw, ?pg.data.csv, ?early_stopping. Tab lists
names and options. :help lists commands.
]]

local function overview_text(width)
  local parts = { help.overview }
  for _, family in ipairs(families) do parts[#parts + 1] = family_text(family, width) end
  parts[#parts + 1] = show.wrap(("%-14s%s"):format("keys of a job", table.concat(help_job.names(), ", ")), width, 14)
  return table.concat(parts, "\n") .. "\n"
end

local most_parents = 10

-- The options of a training run's values; only where the modules of runs are loaded is there one.
local function loaded_fields(value)
  local run, options = package.loaded["perigee.run"], package.loaded["perigee.run_options"]
  return run and (run.sections(value) or options.fields(value)) or {}
end

---Calls `visit(key, value)` for the fields of a value and of what its metatable's __index tables add. Nothing of the user's is called.
---@param value any
---@param visit fun(key: any, value: any)
function help.each_field(value, visit)
  for key, field in next, loaded_fields(value) do visit(key, field) end
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
  local known = help_job.names()
  for each in pairs(by_name) do known[#known + 1] = each end
  for each in pairs(pg) do known[#known + 1] = each end
  local hint = native.nearest(name:match "[^.:]*$", known)
  error(("there is no help for '%s'%s"):format(name, hint ~= "" and "; " .. hint or ""), 0)
end

---The word for a value, and the methods that it has beside those that everybody knows.
---@param value any
---@return string, table?
function help.kind_of(value)
  if tensor.is(value) then return "tensor" end
  if data.is_source(value) then return "source of data", require("perigee.source").class end
  if type(value) ~= "table" then return type(value) end
  local meta = getmetatable(value)
  local fields = type(meta) == "table" and rawget(meta, "__fields")
  if require("perigee.network").about(value) and type(fields) == "table" then return "trained model", fields end
  if layers.is_layer(value) then return "layer" end
  if rawget(value, "type") == "sequential" or rawget(value, "type") == "graph" then
    return "network", type(rawget(meta, "__index")) == "table" and rawget(meta, "__index") or nil
  end
  return "table"
end

local function value_text(name, value, width)
  for _, family in ipairs(families) do
    if rawequal(value, family.members) then
      return topics.text(family.family, help, width)
    end
  end
  if rawequal(value, pg.experiment) then return function_text(name, value, width) .. options_table(native.job_keys "", width) .. "\n" end
  if type(value) == "function" then return function_text(name, value, width) end
  if type(value) == "table" and rawget(value, "run_option") then
    return show.wrap(("%s = %s"):format(name, value.now), width, 4) .. "\n" ..
      show.wrap(("option of a run: %s. It can be set while the run trains."):format(help.note_of(value)), width, 0) .. "\n"
  end
  local fields = type(value) == "table" and loaded_fields(value) or {}
  if next(fields) then
    local list = {}
    for key, option in pairs(fields) do
      if type(option) == "table" and rawget(option, "run_option") then
        list[#list + 1] = { name = key, type = option.type, fallback = option.now, doc = option.doc }
      end
    end
    table.sort(list, function(a, b) return a.name < b.name end)
    if #list > 0 then
      return show.wrap(("options of a run, as they are now; each can be set while it trains: %s.%s = ..."):format(name, list[1].name), width, 2) ..
        "\n" .. options_table(list, width) .. "\n"
    end
  end
  local kind, methods = help.kind_of(value)
  local text = ("%s is a %s\n%s\n"):format(name, kind, show.value(value, width))
  if not methods then return text end
  local names = {}
  for method, each in pairs(methods) do
    if type(each) == "function" and method:sub(1, 2) ~= "__" then names[#names + 1] = method end
  end
  table.sort(names)
  local fits, described = pcall(function() return data.is_source(value) and value:fields() or {} end)
  for _, field in ipairs(fits and described or {}) do
    text = text .. ("field %s: %s[%s]%s\n"):format(field.name, field.dtype, table.concat(field.shape, "x"),
      (field.classes or 0) > 0 and (", a class of %d"):format(field.classes) or "")
  end
  return text .. show.wrap(("methods: %s; ?%s.%s says more"):format(table.concat(names, ", "), name, names[1]), width, 9) .. "\n"
end

local most_owners = 8

-- Meanings of an option of that name to those that have one: `?label_smoothing`.
local function options_called(name, width)
  local lines = {}
  for _, entry in ipairs(entries) do
    for _, option in ipairs(entry.path and entry.family ~= "op" and entry.options or {}) do
      if option.name == name then lines[#lines + 1] = show.wrap(("option of %s: %s"):format(entry.path, help.note_of(option)), width, 4) end
    end
  end
  if #lines == 0 then return nil end
  local more = #lines - most_owners
  if more > 0 then lines[most_owners + 1] = ("%d more have one"):format(more) end
  return table.concat(lines, "\n", 1, math.min(#lines, most_owners + 1)) .. "\n"
end

---The text that `?name` shows.
---@param name string
---@param width integer columns of the terminal
---@return string
function help.text(name, width)
  width = math.max(40, math.min(width - 1, 120))
  if rawget(_G, "job") == nil then name = name:gsub("^job%.", "") end
  load_entries()
  if name == "" or name == "pg" then return overview_text(width) end
  if name:lower():match "^perigee%.experiment$" or name == "Experiment" then name = "pg.experiment" end -- as annotations call it
  local path = {}
  for part in name:gmatch "[^.:]+" do path[#path + 1] = part end
  local value = help.resolve(path)
  local own = value == nil or rawequal(value, rawget(pg, name)) -- not a variable of the user's
  local key = own and keys_text(name, width) or nil
  local found = by_function[value] and { by_function[value] } or not name:find "[.:]" and by_name[name]
  if value == nil and not found then value = rawget(pg, name) end
  local last = path[#path]
  local ours = value == nil or rawequal(value, rawget(pg, last))
  local is_family = false
  for _, family in ipairs(families) do is_family = is_family or rawequal(value, family.members) end
  if ours and value ~= nil and not is_family then value = tensor.methods[last] or value end
  local texts = {}
  if found then
    for _, entry in ipairs(found) do
      texts[#texts + 1] = entry.family == "op" and op_text(entry, width) or entry_text(entry, width)
    end
    local method = ours and found[#found].family ~= "op" and tensor.methods[last] -- pg.max is a layer, and a function of tensors
    if method then texts[#texts + 1] = function_text("pg." .. last, method, width) end
  elseif value ~= nil and not (key and type(value) == "table") then -- a key's text lists the family
    texts[1] = value_text(name, value, width)
  end
  texts[#texts + 1] = key
  local family = topics.family(name)
  if key and family and name:find "s$" then texts[#texts + 1] = topics.text(family, help, width) end -- ?metrics
  if #texts == 0 then
    texts[1] = family and topics.text(family, help, width) or not name:find "[.:]" and options_called(name, width) or nil
  end
  if #texts == 0 then texts[1] = topics.advice(name, width) end
  if #texts == 0 then fail(name) end
  return table.concat(texts, "\n")
end

return help
