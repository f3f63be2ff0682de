-- pg.experiment: the job's top level, checked at the script's line.
local native = require "perigee.native"
local where = require "perigee.where"
local layers = require "perigee.layers"
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
    elseif type(source) == "table" and rawget(source, "type") == nil and (rawget(source, "train") or rawget(source, "test")) then
      fail(("data.%s is a table of parts; take one of them: %s = pg.data.digits {}.%s"):format(part, part, part))
    end
  end
end

local needed = {
  network = "write network = pg.sequential { pg.dense { 10 } }",
  data = 'write data = { train = pg.data.csv { "table.csv" } }',
}

local function check_keys(section, given, fail)
  for key, value in pairs(given) do
    if type(key) ~= "string" then fail("a job's keys have names; got " .. where.describe(key) .. " as a key") end
    local described = section == "" and (key == "network" or key == "data") -- what is wrong with these is said below
    local wrong = native.check_job_key(section, key, described and {} or value)
    if wrong then fail((section ~= "" and section .. ": " or "") .. wrong, key) end
    if section == "" and type(value) == "table" and getmetatable(value) == nil then
      if #native.job_keys(key) > 0 then check_keys(key, value, fail) end
    end
  end
end

-- A function as the loss, or as that of an output, becomes the data that a job stores.
local function with_functions(loss)
  if type(loss) == "function" then return trace.loss(loss) end
  if type(loss) ~= "table" or loss.type then return loss end
  local losses = {}
  for output, each in pairs(loss) do
    local copy = each
    if type(each) == "function" then copy = trace.loss(each)
    elseif type(each) == "table" and type(each[1]) == "function" then -- { function, target = "z", weight = 2 }
      copy = trace.loss(each[1], each)
      copy.target, copy.weight = each.target, each.weight
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

---A job: what is trained, on what data, how, and for how long. A script returns it.
---@param description perigee.Experiment
---@return table
return function(description)
  local function fail(text, key) where.fail(text, where.position_of_result("experiment", key)) end
  if type(description) ~= "table" then fail("pg.experiment takes a table; got " .. where.describe(description)) end
  local job = { perigee = 1 }
  for key, value in pairs(description) do job[key] = value end
  check_parts(job.data, function(text) fail(text, "data") end)
  if job.loss ~= nil then job.loss = with_functions(job.loss) end
  if job.metrics ~= nil then job.metrics = figures(job.metrics) end
  check_keys("", job, fail)
  for _, key in ipairs { "network", "data" } do
    if job[key] == nil then fail(("an experiment needs '%s'; %s"):format(key, needed[key])) end
  end
  local network = job.network
  if layers.is_layer(network) then
    job.network = layers.sequential { network }
  elseif type(network) ~= "table" or (network.type ~= "sequential" and network.type ~= "graph") then
    fail("network is " .. where.describe(network) .. "; expected pg.sequential { ... } or pg.graph { ... }", "network")
  end
  if type(job.data) ~= "table" or (job.data.train == nil and job.data.test == nil) then
    fail("data is " .. where.describe(job.data) .. "; expected { train = ..., test = ..., batch = ... }", "data")
  end
  job["@"], job["@places"] = where.position_of_result "experiment", {}
  for key in pairs(description) do job["@places"][key] = where.position_of_result("experiment", key) end
  return job
end
