-- FASGD (Odena 2016, arXiv 1601.04033): running means of each gradient and of its square give its standard deviation, whose own running
-- mean divides the step, together with the staleness. The gradient is a worker's change over its learning rate (plain SGD).
local pg = require "perigee"
local preset = require("perigee.averaging").preset

return preset {
  doc = "Each worker pushes to a server by itself, whose steps shrink with staleness and with the gradients' spread (FASGD, Odena 2016).",
  synchrony = "server",
  max_staleness = 64,
  every = 1,
  rate = { 0.005, "learning rate of the server" },
  gamma = { 0.9, "share that is kept of the means of gradients and squares" },
  beta = { 0.9, "share that is kept of the mean of the standard deviation" },
  epsilon = { 1e-4, "is added to the variance" },
  state = { squares = 0, means = 0, spread = 1 },
  outer = function(p)
    local lr = p.learning_rate
    local gradient = pg.where(lr:gt(0), p.delta / lr, 0)
    p.squares = p.gamma * p.squares + (1 - p.gamma) * gradient * gradient
    p.means = p.gamma * p.means + (1 - p.gamma) * gradient
    p.spread = p.beta * p.spread + (1 - p.beta) * pg.sqrt(pg.maximum(p.squares - p.means * p.means, 0) + p.epsilon)
    return p.global - p.rate / pg.maximum(p.staleness, 1) * gradient / p.spread
  end,
}
