local pg = require "perigee"

local tests = {}

local function list(x) return x:totable() end

-- Central differences in float64 at every element of the first argument.
local function numeric_gradient(f, x, ...)
  local gradient, step = pg.zeros { x:numel(), dtype = "f64" }, 1e-6
  for place = 1, x:numel() do
    local values = {}
    for _, sign in ipairs { 1, -1 } do
      local moved = x:clone():reshape(-1)
      moved[place] = moved[place] + sign * step
      values[#values + 1] = f(moved:reshape(x.shape), ...):item()
    end
    gradient[place] = (values[1] - values[2]) / (2 * step)
  end
  return gradient:reshape(x.shape)
end

local function same_gradient(f, x, ...)
  local found, wanted = pg.grad(f)(x, ...), numeric_gradient(f, x, ...)
  if not found:all_close(wanted, 1e-5, 1e-6) then error("got\n" .. found .. "\nexpected\n" .. wanted, 2) end
end

local function positive(...) return pg.rand(...):to "f64" + 0.5 end

function tests.gradients_are_those_of_finite_differences()
  pg.seed(1)
  local x, w = positive(3, 4), positive(4, 2)
  same_gradient(function(a) return (a * a * 3 - 1 / a):sum() end, x)
  same_gradient(function(a) return pg.log(a):mean() + pg.sqrt(a):sum() end, x)
  same_gradient(function(a, b) return pg.tanh(a:matmul(b)):sum() end, x, w)
  same_gradient(function(a) return a:softmax(2)[{ {}, 1 }]:sum() end, x)
  same_gradient(function(a) return (a:std(1) * a:max(1)):sum() end, x)
  same_gradient(function(a) return (a:t():reshape(2, 6) ^ 3):sum() end, x)
  same_gradient(function(a) return pg.concat({ a, a * 2 }, 2)[{ 2, { 3, 6 } }]:square():sum() end, x)
  same_gradient(function(a) return pg.where(a:gt(1), a * a, 2 * a):sum() end, x)
  same_gradient(function(a, b) return (pg.einsum("ij,jk->ki", a, b) ^ 2):sum() end, x, w)
  same_gradient(function(a) return a:take({ 3, 1, 1 }, 1):square():sum() end, x)
  same_gradient(function(a) return pg.stack({ a[1], a[3] }, 2):cumsum(1):square():sum() end, x)
  same_gradient(function(a) return a:logsumexp(2):sum() + a:norm() end, x)
end

function tests.gradients_of_images()
  pg.seed(2)
  local x, w = positive(2, 3, 5, 5), positive(4, 3, 3, 3)
  same_gradient(function(a, k) return (a:conv2d(k, { stride = 2, padding = 1 }) ^ 2):sum() end, x, w)
  same_gradient(function(k, a) return (a:conv2d(k) ^ 2):mean() end, w, x)
  same_gradient(function(a) return a:maxpool(2):square():sum() end, x)
end

function tests.values_come_with_gradients_nested_as_the_arguments()
  local f = pg.value_and_grad(function(p, x) return (p.scale * x + p.more[1]):sum(), "kept" end)
  local value, gradients, kept = f({ scale = pg.ones(2), more = { pg.zeros(2) } }, pg.tensor { 3, 4 })
  check.equal(value:item(), 7)
  check.equal(list(gradients.scale), { 3, 4 })
  check.equal(list(gradients.more[1]), { 1, 1 })
  check.equal(kept, "kept")
  local a, b = pg.grad(function(x, y) return (x * y).sum and (x * y):sum() end, { 1, 2 })(pg.tensor { 1, 2 }, pg.tensor { 3, 4 })
  check.equal(list(a), { 3, 4 })
  check.equal(list(b), { 1, 2 })
end

function tests.derivatives_of_derivatives()
  local second = pg.grad(function(x) return pg.grad(function(z) return (z ^ 4):sum() end)(x):sum() end)
  check.equal(list(second(pg.tensor { 1, 2 })), { 12, 48 })
  -- Earlier computations of the caller on the same tensor do not count.
  local f = pg.grad(function(x)
    local y = x * 10
    return pg.grad(function(z) return (z * y):sum() end)(x):sum()
  end)
  check.equal(list(f(pg.tensor { 1, 2 })), { 10, 10 })
  check.equal(list(pg.jacobian(function(x) return x * x end)(pg.tensor { 1, 2 })), { { 2, 0 }, { 0, 4 } })
  check.equal(pg.jacobian(function(x) return x:matmul(pg.ones(3, 2)) end)(pg.ones(4, 3)).shape, { 4, 2, 4, 3 })
end

function tests.compiled_functions_give_what_eager_ones_give()
  pg.seed(3)
  local function f(x, w, rate) return (pg.relu(x:matmul(w)) * rate + 1):mean(1), x:argmax(2), w:t() end
  local compiled = pg.compile(f)
  for _, rows in ipairs { 3, 8, 3 } do
    local x, w = pg.randn(rows, 5), pg.randn(5, 4)
    local a, b, c = f(x, w, 0.25)
    local p, q, r = compiled(x, w, 0.25)
    check.equal(a:all_close(p), true)
    check.equal(b:all_equal(q), true)
    check.equal(c:all_equal(r), true)
  end
end

-- Large enough for several threads: rows are shared, sums meet, the update needs them.
function tests.batches_are_shared_among_threads()
  pg.seed(4)
  local function loss(w, x, y) return pg.cross_entropy(x:matmul(w), y):mean() end
  local function step(w, x, y, rate)
    local value, gradient = pg.value_and_grad(loss)(w, x, y)
    return value, w - rate * gradient, pg.relu(x)
  end
  local x, y, w = pg.randn(96, 200), pg.randint(1, 50, { 96 }), pg.randn(200, 50) * 0.1
  local one, new_one, relu_one = pg.compile(step, { threads = 1 })(w, x, y, 0.5)
  for _, threads in ipairs { 2, 3, 5 } do
    local many, new_many, relu_many = pg.compile(step, { threads = threads })(w, x, y, 0.5)
    check.equal(one:all_close(many), true)
    check.equal(new_one:all_close(new_many, 1e-4, 1e-6), true)
    check.equal(relu_one:all_equal(relu_many), true)
  end
  local by_hand = w - 0.5 * pg.grad(loss)(w, x, y)
  check.equal(by_hand:all_close(new_one, 1e-4, 1e-6), true)
end

-- Results in the memory of arguments, but where something reads them later.
function tests.donated_arguments_give_their_memory()
  local function update(w, g) return w - g * 0.5, (w * g):sum() end
  local plain, giving = pg.compile(update), pg.compile(update, { donate = { 1 } })
  local w, g = pg.randn(40, 3), pg.randn(40, 3)
  local wanted, sum = plain(w, g)
  local got, again = giving(w:clone(), g)
  check.equal(got:all_equal(wanted), true)
  check.equal(again:all_equal(sum), true)
  local mine = giving(w, g)
  check.equal(mine:all_equal(wanted), true)
  local function swap(a, b) return b + 0, a + 0, a:matmul(b:t()) end
  local x, y = pg.randn(4, 4), pg.randn(4, 4)
  local p, q, r = pg.compile(swap)(x, y)
  local s, t, u = pg.compile(swap, { donate = { 1, 2 } })(x:clone(), y:clone())
  check.equal(p:all_equal(s) and q:all_equal(t) and r:all_equal(u), true)
  local only = pg.compile(function(a) return a * 2 end, { donate = { 1 } })
  local given = pg.ones(8)
  local pointer = given:data().ptr
  check.equal(only(given):data().ptr == pointer, true)
  check.raises(function() pg.compile(update, { donat = { 1 } }) end, "no option 'donat'; did you mean 'donate'")
end

function tests.tensors_from_outside_are_read_anew()
  local scale = pg.ones(2)
  local f = pg.compile(function(x) return x * scale end)
  check.equal(list(f(pg.tensor { 1, 2 })), { 1, 2 })
  scale:mul_(3)
  check.equal(list(f(pg.tensor { 1, 2 })), { 3, 6 })
end

function tests.mistakes_are_told_at_the_line()
  local x = pg.ones(2)
  check.raises(function() pg.grad(function(a) return a end)(x) end, "gradients are of one real number; got f32%[2%]")
  check.raises(function() pg.grad(function() return 3 end)(x) end, "the function returns 3")
  check.raises(function() pg.grad(function(a) if a < 0 then return a end end)(x) end, "differentiate_test.lua:%d+: .*`<` cannot decide")
  check.raises(function() pg.compile(function(a) return a + pg.rand(2) end)(x) end, "would happen once")
  check.raises(function() pg.compile(function(a) x:add_(1) return a end)(x) end, "add_ would happen once")
  check.raises(function() pg.compile(function(a) return a:nonzero() end)(x) end, "nonzero cannot be used in a recorded function")
  check.raises(function() pg.compile(function(a) return a + pg.ones(3) end)(x) end, "shapes do not fit together")
  check.raises(function() pg.compile(function(a) while true do a = a + 1 end end)(x) end, "more than 20000 ops")
  check.raises(function() pg.grad(3) end, "grad takes a function; got 3")
  check.raises(function() x:take({ 1.5 }) end, "differentiate_test.lua:%d+: take: a place is a whole number; got 1.5")
  check.raises(function() pg.list(3) end, "differentiate_test.lua:%d+: list takes a table; got 3")
  check.raises(function() pg.solve(pg.eye(2), {}) end, "takes another number of operands; got 1, expected 2")
  check.raises(function() pg.grad(function(a) return a:sum() end)(pg.ones { 2, dtype = "i64" }) end, "no gradient with respect to i64%[2%]")
  local kept
  pg.compile(function(a) kept = a return a + 1 end)(x)
  check.raises(function() return kept + 1 end, "only be used inside")
  check.raises(function() pg.compile(function(a) return a + kept end)(x) end, "belongs to another")
end

return tests
