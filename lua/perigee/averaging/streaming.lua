-- Streaming DiLoCo (Douillard et al. 2025, arXiv 2501.18512): DiLoCo's outer step, fragment by fragment, each `every` steps on a turn of its
-- own, so that a round sends 1/fragments of the parameters; workers train on meanwhile, and keep half of their own when the result is there.
local preset = require("perigee.averaging").preset

return preset {
  doc = "DiLoCo in fragments, one after the other, while training goes on (Streaming DiLoCo, Douillard et al. 2025).",
  every = 100,
  fragments = 4,
  overlap = true,
  keep = 0.5,
  momentum = { 0.9, "share of the velocity that is kept from one average to the next" },
  rate = { 0.4, "outer learning rate" },
  state = { velocity = 0 },
  outer = function(p)
    p.velocity = p.momentum * p.velocity + p.delta
    return p.mean + (1 - p.rate) * p.delta - p.rate * p.momentum * p.velocity
  end,
}
