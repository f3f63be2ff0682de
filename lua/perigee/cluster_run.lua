-- What perigee.run asks of a run on several workers, hosted by this process (pg.start with workers) or somebody else's (pg.attach):
-- the same calls as of a run of one process, made of the coordinator's reports and of commands to it.
local native = require "perigee.native"
local where = require "perigee.where"

local asked = native.cluster_run
local cluster_run = {}

local calls = {}
cluster_run.calls = calls
calls.events = asked.events

local function number(value) return type(value) == "number" and value or nil end

-- A list of workers, those that take part first, by rank.
local function workers_of(report)
  local list = {}
  for _, worker in ipairs(report.workers or {}) do list[#list + 1] = worker end
  table.sort(list, function(a, b)
    local x, y = a.rank or math.huge, b.rank or math.huge
    if x ~= y then return x < y end
    return a.id < b.id
  end)
  for place, worker in ipairs(list) do worker.rank = place end
  return list
end

function calls.progress(handle)
  local report, message = asked.report(handle)
  if not report then return nil, message end
  local last, about = report.last or {}, report.run or {}
  local speed, training = 0, 0
  for _, worker in ipairs(report.workers or {}) do
    speed = speed + worker.examples_per_s
    if worker.state == "training" and not worker.server then training = training + 1 end
  end
  local examples, planned = report.examples_done or 0, report.planned or 0
  return {
    state = report.state,
    error = report.error,
    folder = about.folder,
    workers = training,
    step = (report.round or -1) + 1,
    epoch = report.epoch_examples and math.floor(examples / report.epoch_examples) or 0,
    examples = examples,
    planned = planned > 0 and planned or nil,
    progress = planned > 0 and math.min(1, examples / planned) or nil,
    loss = number(last.loss),
    accuracy = number(last.accuracy),
    learning_rate = number(last.learning_rate),
    examples_per_s = speed,
  }
end

function calls.pause(handle) return asked.steer(handle, { pause = true }) end
function calls.resume(handle) return asked.steer(handle, { pause = false }) end
function calls.stop(handle) return asked.steer(handle, { stop = true }) end
function calls.set_learning_rate(handle, rate) return asked.steer(handle, { lr = rate }) end

function calls.checkpoint(handle)
  local fine, message = asked.steer(handle, { checkpoint = true })
  if not fine then return nil, message end
  local report = asked.report(handle)
  return ((report and report.run or {}).folder or "the run's folder") .. "/checkpoints"
end

-- The parameters are in the workers; a coordinator never holds any.
local kNeedParameters =
  { evaluate = "run:eval", save = "run:save", predict = "run:predict", names = "run.network", parameter = "run.network" }
for name, what in pairs(kNeedParameters) do
  calls[name] = function()
    return nil,
      what .. " needs the parameters, which are in the workers: run:checkpoint() writes them, pg.start(...) without workers has them here"
  end
end

-- Workers --------------------------------------------------------------------------------------------------------------------

local Workers = {}

function Workers.__tostring(list)
  local rows = { { "", "worker", "host", "examples/s", "share", "state" } }
  for place, worker in ipairs(list) do
    local waits = worker.waits_for ~= "" and ", waits for " .. worker.waits_for or ""
    local speed, share = ("%.0f"):format(worker.examples_per_s), ("%.0f %%"):format(100 * worker.share)
    local state = worker.state .. (worker.server and ", server" or "") .. waits
    rows[#rows + 1] = { tostring(place), worker.name, worker.host, speed, share, state }
  end
  local widths, lines = {}, {}
  for _, row in ipairs(rows) do
    for column, text in ipairs(row) do widths[column] = math.max(widths[column] or 0, #text) end
  end
  for _, row in ipairs(rows) do
    local cells = {}
    for column, text in ipairs(row) do
      local pad = (" "):rep(widths[column] - #text)
      cells[column] = (column == 1 or column == 4 or column == 5) and pad .. text or text .. pad
    end
    lines[#lines + 1] = table.concat(cells, "  "):gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

local function reported(state)
  local report, message = asked.report(state.handle)
  if not report then where.fail(message) end
  if report.error and not report.workers then where.fail(report.error) end
  return report
end

---The workers as they are now: rank, name, host, share, examples_per_s, state, step, round_trip_ms, ...
function cluster_run.workers(state)
  state.shown = setmetatable(workers_of(reported(state)), Workers)
  return state.shown
end

---Sends a worker away: its number in run.workers as they were shown last, its name, or the worker itself.
function cluster_run.kick(state, which)
  local list = type(which) == "number" and state.shown or cluster_run.workers(state)
  local worker = type(which) == "table" and which or type(which) == "number" and list[which] or nil
  local names = {}
  for _, each in ipairs(list) do
    names[#names + 1] = each.name
    if each.name == which then worker = each end
  end
  if not worker or type(worker.id) ~= "number" then
    where.fail(("there is no worker %s; there are 1 to %d: %s"):format(where.describe(which), #names, table.concat(names, ", ")))
  end
  local fine, message = asked.steer(state.handle, { kick = worker.id })
  if not fine then where.fail(message) end
end

-- The averaging policy -------------------------------------------------------------------------------------------------------

local function text_of(value)
  if type(value) ~= "table" then return tostring(value) end
  return "{...}"
end

---The policy's point: what the job says, with every option. `every` can be set.
function cluster_run.averaging(state)
  local point = reported(state).point or {}
  return setmetatable({}, {
    __fields = point,
    __index = point,
    __newindex = function(_, key, value)
      if key ~= "every" then where.fail(("'%s' of a run's averaging cannot be set; what can be: every"):format(tostring(key))) end
      if type(value) ~= "number" then where.fail("every takes a number of steps; got " .. where.describe(value)) end
      local fine, message = asked.steer(state.handle, { every = value })
      if not fine then where.fail(message) end
    end,
    __tostring = function()
      local keys, parts = {}, {}
      for key in pairs(point) do
        if key ~= "type" then keys[#keys + 1] = key end
      end
      table.sort(keys)
      for _, key in ipairs(keys) do parts[#parts + 1] = key .. " = " .. text_of(point[key]) end
      return ("%s { %s }"):format(tostring(point.type), table.concat(parts, ", "))
    end,
  })
end

cluster_run.events = {
  "workers", "worker_joined", "worker_left", "worker_lost", "worker_stuck", "worker_failed", "worker_kicked", "link_lost", "waiting", "paused",
  "resumed", "every", "learning_rate",
}

return cluster_run
