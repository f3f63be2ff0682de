-- Hierarchical local SGD (Lin et al. 2020, arXiv 1808.07217): often among workers that are near each other, seldom across a slow link.
local preset = require("perigee.averaging").preset

return preset { doc = "Averages inside each group by one policy and between the groups by another.", kind = "nested", group = "host" }
