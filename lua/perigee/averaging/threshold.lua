-- Strom (Interspeech 2015) as Deeplearning4j shares gradients: what each worker's optimiser makes of its own gradient, gathered until an
-- element reaches tau, is sent as +tau or -tau and added up at every worker. The topology "tree" is Deeplearning4j's mesh.
local preset = require("perigee.averaging").preset

return preset {
  doc = "Each step sends +tau or -tau of what has gathered as much, of each worker's own update (Strom 2015, Deeplearning4j).",
  what = "update",
  merge = "sum",
  codec = { type = "threshold", tau = 1e-3, adapt = "range", clip = 5 },
}
