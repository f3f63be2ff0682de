-- Staleness-aware asynchronous SGD (Zhang, Gupta, Lian, Liu, IJCAI 2016, arXiv 1511.05950): what was trained tau results ago moves the
-- parameters by 1/tau of what it says. With merge_every = c it is their n-softsync, n = workers / c, by the mean staleness of the c.
local pg = require "perigee"
local preset = require("perigee.averaging").preset

return preset {
  doc = "Each worker pushes to a server by itself; what is stale counts less (staleness-aware SGD, Zhang et al. 2016).",
  synchrony = "server",
  max_staleness = 64,
  every = 1,
  rate = { 1, "share of a change that is not stale" },
  outer = function(p) return p.global - p.rate * p.delta / pg.maximum(p.staleness, 1) end,
}
