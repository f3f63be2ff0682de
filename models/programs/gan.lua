-- A generative adversarial network, by tensors (Goodfellow et al. 2014): the generator makes points of noise, the discriminator tells them
-- from real ones, and each learns from the other's mistakes. Two networks with opposite aims are no job for `perigee train`; here the loop
-- is written out. pg.compile records a step once and then runs it as a plan.
--
--     perigee -e 'dofile "models/programs/gan.lua"'
local pg = require "perigee"
pg.seed(1)

local batch, noise, hidden, steps = 128, 4, 32, 3000

-- The real points lie on a ring of radius 2, a little blurred.
local function real_points()
  local angle = pg.rand(batch, 1) * (2 * math.pi)
  return pg.concatenate({ angle:cos(), angle:sin() }, 2) * 2 + pg.randn(batch, 2) * 0.05
end

local function layers(inputs, outputs)
  local function weights(from, to) return pg.randn(from, to) * math.sqrt(2 / from) end
  return { w1 = weights(inputs, hidden), b1 = pg.zeros(hidden), w2 = weights(hidden, hidden), b2 = pg.zeros(hidden),
           w3 = weights(hidden, outputs), b3 = pg.zeros(outputs) }
end

local function apply(p, x)
  x = pg.relu(x:matmul(p.w1) + p.b1)
  x = pg.relu(x:matmul(p.w2) + p.b2)
  return x:matmul(p.w3) + p.b3
end

-- Adam on a table of tensors: p, m and v are tables of the same names.
local function adam(p, g, m, v, t)
  local p2, m2, v2 = {}, {}, {}
  for name, x in pairs(p) do
    m2[name] = m[name] * 0.5 + g[name] * 0.5
    v2[name] = v[name] * 0.99 + g[name] * g[name] * 0.01
    p2[name] = x - 2e-3 * (m2[name] / (1 - 0.5 ^ t)) / ((v2[name] / (1 - 0.99 ^ t)):sqrt() + 1e-8)
  end
  return p2, m2, v2
end

local function zeros_of(p)
  local z = {}
  for name, x in pairs(p) do z[name] = pg.zeros_like(x) end
  return z
end

-- -log of the probability that the discriminator is right, from its logits.
local function says_real(logits) return pg.softplus(-logits):mean() end
local function says_made(logits) return pg.softplus(logits):mean() end

local judge = pg.compile(function(d, g, m, v, real, z, t)
  local made = apply(g, z)
  local loss, grads = pg.value_and_grad(function(p) return says_real(apply(p, real)) + says_made(apply(p, made)) end)(d)
  return loss, adam(d, grads, m, v, t)
end)
local make = pg.compile(function(g, d, m, v, z, t)
  local loss, grads = pg.value_and_grad(function(p) return says_real(apply(d, apply(p, z))) end)(g)
  return loss, adam(g, grads, m, v, t)
end)

local g, d = layers(noise, 2), layers(2, 1)
local gm, gv, dm, dv = zeros_of(g), zeros_of(g), zeros_of(d), zeros_of(d)
for step = 1, steps do
  local loss_d, loss_g
  loss_d, d, dm, dv = judge(d, g, dm, dv, real_points(), pg.randn(batch, noise), step)
  loss_g, g, gm, gv = make(g, d, gm, gv, pg.randn(batch, noise), step)
  if step % 1000 == 0 then print(("step %d: discriminator %.3f, generator %.3f"):format(step, loss_d:item(), loss_g:item())) end
end

-- The made points should lie at a distance of 2 from the middle, on all sides of it.
local points = apply(g, pg.randn(1000, noise))
local radius = (points * points):sum(2):sqrt()
print(("radius %.2f +- %.2f, middle at %.2f, %.2f"):format(radius:mean():item(), radius:std():item(), points:mean(1)[1], points:mean(1)[2]))
