-- Optimisers, schedules, losses, averaging policies and other plain descriptions: pg.adamw { lr = 1e-3 } is
-- { type = "adamw", lr = 1e-3 }. Names and options are checked here, at the script's line, against the registries.
local native = require "perigee.native"
local where = require "perigee.where"
local optimizer = require "perigee.optimizer"
local trace = require "perigee.trace_functions"

local rules = {}

-- pg.sgd(0.1) and pg.sgd { 0.1 } are pg.sgd { lr = 0.1 }: `positional` names the options that need no name.
local function describe(kind, name, options, positional, known)
  if options == nil then options = {} end
  if type(options) ~= "table" or getmetatable(options) ~= nil then options = { options } end
  local result = { type = name }
  for key, value in pairs(options) do
    local option = key
    if type(key) == "number" then
      option = positional[key]
      if not option then
        where.fail(("%s %s takes %s; got %s as number %s%s"):format(kind, name,
          #positional == 0 and "no values without a name" or "only " .. table.concat(positional, ", ") .. " without a name",
          where.describe(value), tostring(key), kind == "schedule" and name == "linear" and "; a layer of weights is pg.dense { 10 }" or ""))
      end
      if options[option] ~= nil then where.fail(("%s: '%s' is given twice, by position and by name"):format(name, option)) end
    elseif known then
      local found = key == "type"
      for _, candidate in ipairs(known) do found = found or candidate == key end
      if not found then
        where.fail(("%s %s has no option '%s'%s"):format(kind, name, tostring(key), where.suggestion(key, { unpack(known) })))
      end
    end
    result[option] = value
    if type(value) == "function" and (kind == "optimizer" or kind == "schedule") then result[option] = trace.schedule(value) end
  end
  return result
end

-- pg.loss.lambda(function(outputs, targets) ... end, { link = "softmax" }), pg.schedule.lambda(function(now) ... end): what a job stores is
-- made of the function; a table is what a job has stored.
local function with_functions(members, record)
  local make = members.lambda
  members.lambda = function(first, options)
    if type(first) == "table" and type(first[1]) == "function" then first, options = first[1], first end
    if type(first) ~= "table" then return record(first, options) end -- which refuses what is no function
    return make(first)
  end
  return members
end

---Constructors by name for the members of a family, as native.family gives them.
---@param kind string "optimizer": for messages
---@param entries table
---@param class? table metatable of what is described
function rules.family(kind, entries, class)
  local members = {}
  for _, entry in ipairs(entries) do
    local positional = entry.positional
    local known = not entry.open and entry.options or nil
    members[entry.name] = function(options)
      local description = describe(kind, entry.name, options, positional, known)
      return class and setmetatable(description, class) or description
    end
  end
  return where.namespace(kind, members)
end

rules.optimizers = rules.family("optimizer", native.family "optimizer", optimizer)

-- pg.rule { lr = 0.1, state = { "m" }, update = function(p, g, s, now) ... end }: what a job stores is made of the function.
local described_rule = rules.optimizers.rule
rules.optimizers.rule = function(options)
  if type(options) ~= "table" or options.update == nil then return described_rule(options) end
  local traced, description = trace.rule(options.update, options.state), {}
  for key, value in pairs(options) do description[key] = value end
  description.update, description.state = nil, traced.state
  description.program, description.outputs = traced.program, traced.outputs
  return described_rule(description)
end
rules.schedules = with_functions(rules.family("schedule", native.family "schedule"), trace.schedule)
rules.losses = with_functions(rules.family("loss", native.family "loss"), trace.loss)
rules.initializers = rules.family("initialiser", native.family "initializer")
rules.metrics = with_functions(rules.family("evaluation", native.family "metric"), trace.metric)

return rules
