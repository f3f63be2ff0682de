-- The other ops of tensors, by enumeration of the op table, with axes and places that count from 1. They work on tensors at once and on the
-- values of a function that is being recorded (differentiate.lua), in the same way.
local native = require "perigee.native"
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local methods, makers = tensor.methods, tensor.makers
local is_tensor, done, describe = tensor.is, tensor.done, tensor.describe
local Tensor = tensor.type

local function is_value(x) return is_tensor(x) or tensor.is_symbol(x) end

-- Runs or records an op. A number among the operands takes the dtype of the first that has one.
local function apply(name, attrs, ...)
  local count, like = select("#", ...), nil
  for index = 1, count do
    local operand = select(index, ...)
    if tensor.is_symbol(operand) then return tensor.record(name, attrs, ...) end
    like = like or (is_tensor(operand) and operand)
  end
  local operands = { ... }
  for index = 1, count do
    local operand = operands[index]
    if type(operand) == "number" and like then operands[index] = makers.full({}, operand, { dtype = like.dtype })
    elseif operand ~= nil and not is_tensor(operand) then where.fail(("%s takes tensors; got %s"):format(name, describe(operand))) end
  end
  local out = Tensor()
  local results = done(native.tensor.apply(name, attrs, out, unpack(operands, 1, count)))
  if results == 1 then return out end
  local list = { out }
  for index = 2, results do
    list[index] = Tensor()
    done(native.tensor.result(index, list[index]))
  end
  return unpack(list)
end
tensor.apply = apply

-- The advice for x.sum(), which lacks its object.
local function colon_hint(name, x)
  return x == nil and methods[name] and ("; a method is called with a colon: x:%s()"):format(name) or ""
end

local function need_tensor(name, x)
  if is_tensor(x) then return x end
  if tensor.is_symbol(x) then
    where.fail(("%s cannot be used in a recorded function: the shape of its result depends on the values"):format(name))
  end
  where.fail(("%s takes a tensor; got %s%s"):format(name, describe(x), colon_hint(name, x)))
end

tensor.need = need_tensor

local function need_value(name, x)
  if is_value(x) then return x end
  where.fail(("%s takes a tensor; got %s%s"):format(name, describe(x),
    tensor.is_traced(x) and ("; where a tensor and a traced value meet, write pg.%s(a, b)"):format(name) or colon_hint(name, x)))
end
tensor.need_value = need_value

-- Every op of the table, as it is: attributes in a last table, as x:pad { before = {1, 0}, after = {0, 1} }.
for _, definition in ipairs(native.ops()) do
  local name = definition.name
  if not methods[name] then
    methods[name] = function(...)
      local count, attrs = select("#", ...), nil
      local last = select(count, ...)
      if count > 0 and type(last) == "table" then
        count, attrs = count - 1, last
      end
      local operands = { ... }
      need_value(name, operands[1])
      return apply(name, attrs, unpack(operands, 1, count))
    end
  end
end

-- 0-based axes of the table from axes that count from 1.
local function axis_of(x, axis) return tensor.axis(x, axis) - 1 end

local function axes_of(x, axes)
  if axes == nil then return nil end
  if type(axes) == "number" then axes = { axes } end
  if type(axes) ~= "table" then where.fail("axes are a number or a list; got " .. describe(axes)) end
  local list = {}
  for index, axis in ipairs(axes) do list[index] = axis_of(x, axis) end
  return native.list(list)
end

-- Reductions ---------------------------------------------------------------------------------------------------------------------

local function reduction(name, op)
  tensor.op_of[name] = op
  ---Axes count from 1, and none means all: x:sum(), x:sum(1), x:sum({1, -1}, true). With keep they stay, with size 1.
  ---@param axes? integer|integer[]
  ---@param keep? boolean
  ---@return perigee.Tensor
  methods[name] = function(x, axes, keep)
    need_value(name, x)
    return apply(op, { axes = axes_of(x, axes), keep = keep or false }, x)
  end
end

for name, op in pairs { sum = "reduce_sum", mean = "reduce_mean", prod = "reduce_prod" } do reduction(name, op) end
for name, op in pairs { max = "reduce_max", min = "reduce_min" } do
  reduction(name, op)
  local over_axes, pair = methods[name], methods[name .. "imum"]
  ---Axes count from 1, and none means all: x:max(), x:max(1, true). With another tensor the larger (smaller) of each two: x:max(y).
  ---@param y? integer|integer[]|perigee.Tensor axes, or a tensor
  ---@param keep? boolean
  ---@return perigee.Tensor
  methods[name] = function(x, y, keep)
    if is_value(y) then return pair(x, y) end
    return over_axes(x, y, keep)
  end
end

for name, op in pairs { argmax = "arg_max", argmin = "arg_min" } do
  ---The place, from 1, of the largest (smallest) along an axis, the last when none is named.
  methods[name] = function(x, axis, keep)
    need_value(name, x)
    return apply(op, { axis = axis_of(x, axis or -1), keep = keep or false }, x) + 1
  end
end

---Variance over axes; `correction` 1 divides by n - 1.
function methods.var(x, axes, keep, correction)
  local centred = x - methods.mean(x, axes, true)
  local sum = methods.sum(centred * centred, axes, keep)
  local count = methods.numel(x) / math.max(1, methods.numel(sum))
  return sum / (count - (correction or 0))
end

-- The derivative at 0 is 0, as PyTorch has it, and not infinite times 0.
local function root(x)
  if not tensor.is_symbol(x) then return methods.sqrt(x) end
  local none = methods.equal(x, 0)
  return methods.where(none, 0, methods.sqrt(methods.where(none, 1, x)))
end

---Standard deviation over axes; `correction` 1 divides by n - 1.
function methods.std(x, axes, keep, correction) return root(methods.var(x, axes, keep, correction)) end

---The Euclidean norm over axes.
function methods.norm(x, axes, keep) return root(methods.sum(x * x, axes, keep)) end

---log(sum(exp(x))) over axes, without overflow.
function methods.logsumexp(x, axes, keep)
  local largest = methods.max(x, axes, true)
  largest = methods.where(methods.is_finite(largest), largest, 0) -- infinity less infinity would be no number
  local sum = methods.log(methods.sum(methods.exp(x - largest), axes, true)) + largest
  if keep then return sum end
  return methods.reshape(sum, methods.max(x, axes).shape)
end

---Whether any elements are not 0, over axes: a bool tensor.
function methods.any(x, axes, keep) return methods.gt(methods.sum(methods.ne(x, 0), axes, keep), 0) end
---Whether all elements are not 0, over axes: a bool tensor.
function methods.all(x, axes, keep) return methods.eq(methods.sum(methods.eq(x, 0), axes, keep), 0) end

---Whether both have the same shape and elements: true or false.
---@return boolean
function methods.all_equal(x, y)
  if table.concat(x.shape, "x") ~= table.concat(y.shape, "x") then return false end
  return methods.all(methods.eq(x, y)):item() ~= 0
end

---Whether both have the same shape and |x - y| <= atol + rtol |y| everywhere: true or false.
---@return boolean
function methods.all_close(x, y, rtol, atol)
  if table.concat(x.shape, "x") ~= table.concat(y.shape, "x") then return false end
  local near = methods.le(methods.abs(x - y), methods.abs(y) * (rtol or 1e-5) + (atol or 1e-8))
  return methods.all(methods.logical_or(near, methods.eq(x, y))):item() ~= 0
end

for name, op in pairs { eq = "equal", ne = "not_equal", lt = "less", le = "less_equal", gt = "greater", ge = "greater_equal" } do
  methods[name], tensor.op_of[name] = methods[op], op
end

---Running sums along an axis.
function methods.cumsum(x, axis) return apply("cumulative_sum", { axis = axis_of(x, axis or -1) }, need_value("cumsum", x)) end

-- Shapes -------------------------------------------------------------------------------------------------------------------------

local function sizes_of(...)
  local first = ...
  if type(first) == "table" then return { unpack(first) } end
  return { ... }
end

---The elements in row-major order in another shape; one size may be -1. Shares memory where strides allow.
---@param ... integer|integer[]
---@return perigee.Tensor
function methods.reshape(x, ...)
  need_value("reshape", x)
  return apply("reshape", { shape = native.list(sizes_of(...)) }, x)
end
methods.view = methods.reshape

---All elements in one dimension.
function methods.flatten(x) return methods.reshape(x, { -1 }) end

---Axes in another order, the reverse when none is given: x:transpose { 2, 1, 3 }, or x:transpose(1, 2), which swaps two. A view.
---@return perigee.Tensor
function methods.transpose(x, first, second)
  need_value("transpose", x)
  local order = {}
  for axis = 1, x.rank do order[axis] = axis - 1 end
  if type(first) == "table" then
    for index, axis in ipairs(first) do order[index] = axis_of(x, axis) end
    for index = #first + 1, x.rank do order[index] = nil end
  elseif first then
    local a, b = tensor.axis(x, first), tensor.axis(x, second)
    order[a], order[b] = order[b], order[a]
  else
    for axis = 1, x.rank do order[axis] = x.rank - axis end
  end
  if #order == 0 then return x end
  return apply("transpose", { order = native.list(order) }, x)
end
methods.permute = methods.transpose
---The transposed matrix; of more dimensions all in reverse.
function methods.t(x) return methods.transpose(x) end

---A dimension of size 1 before `axis`.
function methods.unsqueeze(x, axis)
  local shape, rank = x.shape, x.rank
  if axis < 0 then axis = axis + rank + 2 end
  if axis < 1 or axis > rank + 1 then where.fail(("there is no place %s for a dimension in %s"):format(tostring(axis), tensor.type_text(x))) end
  table.insert(shape, axis, 1)
  return methods.reshape(x, shape)
end

---Without dimensions of size 1, or without `axis`.
function methods.squeeze(x, axis)
  local shape, kept = x.shape, {}
  if axis then axis = tensor.axis(x, axis) end
  for index, size in ipairs(shape) do
    if size ~= 1 or (axis and axis ~= index) then kept[#kept + 1] = size end
  end
  return methods.reshape(x, kept)
end

---Repeated to a shape that it broadcasts to. A view.
function methods.expand(x, ...)
  need_value("expand", x)
  return apply("broadcast_to", { shape = native.list(sizes_of(...)) }, x)
end
methods.broadcast_to = methods.expand

local function list_of_values(name, values)
  if type(values) ~= "table" or #values == 0 then
    where.fail(("%s takes a list of tensors; got %s; write pg.%s({ x, y }, 2), where 2 is the axis"):format(name, describe(values), name))
  end
  for index, value in ipairs(values) do
    if not is_value(value) then where.fail(("%s: entry %d is %s; expected a tensor"):format(name, index, describe(value))) end
  end
  return values
end

---Tensors one after the other along an axis (1): pg.concatenate({a, b}, 2).
---@param values perigee.Tensor[]
---@param axis? integer
---@return perigee.Tensor
function methods.concatenate(values, axis)
  list_of_values("concatenate", values)
  return apply("concatenate", { axis = axis_of(values[1], axis or 1) }, unpack(values))
end
methods.concat, methods.cat = methods.concatenate, methods.concatenate

---Tensors of one shape along a new axis (1).
---@param values perigee.Tensor[]
---@param axis? integer
---@return perigee.Tensor
function methods.stack(values, axis)
  list_of_values("stack", values)
  local wide = {}
  for index, value in ipairs(values) do wide[index] = methods.unsqueeze(value, axis or 1) end
  return methods.concatenate(wide, axis or 1)
end

-- Places first to last, both included, along an axis.
local function between(x, axis, first, last)
  if is_tensor(x) then
    local index = {}
    for each = 1, axis - 1 do index[each] = {} end
    index[axis] = { first, last }
    return methods.get(x, index)
  end
  local start, stop, size = {}, {}, x.shape[axis]
  if first < 0 then first = size + first + 1 end
  if last < 0 then last = size + last + 1 end
  if first < 1 or last > size or last < first - 1 then
    where.fail(("places %d to %d lie outside dimension %d of %s"):format(first, last, axis, tensor.describe(x)))
  end
  for each, all in ipairs(x.shape) do start[each], stop[each] = 0, all end
  start[axis], stop[axis] = first - 1, last
  return apply("slice", { start = native.list(start), stop = native.list(stop) }, x)
end
tensor.between = between

---`count` rows from `first` along an axis (1). A view.
function methods.narrow(x, axis, first, count) return between(need_value("narrow", x), tensor.axis(x, axis), first, first + count - 1) end

---Parts of `size` along an axis (1), the last may be smaller; or of the sizes of a list. Views.
---@return perigee.Tensor[]
function methods.split(x, size, axis)
  axis = tensor.axis(need_value("split", x), axis or 1)
  local total, sizes, parts, first = x.shape[axis], {}, {}, 1
  if type(size) == "table" then
    sizes = size
  else
    if type(size) ~= "number" or size < 1 then where.fail("split takes a size from 1, or a list of sizes; got " .. describe(size)) end
    for begin = 1, total, size do sizes[#sizes + 1] = math.min(size, total - begin + 1) end
  end
  for index, each in ipairs(sizes) do
    if type(each) ~= "number" then where.fail("split takes a size from 1, or a list of sizes; got " .. describe(each) .. " in the list") end
    parts[index] = between(x, axis, first, first + each - 1)
    first = first + each
  end
  if first - 1 ~= total then where.fail(("the parts hold %d of %d along axis %d of %s"):format(first - 1, total, axis, tensor.type_text(x))) end
  return parts
end

-- Choice and order -----------------------------------------------------------------------------------------------------------------

---x where it lies between low and high, else the nearer of them.
function methods.clamp(x, low, high)
  if low then x = methods.maximum(x, low) end
  if high then x = methods.minimum(x, high) end
  return x
end

---The slices of x along an axis (1) at places, which count from 1.
---@param places perigee.Tensor|integer[]|integer a number gives one slice, without that axis
function methods.take(x, places, axis)
  need_value("take", x)
  if type(places) == "number" then return methods.squeeze(methods.take(x, { places }, axis), axis or 1) end
  if type(places) == "table" then
    for _, place in ipairs(places) do
      if type(place) == "number" and place % 1 ~= 0 then where.fail(("take: a place is a whole number; got %s"):format(place)) end
    end
    places = makers.tensor(places, { dtype = "i64" })
  end
  axis = axis_of(x, axis or 1)
  if not is_tensor(x) or not is_tensor(places) then return apply("gather", { axis = axis }, x, places - 1) end
  local out = Tensor()
  done(native.tensor.take(out, x, axis, places))
  return out
end
methods.gather = methods.take

---A last dimension of size `depth` that is 1 at the place, from 1, and 0 elsewhere.
function methods.one_hot(places, depth, options)
  if is_tensor(places) and type(depth) == "number" then done(native.tensor.check_choices("one_hot", places, depth)) end
  return apply("one_hot", { depth = depth, dtype = options and options.dtype or nil }, need_value("one_hot", places) - 1)
end

local function order(name, x, axis, descending, count)
  return apply("arg_sort", { axis = axis_of(need_value(name, x), axis or -1), descending = descending or false, count = count }, x)
end

local function along(x, axis, places) return apply("take_along", { axis = axis_of(x, axis or -1) }, x, places) end

---The places, from 1, that sort x along an axis (the last); stable, NaN last.
function methods.argsort(x, axis, descending) return order("argsort", x, axis, descending) + 1 end

---x sorted along an axis (the last), and the places that the elements had.
---@return perigee.Tensor values, perigee.Tensor places
function methods.sort(x, axis, descending)
  local places = order("sort", x, axis, descending)
  return along(x, axis, places), places + 1
end

---The `count` largest along an axis (the last), or smallest, in order, and their places.
---@return perigee.Tensor values, perigee.Tensor places
function methods.topk(x, count, axis, smallest)
  if type(count) ~= "number" or count < 0 or count % 1 ~= 0 then where.fail("topk takes how many, from 0; got " .. describe(count)) end
  local places = order("topk", x, axis, not smallest, count)
  return along(x, axis, places), places + 1
end

---The elements of x at places along an axis (the last), line by line, as sort and topk give them.
function methods.take_along(x, places, axis)
  need_value("take_along", x)
  need_value("take_along", places)
  if not is_tensor(x) or not is_tensor(places) then return along(x, axis, places - 1) end
  local out = Tensor()
  done(native.tensor.take_along(out, x, axis_of(x, axis or -1), places))
  return out
end

---x backwards along axes (all when none are given): a view.
---@param axes? integer|integer[]
function methods.flip(x, axes)
  need_value("flip", x)
  local index, backwards = {}, { -1, 1, -1 }
  for axis = 1, x.rank do index[axis] = axes == nil and backwards or {} end
  for _, axis in ipairs(type(axes) == "table" and axes or { axes }) do index[tensor.axis(x, axis)] = backwards end
  return tensor.is_symbol(x) and x[index] or methods.get(x, index)
end

-- Products -------------------------------------------------------------------------------------------------------------------------

---Matrix product; a vector is a row on the left and a column on the right; leading dimensions broadcast.
---@return perigee.Tensor
function methods.matmul(a, b, options)
  need_value("matmul", a)
  need_value("matmul", b)
  local left, right = a.rank == 1, b.rank == 1
  if left then a = methods.unsqueeze(a, 1) end
  if right then b = methods.unsqueeze(b, 2) end
  local product = apply("matmul", options, a, b)
  if not left and not right then return product end
  local shape = product.shape
  if right then table.remove(shape) end
  if left then table.remove(shape, right and #shape or #shape - 1) end
  return methods.reshape(product, shape)
end
methods.mm = methods.matmul

---The inner product of two vectors, or matmul.
methods.dot = methods.matmul

---The sum of products over labels, as NumPy has it: pg.einsum("bij,bjk->bik", a, b). Any number of operands; a label that the result lacks is
---summed over, one that an operand repeats takes its diagonal ("ii->i", "ii"), "..." stands for the dimensions that no label names.
---@param formula string
---@param ... perigee.Tensor
---@return perigee.Tensor
function methods.einsum(formula, ...)
  if type(formula) ~= "string" then where.fail("einsum takes a formula such as 'ij,jk->ik' and tensors; got " .. describe(formula)) end
  local recorded = false
  for index = 1, select("#", ...) do
    local x = select(index, ...)
    if not is_value(x) then
      where.fail(("einsum '%s': operand %d is %s; expected a tensor"):format(formula, index, describe(x)))
    end
    recorded = recorded or tensor.is_symbol(x)
  end
  if recorded then return tensor.record("einsum", { formula = formula }, ...) end
  local out = Tensor()
  done(native.tensor.einsum(formula, out, ...))
  return out
end

return tensor
