local pg = require "perigee"
local native = require "perigee.native"

local tests = {}

-- Without positions, as stored.
local function plain(value)
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, item in pairs(value) do
    if key ~= "@" then copy[key] = plain(item) end
  end
  return copy
end

function tests.positional_arguments_are_named_options()
  check.equal(plain(pg.dense { 10, activation = "relu" }), { type = "dense", out = 10, activation = "relu" })
  check.equal(plain(pg.dense(10)), { type = "dense", out = 10 })
  check.equal(plain(pg.maxpool { 2 }), plain(pg.maxpool { kernel = 2 }))
end

function tests.layers_know_their_line()
  check.matches(pg.dense { 10 }["@"], "layers_test.lua:23$")
end

function tests.every_layer_of_the_registry_is_there()
  local own = { graph = true, lambda = true, sequential = true } -- tested below and in trace_test.lua
  for _, definition in ipairs(native.family "layer") do
    check.equal(type(pg[definition.name]), "function")
    if not own[definition.name] then check.equal(pg[definition.name] {}.type, definition.name) end
  end
end

function tests.layers_of_layers_take_them_in_a_row()
  local block = pg.residual { pg.dense { 4 }, pg.sequential { pg.dense { 5 }, pg.dense { 4 } }, activation = "relu" }
  check.equal(plain(block.layers), { { type = "dense", out = 4 }, { type = "dense", out = 5 }, { type = "dense", out = 4 } })
  check.raises(function() pg.residual { pg.dense } end, "entry 1 of pg.residual is a function")
end

function tests.typos_name_the_nearest()
  check.raises(function() return pg.convd2 {} end, "layers_test.lua:41: there is no pg.convd2; did you mean 'conv2d'")
  check.raises(function() local _ = pg.conv2d { 3, kernal = 5 } end,
    "layers_test.lua:42: conv2d has no option 'kernal'; did you mean 'kernel'")
  check.raises(function() return pg.dense { 10, 20 } end, "only out")
  check.raises(function() return pg.dense { 10, out = 20 } end, "'out' is given twice")
  check.raises(function() return pg.loss.cros_entropy() end, "did you mean 'cross_entropy'")
  check.raises(function() return pg.adamw { wight_decay = 1 } end, "did you mean 'weight_decay'")
end

function tests.sequences_take_layers_only()
  check.raises(function() return pg.sequential { pg.dense } end, "entry 1 of pg.sequential is a function")
  check.raises(function() return pg.sequential { pg.dense { 3 }, 7 } end, "entry 2 of pg.sequential is 7; expected a layer")
  check.raises(function() return pg.sequential { pg.dense { 3 }, nil, pg.dense { 4 } } end, "entry 2 of pg.sequential is nothing")
  check.raises(function() return pg.sequential {} end, "no layers")
  local inner = pg.sequential { pg.dense { 3 }, pg.dense { 4 } }
  check.equal(#pg.sequential { inner, pg.dense { 5 } }.layers, 3)
end

function tests.graphs_are_written_by_calling_layers()
  local a, b = pg.input "left", pg.input "right"
  local tower = pg.dense { 4, name = "tower" }
  local joined = pg.dense { 2 } (tower(a))
  local other = tower(b)
  local graph = plain(pg.graph { inputs = { a, b }, outputs = { joined, other } })
  check.equal(graph.inputs, { "left", "right" })
  check.equal(graph.outputs, { "dense1", "tower_2" })
  check.equal(graph.nodes, {
    { name = "tower", inputs = { "left" }, layer = { type = "dense", out = 4, share = "tower" } },
    { name = "dense1", inputs = { "tower" }, layer = { type = "dense", out = 2 } },
    { name = "tower_2", inputs = { "right" }, layer = { type = "dense", out = 4, share = "tower" } },
  })
end

function tests.named_outputs_name_their_nodes()
  local x = pg.input "x"
  local graph = pg.graph { inputs = { x }, outputs = { digit = pg.dense { 10 } (x), style = pg.dense { 3 } (x) } }
  check.equal(graph.outputs, { "digit", "style" })
end

function tests.graphs_refuse_what_does_not_fit()
  local a = pg.input "a"
  local b = pg.input "b"
  check.raises(function() return pg.graph { inputs = { b }, outputs = { pg.dense { 1 } (a) } } end,
    "pg.input 'a', which is not among its inputs")
  check.raises(function() return pg.dense { 1 } (pg.dense { 2 }) end, "dense is applied to a 'dense' %(argument 1%); expected a graph node")
  check.raises(function() return pg.graph { inputs = { a }, outputs = a } end, "needs outputs = ")
end

return tests
