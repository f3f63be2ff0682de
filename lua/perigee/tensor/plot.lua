-- pg.plot of tensors: lines, histograms, images and confusion matrices, as text for the terminal, or as a PNG or SVG file.
local native = require "perigee.native"
local tensor = require "perigee.tensor"
local plot = require "perigee.plot"
local show = require "perigee.show"
local where = require "perigee.where"

local tensor_plot = {}

local makers, describe = tensor.makers, tensor.describe
local most_images, most_classes, most_pixels = 64, 40, 65536
local least_side = 480 -- of a PNG's longer side, about
local shades = { " ", "░", "▒", "▓", "█" }

local known_options = { "kind", "title", "width", "height", "log", "bins", "names", "columns", "file" }

local function numbers_of(x, what)
  local name = type(x) == "table" and x[1] == nil and next(x)
  if name then
    where.fail(("plot draws one curve, pg.plot(y) or pg.plot(x, y); got a table with the name '%s'; plot each by itself: pg.plot(t.%s)"):format(
      tostring(name), tostring(name)))
  end
  if type(x) == "table" then x = makers.tensor(x) end
  if not tensor.is(x) then where.fail(("plot takes tensors or lists of numbers; got %s%s"):format(describe(x), what or "")) end
  return x
end

local function is_svg(path) return path:match "%.svg$" ~= nil end

local function check_file(path)
  if type(path) ~= "string" or not (path:match "%.png$" or is_svg(path)) then
    where.fail(("a plot's file is name.svg or name.png; got %s"):format(describe(path)))
  end
end

local function write_text(path, text)
  local file, problem = io.open(path, "w")
  if not file then where.fail(("%s: cannot be written: %s"):format(path, tostring(problem):gsub("^.*: ", ""))) end
  file:write(text)
  file:close()
  return path
end

-- Lines ----------------------------------------------------------------------------------------------------------------------------

local function points_of(x, y)
  if x.rank ~= 1 or y.rank ~= 1 or #x ~= #y then
    where.fail(("a line has one y for each x; got %s and %s"):format(tensor.type_text(x), tensor.type_text(y)))
  end
  local xs, ys, points = x:totable(), y:totable(), {}
  for place = 1, #xs do points[place] = { xs[place], ys[place] } end
  return points
end

local function chart_picture(kind, title, points, log)
  return tensor.done(native.run.chart_graphics(kind, title, title, points, log == true, ""))
end

local function chart(points, options, label)
  local title = options.title or label
  if options.file then
    tensor.done(native.run.write_chart(options.file, title, title, points, options.log == true, ""))
    return options.file
  end
  return show.text(plot.text(title, points, { width = options.width, height = options.height, log = options.log }),
    function(kind) return chart_picture(kind, title, points, options.log) end)
end

local function line(x, y, options)
  if y == nil then x, y = makers.arange(#x, { dtype = "f64" }), x end
  return chart(points_of(x, y), options, "")
end

-- Histograms -----------------------------------------------------------------------------------------------------------------------

---How many of the finite numbers lie in each of `bins` equal parts from `low` to `high`; and how many are not finite.
local function counts_of(x, bins)
  local values, low, high, others = x:to("f64"):reshape({ -1 }):totable(), math.huge, -math.huge, 0
  for _, value in ipairs(values) do
    if value == value and math.abs(value) < math.huge then low, high = math.min(low, value), math.max(high, value) else others = others + 1 end
  end
  if others == #values then where.fail(("there is no finite number in %s"):format(tensor.type_text(x))) end
  if low == high then low, high = low - 0.5, high + 0.5 end
  local counts = {}
  for bin = 1, bins do counts[bin] = 0 end
  for _, value in ipairs(values) do
    if value == value and math.abs(value) < math.huge then
      local bin = math.min(bins, math.floor((value - low) / (high - low) * bins) + 1)
      counts[bin] = counts[bin] + 1
    end
  end
  return counts, low, high, others
end

local eighths = { "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█" }

local function bar(share, width)
  local units = math.floor(share * width * 8 + 0.5)
  return eighths[8]:rep(math.floor(units / 8)) .. (eighths[units % 8] or "")
end

local function histogram(x, options)
  local bins = options.bins or 16
  if type(bins) ~= "number" or bins < 1 or bins > 1000 or bins % 1 ~= 0 then
    where.fail("bins is a whole number from 1 to 1000; got " .. describe(bins))
  end
  local counts, low, high, others = counts_of(x, bins)
  local step, largest = (high - low) / bins, 0
  for _, count in ipairs(counts) do largest = math.max(largest, count) end
  local points = {}
  for bin, count in ipairs(counts) do
    local left = low + (bin - 1) * step
    for _, point in ipairs { { left, 0 }, { left, count }, { left + step, count }, { left + step, 0 } } do points[#points + 1] = point end
  end
  if options.file then return chart(points, options, "histogram") end
  local labels, margin, lines = {}, 0, { options.title }
  for bin = 1, bins do
    labels[bin] = ("%.4g"):format(low + (bin - 1) * step)
    margin = math.max(margin, #labels[bin])
  end
  local width = math.max(8, (options.width or 72) - margin - 12)
  for bin, count in ipairs(counts) do
    lines[#lines + 1] = ("%s%s │%s %d"):format((" "):rep(margin - #labels[bin]), labels[bin], bar(largest > 0 and count / largest or 0, width), count)
  end
  lines[#lines + 1] = ("%s up to %.4g%s"):format((" "):rep(margin), high, others > 0 and (", and %d that are not finite"):format(others) or "")
  return show.text(table.concat(lines, "\n"), function(kind) return chart_picture(kind, options.title or "histogram", points) end)
end

-- Images ---------------------------------------------------------------------------------------------------------------------------

-- A picture of 2 to 4 dimensions as a grid: f64 [channels, height, width] from 0 to 1, one pixel between two images, and its columns.
local function grid_of(x, columns)
  local rank = x.rank
  if rank < 2 or rank > 4 then where.fail("an image is (H, W), (C, H, W) or (N, C, H, W); got " .. tensor.type_text(x)) end
  x = x:to "f64"
  if rank == 2 then x = x:reshape { 1, 1, #x, -1 } elseif rank == 3 then x = x:unsqueeze(1) end
  local shape = x.shape
  local channels = shape[2]
  if channels ~= 1 and channels ~= 3 then
    if rank == 4 or shape[1] ~= 1 then where.fail("images have 1 channel or 3; got " .. tensor.type_text(x)) end
    x, shape = x:transpose(1, 2), { channels, 1, shape[3], shape[4] } -- the maps of a layer, one image each
    channels = 1
  end
  local count, height, width = math.min(shape[1], most_images), shape[3], shape[4]
  if count == 0 or height == 0 or width == 0 then where.fail("there is no pixel in " .. tensor.type_text(x)) end
  local low, high = x:min():item(), x:max():item()
  if low < 0 or high > 1 then x = (x - low) / math.max(high - low, 1e-30) end
  columns = math.min(columns or math.ceil(math.sqrt(count)), count)
  local rows = math.ceil(count / columns)
  local grid = makers.zeros { channels, rows * (height + 1) - 1, columns * (width + 1) - 1, dtype = "f64" }
  for place = 1, count do
    local top, left = math.floor((place - 1) / columns) * (height + 1), (place - 1) % columns * (width + 1)
    grid[{ {}, { top + 1, top + height }, { left + 1, left + width } }] = x[place]
  end
  return grid
end

-- The mean of the pixels that each character covers, which is twice as high as it is wide.
local function image_text(grid, options)
  local height, width = grid.shape[2], grid.shape[3]
  local grey = grid:mean(1)
  local columns = math.min(width * 2, options.width or 72)
  local rows = math.max(1, math.floor(columns * height / width / 2 + 0.5))
  local lines = { options.title }
  for row = 0, rows - 1 do
    local top, bottom = math.floor(row * height / rows), math.max(math.floor((row + 1) * height / rows), math.floor(row * height / rows) + 1)
    local cells = {}
    for column = 0, columns - 1 do
      local left = math.floor(column * width / columns)
      local right = math.max(math.floor((column + 1) * width / columns), left + 1)
      local value = grey[{ { top + 1, bottom }, { left + 1, right } }]:mean():item()
      cells[#cells + 1] = shades[math.max(1, math.min(#shades, math.floor(value * #shades) + 1))]
    end
    lines[#lines + 1] = table.concat(cells):gsub("%s+$", "")
  end
  local picture = (grid * 255):round():to "u8"
  return show.text(table.concat(lines, "\n"), function(kind) return tensor.done(native.run.image_graphics(kind, picture)) end)
end

local function svg_head(width, height)
  return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12">')
    :format(width, height, width, height)
end

local function escaped(text) return (text:gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" })) end

local function image_svg(grid, options)
  local shape = grid.shape
  local height, width = shape[2], shape[3]
  if height * width > most_pixels then where.fail(("an SVG of %d pixels would be too large; write a .png"):format(height * width)) end
  local scale = math.max(1, math.floor(640 / math.max(width, height)))
  local rgb = (shape[1] == 3 and grid or tensor.methods.concatenate({ grid, grid, grid }, 1)):totable()
  local parts = { svg_head(width * scale, height * scale) }
  if options.title then parts[2] = "<title>" .. escaped(options.title) .. "</title>" end
  for row = 1, height do
    for column = 1, width do
      local function byte(channel) return math.floor(rgb[channel][row][column] * 255 + 0.5) end
      parts[#parts + 1] = ('<rect x="%d" y="%d" width="%d" height="%d" fill="#%02x%02x%02x"/>')
        :format((column - 1) * scale, (row - 1) * scale, scale, scale, byte(1), byte(2), byte(3))
    end
  end
  parts[#parts + 1] = "</svg>\n"
  return write_text(options.file, table.concat(parts, "\n"))
end

-- Small images get larger pixels, as in the terminal and in an SVG.
local function enlarged(grid)
  local shape = grid.shape
  local scale = math.floor(least_side / math.max(shape[2], shape[3]))
  if scale < 2 then return grid end
  local wide = grid:reshape { shape[1], shape[2], 1, shape[3], 1 } + makers.zeros { 1, 1, scale, 1, scale, dtype = "u8" }
  return wide:reshape { shape[1], shape[2] * scale, shape[3] * scale }
end

local function images(x, options)
  local grid = grid_of(x, options.columns)
  if not options.file then return image_text(grid, options) end
  if is_svg(options.file) then return image_svg(grid, options) end
  makers.save(options.file, enlarged((grid * 255):to "u8"))
  return options.file
end

-- Confusion ------------------------------------------------------------------------------------------------------------------------

-- Classes from 1: a list of them, or of their probabilities.
local function classes_of(x) return x.rank == 2 and x:argmax(2) or x:to("i64"):reshape { -1 } end

local function matrix_of(x, y)
  if y == nil then
    if x.rank ~= 2 or #x ~= x.shape[2] then
      where.fail("a confusion matrix is square, or given by the classes and what was predicted: pg.plot(y, p, { kind = \"confusion\" }); got "
        .. tensor.type_text(x))
    end
    return x:totable()
  end
  local actual, predicted = classes_of(x):totable(), classes_of(y):totable()
  if #actual ~= #predicted then where.fail(("there are %d classes and %d predictions"):format(#actual, #predicted)) end
  local count = math.max(x.rank == 2 and x.shape[2] or 0, y.rank == 2 and y.shape[2] or 0)
  for place = 1, #actual do
    if actual[place] < 1 or predicted[place] < 1 then where.fail "classes count from 1; got 0 or less" end
    count = math.max(count, actual[place], predicted[place])
  end
  if count > most_classes then where.fail(("%d classes are too many for a matrix; expected at most %d"):format(count, most_classes)) end
  local matrix = {}
  for row = 1, count do
    matrix[row] = {}
    for column = 1, count do matrix[row][column] = 0 end
  end
  for place = 1, #actual do
    local row = matrix[actual[place]]
    row[predicted[place]] = row[predicted[place]] + 1
  end
  return matrix
end

local function confusion_svg(matrix, names, options)
  local cell, margin = 44, 110
  local size = margin + cell * #matrix
  local parts = { svg_head(size + 10, size + 10), ('<title>%s</title>'):format(escaped(options.title or "confusion matrix")) }
  local function text(x, y, anchor, colour, value)
    parts[#parts + 1] = ('<text x="%d" y="%d" text-anchor="%s" fill="%s">%s</text>'):format(x, y, anchor, colour, escaped(value))
  end
  text(margin, 20, "start", "#808080", options.title or "confusion matrix")
  text(margin, 40, "start", "#808080", "predicted; rows: actual")
  for row, counts in ipairs(matrix) do
    local total = 0
    for _, count in ipairs(counts) do total = total + count end
    text(margin - 8, margin + row * cell - cell / 2 + 4, "end", "#808080", names[row])
    text(margin + row * cell - cell / 2, margin - 8, "middle", "#808080", names[row])
    for column, count in ipairs(counts) do
      local share = total > 0 and count / total or 0
      parts[#parts + 1] = ('<rect x="%d" y="%d" width="%d" height="%d" fill="#0072b2" fill-opacity="%.3f" stroke="#808080" stroke-opacity="0.3"/>')
        :format(margin + (column - 1) * cell, margin + (row - 1) * cell, cell, cell, share)
      local x, y = margin + column * cell - cell / 2, margin + row * cell - cell / 2 + 4
      text(x, y, "middle", share > 0.5 and "#ffffff" or "#808080", ("%.6g"):format(count))
    end
  end
  parts[#parts + 1] = "</svg>\n"
  return write_text(options.file, table.concat(parts, "\n"))
end

local function confusion(x, y, options)
  local matrix, names = matrix_of(x, y), {}
  for class = 1, #matrix do names[class] = options.names and options.names[class] or tostring(class) end
  if options.file and is_svg(options.file) then return confusion_svg(matrix, names, options) end
  if options.file then
    local counts = {}
    for _, row in ipairs(matrix) do
      for _, count in ipairs(row) do counts[#counts + 1] = count end
    end
    tensor.done(native.run.write_matrix(options.file, options.title or "confusion matrix", names, counts))
    return options.file
  end
  local rows = { { "is \\ predicted", unpack(names) } }
  rows[1][#rows[1] + 1] = "right"
  for class, counts in ipairs(matrix) do
    local row, total = { names[class] }, 0
    for column, count in ipairs(counts) do
      row[column + 1] = count == 0 and "." or ("%.6g"):format(count)
      total = total + count
    end
    row[#row + 1] = total > 0 and ("%.1f %%"):format(100 * counts[class] / total) or "-"
    rows[class + 1] = row
  end
  return show.text((options.title and options.title .. "\n" or "") .. show.aligned(rows))
end

-- pg.plot --------------------------------------------------------------------------------------------------------------------------

-- The kind of plot where none is named.
local function kind_of(x, y)
  if y ~= nil or x.rank == 1 then return "line" end
  if x.rank == 3 or x.rank == 4 then return "image" end
  where.fail(("how is %s to be plotted? kind = \"line\", \"histogram\", \"image\" or \"confusion\""):format(tensor.type_text(x)))
end

local kinds = {
  line = line,
  histogram = function(x, _, options) return histogram(x, options) end,
  image = function(x, _, options) return images(x, options) end,
  confusion = confusion,
  scatter = function(x, y, options) return require("perigee.tensor.scatter").plot(x, y, options, write_text, escaped) end,
}

---@class perigee.PlotOptions
---@field kind? string       "line", "histogram", "image", "confusion" or "scatter"
---@field title? string
---@field width? integer     in characters
---@field height? integer    of a line's plot, in characters
---@field log? boolean       powers of ten, of a line
---@field bins? integer      of a histogram: 16
---@field names? string[]    of the classes, or of the points
---@field columns? integer   of a grid of images
---@field file? string       "name.png" or "name.svg" instead of the terminal

---Tensors as a picture in the terminal, or in a file: pg.plot(y), pg.plot(x, y), pg.plot(x, { kind = "histogram", bins = 20 }), pg.plot(images),
---pg.plot(y, model(x), { kind = "confusion", names = model.classes }), each also with { file = "name.png" } or "name.svg". Lists of numbers are
---as good. kind: "line" (of one dimension), "image" ((H, W), (C, H, W) or (N, C, H, W) as a grid of `columns`), "histogram", "confusion" (classes,
---then predictions or their probabilities; or a square matrix), "scatter" (places [points, 2], then a group from 1 for each). Other options: title,
---width and height in characters, log (of lines).
---@param x perigee.Tensor|number[]
---@param y? perigee.Tensor|number[]|table
---@param options? perigee.PlotOptions
---@return table
function tensor_plot.plot(x, y, options)
  if options == nil and type(y) == "table" and y[1] == nil then y, options = nil, y end
  options = options or {}
  for name in pairs(options) do
    local known = false
    for _, each in ipairs(known_options) do known = known or each == name end
    if not known then where.fail(("plot has no option '%s'%s"):format(tostring(name), where.suggestion(name, { unpack(known_options) }))) end
  end
  if options.file ~= nil then check_file(options.file) end
  x = numbers_of(x)
  if y ~= nil then y = numbers_of(y) end
  local kind = options.kind or kind_of(x, y)
  if not kinds[kind] then
    local known = {}
    for each in pairs(kinds) do known[#known + 1] = each end
    where.fail(("there is no plot of kind %s%s"):format(describe(kind), where.suggestion(kind, known)))
  end
  return kinds[kind](x, y, options)
end

return tensor_plot
