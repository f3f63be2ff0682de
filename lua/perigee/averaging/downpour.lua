-- Downpour SGD (Dean et al., NeurIPS 2012) with Adagrad at the server: each parameter has a learning rate of its own, rate over the root
-- of the sum of its squared gradients. What a worker pushes is its change; over its own learning rate that is the gradient it has added
-- up, if it trains by plain SGD.
local pg = require "perigee"
local preset = require("perigee.averaging").preset

return preset {
  doc = "Each worker pushes its gradients to a server by itself, which takes Adagrad steps (Downpour SGD, Dean et al. 2012).",
  synchrony = "server",
  max_staleness = 64,
  every = 1,
  rate = { 0.01, "learning rate of the server" },
  epsilon = { 1e-8, "is added to the root: a gradient that was always zero moves nothing" },
  state = { squares = 0 },
  outer = function(p)
    local lr = p.learning_rate
    local gradient = pg.where(lr:gt(0), p.delta / lr, 0)
    p.squares = p.squares + gradient * gradient
    return p.global - p.rate * gradient / (pg.sqrt(p.squares) + p.epsilon)
  end,
}
