-- signSGD with majority vote (Bernstein et al. 2018, arXiv 1802.04434): each worker sends the signs of its gradient, the sign of their
-- sum is what the optimiser is given: use SGD without momentum, at about the learning rate of Adam. momentum = 0.9 makes it Signum: the
-- signs are of each worker's momentum. With feedback = true, scale = "mean", vote = false it is EF-signSGD (Karimireddy et al. 2019).
local pg = require "perigee"
local preset = require("perigee.averaging").preset

return preset {
  doc = "Each step sends one bit for each element, its sign; the majority decides (signSGD, Signum, Bernstein et al. 2018).",
  what = "gradient",
  codec = { type = "sign", scale = "one", feedback = false },
  vote = { true, "the sign of the sum is the gradient; false: the mean itself" },
  outer = function(p) return pg.where(p.vote, p.gradient:sign(), p.gradient) end,
}
