-- Averages in small groups of workers that change with every exchange: D-PSGD with random partners (Lian et al. 2017, arXiv 1705.09056, and
-- NoLoCo's pairs), or along the axes of a grid (Moshpit SGD, Ryabinin et al. 2021, arXiv 2103.03239), which with group^d workers makes all
-- equal after d exchanges. Every `consensus` steps all workers average: that round is what is evaluated, saved and booked.
local preset = require("perigee.averaging").preset

return preset {
  doc = "Averages parameters in small groups that change with every exchange, and from time to time among all (D-PSGD, Moshpit SGD).",
  kind = "gossip",
  every = 5,
  group = 2,
  partners = "random",
  consensus = 100,
}
