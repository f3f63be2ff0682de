-- PowerSGD (Vogels et al. 2019, arXiv 1905.13727): of each matrix a product of two narrow ones, found by one step of power iteration from
-- the last round's; what it lacks is added to the next gradient. Both factors are sums over the workers. Momentum is the optimiser's,
-- after it.
local preset = require("perigee.averaging").preset

return preset {
  doc = "Each step sends matrices as products of two narrow ones, added up like gradients (PowerSGD, Vogels et al. 2019).",
  what = "gradient",
  codec = { type = "lowrank", rank = 2, feedback = true },
}
