-- Asynchronous elastic averaging (Zhang, Choromanska, LeCun 2015, arXiv 1412.6651): d = rate (local - global); global += d, local -= d. The
-- worker keeps its parameters, which explore around the centre; the sum of all of them and the centre is conserved. 0.9 over the number
-- of workers is the paper's beta = 0.9.
local preset = require("perigee.averaging").preset

return preset {
  doc = "Workers explore by themselves, tied to the server's parameters by an elastic force (EASGD, Zhang et al. 2015).",
  synchrony = "server",
  max_staleness = 64,
  merge = "elastic",
  every = 10,
  rate = { function(p) return 0.9 / p.workers end, "share of the distance by which both move; 0.9/workers unless given" },
  outer = function(p) return p.global - p.rate * p.delta end,
}
