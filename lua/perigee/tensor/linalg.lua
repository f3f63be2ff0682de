-- Linear algebra beyond the ops of the table (solve, inv, cholesky, qr, svd, eigh, det, slogdet: LAPACK, which is loaded on first use). Matrices are
-- the last two dimensions; those before them are a batch.
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local methods = tensor.methods

local function need_matrix(name, x)
  if not tensor.is(x) and not tensor.is_symbol(x) then where.fail(("%s takes a tensor; got %s"):format(name, tensor.describe(x))) end
  if x.rank < 2 then where.fail(("%s takes matrices; got %s"):format(name, tensor.type_text(x))) end
  return x
end

---The diagonals of matrices, along the last dimension: a view where x is dense.
---@return perigee.Tensor
function methods.diagonal(x)
  local shape = need_matrix("diagonal", x).shape
  local columns = table.remove(shape)
  local n = math.min(table.remove(shape), columns)
  shape[#shape + 1] = -1
  local index = {}
  for axis = 1, #shape - 1 do index[axis] = {} end
  index[#shape] = n > 0 and { 1, 1 + (n - 1) * (columns + 1), columns + 1 } or { 1, 0 }
  return methods.reshape(x, shape)[index]
end

---The sums of the diagonals.
---@return perigee.Tensor
function methods.trace(x) return methods.sum(methods.diagonal(need_matrix("trace", x)), -1) end

---The logarithm of the determinant; NaN where that is negative.
---@return perigee.Tensor
function methods.logdet(x)
  local sign, size = methods.slogdet(need_matrix("logdet", x))
  return methods.where(methods.less(sign, 0), 0 / 0, size)
end

local function half(name, keeps)
  ---The lower (tril) or upper (triu) half of matrices, up to or from a diagonal, counted from the main one; 0 elsewhere.
  ---@param diagonal? integer
  ---@return perigee.Tensor
  methods[name] = function(x, diagonal)
    local shape = need_matrix(name, x).shape
    local rows, columns = tensor.makers.arange(shape[#shape - 1]):reshape { -1, 1 }, tensor.makers.arange(shape[#shape])
    return methods.where(keeps(columns - rows, diagonal or 0), x, 0)
  end
end
half("tril", methods.less_equal)
half("triu", methods.greater_equal)

return tensor
