-- A function means the same on tensors, at once, and inside pg.lambda, traced: names, axes, places, constants.
local pg = require "perigee"

local tests = {}

pg.seed(3)
local matrix = pg.randn(5, 3, 4)
local image = pg.randn(2, 3, 6, 6)
local weight = pg.randn(4, 3, 3, 3)
local table_of = pg.randn(4)

-- By name: the function and, where it is not `matrix`, its argument. None reduces the batch, axis 1.
local cases = {
  sum = { function(x) return x:sum(2) end },
  sum_of_all = { function(x) return x * 0 + x:sum() end },
  sum_of_two = { function(x) return pg.sum(x, { 2, -1 }) end },
  mean_kept = { function(x) return x - x:mean(-1, true) end },
  max = { function(x) return x:max(3) end },
  max_of_both = { function(x) return pg.maximum(x, 0) + x:min(2, true) end },
  prod = { function(x) return x:prod(2) end },
  var = { function(x) return x:var(3) end },
  var_corrected = { function(x) return x:var(3, true, 1) end },
  std = { function(x) return x:std(2) end },
  norm = { function(x) return x:norm(3) end },
  logsumexp = { function(x) return x:logsumexp(2) end },
  logsumexp_kept = { function(x) return x:logsumexp(-1, true) end },
  any = { function(x) return x:gt(1):any(3):to "f32" end },
  all = { function(x) return x:gt(-1):all(2):to "f32" end },
  argmax = { function(x) return x:argmax(2):to "f32" end },
  argmin = { function(x) return x:argmin():to "f32" end },
  cumsum = { function(x) return x:cumsum(2) end },
  softmax = { function(x) return pg.softmax(x, 2) end },
  softmax_last = { function(x) return pg.softmax(x) end },
  log_softmax = { function(x) return x:log_softmax(-2) end },
  clamp = { function(x) return x:clamp(-0.5, 0.5) end },
  comparison = { function(x) return pg.where(x:lt(0), x * 0.1, x) end },
  tensor_first = { function(x) return table_of * x + table_of end },
  tensor_second = { function(x) return x / (table_of:abs() + 1) end },
  list_second = { function(x) return x + { 1, 2, 3, 4 } end, except = true },
  matmul_constant = { function(x) return pg.matmul(x, pg.eye(4)) end },
  matmul = { function(x) return x:matmul(x:transpose(2, 3)) end },
  matmul_transposed = { function(x) return pg.matmul(x, x, { transpose_b = true }) end },
  einsum = { function(x) return pg.einsum("bij,bkj->bik", x, x) end },
  einsum_constant = { function(x) return pg.einsum("bij,j->bi", x, table_of) end },
  tril = { function(x) return pg.tril(x) end },
  triu = { function(x) return x:triu(1) end },
  mask = { function(x) return pg.where(pg.tril(pg.ones(3, 4)):gt(0), x, -9) end },
  trace = { function(x) return x:trace() end },
  diagonal = { function(x) return x:diagonal() end },
  place = { function(x) return x[{ {}, 2 }] end },
  place_from_the_end = { function(x) return x[{ {}, {}, -1 }] end },
  range = { function(x) return x[{ {}, { 2, 3 }, { 1, -2 } }] end },
  step = { function(x) return x[{ {}, {}, { 4, 1, -2 } }] end },
  new_axis = { function(x) return x[{ {}, pg.newaxis, 1 }] end },
  flip = { function(x) return x:flip(3) end },
  narrow = { function(x) return x:narrow(-1, 2, 2) end },
  split = { function(x) local a, b = unpack(x:split({ 1, 3 }, 3)) return a + b end },
  take = { function(x) return x:take({ 3, 1, 3 }, 3) end },
  take_along = { function(x) return x:take_along(x:argsort(3), 3) end },
  sort = { function(x) return (x:sort(2, true)) end },
  topk = { function(x) return (x:topk(2)) end },
  one_hot = { function(x) return pg.one_hot(x:argmax(3), 4) end },
  concat = { function(x) return pg.concatenate({ x, x }, 3) end },
  stack = { function(x) return pg.stack({ x, -x }, 2) end },
  transpose = { function(x) return x:transpose { 1, 3, 2 } end },
  unsqueeze = { function(x) return x:unsqueeze(2) end },
  unsqueeze_last = { function(x) return x:unsqueeze(-1) end },
  squeeze = { function(x) return x:sum(2, true):squeeze(2) end },
  reshape = { function(x) return x:reshape(#x, -1) end },
  reshape_to_shape = { function(x) return x:sum(3, true):expand(x.shape) end },
  shape = { function(x) return x / x.shape[2] + x:size(-1) * 2 end },
  shape_arithmetic = { function(x) return x:reshape(#x, x.shape[2] * x.shape[3] / 2, 2) end },
  root_of_size = { function(x) return x * x.shape[3] ^ -0.5 end },
  zeros_like = { function(x) return pg.zeros_like(x) + pg.ones_like(x) end },
  stft = { function(x) return x:stft { window = 4, hop = 2, taper = "hamming" } end },
  stft_complex = { function(x) return x:stft { window = 4, hop = 1, power = 0 } end },
  stft_filters = { function(x) return pg.stft(x, pg.ones(2, 3), { window = 4, hop = 1, power = 1 }) end },
  deltas = { function(x) return x:deltas { reach = 1, order = 2 } end },
  conv2d = { function(x) return x:conv2d(weight, { stride = 2, padding = 1 }) end, image },
  maxpool = { function(x) return x:maxpool { kernel = 2 } end, image },
  avgpool = { function(x) return x:avgpool(3) end, image },
}

local function network_of(f, x) return pg.sequential { pg.lambda(f) }:init(1, x) end

for name, case in pairs(cases) do
  tests[name] = function()
    local f, x = case[1], case[2] or matrix
    local wanted = case.except and x + pg.tensor { 1, 2, 3, 4 } or f(x)
    local got = network_of(f, x)(x)
    check.equal(got.shape, wanted.shape)
    assert(got:all_close(wanted, 1e-5, 1e-6), tostring(got) .. "\nexpected\n" .. tostring(wanted))
  end
end

-- The derivatives are the same, too; what has none on tensors has none when it is traced.
function tests.traced_functions_have_the_derivatives_of_tensors()
  local compared = 0
  for name, case in pairs(cases) do
    local f, x = case[1], case[2] or matrix
    if not case.except then
      local net = network_of(f, x)
      local weights = pg.randn(f(x).shape)
      local there, wanted = pcall(pg.grad(function(v) return (f(v) * weights):sum() end), x)
      local here, got = pcall(pg.grad(function(v) return (net(v) * weights):sum() end), x)
      check.equal(name .. tostring(here), name .. tostring(there))
      if there then
        compared = compared + 1
        assert(got:all_close(wanted, 1e-4, 1e-5), name .. "\n" .. tostring(got) .. "\nexpected\n" .. tostring(wanted))
      end
    end
  end
  assert(compared > 45, compared)
end

function tests.a_traced_function_has_trained_tensors()
  local layer = pg.lambda(function(x)
    local w, b = pg.parameter("w", { 4, 2 }), pg.parameter("b", { 2 }, { role = "bias", init = pg.init.constant { value = 3 } })
    return x:matmul(w) + b
  end, { name = "own" })
  local net, x = pg.sequential { layer }:init(1, { 4 }), pg.randn(5, 4)
  local p = net:parameters()
  check.equal(p["own.b"]:totable(), { 3, 3 })
  assert(p["own.w"]:std():item() > 0)
  assert(net(x):all_close(x:matmul(p["own.w"]) + p["own.b"], 1e-5, 1e-6))
  local grads = pg.grad(function(q) return net:apply(q, x):sum() end)(p)
  assert(grads["own.b"]:all_close(pg.full({ 2 }, 5)))
  local sized = pg.lambda(function(v) return v:matmul(pg.parameter("w", { v.shape[2], v.shape[2] * 2 })) end, { name = "sized" })
  check.equal(pg.sequential { pg.dense { 3 }, sized }:init(1, { 4 }):parameters()["sized.w"].shape, { 3, 6 })
  local batch = pg.lambda(function(v) return v * pg.parameter("w", { v.shape[1] }) end)
  check.raises(function() pg.sequential { batch }:init(1, { 4 }) end, "has the size of the batch, which changes")
  check.raises(function() pg.parameter("w", { 2 }) end, "use it inside pg.lambda")
  check.raises(function() pg.loss.lambda(function(o, _) return o * pg.parameter("w", { 2 }) end) end, "use it inside pg.lambda")
  check.raises(function() pg.lambda(function(v) return v * pg.parameter("v", { 2 }) end) end, "'v' is an argument of the function")
  check.raises(function() pg.lambda(function(v) return v * pg.parameter("w", 2) * pg.parameter("w", 2) end) end, "a parameter 'w' already")
  check.raises(function() pg.lambda(function(v) return v * pg.parameter("w", { 0 }) end) end, "size 1 is 0; expected a whole number from 1")
  check.raises(function() pg.lambda(function(v) return v * pg.parameter("w", { (v * 2).shape[2] }) end) end,
    "is that of a value which the function makes")
  check.raises(function() pg.lambda(function(v) return v * pg.parameter("w", 2, { rol = 1 }) end) end, "no option 'rol'")
end

function tests.classes_count_from_1()
  local logits, classes = pg.randn(4, 3), pg.tensor({ 1, 3, 2, 3 }, { dtype = "i64" })
  local graph = pg.graph {
    inputs = { pg.input "x", pg.input "y" },
    outputs = { pg.lambda(function(x, y) return pg.cross_entropy(x, y) end)(pg.input "x", pg.input "y") },
  }
  graph:init(1, logits, classes)
  assert(graph(logits, classes):all_close(pg.cross_entropy(logits, classes)))
end

function tests.shapes_decide_nothing_while_a_function_is_traced()
  check.raises(function() pg.lambda(function(x) if x.shape[2] == 3 then return x end end) end, "known only when the network is built")
  check.raises(function() pg.lambda(function(x) return x:sum(0) end) end, "there is no axis 0; axes count from 1, which is the batch")
  check.raises(function() pg.lambda(function(x) return x:nonzero() end) end, "works on tensors and not on traced values")
  check.raises(function() pg.lambda(function(x) return pg.nonzero(x) end) end, "works on tensors and not on traced values")
  check.raises(function() pg.lambda(function(x) return x.rank end) end, "rank is known only when the network is built")
  check.raises(function() pg.lambda(function(x) return pg.eye(4):matmul(x) end) end, "write pg.matmul%(a, b%)")
  check.raises(function() pg.lambda(function(x) return x + pg.zeros(70000) end) end, "70000 elements is too large to be written into a job")
  check.raises(function() pg.lambda(function(x) return pg.where(x:gt(0), x, -math.huge) end) end, "a job cannot hold %-inf")
end

function tests.the_number_of_examples_is_no_number_to_compute_with()
  check.raises(function() network_of(function(x) return x / #x end, matrix)(matrix) end, "number of examples, which is another in each thread")
  check.raises(function() network_of(function(x) return x:sum { 1, 2 } end, matrix)(matrix) end, "lost the batch")
  check.raises(function() network_of(function(x) return x[{ {}, 9 }] end, matrix)(matrix) end, "places from 1 to 3")
  check.raises(function() network_of(function(x) return x * x.shape[7] end, matrix)(matrix) end, "does not have; got axis 6")
end

return tests
