-- lua/REFERENCE.md, from the same facts as help: `perigee schema --markdown` prints it.
local native = require "perigee.native"
local pg = require "perigee"
local help = require "perigee.help"
local help_function = require "perigee.help.function"
local help_job = require "perigee.help.job"
local topics = require "perigee.help.topics"
local tensor = require "perigee.tensor"

local reference = {}

-- Text of a paragraph, in which < and * mean themselves, and of a cell of a table.
local function plain(text) return (text:gsub("%s*\n%s*", " "):gsub("[<*]", "\\%0")) end
local function cell(text) return (plain(text):gsub("|", "\\|")) end

-- Lines of at most 118 columns.
local function wrapped(text)
  local lines, line = {}, ""
  for word in text:gmatch "%S+" do
    if #line + 1 + #word > 118 then
      lines[#lines + 1], line = line, word
    else
      line = line == "" and word or line .. " " .. word
    end
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

local function code(text) return "`" .. text .. "`" end

local function default_of(option)
  local default = help_job.default(option)
  return default:find "[%w%[]" and cell(default) or code(default)
end

local function put_options(out, options, with_example)
  out[#out + 1] = with_example and "| key | type | default | | example |\n|---|---|---|---|---|" or "| option | type | default | |\n|---|---|---|---|"
  for _, option in ipairs(options) do
    local kind = option.type .. (option.range and " " .. option.range or "")
    local doc = cell(option.doc) .. (option.units and ", in " .. option.units or "")
    local row = ("| `%s` | %s | %s | %s |"):format(option.name, cell(kind), default_of(option), doc)
    out[#out + 1] = row .. (with_example and (" `%s` |"):format(help_job.example(option)) or "")
  end
  out[#out + 1] = ""
end

local function put(out, text) out[#out + 1] = wrapped(text) .. "\n" end

local function put_job(out)
  out[#out + 1] = "## Keys of a job\n"
  put(out, "`pg.experiment { ... }` takes these, and so do `--set KEY=VALUE`, a JSON or YAML job, and C++.")
  put_options(out, native.job_keys "", true)
  for _, section in ipairs(help_job.sections()) do
    out[#out + 1] = "### " .. section .. "\n"
    put_options(out, native.job_keys(section), true)
  end
end

local function same(a, b) return a.name == b.name and a.type == b.type and a.fallback == b.fallback and a.doc == b.doc end

-- Options that every member of a family takes: { name = true }, and in order.
local function shared_options(members)
  local names, list = {}, {}
  if #members < 3 then return names, list end
  for _, option in ipairs(members[1].options) do
    local everywhere = true
    for _, member in ipairs(members) do
      local found = false
      for _, each in ipairs(member.options) do found = found or same(each, option) end
      everywhere = everywhere and found
    end
    if everywhere then
      names[option.name] = true
      list[#list + 1] = option
    end
  end
  return names, list
end

local function put_member(out, entry, shared)
  if entry.name ~= entry.family then
    out[#out + 1] = "### " .. entry.name .. "\n"
    put(out, plain(help.sentence(entry)))
  end
  local own = {}
  for _, option in ipairs(entry.options) do
    if not shared[option.name] then own[#own + 1] = option end
  end
  if #own > 0 then put_options(out, own) end
  if entry.example and entry.path then put(out, "Example: `" .. help.call_text(entry.example, entry) .. "`") end
end

local function put_family(out, family, title, how)
  local members = help.members(family)
  local shared, list = shared_options(members)
  out[#out + 1] = "## " .. title .. "\n"
  put(out, how)
  if family == "layer" then
    local _, common = help.entries()
    list = common
  end
  if #list > 0 then
    out[#out + 1] = "All of them take\n"
    put_options(out, list)
  end
  for _, entry in ipairs(members) do put_member(out, entry, shared) end
end

---Functions of tensors and of pg that no registry has, and ops: { name =, call =, doc = }, by name.
---@return table[]
function reference.functions()
  local list, names = {}, {}
  for name in pairs(tensor.methods) do names[name] = tensor.methods[name] end
  for name, value in pairs(pg) do
    local entry = help.entry_of(value)
    if type(value) == "function" and (not entry or entry.family == "op") then names[name] = names[name] or value end
  end
  local ops = {}
  for _, entry in ipairs(help.members "op") do ops[entry.name] = entry end
  for name, f in pairs(names) do
    local doc, call = help_function.doc("pg." .. name, f), help_function.call_of("pg." .. name, f)
    if ops[name] and call:find("(...)", 1, true) then call = help.signature(ops[name]):gsub("pg%.op%.", "pg.") end
    list[#list + 1] = { name = name, call = call, doc = (doc:gsub("%s*\n%s*", " ")) }
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

---The whole page.
---@return string
function reference.page()
  local out = { "# Reference\n" }
  put(out, "Everything that a script may name, with types, defaults and ranges, made from the definitions by "
    .. "`perigee schema --markdown > lua/REFERENCE.md`. At the prompt `?NAME` shows the same, and `perigee help NAME` in a shell.")
  local links = { "[Keys of a job](#keys-of-a-job)" }
  for _, chapter in ipairs(topics.chapters) do links[#links + 1] = ("[%s](#%s)"):format(chapter[2], chapter[2]:lower():gsub(" ", "-")) end
  links[#links + 1] = "[Functions](#functions)"
  out[#out + 1] = "- " .. table.concat(links, "\n- ") .. "\n"
  put_job(out)
  for _, chapter in ipairs(topics.chapters) do put_family(out, unpack(chapter)) end
  out[#out + 1] = "## Functions\n"
  put(out, "Functions of tensors are methods too: `pg.exp(x)` is `x:exp()`. Axes and places count from 1.")
  out[#out + 1] = "| function | |\n|---|---|"
  for _, each in ipairs(reference.functions()) do out[#out + 1] = ("| `%s` | %s |"):format(each.call, cell(each.doc)) end
  return table.concat(out, "\n") .. "\n"
end

return reference
