-- Who earns more than 50,000 dollars a year: the census data "Adult" of the UCI repository, from its files as they are downloaded. They have
-- no header, blanks behind the commas, gaps written as "?", and a full stop behind the labels of the test part alone; steps mend that. What
-- they measure (categories, means) is saved with the model, and `perigee predict` takes rows as they were downloaded.
local pg = require "perigee"

local steps = {
  { drop = { "c2", "c3" } },                                   -- a weight of the census; the words of c4's numbers
  { derive = { c14 = "replace(c14, '[.]$', '')" } },
  { impute = { "c1", "c6", "c13" }, value = "unknown" },
  { derive = { gain = "log(1 + c10)", loss = "log(1 + c11)" }, after = "c12" },
  { bucket = "c0", edges = { 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70 } },
  { normalize = { "c4", "c10", "c11", "c12", "gain", "loss" } },
}

local function adult(part)
  return pg.data.table { pg.data_path("tabular/adult-" .. part .. ".csv.gz"), steps = steps, target = "c14" }
end

return pg.experiment {
  name = "adult",
  network = pg.sequential {
    pg.dense { 64, activation = "relu" },
    pg.dropout { 0.3 },
    pg.dense { 2 },
  },
  loss = "cross_entropy",
  optimizer = pg.adamw { lr = pg.cosine { from = 3e-3 }, weight_decay = 1e-3 },
  data = { train = adult "train", test = adult "test", batch = 256 },
  metrics = { "classification", "roc" },
  epochs = 12, seed = 1,
}
