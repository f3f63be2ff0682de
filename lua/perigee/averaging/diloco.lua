-- DiLoCo (Douillard et al. 2023, arXiv 2311.08105): the mean change of many local steps is a gradient for SGD with Nesterov momentum,
-- as torch.optim.SGD has it: velocity = momentum velocity + delta, global -= rate (delta + momentum velocity). Written from the mean,
-- which with momentum = 0 and rate = 1 is then the result to the last bit.
local preset = require("perigee.averaging").preset

return preset {
  doc = "Parameters every many local steps, an outer SGD with Nesterov momentum over their mean change (DiLoCo, Douillard et al. 2023).",
  every = 500,
  momentum = { 0.9, "share of the velocity that is kept from one average to the next" },
  rate = { 0.7, "outer learning rate" },
  state = { velocity = 0 },
  outer = function(p)
    p.velocity = p.momentum * p.velocity + p.delta
    return p.mean + (1 - p.rate) * p.delta - p.rate * p.momentum * p.velocity
  end,
}
