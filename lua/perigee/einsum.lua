-- pg.einsum, as NumPy's: operands are joined from the left, two at a time, each pair permuted and reshaped into one batched matrix product. A label
-- that an operand repeats takes its diagonal; "..." stands for the dimensions that no label names, which broadcast.
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local methods = tensor.methods

local function fail(formula, text, ...) where.fail(("einsum '%s': "):format(formula) .. text:format(...)) end

-- "a...b" -> { "a", "...", "b" }
local function labels_of(part, formula)
  local labels, rest = {}, part
  while rest ~= "" do
    local label = rest:match "^%.%.%." or rest:match "^%a"
    if not label then fail(formula, "'%s' is no label; labels are letters and '...'", rest:sub(1, 1)) end
    for _, other in ipairs(label == "..." and labels or {}) do
      if other == label then fail(formula, "'%s' has '...' twice", part) end
    end
    labels[#labels + 1] = label
    rest = rest:sub(#label + 1)
  end
  return labels
end

-- The labels of each operand, and of the result where the formula names it.
local function parse(formula, count)
  local text = formula:gsub("%s", "")
  local left, right = text:match "^(.-)%->(.*)$"
  left = left or text
  local operands = {}
  for part in (left .. ","):gmatch "(.-)," do operands[#operands + 1] = labels_of(part, formula) end
  if #operands ~= count then fail(formula, "names %d operands and has %d; the form is 'ij,jk->ik'", #operands, count) end
  return operands, right and labels_of(right, formula)
end

-- A label for each dimension of x: those of "..." are numbered from the last, -1, -2, ..., as broadcasting pairs them.
local function spread(labels, x, formula)
  local named, dots = 0, false
  for _, label in ipairs(labels) do
    if label == "..." then dots = true else named = named + 1 end
  end
  if x.rank ~= named and not (dots and x.rank > named) then
    fail(formula, "'%s' has %d labels for %s", table.concat(labels), named, tensor.type_text(x))
  end
  local all = {}
  for _, label in ipairs(labels) do
    if label == "..." then
      for place = x.rank - named, 1, -1 do all[#all + 1] = -place end
    else
      all[#all + 1] = label
    end
  end
  return all
end

-- Axes a and b of x, of one size, as one last axis: every (n + 1)th element of both together.
local function diagonal(x, a, b)
  local order, shape = {}, x.shape
  for axis = 1, #shape do
    if axis ~= a and axis ~= b then order[#order + 1] = axis end
  end
  local n, flat = shape[a], {}
  for place, axis in ipairs(order) do flat[place] = shape[axis] end
  order[#order + 1], order[#order + 2] = a, b
  flat[#flat + 1] = n * n
  local index = {}
  for place = 1, #flat - 1 do index[place] = {} end
  index[#flat] = n > 0 and { 1, n * n, n + 1 } or {}
  return methods.reshape(methods.transpose(x, order), flat)[index]
end

local function without_repeats(operand)
  local labels = operand.labels
  for a = 1, #labels do
    for b = a + 1, #labels do
      if labels[a] == labels[b] then
        local label = labels[a]
        operand.x = diagonal(operand.x, a, b)
        table.remove(labels, b)
        table.remove(labels, a)
        labels[#labels + 1] = label
        return without_repeats(operand)
      end
    end
  end
end

-- The size of each label. A dimension of "..." that is 1 where another operand has more is dropped: it broadcasts.
local function check_sizes(operands, formula)
  local sizes, from = {}, {}
  for _, operand in ipairs(operands) do
    for axis, label in ipairs(operand.labels) do
      local size, known = operand.x.shape[axis], sizes[label]
      local broadcasts = type(label) == "number" and (size == 1 or known == 1)
      if known and known ~= size and not broadcasts then
        fail(formula, "'%s' is %d and %d, in %s and %s", type(label) == "number" and "..." or label, known, size,
          tensor.type_text(from[label]), tensor.type_text(operand.x))
      end
      if not known or known == 1 then sizes[label], from[label] = size, operand.x end
    end
  end
  for _, operand in ipairs(operands) do
    for axis = #operand.labels, 1, -1 do
      local label = operand.labels[axis]
      if type(label) == "number" and operand.x.shape[axis] ~= sizes[label] then
        operand.x = methods.squeeze(operand.x, axis)
        table.remove(operand.labels, axis)
      end
    end
  end
  return sizes
end

-- The result's labels; when the formula does not name them, those of "...", then what appears once, in alphabetical order, as NumPy has it.
local function result_labels(right, parsed, sizes, formula)
  local dots, all = {}, {}
  for label in pairs(sizes) do
    if type(label) == "number" then dots[#dots + 1] = label end
  end
  table.sort(dots)
  if not right then
    local times, once = {}, {}
    for _, labels in ipairs(parsed) do
      for _, label in ipairs(labels) do times[label] = (times[label] or 0) + 1 end
    end
    for label, number in pairs(times) do
      if number == 1 and label ~= "..." then once[#once + 1] = label end
    end
    table.sort(once)
    right = { "...", unpack(once) }
  end
  local seen = {}
  for _, label in ipairs(right) do
    if label == "..." then
      for _, each in ipairs(dots) do all[#all + 1] = each end
    else
      if not sizes[label] then fail(formula, "no operand has '%s'", label) end
      if seen[label] then fail(formula, "the result has '%s' twice", label) end
      seen[label], all[#all + 1] = true, label
    end
  end
  return all
end

local function places(labels)
  local at = {}
  for index, label in ipairs(labels) do at[label] = index end
  return at
end

-- Without the labels that nobody else has, which are summed over.
local function sum_out(operand, wanted)
  local axes, kept = {}, {}
  for axis, label in ipairs(operand.labels) do
    if wanted[label] then kept[#kept + 1] = label else axes[#axes + 1] = axis end
  end
  return { x = #axes > 0 and methods.sum(operand.x, axes) or operand.x, labels = kept }
end

-- One dimension for each group of labels; an empty group has size 1.
local function grouped(operand, sizes, groups)
  local at, order, shape = places(operand.labels), {}, {}
  for _, group in ipairs(groups) do
    local product = 1
    for _, label in ipairs(group) do
      order[#order + 1] = at[label]
      product = product * sizes[label]
    end
    shape[#shape + 1] = product
  end
  return methods.reshape(methods.transpose(operand.x, order), shape)
end

-- The product of two operands over the labels that both have and nobody wants.
local function join(a, b, sizes, wanted)
  local in_a, in_b = places(a.labels), places(b.labels)
  local batch, left, inner, right = {}, {}, {}, {}
  for _, label in ipairs(a.labels) do
    local group = not in_b[label] and left or wanted[label] and batch or inner
    group[#group + 1] = label
  end
  for _, label in ipairs(b.labels) do
    if not in_a[label] then right[#right + 1] = label end
  end
  local product
  if #inner == 0 then product = grouped(a, sizes, { batch, left, inner }) * grouped(b, sizes, { batch, inner, right })
  else product = methods.matmul(grouped(a, sizes, { batch, left, inner }), grouped(b, sizes, { batch, inner, right })) end
  local labels, shape = {}, {}
  for _, group in ipairs { batch, left, right } do
    for _, label in ipairs(group) do
      labels[#labels + 1], shape[#shape + 1] = label, sizes[label]
    end
  end
  return { x = methods.reshape(product, shape), labels = labels }
end

return function(formula, ...)
  local operands = {}
  for index = 1, select("#", ...) do
    local x = select(index, ...)
    if not tensor.is(x) and not tensor.is_symbol(x) then fail(formula, "operand %d is %s; expected a tensor", index, tensor.describe(x)) end
    operands[index] = { x = x }
  end
  local parsed, right = parse(formula, #operands)
  for index, operand in ipairs(operands) do operand.labels = spread(parsed[index], operand.x, formula) end
  local sizes = check_sizes(operands, formula)
  local result = result_labels(right, parsed, sizes, formula)
  for _, operand in ipairs(operands) do without_repeats(operand) end

  -- What the operands from `index` on, or the result, have.
  local function wanted_from(index)
    local wanted = places(result)
    for each = index, #operands do
      for _, label in ipairs(operands[each].labels) do wanted[label] = true end
    end
    return wanted
  end
  local joined = sum_out(operands[1], wanted_from(2))
  for index = 2, #operands do
    local wanted = wanted_from(index + 1)
    local needed = setmetatable({}, { __index = wanted })
    for _, label in ipairs(joined.labels) do needed[label] = true end
    joined = sum_out(join(joined, sum_out(operands[index], needed), sizes, wanted), wanted)
  end
  local at, order = places(joined.labels), {}
  for index, label in ipairs(result) do order[index] = at[label] end
  return #order > 0 and methods.transpose(joined.x, order) or joined.x
end
