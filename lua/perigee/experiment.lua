-- pg.experiment: the job's top level, checked at the script's line.
local native = require "perigee.native"
local where = require "perigee.where"
local layers = require "perigee.layers"
local rules = require "perigee.rules"
local trace = require "perigee.trace_functions"

-- Names, types and ranges of the keys of the top level (section "") or of a section such as "data".
-- Refuses paths, functions and tables of parts in the place of a source of data.
local function check_parts(data, fail)
  if type(data) ~= "table" then return end
  for _, part in ipairs { "train", "validation", "test" } do
    local source = rawget(data, part)
    if type(source) == "string" then
      fail(("data.%s is '%s'; expected a source of data, as pg.data.csv { \"%s\" }"):format(part, source, source))
    elseif type(source) == "function" then
      fail(("data.%s is a function; call it: %s = pg.data.csv { \"table.csv\" }"):format(part, part))
    elseif type(source) == "number" then
      fail(("data.%s is %s; a part of the data is a source, too: train, %s = source:split { 0.8, 0.2, seed = 1 }"):format(part, source, part))
    elseif type(source) == "table" and rawget(source, "type") == nil and (rawget(source, "train") or rawget(source, "test")) then
      local made = (getmetatable(source) or {}).__name or "parts"
      fail(("data.%s is a table of parts; take one of them: %s = %s.%s"):format(part, part, made, part))
    end
  end
end

local needed = {
  network = "write network = pg.sequential { pg.dense { 10 } }",
  data = 'write data = { train = pg.data.csv { "table.csv" } }',
}

-- A list of tables, as "phases": the keys of each are checked where it stands.
local function check_list(section, list, fail, check)
  for index, part in ipairs(list) do
    local function fail_in(text) fail(("%s[%d]: %s"):format(section, index, text), section) end
    if type(part) ~= "table" then fail_in("is " .. where.describe(part) .. "; expected a table") end
    check(section, part, fail_in)
  end
end

local function check_keys(section, given, fail)
  for key, value in pairs(given) do
    if type(key) ~= "string" then
      fail(("%s have names; got %s as a key%s"):format(section == "" and "a job's keys" or "the keys of '" .. section .. "'", where.describe(key),
        section == "data" and ": data = { train = ..., test = ... }" or ""))
    end
    local described = key == "network" or key == "data" -- what is wrong with these is said below
    local wrong = native.check_job_key(section, key, described and {} or value)
    local in_list = section == "phases" or section == "objectives" -- `fail` says which of them
    if wrong then fail(((section == "" or in_list) and "" or section .. ": ") .. wrong, key) end
    if type(value) == "table" and (section == "" or section == "phases") and #native.job_keys(key) > 0 then
      if key == "phases" or key == "objectives" then check_list(key, value, fail, check_keys)
      elseif getmetatable(value) == nil then check_keys(key, value, fail) end
    end
  end
end

-- pg.adam and pg.loss.mse are functions that describe a rule, and pg.mse one of tensors: none of them is the user's own.
local function refuse_ours(value, key, known, advice)
  for name, make in pairs(known) do
    if rawequal(make, value) or rawequal(rawget(require "perigee", name), value) then
      where.fail(("%s: %s is a function of pg; %s"):format(key, name, advice:format(name)), where.position_of_result("pg.experiment", key))
    end
  end
end

-- A function as the loss, or as that of an output, becomes the data that a job stores.
local function with_functions(loss)
  if type(loss) == "function" then
    refuse_ours(loss, "loss", rules.losses, "a loss is called by its name: loss = %q")
    return trace.loss(loss)
  end
  if type(loss) ~= "table" or loss.type then return loss end
  local losses = {}
  for output, each in pairs(loss) do
    local copy = each
    if type(each) == "function" then copy = trace.loss(each)
    elseif type(each) == "table" and type(each[1]) == "function" then -- { function, target = "z", weight = 2 }
      copy = trace.loss(each[1], each)
      copy.target, copy.weight = each.target, each.weight
    end
    if type(copy) == "table" and type(copy.weight) == "function" then
      local weight = trace.schedule(copy.weight)
      if copy == each then
        copy = {}
        for key, value in pairs(each) do copy[key] = value end
      end
      copy.weight = weight
    end
    losses[output] = copy
  end
  return losses
end

-- { "regression", within_1 = function(outputs, targets) ... end }: functions become data, their names those of figures.
local function figures(metrics)
  if type(metrics) == "function" then metrics = { metrics } end
  if type(metrics) ~= "table" or metrics.type then return metrics end
  local list, names = native.list {}, {}
  for name, each in pairs(metrics) do
    if type(name) == "number" then
      list[name] = type(each) == "function" and trace.metric(each) or each  -- a hole is refused where the list becomes JSON
    elseif type(name) == "string" then
      if type(each) ~= "function" then where.fail(("metrics: '%s' is %s; expected a function"):format(name, where.describe(each))) end
      names[#names + 1] = name
    end
  end
  table.sort(names)
  for _, name in ipairs(names) do list[#list + 1] = trace.metric(metrics[name], { name = name }) end
  return list
end

local function list_of(parts, change)
  if type(parts) ~= "table" or parts.type then return parts end
  local list = native.list {}
  for index, part in ipairs(parts) do list[index] = type(part) == "table" and change(part) or part end
  return list
end

-- A mistake in a function that an option holds has no line of its own where the script ends with `return pg.experiment { ... }`.
local function at_line_of(key, change, value)
  local fine, result = pcall(change, value)
  if fine then return result end
  if type(result) ~= "string" or result:find "^[^\n:]+:%d+: " then error(result, 0) end
  where.fail(result, where.position_of_result("pg.experiment", key))
end

-- The functions in a job, or in a phase or an objective, become data; a layer alone is a network.
local function stored(part)
  local copy = {}
  for key, value in pairs(part) do copy[key] = value end
  if copy.loss ~= nil then copy.loss = at_line_of("loss", with_functions, copy.loss) end
  if copy.metrics ~= nil then copy.metrics = at_line_of("metrics", figures, copy.metrics) end
  if type(copy.optimizer) == "function" then
    refuse_ours(copy.optimizer, "optimizer", rules.optimizers, "call it: optimizer = pg.%s { lr = 0.001 }")
    copy.optimizer = { update = copy.optimizer }
  end
  if type(copy.optimizer) == "table" and type(rawget(copy.optimizer, "update")) == "function" then
    copy.optimizer = at_line_of("optimizer", rules.optimizers.rule, copy.optimizer)
  end
  if copy.objectives ~= nil then copy.objectives = list_of(copy.objectives, stored) end
  if copy.phases ~= nil then copy.phases = list_of(copy.phases, stored) end
  if layers.is_layer(copy.network) then copy.network = layers.sequential { copy.network } end
  return copy
end

local function check_network(network, fail)
  if type(network) ~= "table" or (network.type ~= "sequential" and network.type ~= "graph") then
    fail("network is " .. where.describe(network) .. "; expected pg.sequential { ... } or pg.graph { ... }", "network")
  end
end

-- Networks and data of the phases. Whether the last one has a network, which is then the job's.
local function check_phases(phases, fail)
  if type(phases) ~= "table" then return false end
  for index, phase in ipairs(phases) do
    local function fail_in(text) fail(("phases[%d]: %s"):format(index, text), "phases") end
    if type(phase) == "table" then
      check_parts(phase.data, fail_in)
      if phase.network ~= nil then check_network(phase.network, fail_in) end
    end
  end
  local last = phases[#phases]
  return type(last) == "table" and last.network ~= nil
end

---A job: what is trained, on what data, how, and for how long. A script returns it.
---@param description perigee.Experiment
---@return table
return function(description)
  local function fail(text, key) where.fail(text, where.position_of_result("experiment", key)) end
  if type(description) ~= "table" then fail("pg.experiment takes a table; got " .. where.describe(description)) end
  check_parts(description.data, function(text) fail(text, "data") end)
  local job = stored(description)
  job.perigee = job.perigee or 1
  check_keys("", job, fail)
  local network_in_phases = check_phases(job.phases, fail)
  for _, key in ipairs { "network", "data" } do
    if job[key] == nil and not (key == "network" and network_in_phases) then
      fail(("an experiment needs '%s'; %s"):format(key, needed[key]))
    end
  end
  if job.network ~= nil then check_network(job.network, fail) end
  if type(job.data) ~= "table" or (job.data.train == nil and job.data.test == nil) then
    local source = type(job.data) == "userdata" and ": data = { train = source, batch = 32 }" or ""
    fail("data is " .. where.describe(job.data) .. "; expected { train = ..., test = ..., batch = ... }" .. source, "data")
  end
  job["@"], job["@places"] = where.position_of_result "experiment", {}
  for key in pairs(description) do job["@places"][key] = where.position_of_result("experiment", key) end
  return job
end
