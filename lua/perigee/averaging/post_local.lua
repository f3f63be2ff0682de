-- Lin et al. 2020 (arXiv 1808.07217): local steps only once the first, most restless part of the run is over.
local preset = require("perigee.averaging").preset

return preset {
  doc = "Averages gradients at each step first, parameters every N local steps later (Lin et al. 2020).",
  every = 5,
  sync_until = 0.5,
}
