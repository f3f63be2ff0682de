-- Plots and prints of tensors: text for the terminal, PNG and SVG files.
local pg = require "perigee"

local tests = {}

local function content(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "*a"
  file:close()
  os.remove(path)
  return text
end

local function written(name, ...)
  local path = os.tmpname() .. name
  local arguments = { ... }
  arguments[#arguments].file = path
  check.equal(pg.plot(unpack(arguments)), path)
  return content(path)
end

function tests.lines()
  local text = tostring(pg.plot(pg.tensor { 1, 4, 9 }, { width = 30, height = 4, title = "squares" }))
  check.matches(text, "squares")
  check.matches(text, "9%.00┤")
  check.matches(text, "1%.00┤")
  check.equal(tostring(pg.plot({ 1, 2, 3 }, { 1, 4, 9 }, { width = 30, height = 4, title = "squares" })), text)
  check.matches(written("a.svg", pg.linspace(0, 1, 5), pg.arange(5), { title = "rising" }), "<svg.*rising")
  check.equal(written("a.png", pg.arange(5), { log = true }):sub(2, 4), "PNG")
  check.raises(function() pg.plot(pg.arange(3), pg.arange(4)) end, "one y for each x; got f32%[3%] and f32%[4%]")
end

function tests.histograms_count_every_finite_number()
  local text = tostring(pg.plot({ 0, 0.1, 0.9, 1, 0 / 0 }, { kind = "histogram", bins = 2, width = 40 }))
  check.matches(text, "  0 │.- 2\n0%.5 │.- 2\n *up to 1, and 1 that are not finite")
  check.matches(tostring(pg.plot(pg.full({ 3 }, 7), { kind = "histogram", bins = 1 })), "6%.5 │.- 3")
  check.matches(written("a.svg", pg.randn(100), { kind = "histogram" }), "<svg")
  check.raises(function() pg.plot({ 0 / 0 }, { kind = "histogram" }) end, "no finite number")
  check.raises(function() pg.plot({ 1 }, { kind = "histogram", bins = 0 }) end, "bins is a whole number from 1")
end

function tests.images_in_a_grid()
  local image = pg.zeros(1, 4, 4)
  image[{ 1, { 1, 2 }, {} }] = 1
  check.equal(tostring(pg.plot(image)), "████████\n████████\n\n")
  check.equal(tostring(pg.plot(image[1], { kind = "image", width = 4, title = "half" })), "half\n████\n")
  local two = pg.stack({ image, image })
  check.equal(tostring(pg.plot(two)):sub(1, #"████████  ████████"), "████████  ████████") -- side by side, a pixel apart
  local path = os.tmpname() .. ".png"
  pg.plot(two, { file = path, columns = 1 })
  local large = pg.load(path) -- 53 x 53 pixels for each, in a file of about 480
  check.equal(large.shape, { 3, 9 * 53, 4 * 53 })
  check.equal(large[{ 1, { 1, 1 }, { 1, 53 } }]:min():item(), large[{ 1, { 1, 1 }, { 1, 53 } }]:max():item())
  os.remove(path)
  local svg = written("a.svg", image, {})
  local _, rectangles = svg:gsub("<rect", "")
  check.equal(rectangles, 16)
  check.raises(function() pg.plot(pg.zeros(2, 2, 2, 2, 2), { kind = "image" }) end, "an image is %(H, W%)")
  check.raises(function() pg.plot(pg.zeros(2, 2, 4, 4)) end, "images have 1 channel or 3")
  check.raises(function() pg.plot(pg.zeros(2, 2)) end, "how is f32%[2x2%] to be plotted")
end

function tests.confusion()
  local actual, predicted = pg.tensor({ 1, 1, 2, 2, 2 }, { dtype = "i64" }), pg.tensor({ 1, 2, 2, 2, 2 }, { dtype = "i64" })
  local wanted = "is \\ predicted  cat  dog  right\ncat             1    1    50.0 %\ndog             .    3    100.0 %"
  local options = { kind = "confusion", names = { "cat", "dog" } }
  check.equal(tostring(pg.plot(actual, predicted, options)), wanted)
  check.equal(tostring(pg.plot(actual, pg.one_hot(predicted, 2), options)), wanted)
  check.equal(tostring(pg.plot({ { 1, 1 }, { 0, 3 } }, options)), wanted)
  check.matches(written("a.svg", actual, predicted, { kind = "confusion", names = { "<cat>" } }), "&lt;cat&gt;")
  check.equal(written("a.png", actual, predicted, { kind = "confusion" }):sub(2, 4), "PNG")
  -- Pixels: a cell is as blue as its share of the row, a count is in it, and names have the room that they need.
  local function picture(names)
    local path = os.tmpname() .. ".png"
    pg.plot(actual, predicted, { kind = "confusion", names = names, file = path })
    local pixels = pg.load(path)
    os.remove(path)
    return pixels:to "f64" / 255
  end
  local short, long = picture { "a", "b" }, picture { "a long name", "b" }
  check.equal(long.shape[3] > short.shape[3] + 100, true)
  local left, top = 2 * (6 + 30), 2 * 60 -- of the cells: behind a letter and the border, below the title
  local function corner(row, column)
    local y, x = top + (row - 1) * 96 + 4, left + (column - 1) * 96 + 4
    return short[{ {}, y, x }]:totable()
  end
  local function is_near(got, expected)
    for channel = 1, 3 do check.equal(math.abs(got[channel] - expected[channel]) < 0.02, true) end
  end
  is_near(corner(2, 2), { 0, 114 / 255, 178 / 255 })
  is_near(corner(2, 1), { 1 - 0.06, 1 - 0.06 * 141 / 255, 1 - 0.06 * 77 / 255 })
  is_near(corner(1, 1), { 1 - 0.53, 1 - 0.53 * 141 / 255, 1 - 0.53 * 77 / 255 })
  local inside = short[{ 1, { top + 97, top + 190 }, { left + 97, left + 190 } }]
  check.equal(inside:max():item() > 0.9, true) -- the count, in white
  check.raises(function() pg.plot(actual, pg.tensor { 1 }, options) end, "there are 5 classes and 1 predictions")
  check.raises(function() pg.plot(actual - 1, predicted, options) end, "classes count from 1")
end

function tests.what_is_no_plot_is_told()
  check.raises(function() pg.plot(pg.arange(3), { kid = "line" }) end, "plot has no option 'kid'; did you mean 'kind'")
  check.raises(function() pg.plot(pg.arange(3), { kind = "lines" }) end, "no plot of kind 'lines'; did you mean 'line'")
  check.raises(function() pg.plot(pg.arange(3), { file = "a.gif" }) end, "name.svg or name.png; got 'a.gif'")
  check.raises(function() pg.plot "loss" end, "plot_test.lua:%d+: plot takes tensors or lists of numbers; got 'loss'")
  check.raises(function() pg.plot(pg.arange(3), { file = "/dev/null/a.svg" }) end, "/dev/null: cannot be made")
end

-- Prints ---------------------------------------------------------------------------------------------------------------------------

function tests.tensors_of_more_dimensions_print_with_labels()
  check.equal(tostring(pg.arange(8):reshape { 2, 2, 2 }),
    "[1]\n 1.  2.\n 3.  4.\n[2]\n 5.  6.\n 7.  8.\n[f32 of 2x2x2 on cpu, min 1, mean 4.5, max 8]")
  local text = tostring(pg.arange(500):reshape { 20, 1, 5, 5 })
  local _, lines = text:gsub("\n", "")
  check.equal(lines, 13)
  check.matches(text, "^%[1, 1%]\n   1.    2.    3.    4.    5.\n")
  check.matches(text, "\n%.%.%.\n%[20, 1%]\n 476.")
  check.matches(tostring(pg.zeros(100, 2)), "^ 0.  0.\n 0.  0.\n 0.  0.\n  %.%.%.\n 0.")
end

function tests.points_on_a_plane()
  local places, file = pg.tensor { { 0, 0 }, { 10, 5 }, { 5, 5 } }, os.tmpname()
  local svg, png = file .. ".svg", file .. ".png"
  pg.plot(places, { 1, 2, 1 }, { kind = "scatter", names = { "sea", "a<b", "land" }, title = "words", file = svg })
  local text = io.open(svg):read "*a"
  check.equal(select(2, text:gsub("<circle", "")), 3)
  check.equal(text:find("a&lt;b", 1, true) ~= nil and text:find("<title>words</title>", 1, true) ~= nil, true)
  check.equal(text:find('cx="40.0" cy="680.0"', 1, true) ~= nil, true) -- 0, 0 is on the left below
  pg.plot(places, { kind = "scatter", file = png })
  local picture = pg.load(png)
  check.equal(picture.shape[1] .. "x" .. picture.shape[2] .. "x" .. picture.shape[3], "3x720x960")
  check.equal(picture[{ 1, 681, 41 }], 0)
  check.equal(picture[{ 1, 300, 300 }], 255)
  check.equal(tostring(pg.plot(places, { kind = "scatter", names = { "sea", "hill", "land" }, width = 11, height = 3 })), "     l    h\n\ns")
  check.raises(function() pg.plot(pg.zeros(3, 3), { kind = "scatter" }) end, "takes places %[points, 2%]")
  check.raises(function() pg.plot(places, { 1, 2 }, { kind = "scatter" }) end, "a group for each point; got")
  check.raises(function() pg.plot(places, { kind = "scatter", names = { "a" } }) end, "a name for each point; got 1 for 3 points")
  check.raises(function() pg.plot(places * (0 / 0), { kind = "scatter" }) end, "a place that is not finite")
  os.remove(svg)
  os.remove(png)
end

return tests
