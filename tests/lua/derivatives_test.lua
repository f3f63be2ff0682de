-- Derivatives of order, choice, linear algebra and reductions: against central differences in float64, and formulas where there are some.
local pg = require "perigee"

local tests = {}

local function list(x) return x:totable() end

local function numeric_gradient(f, x)
  local gradient, step = pg.zeros { x:numel(), dtype = "f64" }, 1e-6
  for place = 1, x:numel() do
    local values = {}
    for _, sign in ipairs { 1, -1 } do
      local moved = x:clone():reshape(-1)
      moved[place] = moved[place] + sign * step
      values[#values + 1] = f(moved:reshape(x.shape)):item()
    end
    gradient[place] = (values[1] - values[2]) / (2 * step)
  end
  return gradient:reshape(x.shape)
end

local function same_gradient(f, x)
  local found, wanted = pg.grad(f)(x), numeric_gradient(f, x)
  if not found:all_close(wanted, 1e-5, 1e-6) then error("got\n" .. found .. "\nexpected\n" .. wanted, 2) end
end

local function random(...) return pg.randn(...):to "f64" end

-- Weights make every element of a result count for itself.
local function weigh(x)
  local weights = (pg.arange(x:numel()):to "f64" * 0.7):sin() + 1.5
  return (x * weights:reshape(x.shape)):sum()
end

local function first(...) return (...) end

function tests.of_order()
  pg.seed(1)
  local x = random(4, 5)
  same_gradient(function(a) return weigh(first(a:sort())) end, x)
  same_gradient(function(a) return weigh(first(a:sort(1, true))) end, x)
  same_gradient(function(a) return weigh(first(a:topk(2))) end, x)
  same_gradient(function(a) return weigh(first(a:topk(3, 1, true))) end, x)
  same_gradient(function(a) return weigh(a:take_along(pg.argsort(-a), -1) * a) end, x)
  same_gradient(function(a) return weigh(a:take_along(pg.tensor({ { 1, 1 }, { 5, 2 }, { 3, 3 }, { 4, 1 } }, { dtype = "i64" }), 2)) end, x)
  local sorted, places = pg.compile(function(a) return a:sort(2, true) end)(x)
  local eager, wanted = x:sort(2, true)
  check.equal(sorted:all_equal(eager) and places:all_equal(wanted), true)
end

function tests.of_masks_and_choices()
  pg.seed(2)
  local x = random(4, 3)
  local mask, rows = x:gt(0), pg.tensor({ true, false, true, true }):to "bool"
  same_gradient(function(a) return weigh(a[mask]) end, x)
  same_gradient(function(a) return weigh(a[rows] ^ 2) end, x)
  same_gradient(function(a) return weigh(pg.where(mask, a * a, -a)) end, x)
  same_gradient(function(a) return weigh(a[{ { -1, 1, -2 }, { 3, 1, -1 } }]) end, x)
  same_gradient(function(a) return weigh(a[{ { 1, 4, 3 }, -1 }]) + weigh(a:flip(1)) + weigh(a:flip()) end, x)
  local f = pg.compile(function(a) return a[{ { -1, 2, -2 } }], a[{ 2, { 3, 1, -2 } }], a[{ { 2, 4, -1 } }] end)
  local part, one, none = f(x)
  check.equal(part:all_equal(x[{ { -1, 2, -2 } }]), true)
  check.equal(one:all_equal(x[{ 2, { 3, 1, -2 } }]), true)
  check.equal(none.shape, { 0, 3 })
  -- A mask that changed is seen at the next call.
  local chosen = pg.tensor({ true, false, false }):to "bool"
  local sum = pg.compile(function(a) return a[chosen]:sum() end)
  check.equal(sum(pg.tensor { 1, 2, 4 }):item(), 1)
  chosen[3] = true
  check.equal(sum(pg.tensor { 1, 2, 4 }):item(), 5)
end

function tests.of_joins_and_parts()
  pg.seed(3)
  local x = random(4, 6)
  same_gradient(function(a) return weigh(pg.concatenate({ a, a * a }, 2) ^ 2) end, x)
  same_gradient(function(a) return weigh(pg.stack({ a, a * a }, 3) ^ 2) end, x)
  same_gradient(function(a)
    local parts = a:split({ 1, 3, 2 }, 2)
    return weigh(parts[1] ^ 2) + weigh(parts[2] ^ 3) + weigh(parts[3])
  end, x)
  same_gradient(function(a) return weigh(a:tril()) + weigh(a:triu(1) ^ 2) + weigh(a:diagonal() ^ 2) end, x)
end

function tests.of_reductions()
  pg.seed(4)
  local x = random(3, 4)
  same_gradient(function(a) return weigh(a:prod(2)) + a:prod():reshape {} end, x)
  same_gradient(function(a) return weigh(a:max(1)) + weigh(a:min(2)) + a:max() end, x)
  same_gradient(function(a) return weigh(a:var(1)) + weigh(a:std(2, false, 1)) + a:var() end, x)
  same_gradient(function(a) return weigh(a:norm(2)) + weigh(a:cumsum(2)) + weigh(a:logsumexp(1)) end, x)
  local with_zeros = pg.tensor({ { 0, 2, 3 }, { 0, 0, 5 } }, { dtype = "f64" })
  same_gradient(function(a) return weigh(a:prod(2)) end, with_zeros)
  -- PyTorch's choices where there is no derivative.
  check.equal(list(pg.grad(function(a) return a:norm() end)(pg.zeros(2))), { 0, 0 })
  check.equal(list(pg.grad(function(a) return a:std() end)(pg.ones(2))), { 0, 0 })
  check.equal(list(pg.grad(function(a) return a:max() end)(pg.tensor { 2, 2, 1 })), { 0.5, 0.5, 0 })
  check.equal(list(pg.grad(function(a) return a:floor():sum() end)(pg.tensor { 1.5, 2 })), { 0, 0 })
end

function tests.of_linear_algebra()
  pg.seed(5)
  local a, b = random(2, 3, 3) + 3 * pg.eye(3, { dtype = "f64" }), random(2, 3, 2)
  same_gradient(function(x) return weigh(pg.solve(x, b)) end, a)
  same_gradient(function(x) return weigh(pg.solve(a, x)) end, b)
  same_gradient(function(x) return weigh(pg.solve(x, x[{ {}, {}, 1 }])) end, a)
  same_gradient(function(x) return weigh(pg.inv(x)) end, a)
  same_gradient(function(x) return weigh(pg.det(x)) end, a)
  same_gradient(function(x) return weigh(pg.logdet(pg.einsum("bij,bkj->bik", x, x))) end, a)
  same_gradient(function(x) return weigh(first(pg.slogdet(x))) + weigh(select(2, pg.slogdet(x))) end, a)
  -- Symmetric matrices, made from others.
  local function square(x) return pg.einsum("bij,bkj->bik", x, x) + pg.eye(3, { dtype = "f64" }) end
  same_gradient(function(x) return weigh(pg.cholesky(square(x))) end, a)
  same_gradient(function(x)
    local values, vectors = pg.eigh(square(x))
    return weigh(values) + weigh(vectors ^ 2)
  end, a)
  same_gradient(function(x) return weigh((pg.eigh(square(x)))) end, a)
  for _, shape in ipairs { { 4, 3 }, { 3, 3 }, { 3, 5 } } do
    local m = random(unpack(shape))
    same_gradient(function(x)
      local u, s, vt = pg.svd(x)
      return weigh(s) + weigh(u ^ 2) + weigh(vt ^ 2) + weigh(u:matmul(vt))
    end, m)
    same_gradient(function(x) return select(2, pg.svd(x)):sum() end, m)
  end
  for _, shape in ipairs { { 4, 3 }, { 3, 3 } } do
    same_gradient(function(x)
      local q, r = pg.qr(x)
      return weigh(q) + weigh(r)
    end, random(unpack(shape)))
  end
  -- Closed formulas: d log det A / dA = A^-T, d tr(A^-1) / dA = -(A^-2)^T; symmetric where A is.
  local p = a[1]:matmul(a[1].T)
  check.equal(pg.grad(pg.logdet)(p):all_close(pg.inv(p).T, 1e-9, 1e-12), true)
  check.equal(pg.grad(function(x) return pg.inv(x):trace() end)(p):all_close(-pg.inv(p:matmul(p)).T, 1e-9, 1e-12), true)
  local through_factor = pg.grad(function(x) return 2 * pg.cholesky(x):diagonal():log():sum() end)(p)
  check.equal(through_factor:all_close(pg.inv(p), 1e-9, 1e-12), true)
  -- The second derivative of log det along I at A: -tr(A^-2).
  local second = pg.grad(function(t)
    return pg.grad(function(s) return pg.logdet(p + s * pg.eye(3, { dtype = "f64" })) end)(t)
  end)(pg.zeros({ dtype = "f64" }))
  check.equal(math.abs(second:item() + pg.inv(p:matmul(p)):trace():item()) < 1e-9, true)
end

function tests.determinants()
  local x = pg.tensor({ { { 0, 2 }, { 3, 4 } }, { { 1, 2 }, { 2, 4 } } }, { dtype = "f64" })
  check.equal(list(x:det() + 0), { -6, 0 })
  local sign, size = x:slogdet()
  check.equal(list(sign), { -1, 0 })
  check.equal(math.abs(size[1] - math.log(6)) < 1e-12 and size[2] == -math.huge, true)
  check.equal(list(x:trace()), { 4, 5 })
  local logarithm = x:logdet()
  check.equal(logarithm[1] ~= logarithm[1] and logarithm[2] == -math.huge, true)
  check.equal(list(pg.arange(12):reshape(3, 4):diagonal()), { 1, 6, 11 })
  check.equal(list(pg.ones(2, 3):tril()), { { 1, 0, 0 }, { 1, 1, 0 } })
  check.equal(list(pg.ones(2, 3):triu(1)), { { 0, 1, 1 }, { 0, 0, 1 } })
end

function tests.what_has_no_derivative_says_so()
  local x = pg.tensor { { 1, 2 }, { 2, 4 } }
  local function raises(f, text) check.raises(function() pg.grad(f)(x) end, text) end
  raises(function(a) return a:argmax(2):to("f32"):sum() end, "only through 'arg_max', which has no derivative")
  raises(function(a) return a:argsort():to("f32"):sum() end, "only through 'arg_sort', which has no derivative")
  raises(function(a) return a:gt(1):to("f32"):sum() end, "only through 'greater', which has no derivative")
  raises(function(a) return a[a:gt(1)]:sum() end, "derivatives_test.lua:%d+: .*a mask that is computed from arguments.*pg.where%(mask, x, 0%)")
  raises(function(a) return a:nonzero():sum() end, "nonzero cannot be used in a recorded function: the shape of its result")
  raises(function(a) a[1] = 0 return a:sum() end, "cannot be changed; every op makes a new one")
  raises(function(a) return a[{ { 1, 3 } }]:sum() end, "the range 1 to 3 leaves dimension 1")
  raises(function(a) return select(2, pg.qr(pg.concat({ a, a }, 2))):sum() end, "qr has no derivative where there are more columns than rows")
  raises(function(a) return pg.inv(a):sum() end, "the matrix is singular")
  raises(function(a) return pg.solve(a, pg.ones(3)):sum() end, "the right side does not fit the matrix; got f32%[3%] for f32%[2x2%]")
  check.raises(function() pg.inv(x) end, "the matrix is singular")
  check.raises(function() pg.cholesky(-x) end, "is not positive definite")
  check.raises(function() x:det():solve(x) end, "solve: takes matrices")
end

return tests
