-- SparkNet (Moritz et al. 2016, arXiv 1511.06051), Deeplearning4j's parameter averaging, local SGD: the mean is the result.
local preset = require("perigee.averaging").preset

return preset { doc = "Averages parameters every N local steps or T milliseconds (SparkNet, Deeplearning4j).", every = 5 }
