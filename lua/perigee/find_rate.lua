-- pg.find_rate: the learning rate at which the loss falls fastest (Smith, "Cyclical learning rates", 2017): a short run whose rate grows from
-- step to step, and the chart of what became of the loss.
local native = require "perigee.native"
local plot = require "perigee.plot"
local rules = require "perigee.rules"
local run = require "perigee.run"
local show = require "perigee.show"
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local known = { "from", "to", "steps", "threads" }
local kKept = 0.95 -- of the mean loss, from step to step
local kSkipped = 0.1 -- of the steps: the first means are of few losses

local function check(options)
  for key in pairs(options) do
    local is_known = false
    for _, name in ipairs(known) do is_known = is_known or name == key end
    local nearest = is_known or where.suggestion(tostring(key), { unpack(known) })
    if not is_known then where.fail(("pg.find_rate has no option '%s'%s"):format(tostring(key), nearest)) end
  end
  local from, to, steps = options.from or 1e-6, options.to or 1, options.steps or 100
  if type(from) ~= "number" or type(to) ~= "number" or not (from > 0 and from < to and to < math.huge) then
    where.fail(("pg.find_rate goes from a small rate above 0 to a larger one; got from = %s, to = %s"):format(tostring(from), tostring(to)))
  end
  if type(steps) ~= "number" or not (steps >= 10 and steps <= 10000) or steps % 1 ~= 0 then
    where.fail("pg.find_rate makes 10 to 10000 steps; got steps = " .. tostring(steps))
  end
  return from, to, steps
end

-- The job without its judges, with a rate that grows by the same factor in each step.
local function rising(job, from, to, steps)
  local copy, data, optimizer = {}, {}, {}
  for key, value in pairs(job) do copy[key] = value end
  for key, value in pairs(type(job.phases) == "table" and job.phases[1] or {}) do copy[key] = value end -- the rate of the first phase
  copy.phases = nil
  for key, value in pairs(job.data) do data[key] = value end
  data.test, data.validation = nil, nil
  copy.data, copy.steps, copy.epochs = data, steps, nil
  for _, key in ipairs { "early_stopping", "reduce_on_plateau", "checkpoint", "ema", "swa" } do copy[key] = nil end
  for key, value in pairs(type(job.optimizer) == "table" and job.optimizer or { type = job.optimizer }) do optimizer[key] = value end
  optimizer.lr, optimizer.bias_lr = rules.schedules.exponential { from = from, gamma = (to / from) ^ (1 / (steps - 1)), by = "step" }, nil
  copy.optimizer = optimizer
  return copy
end

-- Takes the losses of the steps until they explode: the mean that forgets old ones, as if it had begun in full, has grown to four times the
-- least, or by three times what it had fallen.
local function taking(found)
  local mean, least = 0, math.huge
  return function(rate, loss)
    local step = #found.losses + 1
    found.rates[step], found.losses[step] = rate, loss
    mean = kKept * mean + (1 - kKept) * loss
    local smooth = mean / (1 - kKept ^ step)
    found.smoothed[step] = smooth
    least = math.min(least, smooth)
    return smooth > least + 3 * math.max(math.abs(least), found.smoothed[1] - least)
  end
end

-- The rate where the smoothed loss falls the most, before it is smallest. Rates grow by a factor: this is the slope over their logarithm.
local function steepest(found, steps)
  local smooth, least, best, slope = found.smoothed, 1, nil, 0
  for step, loss in ipairs(smooth) do
    if loss < smooth[least] then least = step end
  end
  for step = math.floor(kSkipped * steps) + 1, least do
    local before, after = math.max(step - 1, 1), math.min(step + 1, #smooth)
    local rise = (smooth[after] - smooth[before]) / (after - before)
    if rise < slope then best, slope = step, rise end
  end
  return best and found.rates[best]
end

-- Until it is over, or the losses explode. The run is stopped in any case, also by Ctrl-C.
local function follow(trial, take)
  local over = false
  trial:on("step", function(event)
    if over then return end
    over = take(event.learning_rate, event.loss)
    if over then trial:stop() end
  end)
  local fine, message = pcall(trial.wait, trial)
  if fine then return end
  trial:stop()
  error(message, 0)
end

---@class perigee.FoundRate
---@field rates number[]      of the steps
---@field losses number[]     of the steps' batches
---@field smoothed number[]   means of the losses that forget the older ones
---@field suggestion? number  the rate at which the loss falls fastest; nil when it never falls
local methods = {}

---The smoothed loss over the logarithm of the rate: in the terminal, or as a file: found:plot { file = "rate.svg" }, or .png.
---@param options? { file?: string, width?: integer, height?: integer, log?: boolean }
---@return table
function methods:plot(options)
  options = options or {}
  local points, log = {}, options.log == true
  for step, rate in ipairs(self.rates) do points[step] = { math.log10(rate), self.smoothed[step] } end
  local title = "loss by log10 of the rate" .. (self.suggestion and ("; it falls fastest at %.3g"):format(self.suggestion) or "")
  if options.file then
    tensor.done(native.run.write_chart(options.file, title, title, points, log, ""))
    return options.file
  end
  local layout = { width = options.width, height = options.height, log = log, x_label = "log10(rate)" }
  return show.text(plot.text(title, points, layout), function(kind)
    return tensor.done(native.run.chart_graphics(kind, title, title, points, log, ""))
  end)
end

local FoundRate = { __index = methods, __fields = methods }
function FoundRate.__tostring(self) return tostring(self:plot()) end

local find_rate = {}

---Trains a copy of an experiment for some steps, each with a larger rate than the one before, and says where the loss falls fastest: a rate to
---begin with. It ends early when the loss explodes. The result has rates, losses, smoothed and suggestion, and result:plot() is a chart.
---@param experiment table
---@param options? { from?: number, to?: number, steps?: integer, threads?: integer }  1e-6, 1, 100
---@return perigee.FoundRate
function find_rate.find_rate(experiment, options)
  if type(experiment) ~= "table" or type(experiment.data) ~= "table" then
    where.fail("pg.find_rate takes an experiment; got " .. where.describe(experiment))
  end
  options = options or {}
  local from, to, steps = check(options)
  local found = { rates = {}, losses = {}, smoothed = {} }
  local trial = run.start(rising(experiment, from, to, steps), { folder = false, threads = options.threads, events_every = 1 })
  follow(trial, taking(found))
  local problem = trial.state == "failed" and tostring(trial.progress.error) or nil
  if problem and (#found.losses == 0 or not problem:find("not finite", 1, true)) then error(problem, 0) end
  found.suggestion = steepest(found, steps)
  return setmetatable(found, FoundRate)
end

-- The noise of gradients: how large batches are worth their price.

-- The tensors of a gradient, in a fixed order.
local function leaves(value, list)
  if tensor.is(value) then
    list[#list + 1] = value
  elseif type(value) == "table" then
    local keys = {}
    for key in pairs(value) do keys[#keys + 1] = key end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for _, key in ipairs(keys) do leaves(value[key], list) end
  else
    where.fail(("the gradient has %s; expected tensors"):format(where.describe(value)))
  end
  return list
end

local function square(list)
  local sum = 0
  for _, each in ipairs(list) do sum = sum + (each * each):sum():item() end
  return sum
end

---@class perigee.NoiseScale
---@field scale number      examples of a batch whose noise is as large as the gradient: the trace of the covariance over the squared norm
---@field gradient number   squared norm of the mean gradient, without bias
---@field noise number      trace of the covariance of one example's gradient, without bias
---@field batches integer   that were looked at

---The gradient noise scale of McCandlish et al. (2018), "An empirical model of large-batch training": with batches much smaller than it, twice the
---batch is nearly twice the progress of a step; with much larger ones, it changes little. `gradient` is a function that gives the gradient of the
---mean loss of a batch, a tensor or a table of tensors, as pg.grad makes one; `batches` gives so many batches, each of `size` examples:
---pg.noise_scale(function(batch) return gradient_of(parameters, batch) end, source:batches(32), 32). Two batches at least.
---@param gradient fun(batch: table): perigee.Tensor|table
---@param batches fun(): table?
---@param size integer
---@param options? { most?: integer } batches to look at, 100
---@return perigee.NoiseScale
function find_rate.noise_scale(gradient, batches, size, options)
  if type(gradient) ~= "function" or type(batches) ~= "function" then
    where.fail "pg.noise_scale takes a function of a batch and what gives batches, as source:batches(32)"
  end
  if type(size) ~= "number" or size < 1 or size % 1 ~= 0 then
    where.fail("pg.noise_scale takes the size of the batches; got " .. where.describe(size))
  end
  local most = options and options.most or 100
  local sum, squares, count = nil, 0, 0
  for batch in batches do
    if count == most then break end
    local list = leaves(gradient(batch), {})
    squares = squares + square(list)
    count = count + 1
    for index, each in ipairs(list) do list[index] = sum and sum[index] + each or each end
    sum = list
  end
  if count < 2 then where.fail(("pg.noise_scale needs two batches or more; there was %d"):format(count)) end
  local of_mean, mean_of = square(sum) / count ^ 2, squares / count
  local noise = size * (mean_of - of_mean) / (1 - 1 / count)
  local signal = (count * of_mean - mean_of) / (count - 1)
  return { scale = signal > 0 and noise / signal or math.huge, gradient = signal, noise = noise, batches = count }
end

return find_rate
