-- Vectors of words from 24 books (Mikolov et al. 2013): words that stand in the same places get vectors in the same direction. Then how far they
-- agree with people, a picture of the frequent ones, and a network that begins with them. `perigee vectors train` does the first part by several
-- workers, with checkpoints.
--
--     perigee -e 'dofile "models/programs/word2vec.lua"'
local pg = require "perigee"

local folder, shown = "runs/word2vec", 0
local vectors = pg.word_vectors {
  pg.data_path "text/corpus_gutenberg/gutenberg_24books.txt.xz", size = 64, window = 5, negative = 5, epochs = 2, min_count = 10,
  out = folder .. "/words.bin", -- also after Ctrl-C
  progress = function(now)
    if now.seconds < shown then return end
    shown = now.seconds + 5
    print(("%3.0f %%, %.0f words a second, %.0f s left"):format(100 * now.done / now.all, now.speed, now.remaining))
  end,
}
print(vectors)

for _, word in ipairs { "king", "sea", "monday" } do
  local near = {}
  for place, found in ipairs(vectors:nearest(word, 5)) do near[place] = found.name end
  print(word .. ": " .. table.concat(near, ", "))
end
for _, test in ipairs { "EN-WS-353-ALL.txt", "EN-MEN-TR-3k.txt" } do
  local scores = vectors:evaluate(pg.data_path("text/wordeval/" .. test))
  print(("%s: rank correlation %.3f over %d pairs"):format(test, scores.spearman, scores.pairs))
end

-- The most frequent words but for those that stand everywhere, on a plane (t-SNE), with a colour for each of eight groups.
local frequent, rows = {}, {}
local names = vectors:names()
for place = 101, math.min(500, #names) do frequent[#frequent + 1] = names[place] end
for place, word in ipairs(frequent) do rows[place] = vectors:mean(word) end
local places = vectors:tsne { words = frequent, steps = 500 }
pg.plot(places, (pg.kmeans(pg.stack(rows), 8)), { kind = "scatter", names = frequent, file = folder .. "/words.svg" })
print("picture: " .. folder .. "/words.svg")

-- An embedding whose rows are these vectors and stay so. Without `trainable = false` they learn on.
local words = { "good", "bad", "king", "sea" }
local network = pg.sequential {
  pg.embedding { size = #words, out = 64, weight_init = pg.init.vectors { folder .. "/words.bin", words = words }, trainable = false },
  pg.dense { 2 },
}
network:init(1, { 1 })
print(network:parameters()["embed1.weight"][3]:eq(vectors.king):all():item() == 1)
