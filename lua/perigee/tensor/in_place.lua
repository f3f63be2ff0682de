-- Methods that change a tensor in place: x:add_(y), x:exp_(), x:fill_(0), x:copy_(y). Views of the same memory see it.
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local methods, functions, elementwise = tensor.methods, tensor.functions, tensor.elementwise
local is_tensor, check, describe = tensor.is, tensor.check, tensor.describe
local not_recorded, wrong_operand = tensor.not_recorded, tensor.wrong_operand
local into_call = functions.into

-- The result of an op takes x's dtype and must fit its shape.
local function in_place(name)
  local op, arity = elementwise[name].op, elementwise[name].arity
  tensor.op_of[name .. "_"] = name
  ---In place: x gets the result.
  return function(x, y)
    if not is_tensor(x) then
      if tensor.is_symbol(x) then where.fail(("%s_ changes a tensor; a recorded function makes new ones: x = x:%s(...)"):format(name, name)) end
      wrong_operand(name .. "_", x)
    end
    if tensor.recording then not_recorded(name .. "_") end
    if arity == 1 then check(into_call(op, x, nil, 0))
    elseif is_tensor(y) then check(into_call(op, x, y, 0))
    elseif type(y) == "number" then check(into_call(op, x, nil, y))
    else wrong_operand(name .. "_", x, y) end
    return x
  end
end
for name, definition in pairs(elementwise) do
  if definition.arity <= 2 then methods[name .. "_"] = in_place(name) end
end

local add_in_place, sub_in_place = methods.add_, methods.sub_
tensor.op_of.add_, tensor.op_of.sub_ = nil, nil

---x = x + scale * y, in one pass.
---@param y perigee.Tensor|number
---@param scale? number
function methods.add_(x, y, scale)
  if scale == nil or not is_tensor(y) or not is_tensor(x) then return add_in_place(x, type(y) == "number" and scale and y * scale or y) end
  if tensor.recording then not_recorded "add_" end
  check(functions.add_scaled(x, y, scale))
  return x
end

---x = x - scale * y, in one pass.
function methods.sub_(x, y, scale)
  if scale == nil then return sub_in_place(x, y) end
  return methods.add_(x, y, -scale)
end

---Sets all elements to a number.
---@param value number
function methods.fill(x, value)
  if tensor.recording then not_recorded "fill" end
  check(functions.fill(x, value))
  return x
end

methods.fill_ = methods.fill

---Sets all elements to 0.
function methods.zero_(x) return methods.fill(x, 0) end

---Copies y, which broadcasts to x's shape, into x.
---@param y perigee.Tensor
function methods.copy_(x, y)
  if not is_tensor(y) then where.fail("copy_ takes a tensor; got " .. describe(y)) end
  if tensor.recording then not_recorded "copy_" end
  check(functions.copy(y, x))
  return x
end

---x where it lies between low and high, else the nearer of them.
function methods.clamp_(x, low, high)
  if low then x = methods.maximum_(x, low) end
  if high then x = methods.minimum_(x, high) end
  return x
end

return tensor
