-- Forecasting from a file as it was downloaded: next month's airline passengers from the last twelve months. The logarithm makes the yearly
-- swing, which grows with the trend, a constant one, and the change from the same month a year before takes trend and season out. The last fifth
-- of the months, by time, is for the test.
--
-- The data: airline-passengers.csv, 144 months from 1949 on, of the Time Series Data Library. PERIGEE_DATA names the folder of shared data. On
-- the same 26 months the root of the mean squared error is 0.037 of the logarithm here (3.7 % of the passengers), 0.043 of a month that grows as
-- the one before, and 0.033 of a linear regression (NumPy's lstsq): 94 examples are few for a recurrent network.
local pg = require "perigee"

local length = 12

-- Part 0 of the months is for training, part 1 for the test: its first windows look back at the months before.
local function months(part)
  return pg.data.table {
    pg.data_path "timeseries/forecast_small/airline-passengers.csv",
    schema = { columns = { { name = "Month", type = "time", format = "%Y-%m" }, { name = "Passengers", type = "integer" } } },
    steps = {
      { derive = { x = "log(Passengers)" } },
      { difference = "x", lag = 12 }, -- growth since the same month of the last year
      { filter = "not is_missing(x)" },
      { derive = { x = "(x - 0.11) * 15" } },
      { by_time = "Month", parts = { 0.8, 0.2 }, part = part, before = length },
      { lags = "x", by = -1 }, -- the target is the next month's value
      { slide = length },
    },
    target = "x(t+1)",
    features = { "x" },
  }
end

return pg.experiment {
  name = "airline",
  network = pg.sequential {
    pg.gru { 16, returns = "last" }, -- [1 feature, 12 steps] -> 16 features
    pg.dense { 1 },
  },
  loss = "mse",
  optimizer = pg.adamw { lr = pg.cosine { from = 1e-2 }, weight_decay = 0.5 },
  data = { train = months(0), test = months(1), batch = 16 },
  metrics = { "regression" },
  epochs = 30, seed = 1,
}
