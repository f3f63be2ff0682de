-- Vectors of documents (Le and Mikolov 2014): 2,000 reviews of films, half of them friendly (Pang and Lee 2004). Each review's vector foretells its
-- words; then a layer learns from the vectors of nine tenths which reviews are friendly, and is asked about the rest.
--
--     perigee -e 'dofile "models/programs/paragraph_vectors.lua"'
local pg = require "perigee"

local vectors = pg.word_vectors { pg.data_path "docs/review_polarity.tar.gz", model = "dbow", size = 100, epochs = 20, min_count = 2, lr = 0.05 }
local documents = vectors.documents
print(documents)

-- A document's name is its file's; the tenth review of each ten is for testing.
local x, y, test_x, test_y = {}, {}, {}, {}
for place, name in ipairs((documents:names())) do
  local test = place % 10 == 0
  local rows, labels = test and test_x or x, test and test_y or y
  rows[#rows + 1], labels[#labels + 1] = documents:mean(name), name:find("/pos/", 1, true) and 2 or 1
end
x, test_x = pg.stack(x) * 10, pg.stack(test_x) * 10

local optimizer = pg.adam { lr = 0.01 }
local p = { w = pg.zeros(100, 2), b = pg.zeros(2) }
y, test_y = pg.tensor(y, { dtype = "i64" }), pg.tensor(test_y, { dtype = "i64" })
local slope = pg.value_and_grad(function(q)
  return pg.cross_entropy(x:matmul(q.w) + q.b, y):mean() + (q.w * q.w):sum() * 1e-3
end)
for _ = 1, 200 do
  local _, g = slope(p)
  optimizer:step(p, g)
end
local right = (test_x:matmul(p.w) + p.b):argmax(2):eq(test_y):sum():item()
print(("%d of %d reviews are told right"):format(right, test_y.shape[1]))

-- A picture of the reviews for testing and as many others, one colour for friendly ones.
local folder = "runs/paragraph_vectors"
documents:save(folder .. "/reviews.bin")
local shown, kinds = pg.concatenate({ test_x, x[{ { 1, test_x.shape[1] } }] }, 1), pg.concatenate({ test_y, y[{ { 1, test_x.shape[1] } }] }, 1)
pg.plot((pg.tsne(shown, { steps = 500 })), kinds, { kind = "scatter", file = folder .. "/reviews.png" })
print("picture: " .. folder .. "/reviews.png")
