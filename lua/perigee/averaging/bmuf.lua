-- BMUF (Chen and Huo, ICASSP 2016), with G = mean - global: velocity = momentum velocity + rate G. Classic block momentum moves the
-- parameters by the velocity. The Nesterov form starts the next block momentum velocity further on: what it moves by is rate G + momentum
-- velocity, as the last look-ahead is in `global` already. Written from the mean, see diloco.
local pg = require "perigee"
local preset = require("perigee.averaging").preset

return preset {
  doc = "Averages parameters and keeps momentum from block to block (BMUF, Chen and Huo 2016).",
  every = 50,
  momentum = { function(p) return 1 - 1 / p.workers end, "share of the velocity that is kept; 1 - 1/workers unless given" },
  rate = { 1, "block learning rate" },
  nesterov = { true, "the next block starts where the velocity leads; false: the classic form" },
  state = { velocity = 0 },
  outer = function(p)
    local before = p.velocity
    p.velocity = p.momentum * before - p.rate * p.delta
    return p.mean + (1 - p.rate) * p.delta + p.momentum * pg.where(p.nesterov, p.velocity, before)
  end,
}
