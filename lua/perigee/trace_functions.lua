-- Functions that a job stores as ops: layers with their trained tensors, losses, metrics, schedules.
local native = require "perigee.native"
local tensor = require "perigee.tensor"
local trace = require "perigee.trace"
local where = require "perigee.where"

---Runs `f` on traced values.
---@param f function
---@param what? string that it is told as in errors
---@return table { inputs =, program =, outputs = }
function trace.run(f, what)
  if type(f) ~= "function" then where.fail(("%s takes a function; got %s"):format(what or "pg.lambda", where.describe(f))) end
  local info = debug.getinfo(f, "u")
  if info.isvararg then where.fail("a traced function needs named parameters, not ...") end
  if info.nparams == 0 then where.fail("a traced function needs at least one parameter") end
  local inputs = native.list {}
  for index = 1, info.nparams do
    inputs[index] = debug.getlocal(f, index)
    -- Parameters named t1, t2 would meet the names of results.
    if inputs[index]:match "^t%d+$" then inputs[index] = "x_" .. inputs[index] end
  end
  local parameters = native.list {}
  local outputs, program = trace.recorded(inputs, function(values)
    trace.current().parameters = what == nil and parameters or nil
    local results, names = { f(unpack(values)) }, native.list {}
    if #results == 0 then where.fail("the traced function returns nothing") end
    for index, result in ipairs(results) do
      if not trace.is_traced(result) then
        where.fail(("the traced function returns %s; expected a value computed from its parameters"):format(where.describe(result)))
      end
      names[index] = trace.name_of(result)
    end
    return names
  end, nil, where.definition(f))
  return { inputs = inputs, program = program, outputs = outputs, parameters = #parameters > 0 and parameters or nil }
end

local roles = { weight = "xavier", bias = "zeros", gain = "ones" } -- and their initial values where none are named

-- A size as JSON that arguments alone decide: parameters are there before the first op.
local function of_arguments(size)
  if type(size) ~= "table" then return true end
  if size.size then
    for _, argument in ipairs(trace.current().inputs) do
      if size.size == argument then return true end
    end
    return false
  end
  for _, part in pairs(size) do
    if not of_arguments(part) then return false end
  end
  return true
end

---A trained tensor of the layer that pg.lambda makes, used inside its function: local w = pg.parameter("w", { x.shape[2], 4 }). options: init, a name
---or pg.init.*; role, "weight" (which is regularised), "bias" or "gain".
---@param name string
---@param shape integer[]
---@param options? { init?: string|table, role?: string }
---@return perigee.Tensor
function trace.parameter(name, shape, options)
  local current = trace.current()
  if not current or not current.parameters then
    where.fail "pg.parameter makes a trained tensor of a layer; use it inside pg.lambda(function(x) ... end)"
  end
  if type(name) ~= "string" or not name:match "^[%a_][%w_]*$" or name:match "^t%d+$" then
    where.fail(("a parameter's name is a word other than t1, t2, ...; got %s"):format(tensor.describe(name)))
  end
  options = options or {}
  for key in pairs(options) do
    if key ~= "init" and key ~= "role" then where.fail(("parameter has no option '%s'; known: init, role"):format(tostring(key))) end
  end
  local role = options.role or "weight"
  if not roles[role] then where.fail(("role is \"weight\", \"bias\" or \"gain\"; got %s"):format(tensor.describe(role))) end
  if type(shape) == "number" then shape = { shape } end
  if type(shape) ~= "table" then where.fail("parameter takes a name and a shape; got " .. tensor.describe(shape)) end
  local sizes = {}
  for place, size in ipairs(shape) do
    if trace.is_size(size) and not of_arguments(trace.stored(size)) then
      where.fail(("parameter '%s': size %d is that of a value which the function makes; take the size of an argument"):format(name, place))
    end
    if type(size) ~= "number" and not trace.is_size(size) or type(size) == "number" and (size < 1 or size % 1 ~= 0) then
      where.fail(("parameter '%s': size %d is %s; expected a whole number from 1, or a size of an argument, as x.shape[2]")
        :format(name, place, tensor.describe(size)))
    end
    sizes[place] = trace.stored(size)
  end
  local list = current.parameters
  for _, known in ipairs(list) do
    if known.name == name then where.fail(("there is a parameter '%s' already"):format(name)) end
  end
  for _, known in ipairs(current.inputs) do
    if known == name then where.fail(("'%s' is an argument of the function; give the parameter another name"):format(name)) end
  end
  list[#list + 1] = { name = name, shape = native.list(sizes), role = role, init = options.init or roles[role] }
  return trace.named(name, #list)
end

---A loss from a function of the network's output and the target.
---@param f function
---@param options? { link?: string }
---@return table
function trace.loss(f, options)
  local loss = trace.run(f, "pg.loss.lambda")
  if #loss.inputs ~= 2 then where.fail(("a loss is a function of outputs and targets; got one of %d"):format(#loss.inputs)) end
  if #loss.outputs ~= 1 then where.fail(("a loss function returns one value; got %d"):format(#loss.outputs)) end
  loss.type, loss.link = "lambda", options and options.link
  for _, step in ipairs(loss.program) do -- the logits of classes: predictions are probabilities
    if step.op == "class_loss" and step["in"][1] == loss.inputs[1] then loss.link = loss.link or "softmax" end
  end
  loss["@"] = where.position()
  return loss
end

---A figure of evaluations from a function of the network's predictions and the target.
---@param f function
---@param options? { name?: string }
---@return table
function trace.metric(f, options)
  local metric = trace.run(f, "pg.metric.lambda")
  if #metric.inputs ~= 2 or #metric.outputs ~= 1 then
    where.fail(("a metric is a function of outputs and targets that returns one value; got one of %d that returns %d"):format(#metric.inputs,
      #metric.outputs))
  end
  metric.type, metric.name = "lambda", options and options.name
  return metric
end

-- Those that parameters take, and behind them those for numbers of the update alone.
local rule_ops = {
  "add", "sub", "mul", "div", "sqrt", "neg", "abs", "sign", "square", "reciprocal", "relu", "maximum", "minimum", "equal", "not_equal", "less",
  "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_not", "where",
  "pow", "exp", "log", "floor", "sin", "cos", "tanh", "sigmoid",
}
for _, name in ipairs(rule_ops) do rule_ops[name] = true end

---The rule of an optimiser from a function of a parameter, its gradient, its states and the numbers of the update: now.lr, now.t (from 1),
---now.step, now.epoch, now.progress. It assigns the states, s.m = ..., and returns the new parameter.
---@param f function
---@param state? table names, or initial values by name
---@return table { state =, program =, outputs = }
function trace.rule(f, state)
  if type(f) ~= "function" then where.fail(("update is %s; expected function(p, g, s, now) ... end"):format(where.describe(f))) end
  local initial, states, settable = {}, {}, {}
  if state ~= nil and type(state) ~= "table" then where.fail(("state is %s; expected { \"m\" } or { m = 0 }"):format(where.describe(state))) end
  for key, value in pairs(state or {}) do
    if type(key) == "number" then initial[value] = 0 else initial[key] = value end
  end
  for name in pairs(initial) do
    if type(name) ~= "string" then where.fail(("a state is called %s; expected a name"):format(where.describe(name))) end
    states[#states + 1], settable[name] = name, true
  end
  table.sort(states)
  local names = { "parameter", "gradient", "lr", "t", "step", "epoch", "progress", unpack(states) }
  local traced = trace.fields(function(fields)
    local numbers = {}
    for _, name in ipairs { "lr", "t", "step", "epoch", "progress" } do numbers[name] = fields[name] end
    local now = setmetatable({}, { __index = function(_, name)
      if numbers[name] == nil then
        where.fail(("there is no now.%s%s"):format(tostring(name), where.suggestion(name, { "lr", "t", "step", "epoch", "progress" })))
      end
      return numbers[name]
    end })
    local own = setmetatable({}, {
      __index = function(_, name)
        if not settable[name] then
          local hint = states[1] and where.suggestion(name, { unpack(states) }) or "; pg.rule { state = { \"m\" }, update = f } keeps one"
          where.fail(("there is no state '%s'%s"):format(tostring(name), hint))
        end
        return fields[name]
      end,
      __newindex = function(_, name, value) fields[name] = value end,
    })
    return f(fields.parameter, fields.gradient, own, now)
  end, names, settable, "parameter", rule_ops, where.definition(f))
  return { state = next(initial) and initial or nil, program = traced.program, outputs = traced.outputs }
end

local schedule_ops = {
  "add", "sub", "mul", "div", "pow", "maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "where", "neg",
  "exp", "log", "sqrt", "abs", "sin", "cos", "tanh", "sigmoid", "floor",
}
for _, name in ipairs(schedule_ops) do schedule_ops[name] = true end

---A schedule from a function of now.step, now.epoch and now.progress.
---@param f function
---@return table
function trace.schedule(f)
  if type(f) ~= "function" then where.fail("pg.schedule.lambda takes a function; got " .. where.describe(f)) end
  local traced = trace.fields(function(now)
    local value = f(now)
    return type(value) == "number" and trace.apply("add", nil, now.step * 0, value) or value
  end, { "step", "epoch", "progress" }, {}, "value", schedule_ops, where.definition(f))
  return { type = "lambda", program = traced.program, output = traced.outputs.value }
end

return trace
