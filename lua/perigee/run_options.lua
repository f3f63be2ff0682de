-- The options of a run's job that can be set while it trains: run.optimizer.momentum = 0.8. A node is a section; reading it reads the run.
local native = require "perigee.native"
local where = require "perigee.where"

local run_options = {}

local Node = {}
local state_of = setmetatable({}, { __mode = "k" }) -- node to { section, list, set, call }

-- The options of the section as they are now: key to { value, type, doc, fallback }; and the keys in order.
local function options_of(node)
  local state = state_of[node]
  local found, keys = {}, {}
  for name, option in pairs(state.list()) do
    local key = name:sub(#state.section + 2)
    if name:sub(1, #state.section + 1) == state.section .. "." then
      found[key] = option
      keys[#keys + 1] = key
    end
  end
  table.sort(keys)
  return found, keys
end

local function value_of(option)
  if option.value == native.null then return nil end
  return option.value
end

function Node.__index(node, key)
  local found, keys = options_of(node)
  local section = state_of[node].section
  for name, option in pairs(found) do
    if name == key or option.also == key then return value_of(option) end -- run.clip.norm is the threshold of such a clip
    if name:sub(1, #tostring(key) + 1) == tostring(key) .. "." then -- run.loss.digit.weight
      local state = state_of[node]
      return run_options.node(("%s.%s"):format(section, key), state.list, state.set)
    end
  end
  where.fail(("run.%s has no option '%s' that can be set%s"):format(section, tostring(key), where.suggestion(key, keys)))
end

function Node.__newindex(node, key, value)
  local state = state_of[node]
  state.set(("%s.%s"):format(state.section, tostring(key)), value)
end

function Node.__call(node, ...)
  local call = state_of[node].call
  if not call then
    where.fail(("run.%s is a table of options; set one: run.%s.NAME = VALUE"):format(state_of[node].section, state_of[node].section))
  end
  return call(...)
end

local function shown(option)
  local value = value_of(option)
  if value == nil then return option.fallback or "none" end
  return type(value) == "table" and require("perigee.show").source(value) or tostring(value)
end

function Node.__tostring(node)
  local found, keys = options_of(node)
  if #keys == 0 then return "nothing of it can be set: the job has no " .. state_of[node].section end
  local widest, lines = 0, {}
  for _, key in ipairs(keys) do widest = math.max(widest, #key) end
  for index, key in ipairs(keys) do
    lines[index] = ("%-" .. widest .. "s  %s"):format(key, shown(found[key]))
  end
  return table.concat(lines, "\n")
end

---@param section string
---@param list fun(): table all options of the run, by full name
---@param set fun(option: string, value: any)
---@param call? function what the node does when it is called: run:checkpoint()
---@return table
function run_options.node(section, list, set, call)
  local node = setmetatable({}, Node)
  state_of[node] = { section = section, list = list, set = set, call = call }
  return node
end

---For Tab and `?`: what a node has, key to { doc, type, value, fallback, run_option }; nil for anything else.
---@param value any
---@return table?
function run_options.fields(value)
  if type(value) ~= "table" or not state_of[value] then return nil end
  local fine, found = pcall(options_of, value)
  if not fine then return {} end
  for key, option in pairs(found) do
    option.run_option = state_of[value].section .. "." .. key
    option.now = shown(option)
  end
  return found
end

return run_options
