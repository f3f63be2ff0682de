-- Layers as Lua values: pg.conv2d { 20, kernel = 5 } for every layer of the registry, pg.sequential, and graphs of several inputs
-- and outputs, written by calling layers on nodes:
--
--   local left, right = pg.input "left", pg.input "right"
--   local tower = pg.sequential { pg.dense { 64, activation = "relu" }, pg.dense { 16 } }
--   local distance = pg.l2 {} (tower(left), tower(right))      -- called twice: its parameters are shared
--   network = pg.graph { inputs = { left, right }, outputs = { distance } }
local native = require "perigee.native"
local where = require "perigee.where"

local layers = {}

-- The options that any layer accepts beside its own.
local common = native.common_layer_options()

---@class perigee.Layer
---@overload fun(node: perigee.Node, ...: perigee.Node): perigee.Node
local Layer = {}
Layer.__index = Layer

---@class perigee.Node
---@operator add(perigee.Node|number): perigee.Node
---@operator sub(perigee.Node|number): perigee.Node
---@operator mul(perigee.Node|number): perigee.Node
---@operator div(perigee.Node|number): perigee.Node
---@operator unm: perigee.Node
local Node = {}
Node.__index = Node

---Output `index` (from 1) of a layer with several, such as unstack.
---@param index integer
---@return perigee.Node
function Node:output(index)
  if type(index) ~= "number" or index < 1 or index % 1 ~= 0 then
    where.fail("node:output takes a whole number from 1; got " .. where.describe(index))
  end
  return setmetatable({ of = self, index = index - 1 }, Node)
end

---@class perigee.Sequential: perigee.Network
---@overload fun(node: perigee.Node, ...: perigee.Node): perigee.Node
local Sequential = {}
Sequential.__index = Sequential

local function is_node(value) return getmetatable(value) == Node end
local function is_layer(value) return getmetatable(value) == Layer end
local function is_sequential(value) return getmetatable(value) == Sequential end
layers.is_node, layers.is_layer, layers.is_sequential = is_node, is_layer, is_sequential

---Makes a layer of a finished description.
---@param description table
---@return perigee.Layer
function layers.wrap(description)
  description["@"] = where.position()
  return setmetatable(description, Layer)
end

local function new_node(layer, inputs)
  return setmetatable({ layer = layer, inputs = inputs }, Node)
end

-- network.lua sets these: whether a value is a tensor, and a network applied to tensors.
layers.is_value = function(_) return false end
layers.functions = setmetatable({}, { __mode = "k" }) -- those of pg.lambda's layers, which mean the same on tensors
layers.apply_to_values = nil

-- Applying ------------------------------------------------------------------------------------------------------------------

local function check_nodes(name, inputs)
  if #inputs == 0 then where.fail(name .. " is applied to nothing; expected graph nodes, as pg.input makes them") end
  for index, node in ipairs(inputs) do
    if not is_node(node) then
      where.fail(("%s is applied to %s (argument %d); expected a graph node, as pg.input makes them")
        :format(name, where.describe(node), index))
    end
  end
end

function Layer:__call(...)
  local inputs = { ... }
  if layers.is_value(inputs[1]) then
    local own = layers.functions[self]
    if own then return own(...) end
    where.fail(("%s is applied to a tensor; a network has parameters for it: pg.sequential { pg.%s { ... } }:init(1), which is applied to tensors")
      :format(self.type, self.type))
  end
  check_nodes(self.type, inputs)
  return new_node(self, inputs)
end

function Sequential:__call(...)
  local inputs = { ... }
  if layers.is_value(inputs[1]) or (type(inputs[1]) == "table" and getmetatable(inputs[1]) == nil) then
    return layers.apply_to_values(self, ...)
  end
  check_nodes("sequential", inputs)
  for _, layer in ipairs(self.layers) do inputs = { new_node(layer, inputs) } end
  return inputs[1]
end

-- Constructors ----------------------------------------------------------------------------------------------------------------

local constructors, stems = {}, {}

local function known_options(definition)
  local known = { unpack(definition.options) }
  for _, name in ipairs(common) do known[#known + 1] = name end
  return known
end

local activations

---"; as a layer it is pg.activation { "relu" }, ..." where an activation has this name, "; the layer is pg.batchnorm" for batch_norm, else "".
---@param name string
---@return string
function layers.as_layer(name)
  if not activations then
    activations = {}
    for _, definition in ipairs(native.family "activation") do activations[definition.name] = true end
  end
  local layer = name:gsub("_", "")
  if layer ~= name and constructors[layer] then return "; the layer is pg." .. layer end
  if not activations[name] then return "" end
  return ('; as a layer it is pg.activation { "%s" }, or activation = "%s" of the layer before it'):format(name, name)
end

-- A number or two too many, as PyTorch has them: pg.dense(784, 10).
local function sizes_hint(names, values)
  if names[1] ~= "out" and names[1] ~= "units" then return "" end
  for _, value in ipairs(values) do
    if type(value) ~= "number" then return "" end
  end
  return "; a layer finds the size of its input out"
end

-- The layers among `values`, sequences written out. `what` is told in errors.
local function layer_list(what, values, count)
  local list = native.list {}
  for index = 1, count do
    local value = values[index]
    if is_sequential(value) then
      for _, layer in ipairs(value.layers) do list[#list + 1] = layer end
    elseif is_layer(value) then
      list[#list + 1] = value
    elseif type(value) == "function" then
      where.fail(("entry %d of %s is a function; call it (pg.flatten {}) or wrap your own in pg.lambda"):format(index, what))
    else
      local name = type(value) == "table" and rawget(value, "type") or value
      where.fail(("entry %d of %s is %s; expected a layer%s"):format(index, what, where.describe(value),
        type(name) == "string" and layers.as_layer(name) or ""))
    end
  end
  return list
end

local function take_positional(definition, layer, values)
  local names = definition.positional
  if names[1] == "layers" and #values > 0 then -- pg.residual { layer, layer, ... }
    layer.layers = layer_list("pg." .. definition.name, values, #values)
    return
  end
  for index, value in ipairs(values) do
    local name = names[index]
    if not name then
      where.fail(("%s takes %s; got %s as number %d%s"):format(definition.name,
        #names == 0 and "no values without a name" or "only " .. table.concat(names, ", ") .. " without a name",
        where.describe(value), index, type(value) == "string" and definition.accepts.activation
          and ("; it is said by name: activation = %q"):format(value) or sizes_hint(names, values)))
    end
    if layer[name] ~= nil then where.fail(("%s: '%s' is given twice, by position and by name"):format(definition.name, name)) end
    layer[name] = value
  end
end

local function build(definition, arguments)
  local layer, values, nodes = { type = definition.name }, {}, {}
  for _, value in ipairs(arguments) do
    if is_node(value) then nodes[#nodes + 1] = value else values[#values + 1] = value end
  end
  for key, value in pairs(arguments) do
    if type(key) == "string" then
      if not definition.accepts[key] then
        where.fail(("%s has no option '%s'%s"):format(definition.name, key, where.suggestion(key, known_options(definition))))
      end
      if key == "activation" and type(value) == "function" then
        where.fail(definition.name .. ': an activation is called by its name, as in activation = "relu"; got a function; one of your own is '
          .. "a layer behind it: pg.lambda(f)")
      end
      layer[key] = value
    elseif type(key) ~= "number" or key < 1 or key > #arguments or key % 1 ~= 0 then
      where.fail(("%s: options have names; got %s as a key"):format(definition.name, where.describe(key)))
    end
  end
  take_positional(definition, layer, values)
  for _, key in ipairs(definition.scheduled) do -- kl = function(now) return pg.minimum(1, now.epoch / 5) end
    if type(layer[key]) == "function" then layer[key] = require("perigee.trace_functions").schedule(layer[key]) end
  end
  layer = layers.wrap(layer)
  if #nodes > 0 then return new_node(layer, nodes) end
  return layer
end

for _, definition in ipairs(native.family "layer") do
  definition.accepts, stems[definition.name] = {}, definition.stem
  for _, name in ipairs(known_options(definition)) do definition.accepts[name] = true end
  -- pg.dense { 10 }, pg.dense(10), pg.add(a, b), pg.concat { a, b, axis = 1 }
  constructors[definition.name] = function(first, ...)
    if type(first) == "table" and getmetatable(first) == nil and select("#", ...) == 0 then return build(definition, first) end
    local arguments = { first, ... }
    local last = arguments[#arguments]
    if #arguments > 1 and type(last) == "table" and getmetatable(last) == nil then -- pg.concat(a, b, { axis = 1 })
      arguments[#arguments] = nil
      for key, value in pairs(last) do arguments[type(key) == "number" and #arguments + 1 or key] = value end
    end
    return build(definition, arguments)
  end
end
layers.constructors = constructors

---The beginning of a kind of layer's automatic names: "conv" of "conv2d".
---@param kind string
---@return string
function layers.stem_of(kind) return stems[kind] or kind end

---Names of the layers of a sequence or of a graph's nodes, automatic ones included.
---@param list table[]
---@return string[]
function layers.names(list)
  local names, counters = {}, {}
  for index, node in ipairs(list) do
    local layer = type(node) == "table" and not node.type and node.layer or node -- else its `layer` is one inside
    local kind = type(layer) == "table" and layer.type or layer
    local stem = layers.stem_of(kind)
    counters[stem] = (counters[stem] or 0) + 1
    names[index] = type(node) == "table" and (node.name or layer.name) or stem .. counters[stem]
  end
  return names
end

-- Sequences -------------------------------------------------------------------------------------------------------------------

---Layers one after the other; sequences nest.
---@param arguments table layers in order; `defaults` = options that every layer takes unless it says otherwise
---@return perigee.Sequential
function layers.sequential(arguments)
  if type(arguments) ~= "table" then where.fail("pg.sequential takes a table of layers; got " .. where.describe(arguments)) end
  local result = { type = "sequential" }
  for key, value in pairs(arguments) do
    if key == "defaults" or key == "name" then
      result[key] = value
    elseif type(key) ~= "number" then
      where.fail(("sequential has no option '%s'%s"):format(tostring(key), where.suggestion(key, { "defaults", "name" })))
    end
  end
  local count = 0
  for key in pairs(arguments) do
    if type(key) == "number" and key > count then count = key end
  end
  result.layers = layer_list("pg.sequential", arguments, count)
  if count == 0 then where.fail("pg.sequential has no layers") end
  result["@"] = where.position()
  return setmetatable(result, Sequential)
end

-- Graphs ----------------------------------------------------------------------------------------------------------------------

---A node of a graph that holds a field of the data: layers are applied to it, as in pg.dense { 8 }(pg.input "x").
---@param name string a field of the data
---@return perigee.Node
function layers.input(name)
  if type(name) ~= "string" then where.fail("pg.input takes the name of a field of the data; got " .. where.describe(name)) end
  return setmetatable({ input = name, at = where.position() }, Node)
end

local function combine(name, options)
  return function(a, b)
    local make = constructors[name]
    if is_node(a) and is_node(b) then return make(a, b) end
    local node, number = a, b
    if type(a) == "number" then node, number = b, a end
    if type(number) ~= "number" or not options then
      where.fail(("a graph node and %s cannot be combined by '%s'"):format(where.describe(is_node(a) and b or a), name))
    end
    return constructors[options.layer] { node, [options.option] = number }
  end
end

Node.__add = combine("add", { layer = "shift", option = "offset" })
Node.__mul = combine("multiply", { layer = "scale", option = "factor" })
Node.__div = function(a, b)
  if type(b) ~= "number" then where.fail "a graph node can only be divided by a number; write anything else in pg.lambda" end
  return a * (1 / b)
end
Node.__sub = function(a, b)
  if is_node(a) and is_node(b) then return constructors.subtract(a, b) end
  if type(b) == "number" then return a + (-b) end
  return (b * -1) + a
end
Node.__unm = function(a) return a * -1 end

-- Gives every node that `outputs` need a name and a place after its inputs.
local function order(outputs)
  local ordered, state, used, counters = {}, {}, {}, {}
  local function claim(wanted)
    local name, suffix = wanted, 1
    while used[name] do
      suffix = suffix + 1
      name = wanted .. "_" .. suffix
    end
    used[name] = true
    return name
  end
  local function visit(node)
    if state[node] then return end
    state[node] = true -- nodes are made after their inputs, so there are no cycles
    if node.input then
      used[node.input] = true
      return
    end
    if node.of then return visit(node.of) end
    for _, input in ipairs(node.inputs) do visit(input) end
    ordered[#ordered + 1] = node
  end
  for _, node in ipairs(outputs) do visit(node) end
  for _, node in ipairs(ordered) do
    local wanted = node.name or node.layer.name
    if not wanted then
      local kind = stems[node.layer.type]
      counters[kind] = (counters[kind] or 0) + 1
      wanted = kind .. counters[kind]
    end
    node.label = claim(wanted)
  end
  return ordered
end

-- A layer that stands at several places has one set of parameters: its copies name the first of them.
local function shared_layers(ordered)
  local first, copies = {}, {}
  for _, node in ipairs(ordered) do
    if first[node.layer] then copies[node.layer] = true end
    first[node.layer] = first[node.layer] or node.label
  end
  return function(layer)
    local copy = {}
    for key, value in pairs(layer) do copy[key] = value end
    copy.name = nil
    if copies[layer] then copy.share = first[layer] end
    return setmetatable(copy, Layer)
  end
end

local label
function label(node)
  if node.of then return label(node.of) .. ":" .. node.index end
  return node.input or node.label
end

---@class perigee.Graph: perigee.Network
local Graph = {}
Graph.__index = Graph

function Graph:__call(...) return layers.apply_to_values(self, ...) end

-- Methods of networks elsewhere, and how it is done here.
local trains = "a job trains it: pg.experiment { network = net, loss = ..., data = ... }, by `perigee train FILE` or pg.start"
local computes = "net:init(seed, data) gives it parameters, and net(x) computes"
local network_instead = {
  fit = trains, train = trains, compile = trains, backward = trains, zero_grad = trains, evaluate = trains,
  predict = computes, forward = computes, eval = computes, build = computes,
  add = "layers are listed: pg.sequential { pg.dense { 8 }, pg.dense { 2 } }",
  cuda = 'device = "cuda" is a key of the job',
  state_dict = "net:parameters() has the tensors by name",
}

---Methods of networks that compute, from network.lua.
function layers.add_network_methods(methods)
  local missing = { __index = function(_, key)
    if network_instead[key] then where.fail(("a network has no '%s'; %s"):format(key, network_instead[key])) end
  end }
  for _, class in ipairs { Sequential, Graph } do
    for name, method in pairs(methods) do class[name] = method end
    setmetatable(class, missing)
  end
end

-- { a, b } or { digit = a, style = b }: named outputs name their nodes.
local function output_nodes(outputs)
  local list, names = {}, {}
  for index, node in ipairs(outputs) do list[index] = node end
  for key in pairs(outputs) do
    if type(key) == "string" then names[#names + 1] = key end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    list[#list + 1] = outputs[name]
    if is_node(outputs[name]) then outputs[name].name = name end
  end
  return list
end

local function graph_from_nodes(arguments)
  local outputs = output_nodes(arguments.outputs)
  check_nodes("pg.graph: outputs", outputs)
  check_nodes("pg.graph: inputs", arguments.inputs)
  local inputs, declared, places = native.list {}, {}, {}
  for index, node in ipairs(arguments.inputs) do
    if not node.input then where.fail(("input %d of pg.graph was not made by pg.input"):format(index)) end
    inputs[index], declared[node.input], places[node.input] = node.input, true, node.at
  end
  local ordered = order(outputs)
  local copy = shared_layers(ordered)
  local nodes = native.list {}
  for _, node in ipairs(ordered) do
    local names = native.list {}
    for index, input in ipairs(node.inputs) do
      if input.input and not declared[input.input] then
        where.fail(("the graph uses pg.input '%s', which is not among its inputs"):format(input.input), node.layer["@"])
      end
      names[index] = label(input)
    end
    table.insert(nodes, { name = node.label, layer = copy(node.layer), inputs = names })
  end
  local output_names = native.list {}
  for index, node in ipairs(outputs) do output_names[index] = label(node) end
  return { type = "graph", inputs = inputs, nodes = nodes, outputs = output_names, defaults = arguments.defaults, ["@inputs"] = places }
end

---A network of any form, from the nodes that layers were applied to: pg.graph { inputs = { x }, outputs = { y } }.
---@param arguments { inputs: perigee.Node[], outputs: perigee.Node[], defaults?: table }
---@return perigee.Graph
function layers.graph(arguments)
  if type(arguments) ~= "table" then where.fail("pg.graph takes a table; got " .. where.describe(arguments)) end
  local known = { "inputs", "outputs", "nodes", "defaults" }
  for key in pairs(arguments) do
    if type(key) == "number" then where.fail "pg.graph takes its nodes by name: pg.graph { inputs = { x }, outputs = { y } }" end
    if key ~= "inputs" and key ~= "outputs" and key ~= "nodes" and key ~= "defaults" then
      where.fail(("graph has no option '%s'%s"):format(tostring(key), where.suggestion(key, known)))
    end
  end
  for _, key in ipairs { "inputs", "outputs" } do
    if type(arguments[key]) ~= "table" or is_node(arguments[key]) then
      where.fail(("pg.graph needs %s = { ... }; got %s"):format(key, where.describe(arguments[key])))
    end
  end
  local result
  if arguments.nodes then -- written out: { name =, layer =, inputs = { names } }
    result = { type = "graph" }
    for key, value in pairs(arguments) do result[key] = value end
  else
    result = graph_from_nodes(arguments)
  end
  result["@"] = where.position()
  return setmetatable(result, Graph)
end

return layers
