-- Nodes of a graph as vectors (DeepWalk, Perozzi et al. 2014): random walks are read as sentences are. The graph is Zachary's karate club of 1977,
-- whose 34 members fell out and parted; who would go with whom is in who met whom.
--
--     perigee -e 'dofile "models/programs/deepwalk.lua"'
local pg = require "perigee"

local met = {
  [1] = { 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 18, 20, 22, 32 }, [2] = { 3, 4, 8, 14, 18, 20, 22, 31 }, [3] = { 4, 8, 9, 10, 14, 28, 29, 33 },
  [4] = { 8, 13, 14 }, [5] = { 7, 11 }, [6] = { 7, 11, 17 }, [7] = { 17 }, [9] = { 31, 33, 34 }, [10] = { 34 }, [14] = { 34 }, [15] = { 33, 34 },
  [16] = { 33, 34 }, [19] = { 33, 34 }, [20] = { 34 }, [21] = { 33, 34 }, [23] = { 33, 34 }, [24] = { 26, 28, 30, 33, 34 }, [25] = { 26, 28, 32 },
  [26] = { 32 }, [27] = { 30, 34 }, [28] = { 34 }, [29] = { 32, 34 }, [30] = { 33, 34 }, [31] = { 33, 34 }, [32] = { 33, 34 }, [33] = { 34 },
}
local stayed = {} -- with the teacher, member 1
for _, member in ipairs { 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 17, 18, 20, 22 } do stayed[tostring(member)] = true end

local file = os.tmpname()
local out = assert(io.open(file, "w"))
for member, others in pairs(met) do
  for _, other in ipairs(others) do out:write(member, " ", other, "\n") end
end
out:close()

local vectors = pg.word_vectors { file, graph = true, size = 16, window = 4, walks = 40, walk_length = 20, epochs = 5, threads = 1, seed = 3 }
os.remove(file)
print(vectors)

-- Vectors of length 1 in two groups, and how far these are the two clubs.
local rows, names = {}, (vectors:names())
for place, name in ipairs(names) do rows[place] = vectors:mean(name) end
local groups = pg.kmeans(pg.stack(rows), 2)
local same = 0
for place, name in ipairs(names) do
  if (groups[place] == groups[vectors:number "1"]) == (stayed[name] or false) then same = same + 1 end
end
print(("%d of 34 members are in the group of those whom they went with"):format(same))

-- A picture: the colour is the club that a member went with, the number its own.
local folder, clubs = "runs/deepwalk", {}
vectors:save(folder .. "/members.bin")
for place, name in ipairs(names) do clubs[place] = stayed[name] and 1 or 2 end
pg.plot((vectors:tsne { words = names, perplexity = 5, steps = 500 }), clubs,
  { kind = "scatter", names = names, file = folder .. "/members.svg" })
print("picture: " .. folder .. "/members.svg")
