-- Networks on tensors: net:init(seed, shape), net(x), net:parameters(); and trained models, pg.load_model "x.safetensors". A network computes as
-- evaluation does: no dropout, running statistics. It can be used inside pg.grad and pg.compile.
local native = require "perigee.native"
local core = require("perigee.native").tensor
local tensor = require "perigee.tensor"
local layers = require "perigee.layers"
local where = require "perigee.where"

local network = {}

local is_tensor, done, describe = tensor.is, tensor.done, tensor.describe

-- The state that belongs to a description, a model or a table of parameters: { handle =, about =, parameters = }. Descriptions stay plain data.
local built = setmetatable({}, { __mode = "k" })

local function is_value(x) return is_tensor(x) or tensor.is_symbol(x) end
network.is_value = is_value

local function finish(handle)
  local about = done(core.network_about(handle))
  local parameters = {}
  for number, name in ipairs(about.parameters) do
    local x = tensor.type()
    done(core.network_parameter(handle, number, x))
    parameters[name] = x
  end
  local state = { handle = handle, about = about, parameters = parameters, functions = {} }
  built[parameters] = state
  return state
end

---The network whose parameters these are; nil for other tables.
function network.of_parameters(parameters)
  local state = built[parameters]
  return state and state.handle
end

---The facts of a model: its description, loss, inputs, outputs and layers; nil for other values.
function network.about(model)
  local state = built[model]
  return state and state.about
end

--- The descriptions of a model's layers in a row, and the names that they have there.
function network.in_row(about)
  local names = {}
  for _, layer in ipairs(about.layers) do
    if not layer.name:find(".", 1, true) then names[#names + 1] = layer.name end
  end
  return about.network.layers or about.network, names
end

-- Applying ------------------------------------------------------------------------------------------------------------------------

-- The network's parameters in order, from a table by name; nil: its own.
local function ordered(state, parameters)
  if parameters == nil or parameters == state.parameters then return {} end
  if type(parameters) ~= "table" then where.fail("parameters are a table of tensors by name; got " .. describe(parameters)) end
  local list = {}
  for place, name in ipairs(state.about.parameters) do
    if not is_value(parameters[name]) then
      where.fail(("parameter '%s' is %s; expected a tensor; net:parameters() gives a table of all"):format(name, describe(parameters[name])))
    end
    list[place] = parameters[name]
  end
  return list
end

-- A function of (parameters in order, inputs in order) that runs the network.
local function compiled(state, linked)
  local key = linked and "linked" or "plain"
  state.functions[key] = state.functions[key] or require("perigee.differentiate").compile(function(parameters, inputs)
    return tensor.record_network(state.handle, inputs, parameters, linked)
  end)
  return state.functions[key]
end

local function inputs_of(state, name, first, ...)
  local fields, inputs = state.about.inputs, { first, ... }
  if type(first) == "table" and getmetatable(first) == nil then
    inputs = {}
    for place, field in ipairs(fields) do inputs[place] = first[field.name] or false end
  end
  if #inputs ~= #fields then
    local names = {}
    for place, field in ipairs(fields) do names[place] = field.name end
    where.fail(("%s takes %d tensor%s (%s); got %d"):format(name, #fields, #fields == 1 and "" or "s", table.concat(names, ", "), #inputs))
  end
  for place, x in ipairs(inputs) do
    if not is_value(x) then where.fail(("%s: input '%s' is %s; expected a tensor"):format(name, fields[place].name, describe(x or nil))) end
  end
  return inputs
end

-- The types of a network's inputs from what init was given: shapes without the batch, tensors with it, or a source of data.
local function input_fields(net, ...)
  local names, given = { "x" }, { ... }
  if net.type == "graph" then names = net.inputs end
  local first = given[1]
  if first ~= nil and require("perigee.data").is_source(first) then
    local fields = {}
    for _, field in ipairs(first:fields()) do fields[field.name] = field end
    for place, name in ipairs(names) do
      if not fields[name] then where.fail(("init: the data have no field '%s', which the network reads"):format(name)) end
      given[place] = fields[name]
    end
  elseif type(first) == "table" and next(first) and #first == 0 then
    for place, name in ipairs(names) do given[place] = first[name] or false end
  end
  local result = native.list {}
  for place, name in ipairs(names) do
    local shape, dtype = given[place], "f32"
    if type(shape) == "number" then shape = { shape } end
    if is_value(shape) then
      dtype, shape = shape.dtype, { unpack(shape.shape, 2) }
    elseif type(shape) == "table" and shape.shape then
      dtype, shape = shape.dtype, shape.shape
    end
    if type(shape) ~= "table" then
      where.fail(("init takes a seed and the shape of one example of input '%s', or tensors, or a source: net:init(1, {1, 28, 28}); got %s")
        :format(name, describe(given[place] or nil)))
    end
    result[place] = { name = name, dtype = dtype, shape = native.list { unpack(shape) } }
  end
  return result
end

-- Methods of pg.sequential and pg.graph -------------------------------------------------------------------------------------------

-- Networks that draw their parameters when they see what they are applied to have one here.
local seeds = setmetatable({}, { __mode = "k" })

local function state_of(net, call)
  local state = built[net]
  if not state then
    where.fail(("%s: this network has no parameters yet; net:init(seed, shape) draws them: net:init(1, {1, 28, 28}), or net:init(1, x)%s")
      :format(call, seeds[net] and "; net:init(seed) alone does so when net(x) is called" or ""))
  end
  return state
end

---@class perigee.Network
local Network = {}

---Draws the parameters of a network, so that it can be applied to tensors: net:init(1, {1, 28, 28}), with the shape of one example; or with a
---batch of examples, net:init(1, x), or a source of data. A network of several inputs takes as many, or a table by name. net:init(1) draws them
---when the network is first applied. Returns the network.
---@param seed integer
---@param ... any
---@return perigee.Network
function Network:init(seed, ...)
  if type(seed) ~= "number" then where.fail("init takes a seed and the shape of an example: net:init(1, {1, 28, 28}); got " .. describe(seed)) end
  if select("#", ...) == 0 then
    seeds[self], built[self] = seed, nil
    return self
  end
  seeds[self] = nil
  local handle, message = core.network(self, input_fields(self, ...), seed, rawget(self, "@") or "network")
  if handle == nil then where.fail(message) end
  built[self] = finish(handle)
  return self
end

---The parameters by name: tensors on the network's own memory. What changes them, such as an optimiser's step, changes the network.
---@return table<string, perigee.Tensor>
function Network:parameters() return state_of(self, "parameters").parameters end

---The outputs of a network with other parameters, a table of tensors by name: what pg.grad differentiates.
---pg.grad(function(p) return pg.cross_entropy(net:apply(p, x), y):mean() end)(net:parameters())
---@param parameters table<string, perigee.Tensor>
---@param ... perigee.Tensor
---@return perigee.Tensor ...
function Network:apply(parameters, ...)
  local state = state_of(self, "apply")
  return compiled(state, false)(ordered(state, parameters), inputs_of(state, "apply", ...))
end

---A sequence that the network reads piece by piece, as model:session() has it.
---@param rows? integer
---@return perigee.Session
function Network:session(rows) return require("perigee.session").open(state_of(self, "session").handle, rows) end

---Writes the network with its parameters to a .safetensors file, which pg.load_model reads.
---@param path string
---@return string path
function Network:save(path)
  if type(path) ~= "string" then where.fail("save takes the name of a file; got " .. describe(path)) end
  local state = state_of(self, "save")
  done(core.network_save(state.handle, path))
  return path
end

local function summary(state)
  local rows, total = { { "layer", "type", "output", "parameters" } }, 0
  for _, layer in ipairs(state.about.layers) do
    total = total + layer.parameters
    rows[#rows + 1] = { layer.name, layer.type, table.concat(layer.outputs, ", "), ("%d"):format(layer.parameters) }
  end
  return require("perigee.show").aligned(rows) .. ("\n%d parameters"):format(total)
end

---A table of the layers, their outputs for one example and their parameters; it prints as lines.
---@return table
function Network:summary() return require("perigee.show").text(summary(state_of(self, "summary"))) end

where.methods("net", Network, function(value) return type(value) == "table" and (value.type == "sequential" or value.type == "graph") end)
layers.add_network_methods(Network)
layers.is_value = is_value

function layers.apply_to_values(net, ...)
  if seeds[net] then net:init(seeds[net], ...) end
  local state = state_of(net, net.type)
  return compiled(state, false)({}, inputs_of(state, net.type, ...))
end

-- Trained models ------------------------------------------------------------------------------------------------------------------

---@class perigee.Model
---@field inputs table     name, dtype and shape of an example, for each input
---@field outputs table    the same of the outputs
---@field classes string[] names of the classes; empty where there are none
local Model = {}
Model.__fields = Model

-- Names that a trained model is asked for and does not have, and what there is instead.
local model_instead = {
  network = "print(model) and model:summary() show the layers, model:parameters() has the tensors by name",
  layers = "model:summary() lists the layers, model:parameters() has the tensors by name",
  loss = "print(model) tells it",
  weights = "model:parameters() has the tensors by name",
  state_dict = "model:parameters() has the tensors by name",
  eval = "`perigee eval MODEL` judges it; model:predict(file) and model(x) compute",
  evaluate = "`perigee eval MODEL` judges it; model:predict(file) and model(x) compute",
  fit = "it is trained on as pretrained = \"MODEL\" of a job",
  train = "it is trained on as pretrained = \"MODEL\" of a job",
}

function Model.__index(_, key)
  local value = Model[key]
  if value ~= nil or type(key) ~= "string" or key == "type" or key == "shape" then return value end -- which any value may be asked for
  local known = { "inputs", "outputs", "classes" }
  for name, each in pairs(Model) do
    if type(each) == "function" and name:sub(1, 2) ~= "__" then known[#known + 1] = name end
  end
  local instead = model_instead[key]
  where.fail(("a model has no '%s'%s"):format(key, instead and "; " .. instead or where.suggestion(key, known)))
end

---Applied to tensors as they are: nothing of the job's preprocessing is done to them. The result is as `perigee predict` has it, with the
---function of the loss applied: probabilities of classes. model:predict(file) prepares what it reads.
function Model:__call(...)
  local state = built[self]
  return compiled(state, true)({}, inputs_of(state, "the model", ...))
end

function Model:__tostring()
  local state = built[self]
  local function fields(list)
    local texts = {}
    for place, field in ipairs(list) do texts[place] = ("%s %s[%s]"):format(field.name, field.dtype, table.concat(field.shape, "x")) end
    return table.concat(texts, ", ")
  end
  local lines = { summary(state), "inputs   " .. fields(self.inputs), "outputs  " .. fields(self.outputs) }
  if #self.classes > 0 then lines[#lines + 1] = "classes  " .. table.concat(self.classes, ", ") end
  return table.concat(lines, "\n")
end

---The parameters by name: tensors on the model's own memory.
---@return table<string, perigee.Tensor>
function Model:parameters() return built[self].parameters end

---The network's outputs with other parameters, a table of tensors by name, before the function of the loss: logits of classes.
---@param parameters table<string, perigee.Tensor>
---@param ... perigee.Tensor
---@return perigee.Tensor ...
function Model:apply(parameters, ...)
  local state = built[self]
  return compiled(state, false)(ordered(state, parameters), inputs_of(state, "apply", ...))
end

---A table of the layers, their outputs for one example and their parameters; it prints as lines.
---@return table
function Model:summary() return require("perigee.show").text(summary(built[self])) end

---Predicts from records, prepared as the job prepares test data: { size = 120, city = "Rome" } gives one result, a list of such or the name of a
---file (an image, a table, arrays, a text) a list. A result has label, class and probabilities of a classifier, labels and text of a network
---that was trained with ctc (numbers as the data have them; options.beams: searched with so many prefixes at a time, and alternatives), else
---values; with several outputs outputs.NAME, and layers.NAME for those of options.layers.
---@param records table|string
---@param options? { layers?: string[], beams?: integer }
---@return table
function Model:predict(records, options)
  if type(records) ~= "table" and type(records) ~= "string" then
    where.fail("predict takes the name of a file, or columns by name; got " .. describe(records)
      .. (is_tensor(records) and "; model(x) takes tensors as they are, without the job's preprocessing" or "; model(x) takes tensors as they are"))
  end
  local results, message = core.network_predict(built[self].handle, records, options and options.layers, options and options.beams)
  if results == nil then where.fail(message) end
  if type(records) == "table" and records[1] == nil and #results == 1 then return results[1] end
  return results
end

---The text that follows a prompt: model:generate { "ROMEO:", tokens = 200, temperature = 0.8, seed = 1 }. stream = true prints it as it is
---made; a function is called with each piece. The other options are those of `perigee generate`: top_k, top_p, min_p, typical_p, epsilon, eta,
---repetition_penalty, no_repeat, beams, length_penalty, stop. Layers that look back alone read each unit once. With attention to all steps, or
---with positions, that ends where the context is full: it then moves with every unit, and is computed again for each.
---input = "a text": a model with an encoder reads it, and writes what becomes of it; a prompt is then how that begins.
---@param options string|table
---@return string? text
function Model:generate(options)
  return require("perigee.generate").text(function(given) return core.network_generate(built[self].handle, given) end, options)
end

---A sequence that the model reads piece by piece: session:step(x) goes on from where the step before ended. The session keeps the parameters
---that the model has now, and costs no more than its state; any number of them may be open. `rows`: sequences side by side. For recurrent
---layers, causal attention and causal convolutions. With attention to all steps, or with positions, it ends with the steps that the model reads
---at once; clear it then.
---@param rows? integer
---@return perigee.Session
function Model:session(rows) return require("perigee.session").open(built[self].handle, rows) end

---Writes the model, with the parameters that it has now.
---@param path string
---@return string path
function Model:save(path)
  if type(path) ~= "string" then where.fail("save takes the name of a file; got " .. describe(path)) end
  done(core.network_save(built[self].handle, path))
  return path
end

where.methods("model", Model, function(value) return getmetatable(value) == Model end)

---A trained model from a file, or from the folder of a run: model(x) applies it to tensors, model:predict(file) to files.
---@param path string
---@return perigee.Model
function network.load_model(path)
  if type(path) ~= "string" then where.fail("load_model takes the name of a model file or of a run's folder; got " .. describe(path)) end
  local handle, message = core.load_network(path)
  if handle == nil then where.fail(message) end
  local state = finish(handle)
  local model = setmetatable({ inputs = state.about.inputs, outputs = state.about.outputs, classes = state.about.class_names }, Model)
  built[model] = state
  return model
end

return network
