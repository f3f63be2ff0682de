-- pg.boltzmann(model): a trained layer rbm as a distribution: free energies, samples, and an estimate of its partition function.
local pg = require "perigee"
local network = require "perigee.network"
local where = require "perigee.where"

local boltzmann = {}

---@class perigee.Boltzmann
---@field weight perigee.Tensor        hidden x visible
---@field hidden_bias perigee.Tensor
---@field visible_bias perigee.Tensor
local Boltzmann = {}
Boltzmann.__index = Boltzmann
Boltzmann.__fields = Boltzmann

-- The description of layer `name`, or of the only rbm, among layers in a row.
local function find(about, name)
  local list, names = network.in_row(about)
  local found, found_name
  for place, layer in ipairs(list) do
    if type(layer) == "table" and layer.type == "rbm" and (name == nil or names[place] == name) then
      if found then where.fail("pg.boltzmann: the model has several layers rbm; name one: pg.boltzmann(model, \"" .. names[place] .. "\")") end
      found, found_name = layer, names[place]
    end
  end
  if not found then
    where.fail(("pg.boltzmann: the model has no layer rbm%s"):format(name and (" '%s'"):format(name) or ""))
  end
  return found, found_name
end

---The layer rbm of a trained model, or the one of this name, as a distribution: free energies, samples, and an estimate of its partition function.
---@param model perigee.Model
---@param layer? string
---@return perigee.Boltzmann
function boltzmann.boltzmann(model, layer)
  local about = network.about(model)
  if not about then where.fail("pg.boltzmann takes a model, as pg.load_model reads it; got " .. where.describe(model)) end
  local description, name = find(about, layer)
  local p = model:parameters()
  local visible, hidden = description.visible_units or "binary", description.hidden_units or "binary"
  if visible ~= "binary" or hidden ~= "binary" then
    where.fail(("pg.boltzmann is for binary units; layer '%s' has %s and %s ones"):format(name, visible, hidden))
  end
  return setmetatable({ weight = p[name .. ".weight"], hidden_bias = p[name .. ".bias"], visible_bias = p[name .. ".visible_bias"] }, Boltzmann)
end

local function coin(p) return pg.rand(unpack(p.shape)):lt(p):to(p.dtype) end

---Means of the hidden units, given visible ones.
---@param v perigee.Tensor
---@return perigee.Tensor
function Boltzmann:hidden(v) return (v:matmul(self.weight.T) + self.hidden_bias):sigmoid() end

---Means of the visible units, given hidden ones.
---@param h perigee.Tensor
---@return perigee.Tensor
function Boltzmann:visible(h) return (h:matmul(self.weight) + self.visible_bias):sigmoid() end

---The free energy of each row of v: minus the logarithm of its probability, but for that of the partition function.
---@param v perigee.Tensor
---@return perigee.Tensor
function Boltzmann:free_energy(v)
  return -(v * self.visible_bias):sum(2) - pg.softplus(v:matmul(self.weight.T) + self.hidden_bias):sum(2)
end

---`count` draws after `steps` alternations of Gibbs sampling from random beginnings; means of the visible units.
---@param count integer
---@param options? { steps?: integer }
---@return perigee.Tensor
function Boltzmann:sample(count, options)
  local v, mean = coin(self.visible_bias:sigmoid() + pg.zeros(count, 1)), nil
  for _ = 1, options and options.steps or 1000 do
    mean = self:visible(coin(self:hidden(v)))
    v = coin(mean)
  end
  return mean or v
end

---An estimate of the logarithm of the partition function, and of its standard deviation, by annealed importance sampling (Salakhutdinov & Murray
---2008): `chains` runs through `temperatures` distributions, from one with independent visible units to the machine itself.
---@param options? { chains?: integer, temperatures?: integer }
---@return number log_z, number deviation
function Boltzmann:log_z(options)
  local chains, temperatures = options and options.chains or 100, options and options.temperatures or 1000
  for name, value in pairs { chains = chains, temperatures = temperatures } do
    if type(value) ~= "number" or value < 2 or value % 1 ~= 0 then
      where.fail(("log_z: %s is a whole number from 2; got %s"):format(name, where.describe(value)))
    end
  end
  local v = coin(self.visible_bias:sigmoid() + pg.zeros(chains, 1))
  local log_w = pg.zeros(chains)
  for step = 1, temperatures do
    local before, now = (step - 1) / temperatures, step / temperatures
    local x = v:matmul(self.weight.T) + self.hidden_bias
    log_w = log_w + (pg.softplus(x * now) - pg.softplus(x * before)):sum(2)
    local h = coin((x * now):sigmoid())
    v = coin((h:matmul(self.weight) * now + self.visible_bias):sigmoid())
  end
  local base = pg.softplus(self.visible_bias):sum():item() + self.weight.shape[1] * math.log(2)
  local largest = log_w:max():item()
  local w = (log_w - largest):exp()
  local mean, deviation = w:mean():item(), w:std():item()
  return base + largest + math.log(mean), deviation / mean / math.sqrt(chains)
end

return boltzmann
