-- Asynchronous local SGD with delayed Nesterov momentum (Liu et al. 2024, arXiv 2401.09135, algorithm 4): changes go into a buffer and move
-- the parameters a little; only each `delay`-th arrival, by default one per worker, moves the velocity by the mean of the buffer.
local pg = require "perigee"
local preset = require("perigee.averaging").preset

return preset {
  doc = "Each worker pushes to a server by itself, whose momentum moves once for all of them (delayed Nesterov, Liu et al. 2024).",
  synchrony = "server",
  max_staleness = 64,
  every = 50,
  momentum = { 0.9, "share of the velocity that is kept" },
  rate = { 0.7, "outer learning rate" },
  delay = { function(p) return p.workers end, "arrivals between two moves of the velocity; the number of workers unless given" },
  spread = { 0, "share of the velocity's step that is taken at each arrival, from 0 to 1/delay" },
  state = { velocity = 0, buffer = 0 },
  outer = function(p)
    local turn = (p.round + 1) / p.delay
    local due, n = pg.floor(turn):eq(turn), p.delay
    local gathered = p.buffer + p.delta
    p.velocity = pg.where(due, p.momentum * p.velocity + gathered / n, p.velocity)
    p.buffer = pg.where(due, 0, gathered)
    local share = pg.where(due, 1 - p.spread * n + p.spread, p.spread)
    return p.global - p.rate * (share * p.momentum * p.velocity + p.delta / n)
  end,
}
