-- Looking at data: #source, source[i], source:fields(), source:head(5), source:batches(32). A source is a userdata, because tables have no
-- length; its environment is the table that describes it, which is what a job holds.
local core = require("perigee.native").tensor
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local source = {}

---@class perigee.Source
local Source = {}
source.class = Source

local opened = setmetatable({}, { __mode = "k" }) -- by source: { handle =, size =, fields =, description = }

local function state_of_handle(handle)
  local size, fields, description = core.source_about(handle)
  if size == nil then where.fail(fields) end
  return { handle = handle, size = size, fields = fields, description = description }
end

local function state_of(self)
  local state = opened[self]
  if not state then
    local handle, message = core.open_source(self)
    if handle == nil then where.fail(message) end
    state = state_of_handle(handle)
    opened[self] = state
  end
  return state
end

-- Examples at places, as a table of tensors by field.
local function read(state, places, alone, options)
  local outs, result = {}, {}
  for index, field in ipairs(state.fields) do
    outs[index] = tensor.type()
    result[field.name] = outs[index]
  end
  tensor.done(core.source_read(state.handle, places, options and options.epoch or 0, options and options.seed or 0, alone, unpack(outs)))
  return result
end

local function check_place(state, place)
  if place % 1 ~= 0 or place == 0 or math.abs(place) > state.size then
    where.fail(("there is no example %s; this source has %d"):format(tostring(place), state.size))
  end
  return place > 0 and place or state.size + place + 1
end

local base = newproxy(true)
local meta = getmetatable(base)
meta.__described = true
meta.__fields = Source

local function description_of(self) return debug.getfenv(self) end
source.description = description_of

-- Names that data have elsewhere, and what there is instead.
local source_instead = {
  shuffle = "a job shuffles unless it says data = { shuffle = false }; for batches: source:batches(32, { shuffle = true })",
  columns = "source:fields() tells the columns of x",
  shape = "source:fields() tells the shape of an example, #source how many there are",
  filter = "the step { filter = \"...\" } of pg.data.table chooses rows",
  batch_size = "it stands beside the data: data = { train = source, batch = 32 }",
  transform = "source:map { pg.transform.flip {} } gives a source of changed examples",
  train_test_split = "train, test = source:split { 0.8, 0.2, seed = 1 }",
  random_split = "train, test = source:split { 0.8, 0.2, seed = 1 }",
}

function meta.__index(self, key)
  if type(key) == "number" then
    local state = state_of(self)
    return read(state, { check_place(state, key) }, true)
  end
  local value = rawget(description_of(self), key)
  if value ~= nil then return value end
  if source_instead[key] and Source[key] == nil then where.fail(("a source has no '%s'; %s"):format(key, source_instead[key])) end
  return Source[key]
end
function meta.__newindex(self, key, value)
  if type(key) ~= "string" then where.fail "the examples of a source cannot be set" end
  description_of(self)[key] = value
  opened[self] = nil
end
function meta.__len(self) return state_of(self).size end
function meta.__concat(a, b) return Source.__concat(a, b) end

---A source from its description.
function source.make(description)
  local made = newproxy(base)
  debug.setfenv(made, description)
  return made
end

function source.is(value) return type(value) == "userdata" and debug.getmetatable(value) == meta end

---The fields of each example: { name =, dtype =, shape =, classes =, class_names =, columns = } for each field; columns: of a table, "age" or
---"city=Ulm" for each number.
---@return table[]
function Source:fields()
  local list = {}
  for index, field in ipairs(state_of(self).fields) do
    local copy = {}
    for key, value in pairs(field) do copy[key] = value end
    list[index] = copy
  end
  return list
end

---Examples number `first` to `last` (from 1) as a table of tensors by field, one row for each. Class numbers count from 1.
---@param first integer
---@param last integer
---@return table<string, perigee.Tensor>
function Source:batch(first, last)
  local state = state_of(self)
  if type(first) ~= "number" or type(last) ~= "number" then where.fail "batch takes the first and the last example's number" end
  local places = {}
  for place = check_place(state, first), check_place(state, last) do places[#places + 1] = place end
  return read(state, places, false)
end

---Goes through the examples in batches: for batch in source:batches(32) do ... batch.x ... batch.y ... end. The last may be smaller. options:
---{ shuffle = true }, in an order drawn after pg.seed; { epoch = 2, seed = 7 }, which random transforms depend on.
---@param size integer
---@param options? { shuffle?: boolean, epoch?: integer, seed?: integer }
---@return fun(): table<string, perigee.Tensor>?
function Source:batches(size, options)
  if type(size) ~= "number" or size < 1 or size % 1 ~= 0 then where.fail("batches takes a size from 1; got " .. tensor.describe(size)) end
  options = options or {}
  for name in pairs(options) do
    if name ~= "shuffle" and name ~= "epoch" and name ~= "seed" then
      where.fail(("batches has no option '%s'%s"):format(tostring(name), where.suggestion(name, { "shuffle", "epoch", "seed" })))
    end
  end
  local state, next_one = state_of(self), 1
  local order = options.shuffle and state.size > 0 and tensor.makers.randperm(state.size):totable()
  return function()
    if next_one > state.size then return nil end
    local places = {}
    for place = next_one, math.min(next_one + size - 1, state.size) do places[#places + 1] = order and order[place] or place end
    next_one = next_one + size
    return read(state, places, false, options)
  end
end

local most_columns = 12 -- of a field that is a row of numbers

local function number_text(value) return value % 1 == 0 and ("%d"):format(value) or ("%.5g"):format(value) end

-- The columns of a field, and the cells of an example in them.
local function columns_of(field)
  local shape = field.shape
  if #shape == 1 and shape[1] <= most_columns then
    local names = {}
    for index = 1, shape[1] do
      names[index] = field.columns and field.columns[index] or shape[1] == 1 and field.name or ("%s[%d]"):format(field.name, index)
    end
    return names, function(x)
      local cells = x:totable()
      for index, cell in ipairs(cells) do cells[index] = number_text(cell) end
      return cells
    end
  end
  if #shape > 0 then
    return { field.name }, function(x)
      local low, mean, high = x:min():item(), x:to("f64"):mean():item(), x:max():item()
      return { ("%s, %s to %s, mean %s"):format(tensor.type_text(x), number_text(low), number_text(high), number_text(mean)) }
    end
  end
  return { field.name }, function(x)
    local value = x:item()
    local name = field.class_names and field.class_names[value]
    return { name and ("%d %s"):format(value, name) or number_text(value) }
  end
end

---The first examples (5) as a table of text: a column for each number of a short field, a summary of an image.
---@param count? integer
---@return table
function Source:head(count)
  local state, rows = state_of(self), { { "" } }
  if count ~= nil and (type(count) ~= "number" or count < 1) then where.fail("head takes how many examples; got " .. tensor.describe(count)) end
  local cells = {}
  for index, field in ipairs(state.fields) do
    local names
    names, cells[index] = columns_of(field)
    for _, name in ipairs(names) do rows[1][#rows[1] + 1] = name end
  end
  for place = 1, math.min(count or 5, state.size) do
    local example, row = self[place], { tostring(place) }
    for index, field in ipairs(state.fields) do
      for _, cell in ipairs(cells[index](example[field.name])) do row[#row + 1] = cell end
    end
    rows[#rows + 1] = row
  end
  local show = require "perigee.show"
  return show.text(show.aligned(rows) .. ("\n%d of %d examples"):format(#rows - 1, state.size))
end

local table_options = { "rows", "delimiter", "header" }

-- Methods and fields of tables elsewhere.
local table_fields = {}
for name in ("head tail shape columns dtypes describe info loc iloc mean sum drop size index values"):gmatch "%a+" do table_fields[name] = true end

---The first rows of a table in a CSV file, as it is written, and what its columns hold: pg.table "iris.csv"; options: { rows = 10, delimiter =
---";", header = false }. pg.data.csv { "iris.csv" } is the same file as data to learn from.
---@param path string
---@param options? { rows?: integer, delimiter?: string, header?: boolean }
---@return table
function source.table(path, options)
  options = options or {}
  if type(path) ~= "string" then where.fail("table takes the name of a CSV file; got " .. tensor.describe(path)) end
  for name in pairs(options) do
    local known = false
    for _, each in ipairs(table_options) do known = known or each == name end
    if not known then where.fail(("table has no option '%s'%s"):format(tostring(name), where.suggestion(name, { unpack(table_options) }))) end
  end
  local delimiter, most = options.delimiter or ",", options.rows or 10
  if type(delimiter) ~= "string" or #delimiter ~= 1 then where.fail("delimiter is one character; got " .. tensor.describe(delimiter)) end
  if type(most) ~= "number" or most < 1 then where.fail("rows is a number from 1; got " .. tensor.describe(most)) end
  local rows, columns, names, cells, numbers, empty = core.csv_table(path, delimiter, options.header ~= false, most)
  if rows == nil then where.fail(columns) end
  local head, kinds = { "" }, { "" }
  for column = 1, columns do
    head[column + 1] = names[column] or tostring(column)
    local words = rows - numbers[column] - empty[column]
    kinds[column + 1] = (words == 0 and "numbers" or numbers[column] == 0 and "words" or ("%d words"):format(words))
      .. (empty[column] > 0 and (", %d gaps"):format(empty[column]) or "")
  end
  local lines = { head }
  for place, row in ipairs(cells) do lines[place + 1] = { tostring(place), unpack(row) } end
  lines[#lines + 1] = kinds
  local show = require "perigee.show"
  return show.text(show.aligned(lines) .. ("\n%d of %d rows"):format(#cells, rows), nil, function(key)
    if table_fields[key] then
      where.fail(("pg.table shows a file and has no '%s'; pg.table(%q, { rows = 20 }) shows more of it, `perigee data analyse %s` "
        .. "describes its columns, pg.data.csv { %q } learns from it"):format(key, path, path, path))
    end
  end)
end

return source
