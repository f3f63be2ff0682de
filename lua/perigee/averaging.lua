-- Averaging policies: pg.averaging.diloco { every = 50, momentum = 0.5 }, and pg.averaging.custom with an outer step of one's own. An outer
-- step is traced once into ops (trace.lua); no Lua runs in a round.
--
--   pg.averaging.custom { every = 16, state = { velocity = 0 }, momentum = 0.9, rate = function(p) return 1 - 0.5 * p.progress end,
--     outer = function(p)
--       p.velocity = p.momentum * p.velocity + p.delta
--       return p.global - p.rate * p.velocity
--     end }
--
-- p.global is the last result, p.mean the mean of the workers' parameters, p.delta their difference. With what = "gradient" the step makes
-- of p.gradient, the mean of the workers' gradients, what the optimiser is given. Options that are no options of the
-- policy are numbers of the outer step; a function makes one of what is known of the round.
local native = require "perigee.native"
local trace = require "perigee.trace"
local where = require "perigee.where"

local averaging = {}

local of_round = { "workers", "progress", "round", "learning_rate", "staleness" }

local allowed = native.outer_ops()
for _, name in ipairs(allowed) do allowed[name] = true end

local function sorted_names(of)
  local names = {}
  for name in pairs(of or {}) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- A number that follows the round: 1 - 1 / p.workers.
local function knob(value)
  if type(value) ~= "function" then return value end
  return trace.fields(value, { unpack(of_round) }, {}, "value", allowed)
end

---The program of an outer step.
---@param f function
---@param state? table<string, number> initial values by name
---@param knobs string[]
---@return table
---@param what? string "gradient": of p.gradient; else of p.global, p.mean and p.delta
function averaging.outer(f, state, knobs, what)
  if type(f) ~= "function" then where.fail("outer is " .. where.describe(f) .. "; expected function(p) ... end") end
  local names = what == "gradient" and { "global", "gradient", unpack(of_round) } or { "global", "mean", "delta", unpack(of_round) }
  local settable = {}
  local taken = {}
  for _, name in ipairs(names) do taken[name] = true end
  for _, list in ipairs { sorted_names(state), knobs } do
    for _, name in ipairs(list) do
      if taken[name] then where.fail(("'%s' is a name that an outer step has already"):format(name)) end
      taken[name] = true
      names[#names + 1] = name
    end
  end
  for _, name in ipairs(sorted_names(state)) do settable[name] = true end
  return trace.fields(f, names, settable, what == "gradient" and "gradient" or "global", allowed)
end

local function check(policy)
  local wrong = native.check_policy(policy)
  if wrong then where.fail(wrong) end
  return policy
end

-- `definitions`: native.family "policy"; `policies`: a constructor for each, which checks the names of options.
function averaging.constructors(definitions, policies)
  local described = {}
  for _, definition in ipairs(definitions) do described[definition.name] = definition end
  for name in pairs(described) do
    local make = rawget(policies, name)
    policies[name] = function(options)
      local policy = make(options)
      for key, value in pairs(policy) do policy[key] = knob(value) end
      return check(policy)
    end
  end

  local own = {}
  for _, option in ipairs(described.custom.options) do own[option] = true end
  function policies.custom(options)
    if type(options) ~= "table" then where.fail("averaging.custom takes a table; got " .. where.describe(options)) end
    local policy, knobs = { type = "custom" }, {}
    for key, value in pairs(options) do
      if type(key) ~= "string" then where.fail("averaging.custom takes no values without a name; got " .. where.describe(value)) end
      policy[key] = key == "outer" and value or knob(value)
      if not own[key] then knobs[#knobs + 1] = key end
    end
    table.sort(knobs)
    if (options.what or "parameters") == "parameters" or options.outer then
      policy.outer = averaging.outer(options.outer, options.state, knobs, options.what)
    end
    return check(policy)
  end
  return policies
end

---The value of a file of lua/perigee/averaging: a policy of the library, described by its options' defaults. An option that is a list is a
---number of the outer step: { default, "what it is" }.
---@param definition { doc: string, kind?: string, what?: string, state?: table, outer?: function }
---@return table
function averaging.preset(definition)
  local preset, knobs = { doc = definition.doc, kind = definition.kind, what = definition.what, state = definition.state }, {}
  for key, value in pairs(definition) do
    if key == "doc" or key == "kind" or key == "what" or key == "state" or key == "outer" then goto continue end
    if type(value) == "table" and key ~= "codec" then
      preset.knobs = preset.knobs or {}
      preset.knobs[key] = { default = knob(value[1]), doc = value[2] }
      knobs[#knobs + 1] = key
    else
      preset.options = preset.options or {}
      preset.options[key] = value
    end
    ::continue::
  end
  if definition.outer then preset.outer = averaging.outer(definition.outer, definition.state, knobs, definition.what) end
  return preset
end

return averaging
