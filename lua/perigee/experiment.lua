-- pg.experiment: the job's top level, checked at the script's line.
local where = require "perigee.where"
local layers = require "perigee.layers"

local keys = {
  "name", "network", "inputs", "target", "loss", "optimizer", "regularization", "constraint", "clip", "data", "epochs", "steps", "seed",
  "threads", "device", "devices", "deterministic", "precision", "loss_scale", "recompute", "memory_limit", "averaging",
  "log", "checkpoint", "early_stopping", "metrics", "pretrained",
}

local accepted = {}
for _, key in ipairs(keys) do accepted[key] = true end

---@class perigee.Experiment
---@field name? string                 names the run folder
---@field network table                pg.sequential or pg.graph
---@field loss string|table            "cross_entropy", pg.loss.huber { delta = 1 }, or one per output of a graph
---@field optimizer string|table       pg.adamw { lr = 1e-3 }
---@field data table                   { train =, test =, validation =, batch =, shuffle =, threads =, at =, verify =, shards = }
---@field epochs? integer
---@field steps? integer
---@field seed? integer
---@field precision? string            "float32", "float64" (slow); for GPUs "tf32": rounded products; "bf16", "fp16": 16 bits
---@field loss_scale? number|string    of "fp16": "dynamic" (the default), or a number that stays
---@field recompute? string|string[]  "none", "auto", "all", or names of layers: activations that backward computes again instead of keeping
---@field memory_limit? string|integer what a run may take: "8GiB"; recompute = "auto" goes by it
---@field averaging? table             pg.averaging.periodic { every = 5 }; a single worker ignores it

---@param description perigee.Experiment
---@return table
return function(description)
  local function fail(text, key) where.fail(text, where.position_of_result("experiment", key)) end
  if type(description) ~= "table" then fail("pg.experiment takes a table; got " .. where.describe(description)) end
  local job = { perigee = 1 }
  for key, value in pairs(description) do
    if not accepted[key] then
      fail(("an experiment has no key '%s'%s"):format(tostring(key), where.suggestion(key, { unpack(keys) })), tostring(key))
    end
    job[key] = value
  end
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
  job["@"] = where.position_of_result "experiment"
  return job
end
