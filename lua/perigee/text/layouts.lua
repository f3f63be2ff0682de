-- pg.tsne and pg.kmeans: vectors as points on a plane, and in groups.
local core = require("perigee.native").tensor
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local Tensor = tensor.type
local layouts = {}

local function check(name, x)
  if not tensor.is(x) then where.fail(("%s takes a tensor of rows; got %s"):format(name, tensor.describe(x))) end
end

---Places on a plane for the rows of a tensor, [rows, 2]: rows that are near each other there are near each other here (t-SNE; Barnes-Hut). Options:
---perplexity (30), steps (1000), rate, theta (0.5), exaggeration (12), seed (1), threads. Beside them the divergence that is left.
---@param x perigee.Tensor
---@param options? table
---@return perigee.Tensor, number
function layouts.tsne(x, options)
  check("tsne", x)
  local out = Tensor()
  local divergence, message = core.layout_tsne(x, options or {}, out)
  if divergence == nil then where.fail(message) end
  return out, divergence
end

local known = { steps = 300, tries = 3, seed = 1 }

---The rows of a tensor in groups around centres (k-means): the number of each row's group, from 1, the centres, and the sum of squared distances.
---Options: tries (3, of which the best counts), steps (300, at most), seed (1).
---@param x perigee.Tensor
---@param groups integer
---@param options? { tries?: integer, steps?: integer, seed?: integer }
---@return perigee.Tensor, perigee.Tensor, number
function layouts.kmeans(x, groups, options)
  check("kmeans", x)
  options = options or {}
  local values = { groups = groups }
  for name, value in pairs(known) do values[name] = value end
  for name, value in pairs(options) do
    if known[name] == nil then
      where.fail(("kmeans has no option '%s'%s"):format(tostring(name), where.suggestion(name, { "steps", "tries", "seed" })))
    end
    values[name] = value
  end
  for _, name in ipairs { "groups", "tries", "steps", "seed" } do
    local value = values[name]
    if type(value) ~= "number" or value % 1 ~= 0 or value < (name == "seed" and 0 or 1) or value > 2 ^ 31 then
      where.fail(("kmeans: %s is a whole number above 0; got %s"):format(name, where.describe(value)))
    end
  end
  local places, centres = Tensor(), Tensor()
  local inertia, message = core.layout_kmeans(x, groups, values.tries, values.steps, values.seed, places, centres)
  if inertia == nil then where.fail(message) end
  return places, centres, inertia
end

---@class perigee.Neighbours
local index_methods = {}
index_methods.__index = index_methods

local function whole(name, value)
  if type(value) ~= "number" or value % 1 ~= 0 or value < 1 or value > 1e9 then
    where.fail(("neighbours:nearest: %s is a whole number above 0; got %s"):format(name, where.describe(value)))
  end
end

---The rows nearest to a vector, or to each row of a tensor: their numbers and how far away they are, the nearest first. options: effort (100), of an
---index that is not exact: rows kept in sight; more take longer and miss fewer.
---@param what perigee.Tensor [numbers] or [rows, numbers]
---@param count? integer 10
---@param options? { effort?: integer }
---@return perigee.Tensor, perigee.Tensor
function index_methods:nearest(what, count, options)
  check("neighbours:nearest", what)
  count = count or 10
  local effort = options and options.effort or 100
  whole("count", count)
  whole("effort", effort)
  local one = #what.shape == 1
  local numbers, distances = Tensor(), Tensor()
  local ok, message = core.layout_nearest(self.handle, one and what:reshape(1, what.shape[1]) or what, count, effort, numbers, distances)
  if not ok then where.fail(message) end
  if one then return numbers[1], distances[1] end
  return numbers, distances
end

---An index that finds the rows of a tensor nearest to a vector without looking at all of them: index = pg.neighbours(x); index:nearest(x[1], 10).
---Options: exact (true: a vantage-point tree; false: a graph of small worlds, HNSW, which is much faster and misses a few), metric ("cosine" or
---"euclidean"), links (16), breadth (200), seed (1).
---@param x perigee.Tensor
---@param options? perigee.NeighbourOptions
---@return perigee.Neighbours
function layouts.neighbours(x, options)
  check("neighbours", x)
  local handle, message = core.layout_index(x, options or {})
  if handle == nil then where.fail(message) end
  return setmetatable({ handle = handle }, index_methods)
end

return layouts
