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

return layouts
