-- pg.start and pg.attach: a training run beside the script or prompt that watches it, on a thread of this process, in worker processes or
-- elsewhere. The C++ side has one interface for all of them (src/run/run.h); this side keeps what was told, and asks.
local native = require "perigee.native"
local where = require "perigee.where"
local tensor = require "perigee.tensor"
local plot = require "perigee.plot"
local run_options = require "perigee.run_options"
local run_text = require "perigee.run_text"
local show = require "perigee.show"

local calls = native.run
local run = {}

local kMostPoints = 20000 -- of a curve; then every second one is left out
local kWorkerEvents = {
  "workers", "worker_joined", "worker_left", "worker_lost", "worker_stuck", "worker_failed", "worker_kicked", "link_lost", "waiting", "paused",
  "resumed", "every", "set",
}
local kNames = { lr = "learning_rate", speed = "examples_per_s" }

local alive = {} -- run to true, until it is over: there may be no other reference
local state_of = setmetatable({}, { __mode = "k" }) -- run to { handle, curves, handlers, script }

-- An error of the C++ side is told at the user's line.
local function done(value, message)
  if value == nil then where.fail(message) end
  return value
end

local function call(self, name, ...)
  local state = state_of[self]
  return done(calls[name](state.handle, ...))
end

-- Curves ---------------------------------------------------------------------------------------------------------------------

local function add_point(state, name, x, y)
  local curve = state.curves[name]
  if y == native.null and curve then y = 0 / 0 end -- JSON has no NaN: a gap in the curve
  if type(x) ~= "number" or type(y) ~= "number" then return end
  if not curve then
    curve = { every = 1, seen = 0 }
    state.curves[name] = curve
  end
  curve.seen = curve.seen + 1
  if curve.seen % curve.every ~= 0 then return end
  curve[#curve + 1] = { x, y }
  if #curve < kMostPoints then return end
  curve.every = curve.every * 2
  local kept = 0
  for index = 2, #curve, 2 do
    kept = kept + 1
    curve[kept] = curve[index]
  end
  for index = #curve, kept + 1, -1 do curve[index] = nil end
end

local function add_event(state, event)
  if event.event ~= "step" and event.event ~= "epoch" then return end
  for name, value in pairs(event) do
    if type(value) == "table" then
      for figure, number in pairs(value) do add_point(state, name .. "." .. figure, event.step, number) end
    elseif event.event == "step" and name ~= "step" then
      add_point(state, name, event.step, value)
    end
  end
end

-- Events ---------------------------------------------------------------------------------------------------------------------

local due = {} -- calls of run:on functions: { function, event, run }

local function take_events(self, wait_ms)
  local state = state_of[self]
  for _, event in ipairs(done(calls.events(state.handle, wait_ms or 0))) do
    add_event(state, event)
    if event.event == "over" then alive[self] = nil end
    for _, handler in ipairs(state.handlers[event.event] or {}) do due[#due + 1] = { handler, event, self } end
  end
end

---Takes what the runs have told since the last time: curves grow. True: run:on functions are to be called, by run.answer().
function run.deliver()
  local all = {}
  for each in pairs(alive) do all[#all + 1] = each end
  for _, each in ipairs(all) do take_events(each) end
  return #due > 0
end

---Calls the run:on functions that are due. One that fails stops none of the others.
function run.answer()
  local calling = due
  due = {}
  for _, each in ipairs(calling) do
    local handler, event, self = unpack(each)
    local fine, message = pcall(handler, event, self)
    if not fine then io.stderr:write(("run:on(%q): %s\n"):format(event.event, tostring(message))) end
  end
end

-- Parameters -----------------------------------------------------------------------------------------------------------------

-- run.network.conv1.weight: a name is followed as far as it goes.
local Parameters = {}
local prefix_of = setmetatable({}, { __mode = "k" })

local function parameters(self, prefix)
  local node = setmetatable({}, Parameters)
  prefix_of[node] = { run = self, prefix = prefix }
  return node
end

local function parameter_names(self) return call(self, "names") end

function Parameters.__index(node, key)
  local at = prefix_of[node]
  local name = at.prefix .. tostring(key)
  local known = {}
  for _, each in ipairs(parameter_names(at.run)) do
    if each == name then
      local out = tensor.type()
      call(at.run, "parameter", name, out)
      return out
    end
    if each:sub(1, #name + 1) == name .. "." then return parameters(at.run, name .. ".") end
    known[#known + 1] = each:sub(1, #at.prefix) == at.prefix and each:sub(#at.prefix + 1):match "^[^.]*" or nil
  end
  where.fail(("the network has no '%s'%s"):format(name, where.suggestion(key, known)))
end

function Parameters.__tostring(node)
  local at, lines = prefix_of[node], {}
  for _, name in ipairs(parameter_names(at.run)) do
    if name:sub(1, #at.prefix) == at.prefix then lines[#lines + 1] = name end
  end
  return table.concat(lines, "\n")
end
function Parameters.__newindex() where.fail "a run's parameters are copies; they cannot be set" end

-- A run ----------------------------------------------------------------------------------------------------------------------

---@class perigee.Run
---@field progress table   state, step, epoch, examples, loss, accuracy, learning_rate, examples_per_s, seconds, progress, folder, error
---@field state string     "opening", "training", "paused", "finished", "stopped" or "failed"
---@field lr number        the learning rate of the last step; set it to a number or a schedule
---@field epochs integer   how often all examples are seen; steps: how many steps at most; batch: examples of a step. Each can be set
---@field optimizer table  its numbers as they are; each can be set: run.optimizer.momentum = 0.8. So can those of clip, regularization,
---early_stopping, checkpoint and data
---@field network table    run.network.conv1.weight: a copy, as it is between two steps
---@field workers table    of several workers: a list of rank, name, host, share, examples_per_s, state, ...
---@field averaging table  of several workers: the policy's options as they are; set every: run.averaging.every = 20
---@field curves table     what can be plotted: name to { {step, value}, ... }
local Run, methods, fields = {}, {}, {}

---Goes on after the step that is being made only when run:resume() says so.
function methods:pause() call(self, "steer", "pause", true) end
function methods:resume() call(self, "steer", "pause", false) end

---Ends as after Ctrl-C: with a checkpoint, from which pg.start(script, { resume = run.progress.folder }) goes on.
function methods:stop() call(self, "steer", "stop", true) end

---Waits until the run is over, or so many seconds; calls run:on functions meanwhile.
---@param seconds? number
---@return table progress
function methods:wait(seconds)
  local stop = native.milliseconds() + (seconds or math.huge) * 1000
  local function over()
    local state = self.state
    return (state == "finished" or state == "stopped" or state == "failed" or state == "lost") and not alive[self]
  end
  while not over() do
    local left = stop - native.milliseconds()
    if left <= 0 then break end
    take_events(self, math.min(left, 200))
    run.answer()
    if native.interrupted() then where.fail "interrupted" end
  end
  return self.progress
end

---Figures on a part of the data: "test", "validation" or "train".
---@param part? string
---@return table<string, number>
function methods:eval(part) return call(self, "evaluate", part or "test") end

-- A table of columns by name, a list of such tables, or the name of a file.
local function are_records(x)
  if type(x) == "string" then return true end
  if type(x) ~= "table" or tensor.is(x) then return false end
  local first = x[1]
  if first == nil then return next(x) ~= nil end
  return type(first) == "table" and not tensor.is(first) and first[1] == nil and next(first) ~= nil
end

---The model's answer as it is now. A tensor, one example or a batch, is raw: nothing of the job's preprocessing is applied, and the network's
---main output comes back. Records go through it: { size = 120, city = "Rome" } gives one result, a list of such or the name of a file
---(CSV, JSON Lines, an image, a text) a list. A result has label, class and probabilities of a classifier, labels and text of a network
---that was trained with ctc (numbers as the data have them; options.beams: searched with so many prefixes at a time, and alternatives), else
---values; with several outputs outputs.NAME, and layers.NAME for those of options.layers.
---@param x perigee.Tensor|table|string
---@param options? { layers?: string[], beams?: integer }
---@return perigee.Tensor|table
function methods:predict(x, options)
  if are_records(x) then
    local results = call(self, "predict_records", x, options and options.layers, options and options.beams)
    if type(x) == "table" and x[1] == nil and #results == 1 then return results[1] end
    return results
  end
  if options and options.layers then where.fail "run:predict gives layers for records; a tensor is raw" end
  if options and options.beams then where.fail "run:predict searches label sequences for records; a tensor is raw" end
  if type(x) == "table" then x = tensor.from(x) end
  if not tensor.is(x) then where.fail("run:predict takes a tensor; got " .. where.describe(x)) end
  local out = tensor.type()
  call(self, "predict", x, out)
  return out
end

---The text that follows a prompt, by the model as it is now: run:generate { "ROMEO:", tokens = 200, temperature = 0.8, seed = 1 }. The run
---trains on meanwhile. stream = true prints the text as it is made; a function is called with each piece. The other options are those of
---`perigee generate`: top_k, top_p, min_p, typical_p, epsilon, eta, repetition_penalty, no_repeat, beams, length_penalty, stop.
---input = "a text": a model with an encoder reads it, and writes what becomes of it; a prompt is then how that begins.
---@param options string|table
---@return string? text
function methods:generate(options)
  return require("perigee.generate").text(function(given) return calls.generate(state_of[self].handle, given) end, options)
end

---Writes a checkpoint now; with several workers soon.
---@return string file of several workers: the folder
function methods:checkpoint() return call(self, "steer", "checkpoint", true).file end

---Saves the model as it is now.
---@param path string
function methods:save(path)
  if type(path) ~= "string" then where.fail "run:save takes the name of a file" end
  call(self, "save", path)
end

---Calls `f(event, run)` after each "step" report (every 100 steps and every second), each "epoch", at the "end", when it is "over".
---@param event string
---@param f function
function methods:on(event, f)
  local known = { "start", "step", "epoch", "end", "error", "set", "paused", "resumed", "over" }
  if call(self, "has_workers") then
    for _, name in ipairs(kWorkerEvents) do known[#known + 1] = name end
    if event == "round" then event = "step" end -- rounds are a cluster's steps
  end
  local good = false
  for _, name in ipairs(known) do good = good or name == event end
  if not good then where.fail(("there is no event %s%s"):format(where.describe(event), where.suggestion(event, known))) end
  if type(f) ~= "function" then where.fail("run:on takes a function; got " .. where.describe(f)) end
  local handlers = state_of[self].handlers
  handlers[event] = handlers[event] or {}
  table.insert(handlers[event], f)
  return self
end

---A curve: "loss", "accuracy", "lr", "speed", "test.accuracy", ... In the terminal, or as a file: run:plot("loss", { file = "loss.svg" }), or .png.
---Values that are no numbers or infinite are gaps; log = true: powers of ten, and values that are not positive are gaps.
---@param name? string
---@param options? { file?: string, width?: integer, height?: integer, log?: boolean }
function methods:plot(name, options)
  take_events(self)
  name, options = name or "loss", options or {}
  local state = state_of[self]
  local curve = state.curves[kNames[name] or name]
  if not curve then
    local known = {}
    for each in pairs(state.curves) do known[#known + 1] = each end
    if #known == 0 then return show.text "nothing was told yet" end
    where.fail(("there is no curve '%s'%s"):format(tostring(name), where.suggestion(name, known)))
  end
  if options.file then
    done(calls.write_chart(options.file, tostring(state.script), name, curve, options.log == true))
    return options.file
  end
  local layout = { width = options.width, height = options.height, log = options.log, x_label = "step" }
  local title = tostring(state.script)
  return show.text(plot.text(name, curve, layout), function(kind)
    return done(calls.chart_graphics(kind, title, name, curve, options.log == true))
  end)
end

function fields.progress(self)
  return run_text.progress(call(self, "progress"))
end
function fields.state(self) return call(self, "progress").state end
function fields.lr(self) return call(self, "progress").learning_rate end
function fields.network(self)
  if call(self, "has_workers") then call(self, "names") end -- says why not
  return parameters(self, "")
end

-- Several workers ------------------------------------------------------------------------------------------------------------

-- Those that take part first, by rank.
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

local function show_workers(self, what)
  local state = state_of[self]
  state.shown = run_text.workers(workers_of(call(self, "workers_report", what)))
  return state.shown
end

---The workers as they are now: rank, name, host, share, examples_per_s, state, step, round_trip_ms, ...
function fields.workers(self) return show_workers(self, "run.workers") end

---The policy's point: what the job says, with every option. `every` can be set.
function fields.averaging(self)
  local point = call(self, "workers_report", "run.averaging").point or {}
  return setmetatable({}, {
    __fields = point,
    __index = point,
    __newindex = function(_, key, value)
      if key ~= "every" then where.fail(("'%s' of a run's averaging cannot be set; what can be: every"):format(tostring(key))) end
      if type(value) ~= "number" then where.fail("every takes a number of steps; got " .. where.describe(value)) end
      call(self, "steer", "every", value)
    end,
    __tostring = function() return run_text.averaging(point) end,
  })
end

---Sends a worker away, as one that was lost: its launcher starts another one. Its number in run.workers as they were shown last, its name,
---or the worker itself.
---@param worker integer|string|table
function methods:kick(worker)
  local shown = state_of[self].shown
  local list = type(worker) == "number" and shown or show_workers(self, "run:kick")
  local found = type(worker) == "table" and worker or type(worker) == "number" and list[worker] or nil
  local names = {}
  for _, each in ipairs(list) do
    names[#names + 1] = each.name
    if each.name == worker then found = each end
  end
  if not found or type(found.id) ~= "number" then
    local there = #names == 0 and "none has joined yet" or ("there are 1 to %d: %s"):format(#names, table.concat(names, ", "))
    where.fail(("there is no worker %s; %s"):format(where.describe(worker), there))
  end
  call(self, "steer", "kick", found.id)
end

function fields.curves(self)
  take_events(self)
  return state_of[self].curves
end

local function known_names()
  local names = { "optimizer", "clip", "regularization", "early_stopping", "data", "epochs", "steps", "batch" }
  for _, family in ipairs { methods, fields } do
    for name in pairs(family) do names[#names + 1] = name end
  end
  return names
end

-- Options of the job that can be set: sections, and keys of the top level.
local kSections = { "optimizer", "clip", "regularization", "early_stopping", "checkpoint", "data" }
local kTop = { epochs = "epochs", steps = "steps", batch = "data.batch" }

local function options_of(self) return call(self, "options") end
local function set_option(self, option, value)
  if value == nil then value = native.null end
  call(self, "steer", "set", { option = option, value = value })
end

local function section_of(self, name)
  return run_options.node(name, function() return options_of(self) end, function(option, value) set_option(self, option, value) end,
    methods[name])
end

local is_section = {}
for _, name in ipairs(kSections) do is_section[name] = true end

where.methods("run", methods, function(value) return state_of[value] ~= nil end)

-- Names that a run is asked for and does not have, and what there is instead.
local run_instead = {
  loss = 'run.progress shows it, run:plot "loss" draws it, run.curves.loss has its points',
  terms = "no layer's term of the loss has a schedule as its factor",
  accuracy = 'run.progress shows it, run:plot "accuracy" draws it',
  history = "run.curves has it",
  train = "it trains already: run:wait() waits for its end",
  start = "it trains already: run:wait() waits for its end",
  fit = "it trains already: run:wait() waits for its end",
  model = 'run:save "model.safetensors" and pg.load_model "model.safetensors" give it; run.network has its parameters',
}

-- Weights in the loss can be set where the job has them as schedules.
local function has_terms(self, section)
  local _, options = pcall(options_of, self) -- of a run that is over: a text
  for name in pairs(type(options) == "table" and options or {}) do
    if name:sub(1, #section + 1) == section .. "." then return true end
  end
  return false
end

local is_terms = { loss = true, terms = true }

function Run.__index(self, key)
  if is_section[key] or is_terms[key] and has_terms(self, key) then return section_of(self, key) end
  if kTop[key] then
    local option = options_of(self)[kTop[key]]
    return option and option.value
  end
  if fields[key] then return fields[key](self) end
  if methods[key] then return methods[key] end
  local instead = run_instead[key]
  where.fail(("a run has no '%s'%s"):format(tostring(key), instead and "; " .. instead or where.suggestion(key, known_names())))
end

function Run.__newindex(self, key, value)
  if key == "every" then where.fail "'every' of a run cannot be set; what can be: run.averaging.every" end
  if fields[key] and key ~= "lr" or methods[key] then where.fail(("'%s' of a run cannot be set"):format(tostring(key))) end
  set_option(self, tostring(key), value)
end

function Run.__tostring(self) return ("run of %s: %s"):format(state_of[self].script, tostring(self.progress)) end
Run.__fields = {} -- for completion
for _, name in ipairs(known_names()) do Run.__fields[name] = methods[name] or true end

---For Tab and `?`: the sections of a run's options; nil for anything else.
---@param value any
---@return table?
function run.sections(value)
  if type(value) ~= "table" or not state_of[value] then return nil end
  local found = {}
  for name in pairs(is_section) do found[name] = section_of(value, name) end
  for name in pairs(is_terms) do found[name] = has_terms(value, name) and section_of(value, name) or nil end
  return found
end

local function new_run(handle, script)
  local self = setmetatable({}, Run)
  state_of[self] = { handle = handle, curves = {}, handlers = {}, script = script }
  alive[self] = true
  return self
end

---Trains in the background: pg.start "models/lenet.lua", pg.start(pg.experiment { ... }), pg.start("runs/lenet-1", { resume = "runs/lenet-1" }).
---The run goes on until it is over, held or not. options: set = { "epochs=2" } (of a file), threads, out (the run folder), folder = false (write
---nothing), resume. With workers = 4 it has so many processes on this machine; agents = { "host:port" }, listen = ":7700", secret = FILE and
---min_workers are those of `perigee train`, and run.workers, run.averaging and run:kick those of a cluster.
---@param what string|table
---@param options? table
---@return perigee.Run
function run.start(what, options)
  if type(what) ~= "string" and type(what) ~= "table" then
    where.fail("pg.start takes the name of a script or an experiment; got " .. where.describe(what))
  end
  if type(what) == "table" and (what.type == "sequential" or what.type == "graph") then
    where.fail "pg.start takes the name of a script or an experiment; got a network; write pg.start(pg.experiment { network = net, ... })"
  end
  local given = { script = type(what) == "string" and what or tostring(what.name or "an experiment") }
  for key, value in pairs(options or {}) do given[key] = value end
  return new_run(done(calls.start(what, given)), given.script)
end

---A run that another program trains: pg.attach "runs/lenet-1", by its folder, on this machine; pg.attach("host:7700", { secret = "cluster.key" }),
---by the coordinator of a cluster. It can be watched and steered, a cluster's with its secret. It goes on when this program ends. A folder may
---also be that of a run that is over: its curves are there.
---@param address string
---@param options? { secret?: string }
---@return perigee.Run
function run.attach(address, options)
  if type(address) ~= "string" then
    where.fail('pg.attach takes a run folder, or the address of a coordinator, "host:port"; got ' .. where.describe(address))
  end
  local given = {}
  for key, value in pairs(options or {}) do given[key] = value end
  local self = new_run(done(calls.attach(address, given)), address)
  take_events(self) -- a folder's log tells the past: it is no news
  return self
end

return run
