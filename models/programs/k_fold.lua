-- K-fold cross-validation: five networks, each tested on the fifth of the irises that it has not seen. With 150 flowers one test part of 30
-- says little; the mean over the folds says more, and their spread says how much.
--
--     perigee -e 'dofile "models/programs/k_fold.lua"'
local pg = require "perigee"

local flowers = pg.data.csv { pg.data_path "tabular/iris.csv", target = -1 }
local folds, accuracies = 5, {}

for fold = 1, folds do
  local train, test = flowers:k_fold(folds, fold, 7) -- 7: the seed of the shuffle, the same for all folds
  local standardize = pg.transform.standardize {}     -- measured anew on each training part
  local run = pg.start(pg.experiment {
    network = pg.sequential { pg.dense { 16, activation = "tanh" }, pg.dense { 3 } },
    loss = "cross_entropy",
    optimizer = pg.adam { lr = 0.01 },
    data = { train = train:map { standardize }, test = test:map { standardize }, batch = 16 },
    epochs = 40, seed = fold,
  }, { folder = false })
  run:wait()
  accuracies[fold] = run:eval("test").accuracy
  print(("fold %d: %.1f %%"):format(fold, 100 * accuracies[fold]))
end

local all = pg.tensor(accuracies)
print(("accuracy %.1f %% +- %.1f %%"):format(100 * all:mean():item(), 100 * all:std(1, false, 1):item()))
