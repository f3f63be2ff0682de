-- pg.word_vectors: vectors of words, of documents and of any elements of sequences, and what they say of one another.
local native = require "perigee.native"
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local core, done, Tensor = native.tensor, tensor.done, tensor.type
local handles = setmetatable({}, { __mode = "k" })

---@class perigee.WordVectors
local Vectors = {}
local methods = {}
Vectors.__fields = methods

local function wrap(handle)
  local made = setmetatable({}, Vectors)
  handles[made] = handle
  return made
end

-- The first value may be false; nil comes with a message.
local function checked(first, ...)
  if first == nil then where.fail((...)) end
  return first, ...
end

local function check_word(method, word)
  if type(word) ~= "string" then where.fail(("vectors:%s takes words; got %s"):format(method, where.describe(word))) end
end

local function words_of(method, words)
  if type(words) == "string" then return { words } end
  if type(words) ~= "table" then where.fail(("vectors:%s takes words; got %s"):format(method, where.describe(words))) end
  for _, word in ipairs(words) do check_word(method, word) end
  return words
end

-- vectors.king and vectors["king"] are methods or the word's vector; vectors:vector "size" reaches words that are called as methods.
function Vectors:__index(key)
  if methods[key] then return methods[key] end
  if key == "documents" then
    local handle = checked(core.vectors_documents(handles[self]))
    return handle and wrap(handle) or nil
  end
  if type(key) ~= "string" then where.fail("vectors are found by their names; got " .. where.describe(key)) end
  return methods.vector(self, key)
end

function Vectors:__tostring()
  local count, numbers = checked(core.vectors_about(handles[self]))
  return ("%d vectors of %d numbers"):format(count, numbers)
end

---How many vectors there are, and how many numbers each has.
---@return integer, integer
function methods:size()
  local count, numbers = checked(core.vectors_about(handles[self]))
  return count, numbers
end

---The names in the order of the rows of vectors:matrix(), the most frequent first, and how often each came (0: not known).
---@return string[], number[]
function methods:names() return checked(core.vectors_names(handles[self])) end

---The number of a name, its row in vectors:matrix(); nil: it has no vector of its own.
---@param name string
---@return integer?
function methods:number(name)
  check_word("number", name)
  return checked(core.vectors_number(handles[self], name)) or nil
end

---All vectors, [names, numbers].
---@return perigee.Tensor
function methods:matrix()
  local out = Tensor()
  done(core.vectors_matrix(handles[self], out))
  return out
end

---The vector of a word. Where subwords have vectors, of any word.
---@param word string
---@return perigee.Tensor
function methods:vector(word)
  check_word("vector", word)
  local out = Tensor()
  done(core.vectors_vector(handles[self], word, out))
  return out
end

---The mean of the words' vectors, each made 1 long first; those of `minus` count negatively.
---@param words string|string[]
---@param minus? string|string[]
---@return perigee.Tensor
function methods:mean(words, minus)
  local out = Tensor()
  done(core.vectors_mean(handles[self], words_of("mean", words), words_of("mean", minus or {}), out))
  return out
end

---The cosine of the angle between two words' vectors.
---@param a string
---@param b string
---@return number
function methods:similarity(a, b)
  check_word("similarity", a)
  check_word("similarity", b)
  return done(core.vectors_similarity(handles[self], a, b))
end

local Found = {}
function Found:__tostring()
  local lines = {}
  for place, one in ipairs(self) do lines[place] = ("%8.4f  %s"):format(one.similarity, one.name) end
  return table.concat(lines, "\n")
end

---The names most like a word, several words or a vector, best first. options: count (10), minus: words that count negatively.
---@param what string|string[]|perigee.Tensor
---@param options? integer|{ count?: integer, minus?: string|string[] }
---@return { name: string, similarity: number }[]
function methods:nearest(what, options)
  if type(options) == "number" then options = { count = options } end
  options = options or {}
  local count, query, left_out = options.count or 10, what, {}
  if type(count) ~= "number" or count % 1 ~= 0 or count < 1 or count > 1e9 then
    where.fail("vectors:nearest: count is a whole number above 0; got " .. where.describe(count))
  end
  if not tensor.is(what) then
    local plus, minus = words_of("nearest", what), words_of("nearest", options.minus or {})
    query = methods.mean(self, plus, minus)
    for _, list in ipairs { plus, minus } do
      for _, word in ipairs(list) do left_out[#left_out + 1] = word end
    end
  end
  local names, similarities = checked(core.vectors_nearest(handles[self], query, count, left_out))
  local found = setmetatable({}, Found)
  for place, name in ipairs(names) do found[place] = { name = name, similarity = similarities[place] } end
  return found
end

---The names that are to c as b is to a: vectors:analogy("man", "king", "woman").
---@param a string
---@param b string
---@param c string
---@param count? integer 10
---@return { name: string, similarity: number }[]
function methods:analogy(a, b, c, count)
  for _, word in ipairs { a, b, c } do check_word("analogy", word) end
  if type(c) ~= "string" then where.fail 'vectors:analogy takes three words: vectors:analogy("man", "king", "woman")' end
  return methods.nearest(self, { b, c }, { minus = a, count = count })
end

---Places of words on a plane by t-SNE, [words, 2], and the words: the most frequent ones, or those named. options: words (a list, or how many of the
---most frequent, 1000), and those of pg.tsne.
---@param options? table
---@return perigee.Tensor, string[]
function methods:tsne(options)
  local given, words = {}, 1000
  for key, value in pairs(options or {}) do
    if key == "words" then words = value else given[key] = value end
  end
  if type(words) == "number" then
    local names = methods.names(self)
    local chosen = {}
    for place = 1, math.min(words, #names) do chosen[place] = names[place] end
    words = chosen
  end
  local rows = {}
  for place, word in ipairs(words_of("tsne", words)) do rows[place] = methods.mean(self, word) end
  if #rows == 0 then where.fail "vectors:tsne takes at least one word" end
  return (require("perigee.text.layouts").tsne(require("perigee").stack(rows), given)), words
end

---How far the vectors agree with people. `file`: pairs of words with a number (WordSim-353, SimLex-999, MEN), which give the rank correlation
---"spearman", or analogies (questions-words.txt), which give "accuracy".
---@param file string
---@return table
function methods:evaluate(file)
  check_word("evaluate", file)
  return checked(core.vectors_scores(handles[self], file))
end

local formats = { binary = true, text = true, glove = true, keyed = true }

---Writes the vectors as word2vec's program does, .bin in binary, .txt and .vec as text, as gensim does, .kv, or as `format` says: "binary", "text",
---"glove" or "keyed".
---@param path string
---@param format? string
function methods:save(path, format)
  check_word("save", path)
  if format ~= nil and not formats[format] then
    where.fail('vectors:save: format is "binary", "text", "glove" or "keyed"; got ' .. where.describe(format))
  end
  done(core.vectors_save(handles[self], path, format or ""))
end

---The vector of a text that was not trained on, where documents have vectors (model = "dbow" or "dm"). `text`: a text, or a list of words.
---options: epochs (20), lr (0.025).
---@param text string|string[]
---@param options? { epochs?: integer, lr?: number }
---@return perigee.Tensor
function methods:infer(text, options)
  if type(text) ~= "table" then check_word("infer", text) end
  options = options or {}
  local epochs, lr = options.epochs or 20, options.lr or 0.025
  if type(epochs) ~= "number" or epochs % 1 ~= 0 or epochs < 1 or epochs > 1e5 then
    where.fail("vectors:infer: epochs is a whole number above 0; got " .. where.describe(epochs))
  end
  if type(lr) ~= "number" or not (lr > 0 and lr < 100) then
    where.fail("vectors:infer: lr is a number above 0; got " .. where.describe(lr))
  end
  local out = Tensor()
  done(core.vectors_infer(handles[self], text, epochs, lr, out))
  return out
end

local module = {}

local function texts_in(sequence, place)
  if type(sequence) ~= "table" then where.fail(("word_vectors: sequence %d is %s; expected a list"):format(place, where.describe(sequence))) end
  local texts = {}
  for number, element in ipairs(sequence) do
    if type(element) ~= "string" and type(element) ~= "number" then
      where.fail(("word_vectors: element %d of sequence %d is %s"):format(number, place, where.describe(element)))
    end
    texts[number] = tostring(element)
  end
  return texts
end

-- The whole numbers of field x of each example, as many as field n says where there is one.
local function examples_of(source)
  local found = {}
  for _, field in ipairs(source:fields()) do found[field.name] = true end
  if not found.x then where.fail "word_vectors: the source has no field x with the elements of each sequence" end
  local place = 0
  return function()
    place = place + 1
    if place > #source then return nil end
    local example = source[place]
    local x = example.x
    if x.rank ~= 1 or not x.dtype:match "^i" then
      where.fail("word_vectors: a source gives lists of whole numbers as x; got " .. tensor.type_text(x))
    end
    local list = x:totable()
    for last = #list, (found.n and example.n:item() or #list) + 1, -1 do list[last] = nil end
    return list
  end
end

-- Sequences instead of files: a list of lists of elements, which are texts or numbers; a function that gives one list after the other, then nil; or
-- a source of pg.data.
local function texts_of(sequences)
  local next_one, all, place = sequences, {}, 0
  if type(sequences) == "userdata" then
    next_one = examples_of(sequences)
  elseif type(sequences) == "table" then
    next_one = function() return sequences[place + 1] end
  elseif type(sequences) ~= "function" then
    where.fail("word_vectors: sequences are a list of lists, a function that gives lists, or a source; got " .. where.describe(sequences))
  end
  for sequence in next_one do
    place = place + 1
    all[place] = texts_in(sequence, place)
  end
  return all
end

local own = { "sequences", "labels", "progress", "out" }

local function check_keys(options)
  local known = core.vectors_options()
  for _, name in ipairs(own) do known[#known + 1] = name end
  local is_known = {}
  for _, name in ipairs(known) do is_known[name] = true end
  for key in pairs(options) do
    if type(key) ~= "number" and not is_known[key] then
      where.fail(("word_vectors has no option '%s'%s"):format(tostring(key), where.suggestion(key, known)))
    end
  end
end

---Trains vectors of words on texts: pg.word_vectors { "corpus.txt", size = 100 }. Files come first; `perigee vectors --help` lists the options.
---Beside them: sequences (instead of files: a list of lists of elements, a function that gives one list after the other, or a source of pg.data whose
---x are lists of whole numbers), labels (a name for each sequence, with model = "dbow" or "dm"), progress
---(a function of { done, all, speed, remaining, loss, rate }, called twice a second), out (a file that the vectors go to, also after Ctrl-C).
---@param options perigee.WordVectorOptions
---@return perigee.WordVectors
function module.word_vectors(options)
  if type(options) == "string" then options = { options } end
  if type(options) ~= "table" then where.fail('word_vectors takes files and options: pg.word_vectors { "corpus.txt", size = 100 }') end
  check_keys(options)
  local given, files = {}, {}
  for key, value in pairs(options) do
    if type(key) == "number" then files[key] = value else given[key] = value end
  end
  for _, name in ipairs(own) do given[name] = nil end
  if #files > 0 then given.files = files end
  if options.progress ~= nil and type(options.progress) ~= "function" then
    where.fail("word_vectors: progress is a function; got " .. where.describe(options.progress))
  end
  if options.out ~= nil then check_word("save", options.out) end
  local sequences = options.sequences and texts_of(options.sequences)
  if sequences and given.min_count == nil then given.min_count = 1 end
  local handle, complete = core.vectors_train(given, sequences, words_of("train", options.labels or {}), options.progress)
  if handle == nil then where.fail(complete) end
  local vectors = wrap(handle)
  if options.out then methods.save(vectors, options.out) end
  if not complete then where.fail "interrupted" end
  return vectors
end

---Vectors from a file: word2vec's binary and text, GloVe's text, fastText's .vec and .bin, gensim's .kv, Deeplearning4j's ZIP, also compressed; or
---from the folder of a run that trained a job of `perigee vectors job`.
---@param file string
---@return perigee.WordVectors
function module.load_vectors(file)
  if type(file) ~= "string" then where.fail("load_vectors takes the name of a file; got " .. where.describe(file)) end
  local handle, message = core.vectors_open(file)
  if handle == nil then where.fail(message) end
  return wrap(handle)
end

return module
