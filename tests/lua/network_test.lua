-- Networks and models applied to tensors, their gradients, and optimisers' steps.
local pg = require "perigee"

local tests = {}

local function small() return pg.sequential { pg.dense { 8, activation = "tanh" }, pg.dense { 3 } } end

function tests.a_network_computes_what_its_layers_say()
  local net, x = small():init(7, { 4 }), pg.randn(5, 4)
  local p = net:parameters()
  local wanted = pg.tanh(x:matmul(p["dense1.weight"].T) + p["dense1.bias"]):matmul(p["dense2.weight"].T) + p["dense2.bias"]
  assert(net(x):all_close(wanted, 1e-5, 1e-6))
  assert(net(x):all_close(net:apply(p, x)))
  check.matches(net:summary().text, "dense2  dense  3       27\n67 parameters")
end

function tests.the_seed_and_the_names_draw_the_parameters()
  local a, b, c = small():init(7, { 4 }), small():init(7, pg.zeros(2, 4)), small():init(8, { 4 })
  assert(a:parameters()["dense1.weight"]:all_equal(b:parameters()["dense1.weight"]))
  assert(not a:parameters()["dense1.weight"]:all_equal(c:parameters()["dense1.weight"]))
end

function tests.init_takes_the_shape_from_data()
  local data = pg.data.arrays { x = { { 1, 2, 3 }, { 4, 5, 6 } }, y = { 0, 1 } }
  check.equal(pg.sequential { pg.dense { 2 } }:init(1, data):parameters()["dense1.weight"].shape, { 2, 3 })
end

function tests.networks_of_several_inputs_and_outputs()
  local left, right = pg.input "left", pg.input "right"
  local both = pg.dense { 2, name = "shared" }
  local net = pg.graph { inputs = { left, right }, outputs = { sum = both(left) + both(right), own = both(left) } }
  net:init(1, { left = { 3 }, right = { 3 } })
  local a, b = pg.randn(4, 3), pg.randn(4, 3)
  local own, sum = net(a, b) -- in the order of their names
  check.equal(own.shape, { 4, 2 })
  assert(sum:all_close(own + (net { left = b, right = a }), 1e-5, 1e-6))
  check.raises(function() net(a) end, "takes 2 tensors %(left, right%); got 1")
  check.raises(function() net(a, pg.randn(5, 3)) end, "input 'right' does not fit; got f32%[5x3%]")
end

function tests.a_seed_alone_waits_for_the_first_batch()
  local x = pg.randn(3, 4)
  local net, other = small():init(7), small():init(7, { 4 })
  assert(net(x):all_equal(other(x)))
  assert(net(x):all_equal(other(x)), "parameters are drawn once")
  assert(not net:init(8)(x):all_equal(other(x)))
  local a, b = pg.input "a", pg.input "b"
  local graph = pg.graph { inputs = { a, b }, outputs = { pg.dense { 2 } (a) + pg.dense { 2 } (b) } }
  check.equal(graph:init(1)({ a = pg.randn(5, 3), b = pg.randn(5, 6) }).shape, { 5, 2 })
end

function tests.a_function_of_ones_own_is_applied_to_tensors_too()
  local x = pg.randn(3, 4)
  local swish = pg.lambda(function(value) return value * pg.sigmoid(value) end)
  assert(swish(x):all_equal(x * pg.sigmoid(x)))
  assert(swish(x):all_close(pg.sequential { swish }:init(1)(x), 1e-6, 1e-6))
  assert(pg.lambda(function(u, v) return u + 2 * v end)(x, x):all_close(3 * x, 1e-6, 1e-6))
  check.raises(function() pg.dense { 3 } (x) end, "dense is applied to a tensor; .*pg.sequential { pg.dense { ... } }:init%(1%)")
end

function tests.what_cannot_be_applied_says_why()
  check.raises(function() small()(pg.randn(3, 4)) end, "network_test.lua:%d+: .*no parameters yet; net:init%(seed, shape%)")
  check.raises(function() small():init(1, nil) end, "the shape of one example of input 'x'")
  check.raises(function() small():init(1):parameters() end, "parameters: this network has no parameters yet; .*; net:init%(seed%) alone does so when")
  check.raises(function() small():init({ 4 }) end, "init takes a seed")
  local net = small():init(1, { 4 })
  check.raises(function() net(pg.randn(2, 5)) end, "input 'x' does not fit; got f32%[2x5%]")
  check.raises(function() net:apply({}, pg.randn(2, 4)) end, "parameter 'dense1.weight' is nothing; expected a tensor")
  check.raises(function() pg.load_model "nothere.safetensors" end, "nothere.safetensors")
end

function tests.a_session_reads_a_sequence_in_pieces()
  local net, x = pg.sequential { pg.lstm { 5 }, pg.dense { 3, over = "steps" } }:init(7, { 2, 6 }), pg.randn(2, 2, 6)
  local whole, session = net(x), net:session(2)
  assert(session:step(x[{ {}, {}, { 1, 1 } }]):all_close(whole[{ {}, {}, { 1, 1 } }], 1e-5, 1e-6))
  local state, other = session:state(), net:session(2)
  assert(session:step(x[{ {}, {}, { 2, 6 } }]):all_close(whole[{ {}, {}, { 2, 6 } }], 1e-5, 1e-6))
  check.equal(state["lstm1.h"].shape, { 2, 5 })
  assert(other:set_state(state):step(x[{ {}, {}, { 2, 6 } }]):all_close(whole[{ {}, {}, { 2, 6 } }], 1e-5, 1e-6))
  assert(session:clear():step(x):all_close(whole, 1e-5, 1e-6))
  check.matches(tostring(session), "carries lstm1.h, lstm1.c")
  check.raises(function() session:step(pg.randn(2, 3, 1)) end, "network_test.lua:%d+: .*the tensor does not fit; got f32%[2x3x1%]")
  check.raises(function() session:step(3) end, "step takes a tensor")
  check.raises(function() session:set_state {} end, "'lstm1.h' is nothing")
  check.raises(function() net:session(0) end, "out of range")
  check.raises(function() pg.sequential { pg.gru { 3, reverse = true } }:init(1, { 2, 6 }):session() end, "gru 'gru1'.*step by step")
end

function tests.a_session_of_attention_reads_its_context()
  local net, x = pg.sequential {
    pg.positions {}, pg.transformer { heads = 2, causal = true }, pg.conv1d { 3, 2, padding = "causal" },
  }:init(7, { 4, 6 }), pg.randn(2, 4, 6)
  local whole, session, other = net(x), net:session(2), net:session(2)
  for step = 1, 6 do  -- in turns with another one
    assert(session:step(x[{ {}, {}, { step, step } }]):all_close(whole[{ {}, {}, { step, step } }], 1e-5, 1e-6))
    other:step(pg.randn(2, 4, 1))
  end
  check.equal(session:state().steps[2], 6)
  check.raises(function() session:step(pg.randn(2, 4, 1)) end, "no more steps than its context has; got 6 steps read, and 1 more")
  assert(other:set_state(session:clear():state()):step(x):all_close(whole, 1e-5, 1e-6))
end

function tests.gradients_are_those_of_finite_differences()
  local net, x, y = small():init(3, { 4 }), pg.randn(6, 4), pg.tensor({ 1, 2, 3, 3, 2, 1 }, { dtype = "i64" })
  local p = net:parameters()
  local function loss(parameters) return pg.cross_entropy(net:apply(parameters, x), y):mean() end
  local grads = pg.grad(loss)(p)
  for name, parameter in pairs(p) do
    check.equal(grads[name].shape, parameter.shape)
    local flat, step = parameter:reshape { -1 }, 1e-2
    for place = 1, math.min(4, #flat) do
      local before = flat[place]
      flat[place] = before + step
      local above = loss(p):item()
      flat[place] = before - step
      local below = loss(p):item()
      flat[place] = before
      local measured, got = (above - below) / (2 * step), grads[name]:reshape { -1 }[place]
      assert(math.abs(measured - got) < 2e-3, ("%s[%d]: %g and %g"):format(name, place, measured, got))
    end
  end
end

function tests.a_saved_network_is_loaded_again()
  local path = os.tmpname() .. ".safetensors"
  local net, x = small():init(3, { 4 }), pg.randn(2, 4)
  net:save(path)
  local model = pg.load_model(path)
  os.remove(path)
  assert(model(x):all_equal(net(x)))
  assert(model:apply(model:parameters(), x):all_equal(net(x)))
  check.equal(model.inputs[1].shape, { 4 })
  check.equal(model.outputs[1].shape, { 3 })
  check.equal(#model.classes, 0)
  check.matches(tostring(model), "67 parameters\ninputs   x f32%[4%]\noutputs  output f32%[3%]")
end

-- Rules ----------------------------------------------------------------------------------------------------------------------------

-- The first steps of sgd, momentum and adam, by their formulas.
local formulas = {
  { pg.sgd { lr = 0.1 }, function(w, g) return w - g * 0.1 end },
  { pg.sgd { lr = 0.1, momentum = 0.9 }, function(w, g, s)
    s.v = s.v and s.v * 0.9 + g or g
    return w - s.v * 0.1
  end },
  { pg.adam { lr = 0.01 }, function(w, g, s, t)
    s.m = (s.m or pg.zeros_like(w)) * 0.9 + g * 0.1
    s.v = (s.v or pg.zeros_like(w)) * 0.999 + g * g * 0.001
    return w - s.m / (1 - 0.9 ^ t) * 0.01 / ((s.v / (1 - 0.999 ^ t)):sqrt() + 1e-8)
  end },
}

function tests.rules_follow_their_formulas()
  for _, each in ipairs(formulas) do
    local rule, formula = unpack(each)
    local w, state = pg.randn(3, 5), {}
    local wanted = w:clone()
    for t = 1, 5 do
      local g = pg.randn(3, 5)
      wanted = formula(wanted, g, state, t)
      check.equal(rule:step(w, g), rule)
      assert(w:all_close(wanted, 1e-4, 1e-6), rule.type .. " at step " .. t .. "\n" .. tostring(w) .. "\n" .. tostring(wanted))
    end
  end
end

function tests.an_optimiser_keeps_its_states_and_forgets_them()
  local rule, a, b = pg.adam { lr = 0.1 }, pg.ones(3, 2), pg.ones(3, 2)
  local g = pg.full({ 3, 2 }, 0.5)
  rule:step(a, g):step(a, -g * 3)
  local other = pg.adam { lr = 0.1 }
  other:step(b, g)
  other:reset():step(b, -g * 3)
  assert(not a:all_close(b))
  check.equal(require("perigee.native").to_json(rule), '{"lr":0.1,"type":"adam"}') -- it is the same job as before
end

function tests.schedules_see_steps_and_progress()
  local rule, w = pg.sgd { lr = pg.linear { from = 1, to = 0 } }, pg.zeros(2)
  rule:step(w, pg.ones(2), { progress = 0 })
  check.equal(w:totable(), { -1, -1 })
  rule:step(w, pg.ones(2), { progress = 0.5 })
  check.equal(w:totable(), { -1.5, -1.5 })
end

-- A training run of the same steps: the data in their order, batches of a power of two.
function tests.steps_are_those_of_training()
  pg.seed(5)
  local x, y = pg.randn(32, 4), pg.randint(0, 2, { 32 })
  local data = pg.data.arrays { x = x:totable(), y = y:totable() }
  for _, rule in ipairs { { "sgd", lr = 0.1, momentum = 0.9 }, { "adamw", lr = 0.01 }, { "adam", lr = 0.01, bias_lr = 0.02 } } do
    local function optimizer()
      local options = {}
      for key, value in pairs(rule) do
        if key ~= 1 then options[key] = value end
      end
      return pg.optimizer[rule[1]](options)
    end
    local run = pg.start(pg.experiment {
      network = small(), loss = "cross_entropy", optimizer = optimizer(), data = { train = data, batch = 8, shuffle = false },
      epochs = 2, seed = 11, threads = 1,
    }, { folder = false })
    run:wait(60)
    local path = os.tmpname() .. ".safetensors"
    run:save(path)
    local model = pg.load_model(path)
    os.remove(path)
    local net, opt = small():init(11, data), optimizer()
    local gradient = pg.grad(function(p, inputs, classes) return pg.cross_entropy(net:apply(p, inputs), classes):mean() end)
    for _ = 1, 2 do
      for batch in data:batches(8) do opt:step(net:parameters(), gradient(net:parameters(), batch.x, batch.y)) end
    end
    for name, parameter in pairs(net:parameters()) do
      local trained = model:parameters()[name]
      assert(parameter:all_close(trained, 1e-4, 1e-6), rule[1] .. " " .. name .. "\n" .. tostring(parameter) .. "\n" .. tostring(trained))
    end
    assert(model(x):all_close(pg.softmax(net(x)), 1e-4, 1e-5)) -- the loss's function applied
  end
end

function tests.wrong_steps_are_refused_and_change_nothing()
  local rule, p = pg.sgd { lr = 1 }, { w = pg.ones(2, 2), b = pg.ones(2) }
  check.raises(function() rule:step(p, { w = pg.ones(2, 2) }) end, "the table of gradients has no 'b'")
  check.raises(function() rule:step(p, { w = pg.ones(2, 2), b = pg.ones(3) }) end, "gradient 'b'.*shape.*got f32%[3%], expected f32%[2%]")
  check.raises(function() rule:step({ w = 3 }, {}) end, "parameters 'w' is 3; expected a tensor")
  check.raises(function() pg.sgd { 1 }:step(pg.ones({ 2, dtype = "i64" }), pg.ones(2)) end, "expected f32 or f64")
  check.equal(p.b:totable(), { 1, 1 })
  rule:step(p, { w = pg.ones(2, 2), b = pg.ones(2) })
  check.equal(p.b:totable(), { 0, 0 })
  check.raises(function() rule:step({ v = pg.ones(2) }, { v = pg.ones(2) }) end, "has no")
end

return tests
