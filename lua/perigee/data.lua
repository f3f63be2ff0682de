-- Data sources as Lua values: pg.data.csv { "iris.csv", target = "species" } is { type = "csv", file = ... }, and sources wrap others:
-- source:map { pg.transform.flip {} }, source:take(1000), source:split(0.8).
local native = require "perigee.native"
local tensor = require "perigee.tensor"
local sources = require "perigee.source"
local where = require "perigee.where"

local data = {}

---@class perigee.Source
local Source = sources.class
local source, is_source = sources.make, sources.is
data.source, data.is_source, data.description = source, is_source, sources.description

-- A plain description of a member of a family, its names checked at the script's line.
local function describe(kind, definition, options)
  if options == nil then options = {} end
  if type(options) ~= "table" then options = { options } end
  local name, names, known = definition.name, definition.positional, {}
  for _, option in ipairs(definition.options) do known[option] = true end
  local result = { type = name }
  for key, value in pairs(options) do
    local option = key
    if type(key) == "number" then
      option = names[key]
      if not option then
        where.fail(("%s %s takes %s; got %s as number %s"):format(kind, name,
          #names == 0 and "no values without a name" or "only " .. table.concat(names, ", ") .. " without a name",
          where.describe(value), tostring(key)))
      end
    elseif not known[key] and not definition.open then
      where.fail(("%s %s has no option '%s'%s"):format(kind, name, tostring(key), where.suggestion(key, { unpack(definition.options) })))
    end
    result[option] = value
  end
  return result
end

local function with(options, part)
  local result = { part = part }
  for key, value in pairs(options or {}) do result[key] = value end
  return result
end

-- Some sources come in two parts, always; a text comes in those whose shares are given.
local function parts_of(definition, options)
  local given = type(options) == "table" and options or {}
  if given.part then return nil end
  if definition.two_parts then return { train = true, test = true } end
  if definition.name == "documents" and given.folds then return { train = true, test = true } end
  return definition.name == "text" and type(given.parts) == "table" and given.parts or nil
end

local function is_list(key, value) return type(value) == "table" and key ~= "class_names" and value.hash == nil end

-- How many numbers nested lists have, by the first of each kind.
local function count_numbers(value)
  local count = 1
  while type(value) == "table" do count, value = count * #value, value[1] end
  return count
end

-- The objects that keep the content of arrays, each as long as a description has the array's name.
local held = setmetatable({}, { __mode = "k" })

-- Tensors and long lists do not go into the job: their names do (src/data/stored_arrays.h).
local function hold_arrays(description)
  local numbers = 0
  for key, value in pairs(description) do
    if is_list(key, value) then numbers = numbers + count_numbers(value) end
  end
  for key, value in pairs(description) do
    if tensor.is(value) or (numbers > native.arrays.inline_numbers and is_list(key, value)) then
      local name, content = native.arrays.hold(key, value)
      if not name then where.fail("data source arrays: " .. content) end
      held[name], description[key] = content, name
    end
  end
  return description
end

-- Data that come in parts are no source: what a source has, a place and a misspelt part are errors, not nil.
local function in_parts(name, all)
  local names = {}
  for part in pairs(all) do names[#names + 1] = part end
  table.sort(names)
  return setmetatable(all, {
    __name = ("pg.data.%s {}"):format(name),
    __index = function(_, key)
      local other = key == "train" or key == "validation" or key == "test"
      if other or type(key) ~= "number" and rawget(Source, key) == nil and native.nearest(tostring(key), names) == "" then return nil end
      where.fail(("pg.data.%s gives the parts %s, which are sources; there is no '%s' of it, take a part first, as it.%s"):format(
        name, table.concat(names, " and "), tostring(key), names[#names]))
    end,
  })
end

local constructors = {}
for _, definition in ipairs(native.family "source") do
  constructors[definition.name] = function(options)
    local parts = parts_of(definition, options)
    if not parts then
      local description = describe("data source", definition, options)
      return source(definition.name == "arrays" and hold_arrays(description) or description)
    end
    local all = {}
    for part in pairs(parts) do all[part] = source(describe("data source", definition, with(options, part))) end
    return in_parts(definition.name, all)
  end
end
data.constructors = where.namespace("data source", constructors)

---@param transforms table a transform, or a list of them, applied in order to each example as it is read
---@return perigee.Source
function Source:map(transforms)
  if type(transforms) ~= "table" then
    where.fail("map takes a list of transforms; got " .. where.describe(transforms) .. "; source:map { pg.transform.flip {} }")
  end
  if transforms.type then transforms = { transforms } end
  for index, each in ipairs(transforms) do
    if type(each) == "function" then
      where.fail(("map: transform %d is a function; call it, as in pg.transform.flip {}"):format(index))
    elseif type(each) == "string" then
      where.fail(("map: transform %d is '%s'; a transform is made by its function: pg.transform.%s {}"):format(index, each, each))
    end
  end
  return source { type = "map", source = self, transforms = native.list(transforms) }
end

---`count` examples, beginning with number `from` (0).
---@param count integer
---@param from? integer
---@return perigee.Source
function Source:take(count, from) return source { type = "take", source = self, count = count, from = from } end

---The examples in the order of their labels: with `shards` in the job's data each worker then has few of them.
---@param field? string the label's, "y"
---@return perigee.Source
function Source:by_label(field) return source { type = "by_label", source = self, field = field } end

---As many examples of each class as of any other: those of rare classes come more often.
---@param options? { field?: string, size?: integer }
---@return perigee.Source
function Source:balanced(options)
  options = options or {}
  return source { type = "balanced", source = self, field = options.field, size = options.size }
end

---Each example mixed with another one, for training: mnist.train:mixup { alpha = 0.2 }. The target becomes a distribution, so that the other
---parts need mnist.test:map { type = "one_hot" }.
---@param options? { alpha?: number, probability?: number, field?: string, target?: string }
---@return perigee.Source
function Source:mixup(options)
  local given = { type = "mixup", source = self }
  for name, value in pairs(options or {}) do given[name] = value end
  return source(given)
end

---Each image with a box of another one in it, as mixup.
---@param options? { alpha?: number, probability?: number, field?: string, target?: string }
---@return perigee.Source
function Source:cutmix(options)
  local given = { type = "cutmix", source = self }
  for name, value in pairs(options or {}) do given[name] = value end
  return source(given)
end

---One more field of random numbers, other ones in every epoch, as the generator of a GAN takes them: mnist.train:with_noise { size = 64 }.
---@param options { field?: string, size: integer|integer[], distribution?: string, fresh?: boolean }
---@return perigee.Source
function Source:with_noise(options)
  local given = { type = "with_noise", source = self }
  for name, value in pairs(options or {}) do given[name] = value end
  return source(given)
end

---@class perigee.PackedOptions
---@field [1] integer steps of a row
---@field next? string
---@field most? integer
---@field mix? boolean
---@field label_at? "first"|"last"
---@field field? string
---@field lengths? string
---@field segments? string

---@class perigee.MaskedLmOptions
---@field share? number
---@field masked? number
---@field random? number
---@field mask? integer
---@field vocabulary? integer
---@field keep? integer[]
---@field fresh? boolean
---@field field? string
---@field target? string

---Tokens of a text of which some are hidden, and what they were: pg.data.documents { "reviews", tokenizer = "tokenizer.json", length = 128
---}:masked_lm(). The target y has -1 where nothing is to be found, for pg.loss.cross_entropy { ignore = -1 }.
---@param options? perigee.MaskedLmOptions
---@return perigee.Source
function Source:masked_lm(options)
  local given = { type = "masked_lm", source = self }
  for name, value in pairs(options or {}) do given[name] = value end
  return source(given)
end

---Several sequences in each row of a fixed length, so that little of it is padding: pg.data.documents { "reviews", length = 128 }:packed { 512,
---next = "y" }. Layers keep the sequences of a row apart.
---@param options perigee.PackedOptions
---@return perigee.Source
function Source:packed(options)
  local given = { type = "packed", source = self }
  for name, value in pairs(options or {}) do given[name == 1 and "length" or name] = value end
  return source(given)
end

---Disjoint shares of the shuffled examples, one source each: local train, test = all:split { 0.8, 0.2, seed = 1 }.
---@param shares table
---@return perigee.Source ...
function Source:split(shares)
  if type(shares) == "number" then shares = { shares, 1 - shares } end
  if type(shares) ~= "table" or #shares == 0 then
    where.fail("split takes a list of shares, such as { 0.8, 0.2 }; got " .. where.describe(shares))
  end
  local all = {}
  for index = 1, #shares do
    all[index] = source {
      type = "split", source = self, parts = native.list { unpack(shares) }, part = index - 1, seed = shares.seed, shuffle = shares.shuffle,
    }
  end
  return unpack(all)
end

---Training and held-out part of fold number `fold` (from 1) of `folds`.
---@param folds integer
---@param fold integer
---@param options? integer|{ seed?: integer, stratified?: boolean, field?: string } a number is the seed
---@return perigee.Source, perigee.Source
function Source:k_fold(folds, fold, options)
  if type(fold) ~= "number" then where.fail("k_fold takes the number of folds and a fold's number; got " .. where.describe(fold)) end
  options = type(options) == "table" and options or { seed = options }
  local function part(name)
    return source {
      type = "k_fold", source = self, folds = folds, fold = fold - 1, part = name,
      seed = options.seed, stratified = options.stratified, field = options.field,
    }
  end
  return part "train", part "test"
end

---@param all perigee.Source[]
---@return perigee.Source
function data.concat(all) return source { type = "concat", sources = native.list(all) } end

where.methods("source", Source, is_source)

Source.__concat = function(a, b) return data.concat { a, b } end

---A file of the shared data: $PERIGEE_DATA/<name>, or <name> beside the script where the variable is not set; for sources and io.open alike.
---@param name string
---@return string
function data.path(name)
  if type(name) ~= "string" then where.fail("pg.data_path takes the name of a file; got " .. where.describe(name)) end
  return native.tensor.data_path(name)
end

local transforms = {}
for _, definition in ipairs(native.family "transform") do
  transforms[definition.name] = function(options)
    return describe("transform", definition, options)
  end
end
data.transforms = where.namespace("transform", transforms)

return data
