-- Draws with the maker of a trained GAN; pictures in the run's folder: 64 digits of as many draws of noise (samples.png), and eight walks from one
-- draw to another (walk.png). A walk is an arc, on which noise keeps the length that the maker was trained with. For models/wgan_gp.lua too.
--
--     perigee train models/gan.lua --out runs/gan
--     perigee -e 'arg = { "runs/gan" } dofile "models/programs/samples.lua"'
local pg = require "perigee"
pg.seed(1)
local run = arg and arg[1] or "runs/gan"
local model = pg.load_model(run)
local noise, walks, steps = 64, 8, 8

-- The drawn picture is the last output. What the judge says of it, and of a digit, is not looked at.
local function draw(z)
  local count = z.shape[1]
  local outputs = { model { x = pg.zeros(count, 1, 28, 28), z = z, share = pg.zeros(count, 1) } }
  return outputs[#outputs]:reshape(count, 1, 28, 28)
end

pg.plot(draw(pg.randn(64, noise)), { file = run .. "/samples.png", columns = 8 })

local from, to, columns = pg.randn(walks, noise), pg.randn(walks, noise), {}
for step = 1, steps do
  local angle = (step - 1) / (steps - 1) * math.pi / 2
  columns[step] = from * math.cos(angle) + to * math.sin(angle)
end
pg.plot(draw(pg.stack(columns, 2):reshape(walks * steps, noise)), { file = run .. "/walk.png", columns = steps })
print(("%s/samples.png and walk.png"):format(run))
