-- pg.experiment: the job's top level, checked at the script's line.
local native = require "perigee.native"
local where = require "perigee.where"
local layers = require "perigee.layers"

-- Names, types and ranges of the keys of the top level (section "") or of a section such as "data".
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

---A job: what is trained, on what data, how, and for how long. A script returns it.
---@param description perigee.Experiment
---@return table
return function(description)
  local function fail(text, key) where.fail(text, where.position_of_result("experiment", key)) end
  if type(description) ~= "table" then fail("pg.experiment takes a table; got " .. where.describe(description)) end
  local job = { perigee = 1 }
  check_keys("", description, fail)
  for key, value in pairs(description) do job[key] = value end
  for _, key in ipairs { "network", "data" } do
    if job[key] == nil then fail(("an experiment needs '%s'"):format(key)) end
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
