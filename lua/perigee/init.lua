-- The `pg` module of scripts. Layers, optimisers, data and policies are plain tables that become the JSON job; tensors compute at once.
--
--   layers        pg.conv2d { 20, kernel = 5 }, ... one per layer of the registry; pg.sequential { ... }; pg.input, pg.graph
--   own layers    pg.lambda(function(x) return x * pg.sigmoid(x) end)
--   optimisers    pg.adamw { lr = 1e-3 }, ...                         (also pg.optimizer.*)
--   schedules     pg.cosine { from = 2e-3 }, ...                      (also pg.schedule.*)
--   data          pg.data.mnist(), pg.data.csv { "iris.csv" }, ...; pg.transform.*
--   tensors       pg.zeros(2, 3), pg.tensor { {1, 2}, {3, 4} }, x + y, pg.exp(x), x:sum(1)
--   runs          run = pg.start "models/lenet.lua"; run:plot "loss"; run.lr = 1e-3; pg.attach "host:port"
--   the rest      pg.loss.*, pg.init.*, pg.metric.*, pg.averaging.*, pg.experiment { ... }
local native = require "perigee.native"
local where = require "perigee.where"
local layers = require "perigee.layers"
local rules = require "perigee.rules"
local data = require "perigee.data"
local trace = require "perigee.trace_functions"
local tensor = require "perigee.tensor"
require "perigee.tensor.make"
require "perigee.tensor.in_place"
require "perigee.tensor.ops"
require "perigee.tensor.networks"
require "perigee.tensor.index"
require "perigee.tensor.linalg"
require "perigee.tensor.files"
require "perigee.trace_ops"
local network = require "perigee.network"

local pg = {
  version = native.version,
  null = native.null,
  sequential = layers.sequential,
  graph = layers.graph,
  input = layers.input,
  experiment = require "perigee.experiment",
  data = data.constructors,
  data_path = data.path,
  transform = data.transforms,
  optimizer = rules.optimizers,
  schedule = rules.schedules,
  loss = rules.losses,
  init = rules.initializers,
  metric = rules.metrics,
  op = where.namespace("op", trace.ops),
  load_model = network.load_model,
  parameter = trace.parameter,
  table = require("perigee.source").table,
}

-- Modules that are loaded when pg.NAME is first read: a script that describes a job starts sooner without them.
local later = {
  start = "perigee.run", attach = "perigee.run",
  plot = "perigee.tensor.plot",
  find_rate = "perigee.find_rate", noise_scale = "perigee.find_rate",
  scan = "perigee.scan",
  averaging = "perigee.policies",
  compile = "perigee.differentiate", grad = "perigee.differentiate", jacobian = "perigee.differentiate", value_and_grad = "perigee.differentiate",
  sentences = "perigee.text.tokenizer", tokenizer = "perigee.text.tokenizer", train_tokenizer = "perigee.text.tokenizer",
  variational = "perigee.unlabelled.variational",
  boltzmann = "perigee.unlabelled.boltzmann",
  word_vectors = "perigee.text.word_vectors", load_vectors = "perigee.text.word_vectors",
  tsne = "perigee.text.layouts", kmeans = "perigee.text.layouts", neighbours = "perigee.text.layouts",
}

---A layer from a function of one or more values, traced once: x * pg.sigmoid(x). Axes and places count from 1, as on tensors; axis 1 is the
---batch. x:size(2) and x.shape[2] are numbers that are known when the network is built; tensors and lists of numbers become constants.
---Applied to tensors, it gives what the function gives.
---Options: { name = "swish" }.
---@param f function
---@param options? table
---@return perigee.Layer
function pg.lambda(f, options)
  if type(f) == "table" and options == nil then f, options = f[1], { name = f.name } end
  local layer = trace.run(f)
  layer.type, layer.name = "lambda", options and options.name
  layers.functions[layers.wrap(layer)] = f
  return layer
end

---The same table as a list, also where it is empty: {} alone is an object in JSON.
---@param values table
---@return table
function pg.list(values)
  if type(values) ~= "table" then where.fail("list takes a table; got " .. where.describe(values)) end
  return native.list(values)
end

---How near texts are to those that were wanted: word_error_rate and character_error_rate (edits over all words or characters wanted), equal
---(share of texts), bleu and chrf (0 to 100, as sacrebleu gives them). BLEU parts punctuation from words as mteval-v13a does; tokenize = false
---takes words as white space divides them.
---@param predicted string[]
---@param wanted string[]
---@param options? { tokenize?: boolean }
---@return table
function pg.text_scores(predicted, wanted, options)
  for place, texts in ipairs { predicted, wanted } do
    if type(texts) ~= "table" then where.fail(("text_scores takes two lists of texts; argument %d is %s"):format(place, where.describe(texts))) end
    for number, text in ipairs(texts) do
      if type(text) ~= "string" then where.fail(("text_scores: text %d is %s"):format(number, where.describe(text))) end
    end
  end
  if #predicted ~= #wanted then where.fail(("text_scores: %d texts, and %d that were wanted"):format(#predicted, #wanted)) end
  return native.text_scores(predicted, wanted, not options or options.tokenize ~= false)
end

---Runs `f` compiled by LuaJIT: faster, but Ctrl-C ends a loop in it only where it comes to an op on tensors.
---@param f function
---@return function
function pg.jit(f)
  jit.on(f, true)
  return f
end

-- One name may be an op, a layer and a schedule at once; what it is given tells which one is meant.
local function any(is, first, ...)
  if is(first) then return true end
  if type(first) == "table" and getmetatable(first) == nil then
    for _, value in ipairs(first) do
      if is(value) then return true end
    end
  end
  if select("#", ...) > 0 then return any(is, ...) end
  return false
end

local function is_tensor_value(value) return tensor.is(value) or tensor.is_symbol(value) end

local function op_or(name, op, on_tensors, other)
  return function(...)
    if any(trace.is_symbol, ...) then return (op or trace.unknown_method(name))(...) end
    if on_tensors and any(is_tensor_value, ...) then return on_tensors(...) end
    if other then return other(...) end
    where.fail(("pg.%s is an op: it works on tensors, and on traced values inside pg.lambda(function(x) ... end)%s"):format(name,
      layers.as_layer(name)))
  end
end

-- Layers come first, then optimisers, then schedules, where names meet; what this file defines itself stays.
for _, family in ipairs { layers.constructors, rules.optimizers, rules.schedules } do
  for name, make in pairs(family) do
    if pg[name] == nil then pg[name] = make end
  end
end
local function constructor(name) return layers.constructors[name] or rawget(rules.optimizers, name) or rawget(rules.schedules, name) end
for _, family in ipairs { trace.friendly, trace.ops } do
  for name, op in pairs(family) do
    local other = constructor(name)
    if pg[name] == nil or pg[name] == other then pg[name] = op_or(name, op, tensor.methods[name], other) end
  end
end
for name, method in pairs(tensor.methods) do
  local other = constructor(name)
  if pg[name] == nil or pg[name] == other then pg[name] = op_or(name, nil, method, other) end
end
for name, make in pairs(tensor.makers) do pg[name] = make end

return setmetatable(pg, {
  later = later,
  __index = function(_, name)
    if later[name] then
      pg[name] = require(later[name])[name]
      return pg[name]
    end
    local known = {}
    for _, names in ipairs { pg, later } do
      for key in pairs(names) do known[#known + 1] = key end
    end
    where.fail(("there is no pg.%s%s"):format(tostring(name), where.suggestion(name, known)))
  end,
})
