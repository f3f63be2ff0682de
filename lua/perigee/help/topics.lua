-- Help about all that is of one kind: what ?losses, ?schedules and ?pg.data show. reference.lua has the same chapters.
local native = require "perigee.native"
local show = require "perigee.show"

local topics = {}

-- Families: title, and how a member of it is written.
topics.chapters = {
  { "layer", "Layers", "`pg.NAME { ... }`, in `pg.sequential { ... }` or applied to nodes of a `pg.graph`. Options without a default are required." },
  { "activation", "Activations", 'A name, `activation = "relu"`, or a table, `activation = { type = "elu", alpha = 0.5 }`.' },
  { "loss", "Losses", '`loss = "mse"`, or with options `loss = pg.loss.NAME { ... }`.' },
  { "optimizer", "Optimisers", "`optimizer = pg.NAME { ... }`. A number may also be a schedule." },
  { "schedule", "Schedules", "`lr = pg.NAME { ... }`: a number that changes while a run trains." },
  { "initializer", "Initialisers", '`weight_init = "xavier"`, or with options `weight_init = pg.init.NAME { ... }`.' },
  { "regularization", "Regularization", "`regularization = { l2 = 5e-4 }`, of the job or of one layer." },
  { "clip", "Clipping", '`clip = { type = "NAME", ... }`.' },
  { "constraint", "Constraints", '`constraint = { type = "NAME", ... }`, of the job or of one layer.' },
  { "weight_noise", "Weight noise", '`weight_noise = { type = "NAME", ... }` of a layer.' },
  { "metric", "Evaluations", '`metrics = { "NAME" }`, or with options `metrics = { pg.metric.NAME { ... } }`.' },
  { "source", "Data sources", "`pg.data.NAME { ... }`. Sources of sources are also methods: `source:split { 0.8, 0.2 }`." },
  { "transform", "Transforms", "`source:map { pg.transform.NAME { ... } }`." },
  { "word_vectors", "Word vectors", "`pg.word_vectors { ... }`; with dashes, options of `perigee vectors train`: `--least-subword 3`." },
  { "neighbours", "Near rows", "`pg.neighbours(x, { ... })`." },
  { "policy", "Averaging policies", "`averaging = pg.averaging.NAME { ... }`: how several workers are kept together." },
  { "codec", "Codecs", '`codec = "NAME"`, or with options `codec = { type = "NAME", ... }`: how values are sent.' },
}

-- As one begins with each data source; the others are methods of sources, or say all by their options.
topics.source_examples = {
  arrays = 'pg.data.arrays { x = { { 0, 1 }, { 1, 1 } }, y = { 0, 1 } }',
  audio = 'pg.data.audio { "words", rate = 16000 }',
  cifar10 = 'pg.data.cifar10().train',
  csv = 'pg.data.csv { "houses.csv", target = "price", task = "regress", missing = "mean" }',
  digits = 'pg.data.digits().train',
  documents = 'pg.data.documents { "letters", unit = "word" }',
  idx = 'pg.data.idx { x = "images.idx.gz", y = "labels.idx.gz" }',
  images = 'pg.data.images { "photos", size = { 32, 32 } }',
  mnist = 'pg.data.mnist().train',
  npy = 'pg.data.npy { x = "x.npy", y = "y.npy" }',
  npz = 'pg.data.npz { "data.npz" }',
  table = 'pg.data.table { "houses.parquet", target = "price" }',
  text = 'pg.data.text { "shakespeare.txt", context = 64, parts = { train = 0.9, test = 0.1 } }.train',
}

-- Words for families beside their own names and titles.
local other_words = {
  optimizer = "optimizers optimization", initializer = "initializers init", metric = "metrics figures", source = "sources data pg.data datasets",
  policy = "policies averaging", transform = "augmentation augmentations", op = "ops operations",
}

---The family that a word means: "losses", "loss", "optimisers".
---@param name string
---@return string?
function topics.family(name)
  name = name:lower():gsub("_", " ")
  for family, words in pairs(other_words) do
    if (" " .. words .. " "):find(" " .. name .. " ", 1, true) then return family end
  end
  for _, chapter in ipairs(topics.chapters) do
    if name == chapter[1] or name == chapter[2]:lower() or name == chapter[1] .. "s" then return chapter[1] end
  end
end

---A family with a line for each of its members.
---@param family string
---@param help table the module of help, which knows them
---@param width integer
---@return string
function topics.text(family, help, width)
  local parts, members, widest, last = {}, help.members(family), 0, nil
  for _, chapter in ipairs(topics.chapters) do
    if chapter[1] == family then parts[1] = show.wrap(("%s: %s"):format(chapter[2], chapter[3]), width, 0) end
  end
  for _, entry in ipairs(members) do widest = math.max(widest, #entry.name) end
  for _, entry in ipairs(members) do
    local sentence = help.sentence(entry):gsub("et al%.", "et al\1")
    sentence = (sentence:match "^.-[^%.]%.%f[%s%z]" or sentence):gsub("\1", ".")
    parts[#parts + 1] = show.wrap(("  %-" .. widest .. "s  %s"):format(entry.name, sentence), width, widest + 4):gsub("%s+$", "")
    last = entry.path or last
  end
  if last then parts[#parts + 1] = ("?%s lists the options of one, and so does `perigee help %s`."):format(last, last) end
  if family == "source" then
    parts[#parts + 1] = "example: " .. topics.source_examples.csv
    parts[#parts + 1] = show.wrap("A source is a value: data = { train = pg.data.csv { ... }, batch = 32 }. It has methods: "
      .. "source:split { 0.8, 0.2, seed = 1 }, source:map { ... }, source:take(100), source:head(5), source:fields(), #source, source[1].", width, 0)
  end
  return table.concat(parts, "\n") .. "\n"
end

---How a thing that has another name elsewhere, or that is no name of ours, is said here; nil: nothing is known of it.
---@param name string
---@param width integer
---@return string?
function topics.advice(name, width)
  local advice = native.nearest(name, {})
  return advice ~= "" and show.wrap(("%s: %s."):format(name, advice), width, 0) .. "\n" or nil
end

return topics
