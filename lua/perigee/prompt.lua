-- The prompt's calls to Lua: values as text, help, and the names that could stand at the cursor. Nothing of the user's is called here
-- but __tostring: fields are looked up raw.
local show = require "perigee.show"

-- Loaded when it is asked for: the first value is shown the sooner.
local help = setmetatable({}, { __index = function(_, name) return require("perigee.help")[name] end })

local prompt = {}

local function entry_of(value) return help.entry_of(value) end

---Values as lines of text; `width` columns.
---@param width integer
---@return string
function prompt.show(width, ...)
  local parts, count = {}, select("#", ...)
  if count == 1 and rawequal((...), require "perigee") then return (help.overview:gsub("\n$", "")) end -- not its hundreds of functions
  local picture = count == 1 and show.picture_of((...))
  local kind = picture and prompt.graphics and prompt.graphics() or ""
  if kind ~= "" then return picture(kind) end
  for index = 1, count do
    parts[index] = show.value((select(index, ...)), width, { names = entry_of, describe = prompt.describe })
  end
  local line = table.concat(parts, "  ")
  return (#line <= width and not line:find "\n") and line or table.concat(parts, "\n")
end

---@param name string
---@param width integer
---@return string
function prompt.help(name, width) return help.text(name, width) end

local function options_of(f)
  local entry = help.entry_of(f)
  if entry then
    local options = { unpack(entry.options) }
    if entry.family == "layer" then
      local _, common = help.entries()
      for _, option in ipairs(common) do options[#options + 1] = option end
    end
    return options
  end
  return type(f) == "function" and require("perigee.help.function").fields_of(f) or {}
end

-- The keys of a section, where the path ends in one: pg.experiment { data = { ... } }.
local function keys_of_section(path)
  local outer = { unpack(path, 1, #path - 1) }
  if #outer == 0 or help.resolve(outer) ~= require("perigee").experiment then return {} end
  return require("perigee.native").job_keys(path[#path])
end

local words = "and break do else elseif end false for function goto if in local nil not or repeat return then true until while"

local function add_names(found, value, prefix, method, with_words)
  local seen = {}
  local function add(name)
    if type(name) ~= "string" or seen[name] or name:sub(1, #prefix) ~= prefix or not name:match "^[%a_][%w_]*$" then return end
    if name:sub(1, 1) == "_" and prefix == "" then return end
    seen[name] = true
    found[#found + 1] = name
  end
  help.each_field(value, function(name, each)
    if not method or type(each) == "function" then add(name) end
  end)
  if with_words and prefix ~= "" then
    for word in words:gmatch "%a+" do add(word) end
  end
  table.sort(found)
end

---Names that begin with `prefix` and could stand at the cursor: { name, note, name, note, ... }.
---@param kind string "name", a field of what `path` names; "option" of the function that it names; "help": anything that has some
---@param path string[]
---@param prefix string
---@param method boolean after a colon
---@param used string[] options that are given already
---@return string[]
function prompt.complete(kind, path, prefix, method, used)
  local result, names = {}, {}
  local function put(name, note)
    result[#result + 1], result[#result + 2] = name, note
  end
  if kind == "option" then
    local given, seen = {}, {}
    for _, name in ipairs(used) do given[name] = true end
    local target = help.resolve(path)
    local options = target ~= nil and options_of(target) or keys_of_section(path)
    for _, option in ipairs(options) do
      if option.name:sub(1, #prefix) == prefix and not given[option.name] and not seen[option.name] then
        seen[option.name] = true
        put(option.name, help.note_of(option))
      end
    end
    if #result > 0 or (prefix == "" and target ~= nil) then return result end
    path = {}
  end
  if kind == "help" and #path == 0 and prefix ~= "" then
    local known = {}
    for _, entry in ipairs((help.entries())) do
      if entry.path and not rawget(_G, entry.name) then known[entry.name] = true end
    end
    for name in next, help.resolve { "pg" } do known[name] = true end
    for _, name in ipairs(require("perigee.help.job").names()) do known[name] = true end
    for name in next, known do
      if type(name) == "string" and name:sub(1, #prefix) == prefix then names[#names + 1] = name end
    end
  end
  local value = help.resolve(path)
  if value ~= nil then add_names(names, value, prefix, method, #path == 0 and kind ~= "help") end
  table.sort(names)
  local last
  for _, name in ipairs(names) do
    if name ~= last then put(name, "") end
    last = name
  end
  return result
end

local last_job = {}

---Paths of a job that go on from `typed`, as complete() gives names.
---@param text? string the job as JSON; nil: that of the call before
---@param names string[] of the variable that holds the job; none when it is in a file
---@param typed string
---@return string[]
function prompt.paths(text, names, typed)
  if text then last_job = require("perigee.native").from_json(text) end
  local job = last_job
  if #names > 0 then job = help.resolve(names) end
  return type(job) == "table" and require("perigee.paths").complete(job, typed) or {}
end

return prompt
