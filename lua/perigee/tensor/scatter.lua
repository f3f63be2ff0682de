-- Points on a plane, each with a name and a colour of its group: pg.plot(places, { kind = "scatter" }), as pg.tsne gives them.
local tensor = require "perigee.tensor"
local show = require "perigee.show"
local where = require "perigee.where"

local scatter = {}

-- Okabe and Ito's, which colour-blind people tell apart.
local colours = { { 0, 114, 178 }, { 213, 94, 0 }, { 0, 158, 115 }, { 204, 121, 167 }, { 230, 159, 0 }, { 86, 180, 233 }, { 0, 0, 0 } }
local width, height, margin = 960, 720, 40

local function colour_of(group) return colours[(group - 1) % #colours + 1] end

-- Where each row is, from 0 to 1 both ways, top down; and its group.
local function points_of(x, y, options)
  if x.rank ~= 2 or x.shape[2] ~= 2 or #x < 1 then
    where.fail("a scatter plot takes places [points, 2]; got " .. tensor.type_text(x))
  end
  if y ~= nil and (y.rank ~= 1 or #y ~= #x) then
    where.fail(("a scatter plot has a group for each point; got %s for %d points"):format(tensor.type_text(y), #x))
  end
  if options.names and #options.names ~= #x then
    where.fail(("a scatter plot has a name for each point; got %d for %d points"):format(#options.names, #x))
  end
  local places, groups = x:totable(), y and y:totable()
  local low, high = { math.huge, math.huge }, { -math.huge, -math.huge }
  for _, place in ipairs(places) do
    for axis = 1, 2 do
      if place[axis] ~= place[axis] or math.abs(place[axis]) == math.huge then where.fail "a scatter plot has a place that is not finite" end
      low[axis], high[axis] = math.min(low[axis], place[axis]), math.max(high[axis], place[axis])
    end
  end
  local points = {}
  for number, place in ipairs(places) do
    local function share(axis) return high[axis] > low[axis] and (place[axis] - low[axis]) / (high[axis] - low[axis]) or 0.5 end
    points[number] = { x = share(1), y = 1 - share(2), group = groups and math.max(1, math.floor(groups[number])) or 1 }
  end
  return points
end

local function svg(points, options, escaped)
  local parts = {
    ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="11">')
      :format(width, height, width, height) }
  if options.title then parts[2] = "<title>" .. escaped(options.title) .. "</title>" end
  for number, point in ipairs(points) do
    local rgb, left, top = colour_of(point.group), margin + point.x * (width - 2 * margin), margin + point.y * (height - 2 * margin)
    parts[#parts + 1] = ('<circle cx="%.1f" cy="%.1f" r="2.5" fill="#%02x%02x%02x"/>'):format(left, top, rgb[1], rgb[2], rgb[3])
    if options.names then
      parts[#parts + 1] = ('<text x="%.1f" y="%.1f" fill="#%02x%02x%02x">%s</text>')
        :format(left + 4, top + 4, rgb[1], rgb[2], rgb[3], escaped(tostring(options.names[number])))
    end
  end
  parts[#parts + 1] = "</svg>\n"
  return table.concat(parts, "\n")
end

-- Dots on white; a PNG has no names.
local function png(points, file)
  local picture = tensor.makers.full({ 3, height, width }, 255, { dtype = "f32" })
  for _, point in ipairs(points) do
    local rgb = colour_of(point.group)
    local left = math.floor(margin + point.x * (width - 2 * margin)) - 2
    local top = math.floor(margin + point.y * (height - 2 * margin)) - 2
    for channel = 1, 3 do picture[{ channel, { top, top + 4 }, { left, left + 4 } }] = rgb[channel] end
  end
  tensor.makers.save(file, picture:to "u8")
  return file
end

local function text(points, options)
  local columns, rows = options.width or 72, options.height or 24
  local grid = {}
  for row = 1, rows do
    grid[row] = {}
    for column = 1, columns do grid[row][column] = " " end
  end
  for number, point in ipairs(points) do
    local name = options.names and tostring(options.names[number]):match "^[%w]" or tostring(point.group % 10)
    grid[1 + math.floor(point.y * (rows - 1) + 0.5)][1 + math.floor(point.x * (columns - 1) + 0.5)] = name
  end
  for row = 1, rows do grid[row] = table.concat(grid[row]):gsub("%s+$", "") end
  return show.text((options.title and options.title .. "\n" or "") .. table.concat(grid, "\n"))
end

---`write` writes a text, `escaped` makes it fit for SVG.
function scatter.plot(x, y, options, write, escaped)
  local points = points_of(x, y, options)
  if not options.file then return text(points, options) end
  if options.file:match "%.svg$" then return write(options.file, svg(points, options, escaped)) end
  return png(points, options.file)
end

return scatter
