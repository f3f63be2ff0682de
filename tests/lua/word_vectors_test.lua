-- pg.word_vectors: what it trains, answers, reads, writes and refuses.
local pg = require "perigee"
local tests = {}

local function written(text)
  local file = os.tmpname()
  local out = assert(io.open(file, "wb"))
  out:write(text)
  out:close()
  return file
end

local function same(x, y) return x:eq(y):all():item() == 1 end

-- Two topics whose words never stand together.
local function topics(lines)
  local text, state = {}, 1
  local function below(n)
    state = state * 16807 % 2147483647
    return state % n
  end
  for line = 1, lines do
    local topic, words = below(2) == 0 and "sea" or "land", {}
    for place = 1, 8 do words[place] = topic .. below(15) end
    text[line] = table.concat(words, " ")
  end
  return table.concat(text, "\n") .. "\n"
end

function tests.vectors_of_words_are_trained_and_asked()
  local file, out, reports = written(topics(2000)), os.tmpname() .. ".bin", 0
  local vectors = pg.word_vectors { file, size = 12, epochs = 5, threads = 1, sample = 0, out = out,
    progress = function(now)
      reports = reports + 1
      check.equal(now.done <= now.all, true)
    end }
  check.equal(reports > 0, true)
  check.equal(tostring(vectors), "30 vectors of 12 numbers")
  check.equal(#vectors:nearest "sea3", 10)
  for _, found in ipairs(vectors:nearest("sea3", 14)) do check.equal(found.name:sub(1, 3), "sea") end
  check.equal(vectors:similarity("sea1", "sea2") > vectors:similarity("sea1", "land2"), true)
  check.equal(vectors:nearest({ "sea1", "sea2" }, { minus = "land1", count = 3 })[1].name:sub(1, 3), "sea")
  check.equal(vectors:analogy("land1", "land2", "sea1")[1].name:sub(1, 3), "sea")
  check.equal(vectors:nearest(vectors.sea3, 1)[1].name, "sea3")
  check.equal(vectors:mean({ "sea1", "sea2" }).shape[1], 12)
  local names, counts = vectors:names()
  check.equal(#names, 30)
  check.equal(counts[1] >= counts[30], true)
  check.equal(vectors:number(names[7]), 7)
  check.equal(vectors:number "nothing", nil)
  local places, words = vectors:tsne { words = { "sea1", "sea2", "sea3", "sea4", "land1", "land2", "land3" }, perplexity = 2, steps = 50 }
  check.equal(places.shape[1] .. words[5], "7land1")
  check.equal(same(vectors:matrix()[7], vectors:vector(names[7])), true)
  local again = pg.load_vectors(out)
  check.equal(same(again:matrix(), vectors:matrix()), true)
  check.equal(again.documents, nil)
  os.remove(file)
  os.remove(out)
end

function tests.documents_and_sequences_of_any_elements()
  local documents, labels = {}, {}
  for i = 1, 40 do
    documents[i], labels[i] = {}, (i % 2 == 0 and "even" or "odd") .. i
    for k = 1, 40 do documents[i][k] = i % 2 == 0 and 2 * (k * i % 11) or 2 * (k * i % 11) + 1 end
  end
  local vectors = pg.word_vectors { sequences = documents, labels = labels, model = "dbow", size = 10, epochs = 40, threads = 1, sample = 0 }
  check.equal((vectors.documents:size()), 40)
  check.equal(vectors.documents:nearest("even2", 1)[1].name:sub(1, 4), "even")
  local found = vectors:infer({ "1", "3", "5", "7", "9" }, { epochs = 100, lr = 0.05 })
  check.equal(vectors.documents:nearest(found, 1)[1].name:sub(1, 3), "odd")
end

function tests.an_embedding_begins_with_vectors()
  local file = written "2 3\nking 1 2 3\nqueen 4 5 6\n"
  local net = pg.sequential {
    pg.embedding { size = 3, out = 3, weight_init = pg.init.vectors { file, words = { "queen", "nobody", "king" } }, trainable = false } }
  net:init(1, { 1 })
  local rows = net:parameters()["embed1.weight"]
  check.equal(rows[{ 1, 2 }], 5)
  check.equal(rows[{ 3, 3 }], 3)
  os.remove(file)
end

function tests.rows_in_groups_and_on_a_plane()
  local x = pg.concatenate({ pg.randn(40, 6), pg.randn(40, 6) + 20 }, 1)
  local groups, centres, inertia = pg.kmeans(x, 2)
  check.equal(groups[1] ~= groups[80], true)
  check.equal(groups[{ { 1, 40 } }]:eq(groups[1]):all():item(), 1)
  check.equal(centres.shape[2], 6)
  check.equal(inertia > 0 and inertia < 80 * 6 * 1.5, true)
  local places, divergence = pg.tsne(x, { perplexity = 10, steps = 300 })
  check.equal(places.shape[1] .. "x" .. places.shape[2], "80x2")
  check.equal(divergence < 1, true)
  check.equal((pg.kmeans(places, 2)):eq(groups):all():item() == 1 or (pg.kmeans(places, 2)):ne(groups):all():item() == 1, true)
  check.raises(function() pg.tsne(x, { perplexity = 40 }) end, "too few rows for the perplexity")
  check.raises(function() pg.tsne(x, { perplexty = 4 }) end, "perplexity")
  check.raises(function() pg.tsne(pg.zeros(3)) end, "the tensor has no rows of numbers")
  check.raises(function() pg.tsne(7) end, "tsne takes a tensor of rows; got 7")
  check.raises(function() pg.kmeans(x, 81) end, "there cannot be so many groups")
  check.raises(function() pg.kmeans(x, 2.5) end, "groups is a whole number above 0")
  check.raises(function() pg.kmeans(x, 2, { tris = 1 }) end, "no option 'tris'.*tries")
  x[{ 1, 1 }] = 0 / 0
  check.raises(function() pg.kmeans(x, 2) end, "a number that is not finite")
end

function tests.sequences_come_from_functions_and_sources()
  local options = { size = 6, epochs = 3, threads = 1, sample = 0, min_count = 1 }
  local function vectors_of(sequences)
    options.sequences = sequences
    return pg.word_vectors(options)
  end
  local lists, place = { { 1, 2, 3, 4 }, { 3, 4, 5, 6 }, { 1, 1, 2, 6 } }, 0
  local whole = vectors_of(lists)
  local by_function = vectors_of(function()
    place = place + 1
    return lists[place]
  end)
  check.equal(same(whole:matrix(), by_function:matrix()), true)
  local source = pg.data.arrays { x = pg.tensor(lists, { dtype = "i64" }) }
  check.equal(same(whole:matrix(), vectors_of(source):matrix()), true)
  local cut = pg.data.arrays { x = pg.tensor(lists, { dtype = "i64" }), n = pg.tensor({ 4, 4, 3 }, { dtype = "i64" }) }
  check.equal(vectors_of(cut):number "6" ~= nil, true)
  check.equal(same(vectors_of(cut):matrix(), vectors_of({ lists[1], lists[2], { 1, 1, 2 } }):matrix()), true)
  check.raises(function() vectors_of(7) end, "a function that gives lists, or a source; got 7")
  check.raises(function() vectors_of(pg.data.arrays { x = pg.zeros(3, 2) }) end, "a source gives lists of whole numbers as x; got")
  check.raises(function() vectors_of(pg.data.arrays { z = pg.zeros(3, 2) }) end, "the source has no field x")
end

function tests.indexes_find_near_rows()
  local x = pg.randn(400, 8)
  for _, metric in ipairs { "cosine", "euclidean" } do
    local tree, graph = pg.neighbours(x, { metric = metric }), pg.neighbours(x, { metric = metric, exact = false })
    local numbers, distances = tree:nearest(x, 4)
    check.equal(numbers.shape[1] .. "x" .. numbers.shape[2], "400x4")
    check.equal(numbers[{ {}, 1 }]:eq(pg.arange(400):to "i64"):all():item(), 1)
    check.equal(distances[{ {}, 1 }]:abs():max():item() < 1e-5, true)
    local near, far = tree:nearest(x[7], 2)
    check.equal(near[2], numbers[{ 7, 2 }])
    check.equal(far[2], distances[{ 7, 2 }])
    check.equal(graph:nearest(x, 4, { effort = 200 }):eq(numbers):to("f32"):mean():item() > 0.99, true)
  end
  check.equal((pg.neighbours(x):nearest(x[1], 1000)).shape[1], 400)
  local vectors = pg.load_vectors(written "2 2\nking 1 2\nqueen 3 4\n")
  local kept = os.tmpname() .. ".kv"
  vectors:save(kept)
  check.equal(same(pg.load_vectors(kept):matrix(), vectors:matrix()), true)
  os.remove(kept)
  os.remove(kept .. ".vectors.npy")
  check.raises(function() pg.neighbours(7) end, "takes a tensor of rows")
  check.raises(function() pg.neighbours(x, { linx = 3 }) end, "unknown key 'linx'")
  check.raises(function() pg.neighbours(x):nearest(pg.zeros(3)) end, "the rows have another length than those of the index; got 3, expected 8")
  check.raises(function() pg.neighbours(x):nearest(x[1], 0) end, "count is a whole number above 0; got 0")
  check.raises(function() pg.neighbours(x):nearest(x[1], 3, { effort = 0.5 }) end, "effort is a whole number above 0")
end

function tests.what_it_refuses()
  local vectors = pg.load_vectors(written "2 2\nking 1 2\nqueen 3 4\n")
  check.raises(function() return vectors.kong end, "there is no vector of 'kong'.*king")
  check.raises(function() return vectors[1] end, "found by their names")
  check.raises(function() vectors:nearest(7) end, "nearest takes words; got 7")
  check.raises(function() vectors:nearest("king", 0) end, "count is a whole number above 0")
  check.raises(function() vectors:nearest(pg.zeros(3)) end, "another length.*got 3, expected 2")
  check.raises(function() vectors:analogy("king", "queen") end, "takes three words")
  check.raises(function() vectors:mean {} end, "no words to take the mean of")
  check.raises(function() vectors:save "vectors.npz" end, "the name does not say how vectors are written")
  check.raises(function() vectors:save("x.bin", "npz") end, 'format is "binary", "text", "glove" or "keyed"')
  check.raises(function() vectors:infer "king" end, "vectors from a file cannot learn a text")
  check.raises(function() vectors:infer("king", { epochs = 0 }) end, "epochs is a whole number above 0")
  check.raises(function() vectors:infer("king", { lr = -1 }) end, "lr is a number above 0")
  check.raises(function() pg.word_vectors {} end, "files")
  check.raises(function() pg.word_vectors(7) end, "takes files and options")
  check.raises(function() pg.word_vectors { "x.txt", sise = 3 } end, "no option 'sise'.*size")
  check.raises(function() pg.word_vectors { "x.txt", size = 0 } end, "size")
  check.raises(function() pg.word_vectors { "x.txt", progress = 7 } end, "progress is a function")
  check.raises(function() pg.word_vectors { sequences = { 7 } } end, "sequence 1 is 7; expected a list")
  check.raises(function() pg.word_vectors { sequences = { { {} } } } end, "element 1 of sequence 1 is a table")
  check.raises(function() pg.word_vectors { sequences = { { "a", "a" } } } end, "too few different elements to tell apart")
  check.raises(function() pg.word_vectors { "/nowhere/corpus.txt" } end, "/nowhere/corpus.txt")
  check.raises(function() pg.word_vectors { sequences = { { "a", "b" } } }:infer "a" end, "documents have no vectors here")
  check.raises(function()
    pg.word_vectors { sequences = { { "a", "b" } }, model = "dbow" }:infer "c"
  end, "the text has no word that was trained on")
  check.raises(function() pg.load_vectors(7) end, "takes the name of a file")
end

return tests
