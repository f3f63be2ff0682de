-- A trained variational autoencoder shows digits that nobody wrote, the test ELBO, and how probable it finds digits and what is none.
--
--     perigee train models/vae.lua --out runs/vae
--     perigee -e 'arg = { "runs/vae" } dofile "models/programs/vae.lua"'
local pg = require "perigee"
pg.seed(1)
local run = arg and arg[1] or "runs/vae"
local vae = pg.variational(pg.load_model(run))

-- 64 new digits: the means of what 64 draws from the standard normal stand for.
pg.plot(vae:generate(64):reshape(64, 1, 28, 28), { file = run .. "/samples.png" })

-- Eight walks from one code to another, along an arc, on which codes keep the length that they have in training.
local from, to, columns = pg.randn(8, vae.latent), pg.randn(8, vae.latent), {}
for step = 1, 8 do
  local angle = (step - 1) / 7 * math.pi / 2
  columns[step] = from * math.cos(angle) + to * math.sin(angle)
end
local walk = vae:decode(pg.stack(columns, 2):reshape(64, vae.latent))
pg.plot(walk:reshape(64, 1, 28, 28), { file = run .. "/walk.png", columns = 8 })

local elbo, count = 0, 0
for batch in pg.data.mnist().test:batches(500) do
  elbo, count = elbo + vae:elbo(batch.x, { samples = 1 }):sum():item(), count + batch.x.shape[1]
end
print(("test ELBO %.3f nats, mean of %d digits"):format(elbo / count, count))

local digits = pg.data.mnist().test:batch(1, 100).x
local upside_down = digits[{ {}, {}, { 28, 1, -1 }, {} }]
for name, x in pairs { digits = digits, ["upside down"] = upside_down, noise = pg.rand(100, 1, 28, 28) } do
  print(("%-12s log probability %.1f"):format(name, vae:reconstruction_log_probability(x, { samples = 16 }):mean():item()))
end
