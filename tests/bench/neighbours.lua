-- Near rows by index and by looking at all: perigee -e 'vectors = "words.bin" dofile "tests/bench/neighbours.lua"'. CPU time, one thread.
local pg = require "perigee"
local queries, count = 2000, 10

local v = pg.load_vectors(rawget(_G, "vectors"))
local x = v:matrix()
local q = x[{ { 1, queries } }]

local function timed(what, times, work)
  local begin = os.clock()
  local results = { work() }
  print(("%-34s %9.3f ms"):format(what, (os.clock() - begin) / times * 1000))
  return unpack(results)
end

print(("%d vectors of %d numbers, %d queries, the nearest %d"):format(x.shape[1], x.shape[2], queries, count))
timed("looking at all, a query", 200, function()
  for place = 1, 200 do v:nearest(q[place], count) end
end)
local tree = timed("tree: built in", 1, function() return pg.neighbours(x) end)
local _, right = timed("tree: a query", queries, function() return tree:nearest(q, count) end)
local furthest = right[{ {}, count }]:reshape(queries, 1) + 1e-6

-- The tree against looking at all.
local wrong = 0
for place = 1, 200 do
  if math.abs(1 - v:nearest(q[place], count)[count].similarity - right[{ place, count }]) > 1e-5 then wrong = wrong + 1 end
end
print("tree: wrong in " .. wrong .. " of 200")

local graph = timed("graph: built in", 1, function() return pg.neighbours(x, { exact = false }) end)
for _, effort in ipairs { 10, 20, 50, 100, 200 } do
  local _, found = timed(("graph, effort %d: a query"):format(effort), queries, function() return graph:nearest(q, count, { effort = effort }) end)
  print(("  recall %.4f"):format(found:le(furthest):to("f32"):mean():item()))
end
