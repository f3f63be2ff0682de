-- The functions of tensors on values that are being traced: the same names, arguments and meaning, with axes and places that count from 1. Axis 1 is
-- the batch. Shapes are not known here, so that what depends on them is a form that is resolved when the network is built.
local native = require "perigee.native"
local tensor = require "perigee.tensor"
local trace = require "perigee.trace"
local where = require "perigee.where"

local methods, apply, axis_of = trace.friendly, trace.apply, trace.axis

local function axes_of(axes)
  if axes == nil then return nil end
  if type(axes) == "number" then axes = { axes } end
  if type(axes) ~= "table" then where.fail("axes are a number or a list; got " .. tensor.describe(axes)) end
  local list = {}
  for index, axis in ipairs(axes) do list[index] = axis_of(axis) end
  return native.list(list)
end

-- Element by element --------------------------------------------------------------------------------------------------------------

for name, op in pairs { eq = "equal", ne = "not_equal", lt = "less", le = "less_equal", gt = "greater", ge = "greater_equal" } do
  methods[name] = function(a, b) return apply(op, nil, a, b) end
end

for name, definition in pairs(native.tensor.elementwise()) do
  if definition.arity == 2 and trace.ops[name] then methods[name] = function(a, b) return apply(name, nil, a, b) end end
end

---a where the condition holds, else b.
function methods.where(condition, a, b) return apply("where", nil, condition, a, b) end

---x where it lies between low and high, else the nearer of them.
function methods.clamp(x, low, high)
  if low then x = apply("maximum", nil, x, low) end
  if high then x = apply("minimum", nil, x, high) end
  return x
end

---Another dtype: "f32", "i64" or "bool".
function methods.to(x, dtype)
  tensor.dtype_number(dtype)
  return apply("cast", { dtype = dtype }, x)
end

function methods.clone(x) return x end
function methods.contiguous(x) return x end

---A tensor of x's shape, of one value.
function methods.zeros_like(x) return apply("full_like", { value = 0 }, x) end
function methods.ones_like(x) return apply("full_like", { value = 1 }, x) end

-- Reductions ----------------------------------------------------------------------------------------------------------------------

local function reduction(op)
  return function(x, axes, keep) return apply(op, { axes = axes_of(axes), keep = keep or false }, x) end
end
for name, op in pairs { sum = "reduce_sum", mean = "reduce_mean", prod = "reduce_prod" } do methods[name] = reduction(op) end

for name, op in pairs { max = "reduce_max", min = "reduce_min" } do
  local over_axes, pair = reduction(op), name .. "imum"
  -- x:max(axes, keep), and x:max(y) with another value.
  methods[name] = function(x, y, keep)
    if trace.is_symbol(y) or tensor.is(y) then return apply(pair, nil, x, y) end
    return over_axes(x, y, keep)
  end
end

for name, op in pairs { argmax = "arg_max", argmin = "arg_min" } do
  ---The place, from 1, of the largest (smallest) along an axis, the last when none is named.
  methods[name] = function(x, axis, keep) return apply(op, { axis = axis_of(axis or -1), keep = keep or false }, x) + 1 end
end

---Variance over axes; `correction` 1 divides by n - 1.
function methods.var(x, axes, keep, correction)
  local centred = x - methods.mean(x, axes, true)
  local squares = centred * centred
  if not correction or correction == 0 then return methods.mean(squares, axes, keep) end
  return methods.sum(squares, axes, keep) / (methods.sum(methods.ones_like(x), axes, keep) - correction)
end

-- The derivative at 0 is 0, as tensors have it.
local function root(x)
  local none = methods.eq(x, 0)
  return methods.where(none, 0, apply("sqrt", nil, methods.where(none, 1, x)))
end

function methods.std(x, axes, keep, correction) return root(methods.var(x, axes, keep, correction)) end

---The Euclidean norm over axes.
function methods.norm(x, axes, keep) return root(methods.sum(x * x, axes, keep)) end

---log(sum(exp(x))) over axes, without overflow.
function methods.logsumexp(x, axes, keep)
  local largest = methods.max(x, axes, true)
  largest = methods.where(apply("is_finite", nil, largest), largest, 0)
  local shifted = apply("log", nil, methods.sum(apply("exp", nil, x - largest), axes, keep))
  return shifted + (keep and largest or methods.sum(largest, axes)) -- the reduced axes of `largest` have size 1
end

---Whether any (all) elements are not 0, over axes.
function methods.any(x, axes, keep) return methods.gt(methods.sum(methods.ne(x, 0), axes, keep), 0) end
function methods.all(x, axes, keep) return methods.eq(methods.sum(methods.eq(x, 0), axes, keep), 0) end

---Running sums along an axis.
function methods.cumsum(x, axis) return apply("cumulative_sum", { axis = axis_of(axis or -1) }, x) end

-- Shapes --------------------------------------------------------------------------------------------------------------------------

-- (2, 3), ({ 2, 3 }) or (y.shape)
local function sizes_of(...)
  local first = ...
  if type(first) ~= "table" then return native.list { ... } end
  if trace.is_shape(first) then return first end
  return native.list { unpack(first) }
end

---The elements in row-major order in another shape; one size may be -1. Its first size is that of the batch: x:reshape(#x, -1).
function methods.reshape(x, ...) return apply("reshape", { shape = sizes_of(...) }, x) end
methods.view = methods.reshape
function methods.flatten(x) return methods.reshape(x, { -1 }) end

---Size of dimension `axis`, from 1.
function methods.size(x, axis)
  if axis == nil then where.fail "how many sizes a traced value has is known only when the network is built; name an axis: x:size(2)" end
  return trace.size(x, axis)
end

---Axes in another order, the reverse when none is given: x:transpose { 1, 3, 2 }, or x:transpose(2, 3), which swaps two.
function methods.transpose(x, first, second)
  if type(first) == "table" then return apply("transpose", { order = axes_of(first) }, x) end
  if first then return apply("swap_axes", { first = axis_of(first), second = axis_of(second) }, x) end
  return apply("transpose", nil, x)
end
methods.permute = methods.transpose
function methods.t(x) return methods.transpose(x) end

---A dimension of size 1 before `axis`.
function methods.unsqueeze(x, axis) return apply("unsqueeze", { axis = axis_of(axis) }, x) end

---Without dimensions of size 1 but the batch, or without `axis`.
function methods.squeeze(x, axis) return apply("squeeze", { axis = axis and axis_of(axis) or nil }, x) end

---Repeated to a shape that it broadcasts to.
function methods.expand(x, ...) return apply("broadcast_to", { shape = sizes_of(...) }, x) end
methods.broadcast_to = methods.expand

local function list_of_values(name, values)
  if type(values) ~= "table" or #values == 0 then
    where.fail(("%s takes a list of values; got %s; write pg.%s({ x, y }, 2), where 2 is the axis"):format(name, tensor.describe(values), name))
  end
  return values
end

---Values one after the other along an axis (1).
function methods.concatenate(values, axis)
  local list = list_of_values("concatenate", values)
  return apply("concatenate", { axis = axis_of(axis or 1) }, unpack(list))
end
methods.concat, methods.cat = methods.concatenate, methods.concatenate

---Values of one shape along a new axis (1).
function methods.stack(values, axis)
  local wide = {}
  for index, value in ipairs(list_of_values("stack", values)) do wide[index] = methods.unsqueeze(value, axis or 1) end
  return methods.concatenate(wide, axis or 1)
end

---`count` rows from `first` along an axis (1).
function methods.narrow(x, axis, first, count)
  return apply("index", { axis = axis_of(axis), entries = native.list { native.list { first, first + count - 1 } } }, x)
end

---Parts of the sizes of a list along an axis (1).
function methods.split(x, sizes, axis)
  if type(sizes) ~= "table" then
    where.fail "into how many parts of one size a traced value falls is known only when the network is built; give a list of sizes"
  end
  local parts, first = {}, 1
  for index, size in ipairs(sizes) do
    parts[index] = methods.narrow(x, axis or 1, first, size)
    first = first + size
  end
  return parts
end

---x backwards along axes.
function methods.flip(x, axes)
  if axes == nil then where.fail "flip of a traced value needs axes: x:flip(2), x:flip { 2, 3 }" end
  for _, axis in ipairs(type(axes) == "table" and axes or { axes }) do
    x = apply("index", { axis = axis_of(axis), entries = native.list { native.list { -1, 1, -1 } } }, x)
  end
  return x
end

---The lower (upper) half of matrices, up to (from) a diagonal counted from the main one, 0 elsewhere.
function methods.tril(x, diagonal) return apply("tril", { diagonal = diagonal or 0 }, x) end
function methods.triu(x, diagonal) return apply("triu", { diagonal = diagonal or 0 }, x) end

---The diagonals of matrices, along the last dimension.
function methods.diagonal(x) return apply("diagonal", nil, x) end
function methods.trace(x) return methods.sum(methods.diagonal(x), -1) end

-- Choice and order ----------------------------------------------------------------------------------------------------------------

-- Places from 1 as i64 from 0.
local function from_zero(places)
  if type(places) == "table" then places = tensor.makers.tensor(places, { dtype = "i64" }) end
  if tensor.is(places) then return places:to "i64" - 1 end
  return apply("cast", { dtype = "i64" }, places) - 1
end

---The slices of x along an axis (1) at places, which count from 1.
function methods.take(x, places, axis) return apply("gather", { axis = axis_of(axis or 1) }, x, from_zero(places)) end
methods.gather = methods.take

---The elements of x at places along an axis (the last), line by line.
function methods.take_along(x, places, axis) return apply("take_along", { axis = axis_of(axis or -1) }, x, from_zero(places)) end

---A last dimension of size `depth` that is 1 at the place, from 1, and 0 elsewhere.
function methods.one_hot(places, depth, options)
  return apply("one_hot", { depth = depth, dtype = options and options.dtype or nil }, from_zero(places))
end

local function order(x, axis, descending, count)
  return apply("arg_sort", { axis = axis_of(axis or -1), descending = descending or false, count = count }, x)
end

local function along(x, axis, places) return apply("take_along", { axis = axis_of(axis or -1) }, x, places) end

---The places, from 1, that sort x along an axis (the last).
function methods.argsort(x, axis, descending) return order(x, axis, descending) + 1 end

---x sorted along an axis (the last), and the places that the elements had.
function methods.sort(x, axis, descending)
  local places = order(x, axis, descending)
  return along(x, axis, places), places + 1
end

---The `count` largest along an axis (the last), or smallest, in order, and their places.
function methods.topk(x, count, axis, smallest)
  local places = order(x, axis, not smallest, count)
  return along(x, axis, places), places + 1
end

-- Products and networks -----------------------------------------------------------------------------------------------------------

---Matrix product of the last two dimensions; those before them broadcast.
function methods.matmul(a, b, options) return apply("matmul", options, a, b) end
methods.mm, methods.dot = methods.matmul, methods.matmul

---The sum of products over labels: pg.einsum("bij,bjk->bik", a, b).
function methods.einsum(formula, ...)
  if type(formula) ~= "string" then
    where.fail("einsum takes a formula such as 'ij,jk->ik' and values; got " .. tensor.describe(formula))
  end
  return apply("einsum", { formula = formula }, ...)
end

for _, name in ipairs { "softmax", "log_softmax" } do
  ---Along an axis, the last when none is named.
  methods[name] = function(x, axis) return apply(name, { axis = axis_of(axis or -1) }, x) end
end

---Losses of logits (N, C, ...) for class numbers (N, ...), which count from 1, or for distributions of the logits' shape.
function methods.cross_entropy(logits, labels, options) return apply("class_loss", options, logits, labels) end

---Convolution of x (N, C, H, W) with w (O, C / groups, kh, kw) and a bias (O), which may be missing.
function methods.conv2d(x, w, bias, options)
  if options == nil and type(bias) == "table" and bias[1] == nil then bias, options = nil, bias end
  local attrs = tensor.window_attrs(options)
  if bias == nil then return apply("conv2d", attrs, x, w) end
  return apply("conv2d", attrs, x, w, bias)
end

for name, kind in pairs { maxpool = "max", avgpool = "average", sumpool = "sum" } do
  ---Pooling of x (N, C, H, W): x:maxpool { kernel = 2, stride = 2, padding = 0 }.
  methods[name] = function(x, options)
    local attrs = tensor.window_attrs(type(options) == "number" and { kernel = options } or options)
    attrs.kind, attrs.stride = kind, attrs.stride or attrs.kernel
    return apply("pool2d", attrs, x)
  end
end

return methods
