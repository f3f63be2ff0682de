-- Help and completion come from the registries: everything in them has help, and its example runs.
local native = require "perigee.native"
local pg = require "perigee"
local help = require "perigee.help"
local show = require "perigee.show"
local prompt = require "perigee.prompt"

local function without_positions(value)
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, each in pairs(value) do
    if key ~= "@" then copy[key] = without_positions(each) end
    if key == "layers" and type(each) == "table" then
      for index, layer in ipairs(each) do copy.layers[index] = type(layer) == "string" and { type = layer } or copy.layers[index] end
    end
  end
  return #copy > 0 and native.list(copy) or copy
end

local function run(source)
  local chunk = assert(loadstring("return " .. source, "@example"))
  setfenv(chunk, setmetatable({ pg = pg }, { __index = _G }))
  return chunk()
end

_G.pg = pg -- as at the prompt

local test = {}

function test.examples_are_what_the_registry_says()
  local count = 0
  for _, entry in ipairs((help.entries())) do
    if entry.example and entry.path then
      local source = help.call_text(entry.example, entry)
      check.equal(without_positions(run(source)), without_positions(entry.example))
      count = count + 1
    end
  end
  assert(count > 60, count)
end

function test.everything_has_help()
  local count = 0
  for _, entry in ipairs((help.entries())) do
    if entry.path then
      local text = help.text(entry.full_path:gsub('%["(%a+)"%]', ".%1"), 80)
      assert(text:find(entry.path, 1, true), entry.path)
      assert(entry.doc and #entry.doc > 2, entry.path .. " says nothing of itself")
      for _, option in ipairs(entry.options) do assert(text:find("\n  " .. option.name, 1, true), entry.path .. ": " .. option.name) end
      count = count + 1
    end
  end
  assert(count > 200, count)
  for name, value in pairs(pg) do
    if type(value) == "function" then assert(#help.text("pg." .. name, 80) > #name, name) end
  end
end

-- A phrase, as it stands behind a colon in help; definitions and functions are sentences.
local function check_options_say_something(options, where)
  for _, option in ipairs(options) do
    local place = where .. "." .. option.name
    assert(option.doc and #option.doc > 2, place .. " has no text")
    assert(not option.doc:find "[%.;:,]$", place .. ": a phrase without a full stop: " .. option.doc)
    assert(option.type and option.type ~= "", place .. " has no type")
  end
end

function test.everything_has_a_sentence()
  local entries, common = help.entries()
  check_options_say_something(common, "every layer")
  for _, entry in ipairs(entries) do
    local sentence, place = help.sentence(entry), entry.family .. " " .. entry.name
    assert(entry.name == entry.family or (#sentence > 1 and sentence:find "%.$"), place .. ": " .. sentence)
    check_options_say_something(entry.options, place)
  end
  local functions = require("perigee.reference").functions()
  for _, each in ipairs(functions) do assert(#each.doc > 1 and each.doc:find "%.$", each.name .. ": " .. each.doc) end
  assert(#functions > 200, #functions)
end

-- Each example stands in a job, and every key has one.
function test.examples_of_job_keys_are_jobs()
  local mnist = pg.data.mnist()
  local function job_with(section, option)
    local text = ("return { %s = %s }"):format(option.name, option.example)
    local chunk = assert(loadstring(text, "@example"))
    setfenv(chunk, { pg = pg, mnist = mnist })
    local in_list = section == "phases" or section == "objectives"
    local job = { network = pg.sequential { pg.dense { 10 } }, data = { train = mnist.train } }
    if in_list then
      job[section] = { chunk() }
      return pg.experiment(job)
    end
    for key, value in pairs(chunk()) do (section == "" and job or rawget(job, section) or job)[key] = value end
    if section ~= "" and section ~= "data" then job[section], job[option.name] = chunk(), nil end
    return pg.experiment(job)
  end
  local count = 0
  for _, section in ipairs { "", unpack(require("perigee.help.job").sections()) } do
    check_options_say_something(native.job_keys(section), "job " .. section)
    for _, option in ipairs(native.job_keys(section)) do
      assert(option.example, section .. "." .. option.name .. " has no example")
      local ok, problem = pcall(job_with, section, option)
      assert(ok, ("%s.%s = %s: %s"):format(section, option.name, option.example, tostring(problem)))
      count = count + 1
    end
  end
  assert(count > 50, count)
end

function test.job_keys_have_help()
  for _, section in ipairs { "", unpack(require("perigee.help.job").sections()) } do
    for _, option in ipairs(native.job_keys(section)) do
      local text = help.text((section == "" and "" or section .. ".") .. option.name, 100):gsub("%s+", " ")
      local fallback = option.fallback and require("perigee.help.job").default(option) or "required"
      for _, part in ipairs { option.name .. " = " .. option.example, option.type, fallback, option.doc } do
        assert(text:find((part:gsub("%s+", " ")), 1, true), ("%s.%s lacks '%s': %s"):format(section, option.name, part, text))
      end
    end
  end
  local experiment = help.text("pg.experiment", 100)
  for _, option in ipairs(native.job_keys "") do assert(experiment:find("\n  " .. option.name .. " ", 1, true), option.name) end
  check.equal(help.text("perigee.Experiment", 100), experiment)
  check.matches(help.text("batch", 100), "data = { batch = 64 }")
  check.matches(help.text("clip", 100), 'type = "norm": The whole gradient')
  check.matches(help.text("regularization", 100), "weight_decay")
  check.matches(help.text("loss", 100), "huber")
end

function test.functions_tell_their_arguments()
  local function says(name, part) assert(help.text(name, 80):find(part, 1, true), help.text(name, 80)) end
  says("pg.zeros", "zeros or of ones")
  says("pg.sum", "The sum over axes")
  says("pg.slice", "{ start, stop, step }")
  says("softmax", "pg.softmax(x, axis)")
  says("pg.max", "The largest over axes")
  says("pg.exp_", "In place")
  local lines = {}
  for line in help.text("pg.start", 60):gmatch "[^\n]+" do lines[#lines + 1] = line end
  for index = 2, #lines - 4 do assert(#lines[index] > 40, "ragged: " .. lines[index]) end
end

function test.options_of_layers_are_completed()
  local function names(...)
    local list = {}
    local found = prompt.complete(...)
    for index = 1, #found, 2 do list[#list + 1] = found[index] end
    return table.concat(list, " ")
  end
  for _, entry in ipairs((help.entries())) do
    if entry.path and entry.family == "layer" then
      local all = " " .. names("option", { "pg", entry.name }, "", false, {}) .. " "
      for _, option in ipairs(entry.options) do assert(all:find(" " .. option.name .. " ", 1, true), entry.path .. ": " .. option.name) end
    end
  end
  check.equal(names("option", { "pg", "conv2d" }, "bias", false, { "bias" }), "bias_init")
  check.equal(names("option", { "pg", "experiment" }, "ep", false, {}), "epochs")
  check.equal(names("option", { "pg", "experiment" }, "ear", false, {}), "early_stopping")
  check.equal(names("option", { "pg", "experiment", "early_stopping" }, "pat", false, {}), "patience")
  check.equal(names("option", { "pg", "experiment", "seed" }, "ear", false, {}), "")
  check.equal(names("help", {}, "early_s", false, {}), "early_stopping")
  check.equal(names("name", { "pg", "data" }, "mn", false, {}), "mnist")
  check.equal(names("name", { "nothing", "here" }, "", false, {}), "")
  _G.thing = setmetatable({ own = 1 }, { __index = setmetatable({ far = 2 }, { __index = { farther = print } }) })
  check.equal(names("name", { "thing" }, "", false, {}), "far farther own")
  check.equal(names("name", { "thing" }, "", true, {}), "farther")
  _G.thing = setmetatable({}, { __index = function() error "must not be called" end })
  check.equal(names("name", { "thing", "field" }, "", false, {}), "")
  _G.thing = pg.zeros(2)
  assert(names("name", { "thing" }, "su", true, {}):find "sum")
end

function test.values_are_shown()
  local function shown(value) return show.value(value, 40) end
  check.equal(shown(1), "1")
  check.equal(shown(-0.0), "-0")
  check.equal(shown(0.1), "0.1")
  check.equal(tonumber(shown(1 / 3)), 1 / 3)
  check.equal(shown(2 ^ 53), "9007199254740992")
  check.equal(shown(0 / 0), "nan")
  check.equal(shown 'a"b\n\0', '"a\\"b\\n\\000"')
  check.equal(shown { 1, 2, x = { true } }, "{ 1, 2, x = { true } }")
  check.equal(shown { ["a b"] = 1, ["end"] = 2, [10] = 3 }, '{ [10] = 3, ["a b"] = 1, ["end"] = 2 }')
  local loop = {}
  loop.self = loop
  check.equal(shown(loop), "{ self = { contains itself } }")
  check.equal(shown(pg.conv2d { 20, kernel = 5 }), "pg.conv2d { kernel = 5, out = 20 }")
  check.equal(shown(pg.conv2d), show.value(pg.conv2d, 40))
  check.equal(shown(setmetatable({}, { __tostring = function() return "mine" end })), "mine")
  check.matches(shown(setmetatable({}, { __tostring = function() error "no" end })), "cannot be shown")
  check.equal(shown(pg.sequential { pg.conv2d { 8 }, pg.conv2d { 8 }, pg.dense { 2, name = "out" } }),
    "layer  type    options\nconv1  conv2d  out = 8\nconv2  conv2d  out = 8\nout    dense   out = 2")
end

function test.long_values_are_cut()
  local long = {}
  for index = 1, 100000 do long[index] = index end
  local text = show.value(long, 80)
  assert(#text < 4000 and text:find "%.%.%. %d+ more", #text)
  assert(#show.value(("x"):rep(1e6), 80) < 3000)
  local deep = {}
  for _ = 1, 10000 do deep = { deep } end
  assert(#show.value(deep, 80) < 1000)
end

return test
