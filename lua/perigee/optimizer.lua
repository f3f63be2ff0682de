-- Optimisers on tensors: opt = pg.adamw { lr = 1e-3 }; opt:step(params, grads). The description stays plain data, as a job needs it; the states
-- of the rule are kept beside it.
local core = require("perigee.native").tensor
local tensor = require "perigee.tensor"
local network = require "perigee.network"
local where = require "perigee.where"

---@class perigee.Optimizer
---@field type string
local Optimizer = {}
Optimizer.__index = Optimizer

local options_of = {} -- options of each optimiser; none of one that takes any

function Optimizer.__newindex(self, key, value)
  local names = options_of[self.type]
  local found = not names
  for _, name in ipairs(names or {}) do found = found or name == key end
  if not found then
    local meant = where.suggestion(tostring(key), { unpack(names) })
    where.fail(("optimizer %s has no option '%s'%s"):format(self.type, tostring(key), meant))
  end
  rawset(self, key, value)
end

for _, entry in ipairs(require("perigee.native").family "optimizer") do
  options_of[entry.name] = not entry.open and entry.options or nil
end

local kept = setmetatable({}, { __mode = "k" }) -- by description: { handle =, names = }

-- Names of tensors in nested tables, "layer.weight", in order.
local function leaves(value, prefix, names, tensors, what)
  if tensor.is(value) then
    names[#names + 1], tensors[#tensors + 1] = prefix == "" and what or prefix, value
    return
  end
  if type(value) ~= "table" then
    local place = prefix == "" and what or ("%s '%s'"):format(what, prefix)
    where.fail(("%s is %s; expected a tensor, or a table of tensors"):format(place, tensor.describe(value)))
  end
  local keys = {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do leaves(value[key], (prefix == "" and "" or prefix .. ".") .. tostring(key), names, tensors, what) end
end

local function check_names(names, wanted, what)
  local known = {}
  for _, name in ipairs(names) do known[name] = true end
  for _, name in ipairs(wanted) do
    if not known[name] then where.fail(("step: %s has no '%s'"):format(what, name)) end
  end
  if #names ~= #wanted then where.fail(("step: %s has %d tensors; expected %d"):format(what, #names, #wanted)) end
end

---Changes parameters in place by their gradients: tensors, or tables of them with the same names, as pg.grad gives them. The rule's states
---(moments) stay with the optimiser, which belongs to these parameters from its first step on. Schedules see { epoch =, progress = } and the
---number of steps. Without a network's own word for it, tensors of one dimension are biases, which are not decayed. Returns the optimiser.
---@param parameters perigee.Tensor|table
---@param gradients perigee.Tensor|table
---@param at? { epoch?: number, progress?: number }
---@return perigee.Optimizer
function Optimizer:step(parameters, gradients, at)
  if tensor.recording then tensor.not_recorded "a step" end
  local names, tensors, gradient_names, gradient_tensors = {}, {}, {}, {}
  leaves(parameters, "", names, tensors, "parameters")
  leaves(gradients, "", gradient_names, gradient_tensors, "gradients")
  if tensor.is(parameters) then gradient_names[1] = names[1] end
  check_names(gradient_names, names, "the table of gradients")
  local state = kept[self]
  if state then
    check_names(names, state.names, "the table of parameters")
  else
    local handle, message = core.optimizer(self, self.type, network.of_parameters(parameters), require("perigee.native").list(names), unpack(tensors))
    if handle == nil then where.fail(message) end
    state = { handle = handle, names = names }
    kept[self] = state
  end
  local all = tensors
  for _, gradient in ipairs(gradient_tensors) do all[#all + 1] = gradient end
  at = at or {}
  tensor.done(core.optimizer_step(state.handle, at.epoch or 0, at.progress or 0, unpack(all)))
  return self
end

---Forgets the rule's states, so that the next step is the first.
---@return perigee.Optimizer
function Optimizer:reset()
  kept[self] = nil
  return self
end

where.methods("opt", Optimizer, function(value) return getmetatable(value) == Optimizer end)

return Optimizer
