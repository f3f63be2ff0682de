-- Help about the keys of a job: what ?early_stopping, ?batch and ?data.batch show, and the table below ?pg.experiment.
local native = require "perigee.native"

local help_job = {}

---The sections of a job, such as "data": keys whose value is a table with keys of its own.
---@return string[]
function help_job.sections()
  local names = {}
  for _, option in ipairs(native.job_keys "") do
    if #native.job_keys(option.name) > 0 then names[#names + 1] = option.name end
  end
  return names
end

local function find(section, name)
  for _, option in ipairs(native.job_keys(section)) do
    if option.name == name then return option end
  end
end

---Keys that a name means: "clip" at the top level, "data.batch" in a section, "batch" in whichever sections have it.
---@param name string
---@return { section: string, option: table }[]
function help_job.find(name)
  local section, key = name:match "^([%w_]+)[.:]([%w_]+)$"
  if section then
    local option = find(section, key)
    return option and { { section = section, option = option } } or {}
  end
  local top = find("", name)
  if top then return { { section = "", option = top } } end
  local found = {}
  for _, each in ipairs(help_job.sections()) do
    local option = find(each, name)
    if option then found[#found + 1] = { section = each, option = option } end
  end
  return found
end

---All names that find() knows.
---@return string[]
function help_job.names()
  local names, seen = {}, {}
  local function add(section)
    for _, option in ipairs(native.job_keys(section)) do
      if not seen[option.name] then names[#names + 1] = option.name end
      seen[option.name] = true
    end
  end
  add ""
  for _, section in ipairs(help_job.sections()) do add(section) end
  return names
end

---'batch = 64', as it stands in the key's section.
---@param option table
---@return string
function help_job.example(option) return option.name .. " = " .. option.example end

---The value of an option that is left out, as help shows it.
---@param option table
---@return string
function help_job.default(option)
  local fallback = option.fallback
  if fallback == "none" and not option.type:find('"none"', 1, true) then fallback = nil end
  return fallback or option.required and "required" or "optional"
end

return help_job
