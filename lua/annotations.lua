-- Prints perigee.d.lua: what LuaLS must know to complete and check scripts. From the registries, and from the annotations of our modules.
-- Run by the build: perigee -e 'dofile "lua/annotations.lua"'
local pg = require "perigee"
local native = require "perigee.native"
local tensor = require "perigee.tensor"
local help = require "perigee.help"
local help_function = require "perigee.help.function"
local help_job = require "perigee.help.job"

local out = {}
local function put(text, ...) out[#out + 1] = select("#", ...) > 0 and text:format(...) or text end

-- "integer or {height, width}" for LuaLS.
local function kind_of(option)
  local kind, kinds = option.type or "", {}
  local function add(known) if not table.concat(kinds, "|"):find(known, 1, true) then kinds[#kinds + 1] = known end end
  if kind:find "integer" then add "integer" end
  if kind:find "number" then add "number" end
  if kind:find "boolean" then add "boolean" end
  if kind:find '"' or kind:find "string" then add "string" end
  if kind:find "function" then add "function" end
  if kind:find "{" or kind:find "list" or kind:find "table" or kind:find "layer" or kind:find "schedule" then add "table" end
  for _, word in ipairs { "activation", "initializer", "regularization", "constraint", "codec", "policy" } do
    if kind:find(word, 1, true) then
      add "string"
      add "table"
    end
  end
  if kind:find "schedule" or kind:find "loss" or kind:find "evaluations" then add "function" end -- traced
  if kind:find "loss" or kind:find "evaluations" then
    add "string"
    add "table"
  end
  for _, word in ipairs { "topology", "cut", "group" } do
    if kind == word then add "string" end
  end
  return #kinds == 0 and "any" or table.concat(kinds, "|")
end

local results = { layer = "perigee.Layer", source = "perigee.Source", op = "perigee.Tensor" }
local parts = "{ train: perigee.Source, test: perigee.Source }"
local sources = { -- these are more than one source
  mnist = parts, cifar10 = parts, digits = parts, text = "perigee.Source|{ train: perigee.Source, test: perigee.Source, validation: perigee.Source }",
}
-- The types of an argument in place of a table of options: its first one; nodes of a graph; a function to trace.
local arguments = { layer = "number|string|function|perigee.Layer|perigee.Sequential|perigee.Node" }
local other_arguments = "number|string|perigee.Rule"
-- The results of tensors' functions without an annotation of their own; all others give a tensor.
local tensor_results = {
  list = "table",
  is_contiguous = "boolean", nbytes = "integer", numel = "integer", size = "integer", totable = "any", set = "nil",
  eigh = "perigee.Tensor, perigee.Tensor", qr = "perigee.Tensor, perigee.Tensor", svd = "perigee.Tensor, perigee.Tensor, perigee.Tensor",
}
for _, name in ipairs { "zeros", "ones", "zeros_like", "ones_like", "rand", "randn" } do tensor_results[name] = "perigee.Tensor" end

local function one_line(text) return (text or ""):gsub("%s+", " ") end

local function put_options(class, entry, parent)
  put("---@class %s%s", class, parent and ": " .. parent or "")
  local types = {}
  for _, option in ipairs(entry.options) do
    types[option.name] = kind_of(option)
    local fallback = option.fallback and help_job.default(option)
    fallback = fallback and fallback ~= "optional" and fallback .. (option.doc and ": " or "") or ""
    local example = option.example and ("; as in %s = %s"):format(option.name, option.example) or ""
    put("---@field %s? %s %s%s%s", option.name, kind_of(option), fallback, one_line(option.doc), example)
  end
  for index, name in ipairs(entry.positional or {}) do
    put("---@field [%d]? %s %s", index, name == "layers" and "perigee.Layer" or types[name] or "any", name)
  end
  put ""
end

local function put_op(entry)
  put("---%s", one_line(entry.doc))
  for _, name in ipairs(entry.positional) do put("---@param %s? perigee.Tensor|number", name) end
  put "---@param options? table"
  put "---@return perigee.Tensor"
  put("function %s(%s) end", entry.path, table.concat(entry.positional, ", ") .. ", options")
  if entry.full_path ~= entry.path then put("%s = %s", entry.full_path, entry.path) end
  put ""
end

local function put_entry(entry)
  if entry.family == "op" then return put_op(entry) end
  local class = ("perigee.%s.%s"):format(entry.family, entry.name)
  put_options(class, entry, entry.family == "layer" and "perigee.LayerOptions" or nil)
  local result = results[entry.family] or "perigee.Rule"
  if entry.family == "source" then result = sources[entry.name] or result end
  put("---%s", one_line(entry.doc))
  if entry.family == "layer" then put "---@overload fun(node: perigee.Node, ...: perigee.Node|table): perigee.Node" end
  if entry.family == "layer" and tensor.methods[entry.name] then put "---@overload fun(x: perigee.Tensor|table, ...): perigee.Tensor" end
  put("---@param options? %s|%s", class, arguments[entry.family] or other_arguments)
  put("---@return %s", result)
  put(entry.full_path:find("[", 1, true) and "%s = function(options, ...) end" or "function %s(options, ...) end", entry.full_path)
  if entry.full_path ~= entry.path then put("%s = %s", entry.path, entry.full_path) end
  put ""
end

-- Classes of our modules: their annotations, and those of their methods.
local declared = {}
local function put_classes(module)
  local text = native.module_text(module)
  local comment, locals, class_of = {}, {}, {}
  for line in (text .. "\n"):gmatch "(.-)\n" do
    if line:match "^%-%-%-" then
      comment[#comment + 1] = line
    else
      local class = comment[1] and comment[1]:match "^%-%-%-@class ([%w_.]+)"
      local names = line:match "^local ([%w_, ]+)"
      local owner, joint, method, parameters = line:match "^function ([%w_]+)([.:])([%w_]+)(%b())"
      if class then
        put(table.concat(comment, "\n"))
        for name in (names or ""):gmatch "[%w_]+" do -- the class, and perhaps a table of its methods
          locals[name], class_of[name] = (class:gsub("%.", "_")), class .. "."
        end
        if names then put("local %s = {}", (class:gsub("%.", "_"))) end
        put ""
      elseif owner and locals[owner] and owner ~= "fields" and not method:find "^__" then -- fields stand with their class
        declared[class_of[owner] .. method] = true
        local text_above = table.concat(comment, "\n")
        if #comment > 0 then put(text_above) end
        if class_of[owner] == "perigee.Tensor." and not text_above:find("@return", 1, true) then
          put("---@return %s", tensor_results[method] or "perigee.Tensor")
        end
        put("function %s%s%s%s end\n", locals[owner], joint, method, parameters)
      end
      comment = {}
    end
  end
end

-- A function that no registry has.
local function put_function(path, f)
  local name = path:match "[%w_]+$"
  local parameters, info, given = {}, debug.getinfo(f, "u"), false
  for line in help_function.doc(path, f):gmatch "[^\n]+" do put("---%s", line) end
  for _, line in ipairs(help_function.comment_above(f) or {}) do
    given = given or line:match "^%-%-%-@return" ~= nil
    if line:match "^%-%-%-@" then put(line) end
  end
  if not given then
    local result = tensor_results[name] or (tensor.methods[name] and "perigee.Tensor")
    if result then put("---@return %s", result) end
  end
  for index = 1, info.nparams do parameters[index] = debug.getlocal(f, index) end
  if info.isvararg then parameters[#parameters + 1] = "..." end
  put("function %s(%s) end\n", path, table.concat(parameters, ", "))
end

local function sorted(names)
  local list = {}
  for name in pairs(names) do list[#list + 1] = name end
  table.sort(list)
  return list
end

put "---@meta perigee\n-- Generated by the build from Perigee's registries and modules; nothing here runs."
put "\n---@class perigee\n---@field version string\n---@field null userdata JSON's null"
put "---@field newaxis table t[{ pg.newaxis }] has one more dimension\nlocal pg = {}\n"
put "---A description alone: an optimiser, a schedule, a loss, an averaging policy.\n---@class perigee.Rule\n---@field type string\n"
local entries, common = help.entries()
put_options("perigee.LayerOptions", { options = common })
put_options("perigee.Experiment", { options = native.job_keys "" })
for _, each in ipairs {
  { "perigee.WordVectorOptions", "word_vectors", { sequences = "table", labels = "string[]", progress = "function", out = "string" } },
  { "perigee.NeighbourOptions", "neighbours", {} },
} do
  put_options(each[1], help.members(each[2])[1])
  out[#out] = nil -- the class goes on
  for _, name in ipairs { "sequences", "labels", "progress", "out" } do
    if each[3][name] then put("---@field %s? %s", name, each[3][name]) end
  end
  put ""
end
for _, module in ipairs(sorted(package.preload)) do
  if module:match "^perigee%." and native.module_text(module) then put_classes(module) end
end
for _, name in ipairs(sorted(tensor.methods)) do
  if not declared["perigee.Tensor." .. name] then put_function("perigee_Tensor." .. name, tensor.methods[name]) end
end

local spaces, done = {}, {}
for _, entry in ipairs(entries) do
  if entry.path then
    local space = entry.full_path:match "^pg%.([%w_]+)%."
    if space and not spaces[space] then
      spaces[space] = true
      put("pg.%s = {}\n", space)
    end
    put_entry(entry)
    done[entry.path] = true
  end
end
for _, name in ipairs(sorted(pg)) do
  local value = rawget(pg, name)
  if type(value) == "function" and not done[help.path("pg.", name)] then put_function("pg." .. name, tensor.methods[name] or value)
  elseif type(value) == "table" and not spaces[name] and not getmetatable(value) then
    put("pg.%s = {}\n", name)
    for _, inner in ipairs(sorted(value)) do
      if type(value[inner]) == "function" then put_function(("pg.%s.%s"):format(name, inner), value[inner]) end
    end
  end
end
put "return pg"
io.write(table.concat(out, "\n"), "\n")
