-- Variational autoencoders and Boltzmann machines as distributions: pg.variational and pg.boltzmann.
local pg = require "perigee"

local tests = {}

local function saved(net)
  local path = os.tmpname()
  net:save(path)
  local model = pg.load_model(path)
  os.remove(path)
  return model
end

local function autoencoder(options)
  options.latent, options.encoder = 3, { pg.dense { 6, activation = "tanh" } }
  options.decoder = options.decoder or { pg.dense { 6, activation = "tanh" }, pg.dense { 5 } }
  return saved(pg.sequential { pg.vae(options) }:init(7, { 5 }))
end

function tests.codes_and_examples_are_those_of_the_layers()
  pg.seed(1)
  local model = autoencoder {}
  local vae, p, x = pg.variational(model), model:parameters(), pg.rand(4, 5)
  local mean, log_variance = vae:encode(x)
  local features = x:matmul(p["vae1.encoder.dense1.weight"].T):add(p["vae1.encoder.dense1.bias"]):tanh()
  local moments = features:matmul(p["vae1.code.weight"].T) + p["vae1.code.bias"]
  assert(mean:all_close(moments[{ {}, { 1, 3 } }], 1e-5, 1e-6) and log_variance:all_close(moments[{ {}, { 4, 6 } }], 1e-5, 1e-6))
  local hidden = (mean:matmul(p["vae1.decoder.dense1.weight"].T) + p["vae1.decoder.dense1.bias"]):tanh()
  local logits = hidden:matmul(p["vae1.decoder.dense2.weight"].T) + p["vae1.decoder.dense2.bias"]
  assert(vae:decode(mean):all_close(logits:sigmoid(), 1e-5, 1e-6))
  assert(model(x):all_close(vae:decode(mean), 1e-5, 1e-6))  -- the layer itself, in inference
  local drawn = vae:decode(mean, { random = true })
  assert((drawn * (1 - drawn)):abs():max():item() == 0)
  check.equal(vae:generate(9).shape, { 9, 5 })
end

-- With a code of one number the probability of an example is an integral, which a sum gives.
function tests.the_bounds_lie_below_the_likelihood()
  pg.seed(2)
  local model = autoencoder {}
  local vae, x = pg.variational(model), pg.rand(6, 5):gt(0.5):to "f32"
  local z = pg.randn(20000, 3)
  local logits_p = vae:decode(z)
  for row = 1, 6 do
    local each = x[{ { row, row }, {} }]
    local log_p = (each * logits_p:log() + (1 - each) * (1 - logits_p):log()):sum(2)
    local likelihood = log_p:exp():mean():log():item()
    local elbo = vae:elbo(each, { samples = 2000 }):item()
    assert(elbo < likelihood + 0.02, ("%g, %g"):format(elbo, likelihood))
    assert(elbo > likelihood - 3)
  end
  local log_p, p = vae:reconstruction_log_probability(x, { samples = 400 }), vae:reconstruction_probability(x, { samples = 400 })
  assert(p:all_close(log_p:exp(), 0.2, 1e-3))
  check.raises(function() vae:elbo(x, { samples = 0 }) end, "samples is a whole number from 1; got 0")
end

function tests.other_distributions_are_decoded()
  pg.seed(3)
  local gaussian = pg.variational(autoencoder { reconstruction = "gaussian_likelihood", decoder = { pg.dense { 10, name = "out" } } })
  local z = pg.randn(5000, 3)
  check.equal(gaussian:decode(z).shape, { 5000, 5 })
  local exponential = pg.variational(autoencoder { reconstruction = "exponential_likelihood" })
  local one = z[{ { 1, 1 }, {} }] + pg.zeros(5000, 1)
  local mean, drawn = exponential:decode(one), exponential:decode(one, { random = true })
  assert(((drawn:mean(1) - mean[1]) / mean[1]):abs():max():item() < 0.1)
  local mixed = pg.variational(autoencoder {
    decoder = { pg.dense { 7 } },
    reconstruction = pg.loss.composite {
      parts = { { size = 2, loss = "gaussian_likelihood" }, { size = 3, loss = "reconstruction_cross_entropy" } },
    },
  })
  check.equal(mixed:decode(z).shape, { 5000, 5 })
  check.equal(mixed:elbo(pg.rand(4, 5)).shape, { 4 })
end

function tests.a_gaussian_sample_between_layers_will_do()
  local net = pg.sequential { pg.dense { 4 }, pg.gaussian_sample {}, pg.dense { 5 } }:init(7, { 5 })
  check.raises(function() pg.variational(net) end, "the loss of the training is needed")
  check.raises(function() pg.variational {} end, "takes a model")
  check.raises(function() pg.variational(saved(pg.sequential { pg.dense { 5 } }:init(1, { 5 }))) end, "vae or gaussian_sample")
end

local function machine()
  pg.seed(4)
  local net = pg.sequential { pg.rbm { 8 } }:init(1, { 10 })
  local p = net:parameters()
  p["rbm1.weight"]:copy_(pg.randn(8, 10) * 0.8)
  p["rbm1.bias"]:copy_(pg.randn(8) * 0.5)
  p["rbm1.visible_bias"]:copy_(pg.randn(10) * 0.5)
  return pg.boltzmann(saved(net))
end

-- All 1024 states of the visible units.
local function states()
  local rows = {}
  for number = 0, 1023 do
    local row = {}
    for bit = 1, 10 do row[bit] = math.floor(number / 2 ^ (bit - 1)) % 2 end
    rows[number + 1] = row
  end
  return pg.tensor(rows)
end

function tests.annealing_finds_the_partition_function()
  local rbm = machine()
  local energies = -rbm:free_energy(states()):to "f64"
  local largest = energies:max():item()
  local exact = largest + math.log((energies - largest):exp():sum():item())
  local log_z, deviation = rbm:log_z { chains = 400, temperatures = 1000 }
  assert(math.abs(log_z - exact) < 0.1, ("%g +- %g, wanted %g"):format(log_z, deviation, exact))
  assert(deviation < 0.1)
  check.raises(function() rbm:log_z { chains = 1 } end, "chains is a whole number from 2; got 1")
end

function tests.samples_are_as_frequent_as_they_are_probable()
  local rbm = machine()
  local p = (-rbm:free_energy(states())):softmax(1)
  local wanted = p:reshape(1, -1):matmul(states())
  local got = rbm:sample(4000, { steps = 100 }):mean(1)
  assert((wanted - got):abs():max():item() < 0.04)
  check.raises(function() pg.boltzmann(saved(pg.sequential { pg.dense { 5 } }:init(1, { 5 }))) end, "has no layer rbm")
  check.raises(function()
    pg.boltzmann(saved(pg.sequential { pg.rbm { 4, visible_units = "gaussian" } }:init(1, { 5 })))
  end, "is for binary units; layer 'rbm1' has gaussian and binary ones")
end

return tests
