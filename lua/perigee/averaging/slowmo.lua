-- SlowMo (Wang et al. 2020, arXiv 1910.00643): velocity = momentum velocity + delta / lr, global -= rate lr velocity. lr is the inner
-- learning rate: the velocity keeps its meaning while a schedule lowers it. Where it is 0 nothing was learnt. From the mean, see diloco.
local pg = require "perigee"
local preset = require("perigee.averaging").preset

return preset {
  doc = "Averages parameters and keeps a slow momentum in units of the inner learning rate (SlowMo, Wang et al. 2020).",
  every = 48,
  momentum = { 0.5, "share of the velocity that is kept: 0.2 for 4 workers, 0.5 for 8, 0.6 for 16" },
  rate = { 1, "slow learning rate" },
  state = { velocity = 0 },
  outer = function(p)
    local lr, kept = p.learning_rate, p.momentum * p.velocity
    p.velocity = kept + pg.where(lr:gt(0), p.delta / lr, 0)
    return p.mean + (1 - p.rate) * p.delta - p.rate * lr * kept
  end,
}
