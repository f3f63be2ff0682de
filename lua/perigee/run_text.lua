-- How a run, its workers and its averaging are shown.
local run_text = {}

local function grouped(number)
  local text = ("%.0f"):format(number)
  return (text:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", ""))
end

local Progress = {}
function Progress.__tostring(at)
  if at.error then return at.state .. ": " .. at.error end
  local parts = { at.state }
  local function add(format, value)
    if value then parts[#parts + 1] = format:format(value) end
  end
  add("%.1f %%", at.progress and 100 * at.progress)
  add("epoch %d", at.step > 0 and at.epoch + (at.state == "finished" and 0 or 1) or nil)
  add("step %s", at.step > 0 and grouped(at.step) or nil)
  add("loss %.4f", at.loss)
  add("accuracy %.2f %%", at.accuracy and 100 * at.accuracy)
  add("lr %.3g", at.learning_rate)
  add(at.workers == 1 and "%d worker" or "%d workers", at.workers)
  add("%s examples/s", at.examples_per_s and at.examples_per_s > 0 and grouped(at.examples_per_s) or nil)
  return table.concat(parts, " · ")
end

---@param report table
---@return table the same, which shows itself in a line
function run_text.progress(report) return setmetatable(report, Progress) end

local Workers = {}

function Workers.__tostring(list)
  local rows = { { "", "worker", "host", "examples/s", "share", "state" } }
  for place, worker in ipairs(list) do
    local waits = worker.waits_for ~= "" and ", waits for " .. worker.waits_for or ""
    local speed, share = ("%.0f"):format(worker.examples_per_s), ("%.0f %%"):format(100 * worker.share)
    local state = worker.state .. (worker.server and ", server" or "") .. waits
    rows[#rows + 1] = { tostring(place), worker.name, worker.host, speed, share, state }
  end
  local widths, lines = {}, {}
  for _, row in ipairs(rows) do
    for column, text in ipairs(row) do widths[column] = math.max(widths[column] or 0, #text) end
  end
  for _, row in ipairs(rows) do
    local cells = {}
    for column, text in ipairs(row) do
      local pad = (" "):rep(widths[column] - #text)
      cells[column] = (column == 1 or column == 4 or column == 5) and pad .. text or text .. pad
    end
    lines[#lines + 1] = table.concat(cells, "  "):gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

---@param list table[]
---@return table the same, which shows itself as a table
function run_text.workers(list) return setmetatable(list, Workers) end

local function text_of(value)
  if type(value) ~= "table" then return tostring(value) end
  return "{...}"
end

---@param point table a policy's options
---@return string
function run_text.averaging(point)
  local keys, parts = {}, {}
  for key in pairs(point) do
    if key ~= "type" then keys[#keys + 1] = key end
  end
  table.sort(keys)
  for _, key in ipairs(keys) do parts[#parts + 1] = key .. " = " .. text_of(point[key]) end
  return ("%s { %s }"):format(tostring(point.type), table.concat(parts, ", "))
end

return run_text
