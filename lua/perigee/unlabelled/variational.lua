-- pg.variational(model): what a trained variational autoencoder can do beside restoring: codes of examples, examples of codes, new examples, and
-- how probable an example is. The model has a layer vae, or gaussian_sample between an encoder and a decoder.
local pg = require "perigee"
local layers = require "perigee.layers"
local network = require "perigee.network"
local where = require "perigee.where"

local variational = {}

---@class perigee.Variational
---@field latent integer  dimensions of a code
local Variational = {}
Variational.__index = Variational
Variational.__fields = Variational

local function copy(layer, name)
  local result = {}
  for key, value in pairs(type(layer) == "table" and layer or { type = layer }) do result[key] = value end
  result.name = name or result.name
  return result
end

-- The layers of the network with the names that they have in the model, and the place of the one that draws.
local function parts_of(about)
  local list, names = network.in_row(about)
  local named, drawn = {}, nil
  if about.network.type == "graph" or #names ~= #list then return named end
  for place, layer in ipairs(list) do
    named[place] = copy(layer, names[place])
    if named[place].type == "vae" or named[place].type == "gaussian_sample" then drawn = place end
  end
  return named, drawn
end

local function sequence(name, list) return { type = "sequential", name = name, layers = list } end

-- Lists of layers: from an example to means and variances, and from a code to what the reconstruction's loss takes; and that loss.
local function halves(about)
  local list, at = parts_of(about)
  if not at then
    where.fail "pg.variational takes a model of layers in a row, one of them vae or gaussian_sample, as pg.load_model reads it"
  end
  local encoder, decoder, layer = {}, {}, list[at]
  for place = 1, at - 1 do encoder[place] = list[place] end
  if layer.type == "vae" then
    local code = { type = "dense", name = "code", out = 2 * layer.latent, activation = "identity" }
    encoder[at] = sequence(layer.name, { sequence("encoder", layer.encoder), code })
    decoder[1] = sequence(layer.name, { sequence("decoder", layer.decoder) })
    return encoder, decoder, layer.reconstruction or "reconstruction_cross_entropy"
  end
  for place = at + 1, #list do decoder[place - at] = list[place] end
  if type(about.loss) ~= "string" and type(about.loss) ~= "table" then
    where.fail "pg.variational: with gaussian_sample the loss of the training is needed, which a network of pg.sequential has not; load a model"
  end
  return encoder, decoder, about.loss
end

-- A network of these layers with the model's parameters.
local function built(list, about, parameters, ...)
  local wrapped = { defaults = about.network.defaults }
  for place, layer in ipairs(list) do wrapped[place] = layers.wrap(layer) end
  local net = pg.sequential(wrapped):init(1, ...)
  for name, tensor in pairs(net:parameters()) do tensor:copy_(parameters[name]) end
  return net
end

local function last_activation(list)
  local last = list[#list]
  if type(last) == "table" and last.layers then return last_activation(last.layers) end
  return type(last) == "table" and last.activation or nil
end

local links = { binary_cross_entropy = "sigmoid", reconstruction_cross_entropy = "sigmoid" }

-- Columns [from, to] of a matrix.
local function columns(x, from, to) return x[{ {}, { from, to } }] end

-- The mean of the distribution that the decoder's numbers describe, or a draw from it.
local function made(loss, numbers, random, linked)
  local kind = type(loss) == "table" and loss.type or loss
  if kind == "gaussian_likelihood" then
    local half = numbers.shape[2] / 2
    local mean = columns(numbers, 1, half)
    if not random then return mean end
    return mean + (columns(numbers, half + 1, 2 * half) * 0.5):exp() * pg.randn(numbers.shape[1], half)
  elseif kind == "exponential_likelihood" then
    local mean = (-numbers):exp()
    return random and -(1 - pg.rand(unpack(numbers.shape))):log() * mean or mean
  elseif kind == "composite" then
    local list, from = {}, 1
    for place, part in ipairs(loss.parts) do
      local inner = type(part.loss) == "table" and part.loss.type or part.loss
      local size = part.size * (inner == "gaussian_likelihood" and 2 or 1)
      list[place] = made(part.loss, columns(numbers, from, from + size - 1), random, linked)
      from = from + size
    end
    return pg.concatenate(list, 2)
  end
  if links[kind] ~= "sigmoid" then return numbers end
  local mean = linked and numbers or numbers:sigmoid()
  return random and pg.rand(unpack(mean.shape)):lt(mean):to(mean.dtype) or mean
end

---A trained variational autoencoder as a distribution: codes of examples, examples of codes, new examples, and how probable an example is. The
---model has layers in a row, one of them vae, or gaussian_sample between an encoder and a decoder.
---@param model perigee.Model
---@return perigee.Variational
function variational.variational(model)
  local about = network.about(model)
  if not about then where.fail("pg.variational takes a model, as pg.load_model reads it; got " .. where.describe(model)) end
  local parameters, encoder, decoder, loss = model:parameters(), halves(about)
  local shape = about.inputs[1].shape
  local self = setmetatable({ loss = loss }, Variational)
  self.encoder = built(encoder, about, parameters, shape)
  local moments = self.encoder(pg.zeros(1, unpack(shape)))
  self.latent = moments.shape[2] / 2
  local code = { self.latent, unpack(moments.shape, 3) }
  self.decoder = built(decoder, about, parameters, code)
  self.linked = last_activation(decoder) == "sigmoid"
  local out = self.decoder(pg.zeros(1, unpack(code)))
  self.flat = out.rank == 2
  local given, wanted = pg.input "given", pg.input "wanted"
  local score = layers.wrap { type = "loss_value", loss = loss }
  self.score = pg.graph { inputs = { given, wanted }, outputs = { score(given, wanted) } }
  local target = self.flat and { 1 } or shape
  if self.flat then
    for _, size in ipairs(shape) do target[1] = target[1] * size end
  end
  self.score:init(1, { given = { unpack(out.shape, 2) }, wanted = target })
  return self
end

---Means and logarithms of variances of the codes of examples.
---@param x perigee.Tensor
---@return perigee.Tensor mean, perigee.Tensor log_variance
function Variational:encode(x)
  local moments = self.encoder(x)
  return moments:narrow(2, 1, self.latent), moments:narrow(2, self.latent + 1, self.latent)
end

---Decodes codes: the mean of the distribution of examples, or with { random = true } a draw from it.
---@param z perigee.Tensor
---@param options? { random?: boolean }
---@return perigee.Tensor
function Variational:decode(z, options)
  return made(self.loss, self.decoder(z), options and options.random or false, self.linked)
end

---`count` new examples, of codes drawn from the standard normal.
---@param count integer
---@param options? { random?: boolean }
---@return perigee.Tensor
function Variational:generate(count, options) return self:decode(pg.randn(count, self.latent), options) end

-- Log likelihoods [samples, N] of examples under draws of their codes, and means and log variances of these.
local function likelihoods(self, name, x, options)
  local samples = options and options.samples or 1
  if type(samples) ~= "number" or samples < 1 or samples % 1 ~= 0 then
    where.fail(("%s: samples is a whole number from 1; got %s"):format(name, where.describe(samples)))
  end
  local mean, log_variance = self:encode(x)
  local deviation, wanted, rows = (log_variance * 0.5):exp(), self.flat and x:reshape(x.shape[1], -1) or x, {}
  for draw = 1, samples do
    local z = mean + deviation * pg.randn(unpack(mean.shape))
    rows[draw] = -self.score { given = self.decoder(z), wanted = wanted }:reshape(-1)
  end
  return pg.stack(rows, 1), mean, log_variance
end

---The evidence lower bound of each example, in nats: the mean over `samples` draws of a code.
---@param x perigee.Tensor
---@param options? { samples?: integer }
---@return perigee.Tensor
function Variational:elbo(x, options)
  local log_p, mean, log_variance = likelihoods(self, "elbo", x, options)
  local terms = mean * mean + log_variance:exp() - 1 - log_variance
  return log_p:mean(1) - terms:reshape(x.shape[1], -1):sum(2) * 0.5
end

---log of the mean, over `samples` draws of a code from the encoder, of an example's probability (An & Cho 2015): low for anomalies.
---@param x perigee.Tensor
---@param options? { samples?: integer }
---@return perigee.Tensor
function Variational:reconstruction_log_probability(x, options)
  local log_p = likelihoods(self, "reconstruction_log_probability", x, options)
  local largest = log_p:max(1)
  return (log_p - largest:reshape(1, -1)):exp():mean(1):log() + largest
end

---The same without the logarithm; of many numbers it is often 0 in f32.
---@param x perigee.Tensor
---@param options? { samples?: integer }
---@return perigee.Tensor
function Variational:reconstruction_probability(x, options) return self:reconstruction_log_probability(x, options):exp() end

return variational
