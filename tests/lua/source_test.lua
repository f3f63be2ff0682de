-- Looking at data: sources have a length, examples, fields, batches, and print.
local pg = require "perigee"

local tests = {}

local function small() return pg.data.arrays { x = { { 1, 2 }, { 3, 4 }, { 5, 6.5 } }, y = { 0, 2, 1 } } end

function tests.examples_are_tensors_by_field()
  local s = small()
  check.equal(#s, 3)
  check.equal(s[2].x:totable(), { 3, 4 })
  check.equal(s[2].y:item(), 3) -- class numbers count from 1
  check.equal(s[-1].x:totable(), { 5, 6.5 })
  check.raises(function() return s[4] end, "source_test.lua:%d+: there is no example 4; this source has 3")
  check.raises(function() return s[0] end, "there is no example 0")
end

function tests.parts_are_no_source()
  local parts = pg.data.digits {}
  check.raises(function() return parts[1] end, "pg.data.digits gives the parts test and train, which are sources; there is no '1' of it")
  check.raises(function() return parts:head(5) end, "there is no 'head' of it, take a part first, as it.train")
  check.raises(function() return parts.trian end, "there is no 'trian'")
  check.equal(parts.validation, nil)
  check.equal(#parts.test > 0, true)
end

function tests.fields_say_what_there_is()
  local fields = small():fields()
  check.equal(fields[1], { name = "x", dtype = "f32", shape = { 2 } })
  check.equal(fields[2].classes, 3)
end

function tests.batches_go_through_all()
  local s, sizes, sum = small(), {}, 0
  for batch in s:batches(2) do
    sizes[#sizes + 1] = #batch.y
    sum = sum + batch.x:sum():item()
  end
  check.equal(sizes, { 2, 1 })
  check.equal(sum, 21.5)
  pg.seed(1)
  local seen = {}
  for batch in s:batches(2, { shuffle = true }) do
    for _, class in ipairs(batch.y:totable()) do seen[class] = true end
  end
  check.equal(seen, { true, true, true })
  check.equal(s:batch(2, 3).y:totable(), { 3, 2 })
  check.raises(function() s:batches(0) end, "batches takes a size from 1")
  check.raises(function() s:batches(2, { shufle = true }) end, "no option 'shufle'; did you mean 'shuffle'")
end

function tests.head_prints_a_table()
  check.matches(tostring(small():head(2)), "^   x%[1%]  x%[2%]  y\n1  1     2     1\n2  3     4     3\n2 of 3 examples$")
end

function tests.head_names_the_columns_of_a_table()
  local path = os.tmpname() .. ".csv"
  local file = assert(io.open(path, "w"))
  file:write "age,town,price\n20,Ulm,1.5\n30,Bern,2\n40,Ulm,3\n"
  file:close()
  local houses = pg.data.csv { path, target = "price" }
  check.matches(tostring(houses:head(1)), "^   age  town=Bern  town=Ulm  y\n1  20   0          1         1%.5\n")
  local first = houses:split { 2 / 3, 1 / 3, shuffle = false }
  check.equal(first:map { pg.transform.standardize {} }:fields()[1].columns, { "age", "town=Bern", "town=Ulm" })
  check.equal(small():fields()[1].columns, nil)
  os.remove(path)
end

function tests.transformed_and_split_sources_are_read_too()
  local first, rest = small():split { 1 / 3, 2 / 3, shuffle = false }
  check.equal(#first + #rest, 3)
  local doubled = small():map { pg.transform.scale { factor = 2 } }
  check.equal(doubled[1].x:totable(), { 2, 4 })
  check.equal(#(small() .. small()), 6)
end

function tests.a_source_is_still_the_table_of_a_job()
  local s = small()
  check.equal(s.type, "arrays")
  check.equal(require("perigee.native").to_json(s:take(2).source), require("perigee.native").to_json(s))
  check.equal(require("perigee.show").value(pg.data.csv { "iris.csv" }, 80), 'pg.data.csv { file = "iris.csv" }')
  check.raises(function() require("perigee.native").to_json(newproxy(true)) end, "a job holds numbers, text, booleans and tables; got a userdata")
end

function tests.a_table_prints_as_it_is_written()
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write 'town;size\n"New; York";3\nBonn;\nRome;2.50\n'
  file:close()
  check.equal(tostring(pg.table(path, { delimiter = ";", rows = 2 })),
    "   town       size\n1  New; York  3\n2  Bonn\n   words      numbers, 1 gaps\n2 of 3 rows")
  check.matches(tostring(pg.table(path, { delimiter = ";", header = false })), "^   1          2\n1  town       size\n")
  os.remove(path)
  check.raises(function() pg.table "nothere.csv" end, "source_test.lua:%d+: .*nothere.csv")
  check.raises(function() pg.table(path, { row = 2 }) end, "table has no option 'row'; did you mean 'rows'")
end

function tests.data_that_cannot_be_opened_say_why()
  check.raises(function() return #pg.data.csv { "nothere.csv" } end, "nothere.csv")
end

-- Written as lists, short and long, and as tensors: whole numbers of a field that class_names has are labels.
function tests.each_field_of_arrays_may_be_a_label()
  local function described(source)
    local found = {}
    for _, field in ipairs(source:fields()) do found[field.name] = { field.dtype, field.classes, field.class_names } end
    return found
  end
  for _, count in ipairs { 6, 6000 } do
    local x, labels = {}, {}
    for i = 1, count do x[i], labels[i] = { i }, i % 3 end
    for _, z in ipairs { labels, pg.tensor(labels), pg.tensor(labels, { dtype = "i64" }) } do
      local named = { z = { "a", "b", "c" }, y = {}, v = 5 }
      local found = described(pg.data.arrays { x = x, y = labels, z = z, w = labels, v = z, class_names = named })
      check.equal(found.z, { "i64", 3, { "a", "b", "c" } })
      check.equal(found.y, { "i64", 3 })
      check.equal(found.v, { "i64", 5 })
      check.equal(found.w, { "f32" })
    end
  end
  local x, y = { { 1 }, { 2 } }, { 0, 1 }
  check.equal(described(pg.data.arrays { x = x, y = y, classes = 4, class_names = { x = 0 } }).y, { "i64", 4 })
  check.raises(function() pg.data.arrays { x = x, y = y, class_names = { z = 2 } }:fields() end, "names a field that there is not; got 'z'")
  local mixed = pg.data.arrays { x = x, y = y, class_names = { y = { "a", 2 } } }
  check.raises(function() mixed:fields() end, "'class_names.y' has an element of the wrong type")
  check.raises(function() pg.data.arrays { x = x, y = { 0, 7 }, class_names = { y = 2 } }:fields() end, "out of range")
end

return tests
