-- Deep Gradient Compression (Lin et al. 2018, arXiv 1712.01887): u = momentum u + g, v = v + u; the largest of v are sent, and both are
-- zero where they were. Momentum belongs here, before the selection: give the optimiser none. The share falls to 0.1 % over four epochs.
local preset = require("perigee.averaging").preset

return preset {
  doc = "Each step sends the largest 0.1 % of what has gathered of each worker's momentum (DGC, Lin et al. 2018).",
  what = "gradient",
  codec = {
    type = "topk",
    share = { type = "map", values = { ["0"] = 0.25, ["1"] = 0.0625, ["2"] = 0.015625, ["3"] = 0.004, ["4"] = 0.001 } },
    momentum = 0.9,
  },
}
