local pg = require "perigee"

local tests = {}

local function job(extra)
  local description = { network = pg.sequential { pg.dense { 3 } }, data = { train = pg.data.digits().train } }
  for key, value in pairs(extra or {}) do description[key] = value end
  return pg.experiment(description)
end

function tests.marks_the_job()
  check.equal(job().perigee, 1)
end

function tests.a_single_layer_is_a_network()
  check.equal(pg.experiment { network = pg.dense { 3 }, data = { train = pg.data.digits().train } }.network.type, "sequential")
end

function tests.unknown_keys_name_the_nearest()
  check.raises(function() job { epoch = 3 } end, "experiment_test.lua:20: unknown key 'epoch'; did you mean 'epochs'")
  check.raises(function() job { log = { image = 3 } } end, "log: unknown key 'image'; did you mean 'images'")
  check.raises(function() job { epochs = "five" } end, "experiment_test.lua:22: 'epochs' has the wrong type; got string \"five\"")
  check.raises(function() job { precision = "float23" } end, "did you mean 'float32'")
  check.raises(function() job { early_stopping = { patiense = 3 } } end, "early_stopping: unknown key 'patiense'; did you mean 'patience'")
  local function with(data)
    data.train = pg.data.digits().train
    return pg.experiment { network = pg.dense { 3 }, data = data }
  end
  check.equal(with({ batch = 8 }).data.batch, 8)
  check.raises(function() with { bach = 8 } end, "data: unknown key 'bach'; did you mean 'batch'")
  check.raises(function() with { batch = 0 } end, "data: 'batch' is out of range")
  check.raises(function() with { prefetch = 2 } end, "data: 'prefetch' has no effect; remove it")
  check.raises(function() pg.data.csv { "x.csv", targt = "y" } end, "data source csv has no option 'targt'; did you mean 'target'")
  check.raises(function() pg.transform.flip { axs = "vertical" } end, "transform flip has no option 'axs'; did you mean 'axis'")
  check.raises(function() pg.schedule.cosine { 1, warmpu = 0.1 } end, "did you mean 'warmup'")
  check.raises(function() pg.experiment { network = pg.dense { 3 } } end, "needs 'data'")
  check.raises(function() pg.experiment { network = 3, data = {} } end, "network is 3; expected pg.sequential")
end

function tests.phases_have_keys_of_a_job()
  local phased = pg.experiment {
    data = { train = pg.data.digits().train },
    phases = { { network = pg.dense { 3 }, loss = function(o, t) return (o - t) ^ 2 end }, { network = pg.sequential { pg.dense { 4 } } } },
  }
  check.equal(phased.phases[1].network.type, "sequential")
  check.equal(phased.phases[1].loss.type, "lambda")
  check.raises(function() job { phases = { { epoch = 3 } } } end, "phases.1.: unknown key 'epoch'; did you mean 'epochs'")
  check.raises(function() job { phases = { {}, { data = { bach = 3 } } } } end, "phases.2.: data: unknown key 'bach'; did you mean 'batch'")
  check.raises(function() job { phases = { 3 } } end, "phases.1.: is 3; expected a table")
  check.raises(function() job { phases = { { network = 3 } } } end, "phases.1.: network is 3")
  check.raises(function() job { objectives = { { updaets = "a" } } } end, "objectives.1.: unknown key 'updaets'; did you mean 'updates'")
end

function tests.parted_sources_have_train_and_test()
  local digits = pg.data.digits { seed = 4 }
  check.equal(digits.train, { type = "digits", part = "train", seed = 4 })
  check.equal(digits.test.part, "test")
  check.equal(pg.data.mnist().train.type, "mnist")
end

function tests.a_text_has_the_parts_that_are_given()
  local text = pg.data.text { "a.txt", context = 8, parts = { train = 0.8, test = 0.2 } }
  check.equal(text.test, { type = "text", file = "a.txt", context = 8, parts = { train = 0.8, test = 0.2 }, part = "test" })
  check.equal(text.train.part, "train")
  check.equal(text.validation, nil)
  check.equal(pg.data.text { { "a.txt", "b.txt" }, context = 8 }, { type = "text", file = { "a.txt", "b.txt" }, context = 8 })
end

function tests.unknown_sources_name_the_nearest()
  check.raises(function() return pg.data.minst() end, "there is no data source 'minst'; did you mean 'mnist'")
end

function tests.sources_wrap_sources()
  local all = pg.data.digits().train
  local train, test = all:split { 0.8, 0.2, seed = 5 }
  check.equal(train.part, 0)
  check.equal(test, { type = "split", source = all, parts = { 0.8, 0.2 }, part = 1, seed = 5 })
  check.equal(all:take(10).count, 10)
  check.equal((train .. test).sources, { train, test })
end

function tests.descriptions_are_plain_tables()
  check.equal(pg.adamw(1e-3), { type = "adamw", lr = 1e-3 })
  check.equal(pg.cosine { from = 2e-3 }, { type = "cosine", from = 2e-3 })
  check.equal(pg.averaging.periodic { every = 5 }, { type = "periodic", every = 5 })
  check.raises(function() return pg.averaging.periodical { 5 } end, "did you mean 'periodic'")
end

return tests
