local preset = require("perigee.averaging").preset

return preset { doc = "Averages gradients at each step.", what = "gradient" }
