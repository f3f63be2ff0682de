-- einsum against its definition: a loop over all values of all labels.
local pg = require "perigee"

local tests = {}

-- The sum of products, written out. Labels are letters; sizes are those of the operands.
local function by_definition(inputs, output, operands)
  local sizes, labels = {}, {}
  for index, letters in ipairs(inputs) do
    for axis = 1, #letters do
      local label = letters:sub(axis, axis)
      if not sizes[label] then labels[#labels + 1] = label end
      sizes[label] = operands[index].shape[axis]
    end
  end
  local shape = {}
  for axis = 1, #output do shape[axis] = sizes[output:sub(axis, axis)] end
  local result = pg.zeros { dtype = "f64", unpack(shape) }
  local at = {}
  local function place_of(letters)
    local place = {}
    for axis = 1, #letters do place[axis] = at[letters:sub(axis, axis)] end
    return place
  end
  local function visit(depth)
    if depth <= #labels then
      for value = 1, sizes[labels[depth]] do
        at[labels[depth]] = value
        visit(depth + 1)
      end
      return
    end
    local product = 1
    for index, letters in ipairs(inputs) do product = product * operands[index]:get(place_of(letters)):item() end
    local to = place_of(output)
    result:set(to, result:get(to):item() + product)
  end
  visit(1)
  return result
end

-- `formula` as it is given; `inputs`, `output` the same with every dimension named.
local function same(formula, inputs, output, ...)
  local operands = { ... }
  local found, wanted = pg.einsum(formula, ...), by_definition(inputs, output, operands)
  check.equal(found.shape, wanted.shape)
  if not found:all_close(wanted, 1e-5, 1e-6) then error(formula .. ": got\n" .. found .. "\nexpected\n" .. wanted, 2) end
end

function tests.sums_of_products_over_labels()
  pg.seed(1)
  local a, b, c, square = pg.randn(2, 3), pg.randn(3, 4), pg.randn(4, 2), pg.randn(3, 3)
  local stack, cube = pg.randn(2, 3, 3), pg.randn(3, 3, 3)
  same("ij,jk->ik", { "ij", "jk" }, "ik", a, b)
  same("ij,jk", { "ij", "jk" }, "ik", a, b)
  same("ba", { "ba" }, "ab", a)
  same("ij->", { "ij" }, "", a)
  same("i,j->ij", { "i", "j" }, "ij", a[1], b[1])
  same("ij,ij->ij", { "ij", "ij" }, "ij", a, a)
  same("ii->i", { "ii" }, "i", square)
  same("ii", { "ii" }, "", square)
  same("iii->i", { "iii" }, "i", cube)
  same("iij->ij", { "iij" }, "ij", cube)
  same("bii->b", { "bii" }, "b", stack)
  same("bij,bkj->bik", { "bij", "bkj" }, "bik", stack, stack)
  same("ii,ij->j", { "ii", "ij" }, "j", square, square)
  same("ij,jk,kl->il", { "ij", "jk", "kl" }, "il", a, b, c)
  same("ij,jk,ki->", { "ij", "jk", "ki" }, "", a, b, c)
  same("Ab,bA->A", { "Ab", "bA" }, "A", a, a.T)
end

function tests.ellipses_stand_for_the_dimensions_without_a_label()
  pg.seed(2)
  local a, b, c = pg.randn(2, 3, 4), pg.randn(4, 5), pg.randn(2, 1, 4)
  same("...i,ij->...j", { "xyi", "ij" }, "xyj", a, b)
  same("...", { "xyz" }, "xyz", a)
  same("i...->...i", { "ixy" }, "xyi", a)
  same("...i->...", { "xyi" }, "xy", a)
  same("i...->i", { "ixy" }, "i", a)
  same("b...i,b...i->b...", { "byi", "byi" }, "by", a, a)
  same("...ij,...jk", { "xij", "xjk" }, "xik", a, a:transpose { 1, 3, 2 })
  local wide = pg.einsum("...i,...i->...", a, c) -- 2x3 and 2x1 broadcast
  check.equal(wide:all_close((a * c):sum(3), 1e-5, 1e-6), true)
  local lone = pg.einsum("...i,i->...", pg.ones(4), pg.ones(4))
  check.equal(lone:item(), 4)
end

function tests.gradients_pass_through_diagonals()
  local g = pg.grad(function(x) return pg.einsum("ii->i", x):square():sum() end)(pg.tensor { { 1, 2 }, { 3, 4 } })
  check.equal(g:totable(), { { 2, 0 }, { 0, 8 } })
  check.equal(pg.grad(function(x) return pg.einsum("ii", x) end)(pg.ones(2, 2)):totable(), { { 1, 0 }, { 0, 1 } })
end

function tests.mistakes_name_labels_and_shapes()
  local a, b = pg.ones(2, 3), pg.ones(4, 5)
  check.raises(function() pg.einsum("ij,jk->ik", a, b) end, "einsum_test.lua:%d+: einsum 'ij,jk%->ik': 'j' is 3 and 4, in f32%[2x3%] and f32%[4x5%]")
  check.raises(function() pg.einsum("ii->i", a) end, "'i' is 2 and 3, in f32%[2x3%] and f32%[2x3%]")
  check.raises(function() pg.einsum("ijk", a) end, "'ijk' has 3 labels for f32%[2x3%]")
  check.raises(function() pg.einsum("ij->ik", a) end, "no operand has 'k'")
  check.raises(function() pg.einsum("ij->ii", a) end, "the result has 'i' twice")
  check.raises(function() pg.einsum("ij,jk->ik", a) end, "names 2 operands and has 1")
  check.raises(function() pg.einsum("i1->i", a) end, "'1' is no label")
  check.raises(function() pg.einsum("...i,...i->...", a, pg.ones(2, 5)) end, "'i' is 3 and 5")
  check.raises(function() pg.einsum("i...,i...->...", pg.ones(2, 3), pg.ones(2, 4)) end, "'...' is 3 and 4")
  check.raises(function() pg.einsum("ij,j", a, 3) end, "operand 2 is 3; expected a tensor")
end

return tests
