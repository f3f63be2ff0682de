-- Linear algebra through LAPACK, which is loaded on first use. Matrices are the last two dimensions; those before them are a batch.
local native = require("perigee.native").tensor
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local methods, Tensor, done = tensor.methods, tensor.type, tensor.done

local function define(name, results, operands)
  methods[name] = function(...)
    local arguments = {}
    for place = 1, results do arguments[place] = Tensor() end
    for place = 1, operands do
      local x = select(place, ...)
      if tensor.is_symbol(x) then where.fail(name .. " has no derivative here and cannot be recorded; compute it outside and pass it in") end
      if not tensor.is(x) then where.fail(("%s takes %s; got %s"):format(name, operands == 1 and "a tensor" or "two tensors", tensor.describe(x))) end
      if x.dtype ~= "f64" then x = x:to "f32" end
      arguments[results + place] = x
    end
    done(native[name](unpack(arguments)))
    return unpack(arguments, 1, results)
  end
end

---solve(a, b): x with a x = b. inv(a). cholesky(a): the lower factor.
define("solve", 1, 2)
define("inv", 1, 1)
define("cholesky", 1, 1)
---qr(a): Q, R. svd(a): U, S, V^T. eigh(a), of a symmetric matrix: values in ascending order, vectors in columns.
define("qr", 2, 1)
define("svd", 3, 1)
define("eigh", 2, 1)

return tensor
