-- Who is speaking? Nine men say two Japanese vowels, one after the other; each utterance is 7 to 29 frames of twelve coefficients of the
-- voice's spectrum (Kudo, Toyama and Shimbo 1999, UCI). An LSTM hears each frame with what came before and what comes after.
local pg = require "perigee"

-- $PERIGEE_DATA/timeseries/japanese_vowels_uci/: a frame a line, and a line of ones behind each utterance. An utterance lies in a field of
-- 29 steps; `n` says how many of them are there. `counts` has each speaker's number of utterances, in the order of the file.
local channels, longest = 12, 29

local function utterances(name, counts)
  local path = pg.data_path("timeseries/japanese_vowels_uci/" .. name)
  local file = io.open(path)
  if not file then return pg.data.csv { path } end -- which says where the file is looked for
  local data, frames = { x = {}, y = {}, n = {} }, {}
  for line in file:lines() do
    local frame = {}
    for number in line:gmatch "%S+" do frame[#frame + 1] = tonumber(number) end
    if #frame == channels and math.min(unpack(frame)) == 1 and math.max(unpack(frame)) == 1 then
      local series = {}
      for channel = 1, channels do
        series[channel] = {}
        for step = 1, longest do series[channel][step] = frames[step] and frames[step][channel] or 0 end
      end
      data.x[#data.x + 1], data.n[#data.n + 1] = series, #frames
      frames = {}
    elseif #frame == channels then
      frames[#frames + 1] = frame
    end
  end
  file:close()
  for speaker, count in ipairs(counts) do
    for _ = 1, count do data.y[#data.y + 1] = speaker - 1 end
  end
  return pg.data.arrays(data)
end

return pg.experiment {
  name = "japanese-vowels",
  network = pg.sequential {
    pg.lstm { 100, layers = 2, bidirectional = "concat", stack_dropout = 0.3 }, -- [12 features, 29 steps] -> [200 features, 29 steps]
    pg.global_pool { "average" },                                               -- over the steps that are there
    pg.dropout { 0.5 },
    pg.dense { 9 },
  },
  loss = "cross_entropy",
  optimizer = pg.adamw { lr = pg.cosine { from = 5e-3 }, weight_decay = 1e-2 },
  data = {
    train = utterances("ae.train", { 30, 30, 30, 30, 30, 30, 30, 30, 30 }),
    test = utterances("ae.test", { 31, 35, 88, 44, 29, 24, 40, 50, 29 }),
    lengths = { x = "n" }, batch = 18,
  },
  metrics = { "classification" },
  epochs = 40, seed = 1,
}
