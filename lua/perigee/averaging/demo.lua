-- DeMo (Peng et al. 2024, arXiv 2411.19870): what gathers, decayed, is each worker's momentum; the largest cosine coefficients of each
-- chunk are taken out of it and sent, and the sign of what they make together is the gradient. Use SGD without momentum.
local preset = require("perigee.averaging").preset

return preset {
  doc = "Each step sends the largest cosine coefficients of each worker's momentum; their sign is the gradient (DeMo, Peng et al. 2024).",
  what = "gradient",
  codec = { type = "dct", count = 4, decay = 0.999 },
  outer = function(p) return p.gradient:sign() end,
}
