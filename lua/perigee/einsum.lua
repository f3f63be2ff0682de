-- pg.einsum for one or two operands: permuted and reshaped into one batched matrix product.
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local methods = tensor.methods

local function labels_of(text, formula)
  local labels, seen = {}, {}
  for label in text:gmatch "." do
    if not label:match "%a" then where.fail(("einsum '%s' has '%s'; labels are letters"):format(formula, label)) end
    if seen[label] then where.fail(("einsum '%s' repeats '%s' in one operand; take the diagonal first"):format(formula, label)) end
    seen[label] = true
    labels[#labels + 1] = label
  end
  return labels, seen
end

local function parse(formula, count)
  local text = formula:gsub("%s", "")
  local left, right = text:match "^([^>]*)%->(%a*)$"
  left = left or text
  local operands = {}
  for part in (left .. ","):gmatch "(.-)," do operands[#operands + 1] = { labels_of(part, formula) } end
  if #operands ~= count or (right == nil and text:find "[^%a,]") then
    where.fail(("einsum '%s' names %d operands and has %d; the form is 'ij,jk->ik'"):format(formula, #operands, count))
  end
  if not right then -- as NumPy: labels that appear once, in alphabetical order
    local times, once = {}, {}
    for label in left:gmatch "%a" do times[label] = (times[label] or 0) + 1 end
    for label, number in pairs(times) do
      if number == 1 then once[#once + 1] = label end
    end
    table.sort(once)
    right = table.concat(once)
  end
  return operands, labels_of(right, formula)
end

-- x without the labels that nobody else has, which are summed over.
local function sum_out(x, labels, wanted)
  local axes, kept = {}, {}
  for index, label in ipairs(labels) do
    if wanted(label) then kept[#kept + 1] = label else axes[#axes + 1] = index end
  end
  return #axes > 0 and methods.sum(x, axes) or x, kept
end

local function places(labels)
  local at = {}
  for index, label in ipairs(labels) do at[label] = index end
  return at
end

local function ordered(x, labels, groups)
  local at, order, shape = places(labels), {}, {}
  local sizes = x.shape
  for _, group in ipairs(groups) do
    local product = 1
    for _, label in ipairs(group) do
      order[#order + 1] = at[label]
      product = product * sizes[at[label]]
    end
    shape[#shape + 1] = product
  end
  return methods.reshape(methods.transpose(x, order), shape)
end

local function to_result(x, labels, result)
  local at, order = places(labels), {}
  for index, label in ipairs(result) do order[index] = at[label] end
  return #order > 0 and methods.transpose(x, order) or x
end

return function(formula, a, b)
  local operands, result = parse(formula, b and 2 or 1)
  for index, x in ipairs { a, b } do
    if x.rank ~= #operands[index][1] then
      where.fail(("einsum '%s' has %d labels for %s"):format(formula, #operands[index][1], tensor.type_text(x)))
    end
  end
  local in_result, sizes = places(result), {}
  for index, x in ipairs { a, b } do
    for axis, label in ipairs(operands[index][1]) do
      local size = x.shape[axis]
      if sizes[label] and sizes[label] ~= size then
        where.fail(("einsum '%s': '%s' is %d and %d, in %s and %s")
          :format(formula, label, sizes[label], size, tensor.type_text(a), tensor.type_text(b)))
      end
      sizes[label] = size
    end
  end
  for _, label in ipairs(result) do
    if not sizes[label] then where.fail(("einsum '%s': no operand has '%s'"):format(formula, label)) end
  end
  local first, labels_a = sum_out(a, operands[1][1], function(label) return in_result[label] or (b and operands[2][2][label]) end)
  if not b then return to_result(first, labels_a, result) end
  local in_a = places(labels_a)
  local second, labels_b = sum_out(b, operands[2][1], function(label) return in_result[label] or in_a[label] end)
  local in_b = places(labels_b)
  local batch, left, inner, right = {}, {}, {}, {}
  for _, label in ipairs(labels_a) do
    local group = not in_b[label] and left or in_result[label] and batch or inner
    group[#group + 1] = label
  end
  for _, label in ipairs(labels_b) do
    if not in_a[label] then right[#right + 1] = label end
  end
  local product = methods.matmul(ordered(first, labels_a, { batch, left, inner }), ordered(second, labels_b, { batch, inner, right }))
  local labels, shape = {}, {}
  for _, group in ipairs { batch, left, right } do
    for _, label in ipairs(group) do
      labels[#labels + 1] = label
      shape[#shape + 1] = sizes[label]
    end
  end
  return to_result(methods.reshape(product, shape), labels, result)
end
