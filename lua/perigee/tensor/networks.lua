-- Functions of tensors for networks: softmax, cross_entropy, convolution, pooling. Axes and classes count from 1.
local native = require "perigee.native"
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local methods, apply, need_value, describe = tensor.methods, tensor.apply, tensor.need_value, tensor.describe

for _, name in ipairs { "softmax", "log_softmax" } do
  tensor.op_of[name] = name
  ---Along an axis, from 1, the last when none is named: x:softmax(), x:softmax(1).
  ---@param axis? integer
  methods[name] = function(x, axis)
    need_value(name, x)
    return apply(name, { axis = tensor.axis(x, axis or -1) - 1 }, x)
  end
end

---Losses of logits (N, C, ...) for class numbers (N, ...), which count from 1, or for distributions of the logits' shape.
---@param options? { label_smoothing?: number }
function methods.cross_entropy(logits, labels, options)
  need_value("cross_entropy", logits)
  need_value("cross_entropy", labels)
  if labels.dtype ~= "f32" and labels.dtype ~= "f64" then
    if tensor.is(labels) and logits.rank > 1 then
      tensor.done(native.tensor.check_choices("cross_entropy", labels, logits.shape[2], true))
    end
    labels = labels:to "i64" - 1
  end
  return apply("cross_entropy", options, logits, labels)
end

local function two(value, name)
  if type(value) == "number" then return native.list { value, value } end
  if type(value) == "table" and #value == 2 then return native.list(value) end
  where.fail(("%s is a number or two; got %s"):format(name, describe(value)))
end

-- One number for both, one for rows and one for columns; padding also as top, bottom, left, right.
function tensor.window_attrs(options)
  local attrs = {}
  for key, value in pairs(options or {}) do
    if key == "stride" or key == "dilation" or key == "kernel" then attrs[key] = two(value, key)
    elseif key == "padding" and not (type(value) == "table" and #value == 4) then
      local pair = two(value, key)
      attrs[key] = native.list { pair[1], pair[1], pair[2], pair[2] }
    else attrs[key] = value end
  end
  return attrs
end

---Convolution of x (N, C, H, W) with w (O, C / groups, kh, kw) and a bias (O), which may be missing: { stride =, padding =, dilation =, groups = }.
---@param x perigee.Tensor
---@param w perigee.Tensor
---@param bias? perigee.Tensor
---@param options? table
---@return perigee.Tensor
function methods.conv2d(x, w, bias, options)
  if options == nil and type(bias) == "table" then bias, options = nil, bias end
  need_value("conv2d", x)
  if bias == nil then return apply("conv2d", tensor.window_attrs(options), x, w) end
  return apply("conv2d", tensor.window_attrs(options), x, w, bias)
end

for name, kind in pairs { maxpool = "max", avgpool = "average", sumpool = "sum" } do
  ---Pooling of x (N, C, H, W): x:maxpool { kernel = 2, stride = 2, padding = 0 }; the stride is the kernel when it is not given.
  methods[name] = function(x, options)
    if type(options) == "number" then options = { kernel = options } end
    local attrs = tensor.window_attrs(options)
    attrs.kind, attrs.stride = kind, attrs.stride or attrs.kernel
    return (apply("pool2d", attrs, need_value(name, x)))
  end
end

return tensor
