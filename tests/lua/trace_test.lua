local pg = require "perigee"

local tests = {}

function tests.records_ops_in_order()
  local layer = pg.lambda(function(x) return x * pg.sigmoid(x) + 1 end)
  check.equal(layer.type, "lambda")
  check.equal(layer.inputs, { "x" })
  local ops = {}
  for index, step in ipairs(layer.program) do ops[index] = step.op end
  check.equal(ops, { "sigmoid", "mul", "add" })
  check.equal(layer.program[2]["in"], { "x", "t1" })
  check.equal(layer.program[3]["in"], { "t2", 1 })
  check.equal(layer.outputs, { "t3" })
end

function tests.methods_and_functions_are_the_same()
  local a = pg.lambda(function(x) return pg.exp(x) end)
  local b = pg.lambda(function(x) return x:exp() end)
  check.equal(a.program, b.program)
end

function tests.several_values_in_and_out()
  local layer = pg.lambda(function(left, right) return left - right, pg.maximum(left, right) end)
  check.equal(layer.inputs, { "left", "right" })
  check.equal(#layer.outputs, 2)
end

function tests.comparisons_cannot_decide()
  check.raises(function() pg.lambda(function(x) return x == 1 and x or -x end) end, "x:eq%(y%) and choose with pg.where")
  check.raises(function() pg.lambda(function(x) if x < 0 then return -x end return x end) end, "trace_test.lua:31: .*x:lt")
  check.raises(function() pg.lambda(function(x) if 0 <= x then return -x end return x end) end, "x:le")
  local layer = pg.lambda(function(x) return pg.where(x:lt(0), -x, x) end)
  check.equal(layer.program[#layer.program].op, "where")
end

function tests.attributes_are_checked_where_they_stand()
  check.raises(function() pg.lambda(function(x) return pg.op.softmax(x, { axs = 1 }) end) end,
    "trace_test.lua:%d+: softmax: unknown key 'axs'; did you mean 'axis'")
  check.raises(function() pg.lambda(function(x) return x:conv2d(x, { strid = 1 }) end) end, "conv2d: unknown key 'strid'")
end

function tests.loops_unroll_up_to_a_bound()
  local layer = pg.lambda(function(x) for _ = 1, 10 do x = x + x end return x end)
  check.equal(#layer.program, 10)
  check.raises(function() pg.lambda(function(x) while true do x = x + x end end) end, "more than 10000 ops")
end

function tests.chance_and_files_are_refused_and_come_back()
  check.raises(function() pg.lambda(function(x) return x * math.random() end) end, "math.random would be drawn only once")
  check.raises(function() pg.lambda(function(x) io.write "x" return x end) end, "io cannot be used")
  check.raises(function() pg.lambda(function(x) return x * os.time() end) end, "os cannot be used")
  check.equal(type(math.random()), "number")
end

function tests.wrong_results_are_named()
  check.raises(function() pg.lambda(function(_) return 3 end) end, "the traced function returns 3")
  check.raises(function() pg.lambda(function(_) end) end, "returns nothing")
  check.raises(function() pg.lambda(3) end, "takes a function; got 3")
  check.raises(function() pg.lambda(function(...) return ... end) end, "named parameters")
  check.raises(function() pg.lambda(function(x) return x:sigmoi() end) end, "no method 'sigmoi'; did you mean 'sigmoid'")
  check.raises(function() pg.lambda(function(x) return x + "a" end) end, "takes traced values, tensors and numbers; got 'a'")
  check.raises(function() return pg.exp(3) end, "works on tensors, and on traced values inside pg.lambda")
end

function tests.traced_values_do_not_outlive_their_trace()
  local kept
  pg.lambda(function(x) kept = x return x + 1 end)
  check.raises(function() return kept + 1 end, "only be used inside")
  check.raises(function() pg.lambda(function(x) return x + kept end) end, "belongs to another function")
end

return tests
