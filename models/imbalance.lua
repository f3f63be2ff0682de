-- Two classes of different size: one person in four of the 1994 census earned more than 50,000 dollars a year. A network that always says
-- "no" is right in 76 % of the cases. Weights in the loss make a mistake about the rare class cost more; `roc` judges the order of the
-- probabilities, which does not depend on how large the classes are.
local pg = require "perigee"

-- $PERIGEE_DATA/tabular/adult-train.csv.gz: numbers, words, and "?" where something is not known. It has no header; columns count from 0.
local people = pg.data.csv {
  pg.data_path "tabular/adult-train.csv.gz", target = -1, header = false, missing = "skip", missing_values = { "?" },
  drop = { 2 }, -- the census' own weight of the person
}
local train, test = people:split { 0.8, 0.2, seed = 1 }
local standardize = pg.transform.standardize {}

return pg.experiment {
  name = "imbalance",
  network = pg.sequential {
    pg.dense { 64, activation = "relu", dropout = 0.2 },
    pg.dense { 32, activation = "relu" },
    pg.dense { 2 },
  },
  loss = pg.loss.cross_entropy { weights = { 1, 3 } }, -- in the order of the classes: <=50K, >50K
  optimizer = pg.adamw { lr = pg.one_cycle { max = 5e-3 } },
  data = { train = train:map { standardize }, test = test:map { standardize }, batch = 256 },
  metrics = { "classification", "roc" },
  epochs = 5, seed = 1,
}
