#include "src/vectors/vector_options.h"

#include "src/core/cores.h"
#include "src/vectors/element_table.h"

namespace perigee {
namespace {

constexpr const char* kPositional[] = {"files"};
constexpr Option kVectorOptionsOptions[] = {
    {.name = "files",
     .type = "list of names",
     .fallback = nullptr,
     .doc = "texts: files, also .gz and .xz, tar and ZIP archives of .txt files, and folders; a line is a sentence"},
    {.name = "model",
     .type = "string",
     .fallback = "skip_gram",
     .doc = "what is foretold: skip_gram the middle of a window by each of its words, cbow by their mean; with a vector for each file, "
            "dbow its words by that vector, dm the middle by the mean of the words and that vector; glove fits how often words stand near "
            "each other",
     .choices = {"skip_gram", "cbow", "dbow", "dm", "glove"}},
    {.name = "size", .type = "integer", .fallback = "100", .doc = "numbers of a vector", .range = {1, 4096}},
    {.name = "window", .type = "integer", .fallback = "5", .doc = "words on each side of the middle", .range = {1, 100}},
    {.name = "shrink",
     .type = "boolean",
     .fallback = "true",
     .doc = "each window is 1 to `window` words wide, drawn anew: near words count more"},
    {.name = "negative",
     .type = "integer",
     .fallback = "5",
     .doc = "noise words for each window, from which the right word is told apart; 0: none",
     .range = {0, 100}},
    {.name = "noise_exponent",
     .type = "number",
     .fallback = "0.75",
     .doc = "noise words are drawn by their counts to this power",
     .range = {-4, 4}},
    {.name = "hierarchical",
     .type = "boolean",
     .fallback = "false",
     .doc = "foretells a word by its way through a Huffman tree; also together with noise words"},
    {.name = "mean", .type = "boolean", .fallback = "true", .doc = "cbow and dm take the mean of the words; false: their sum"},
    {.name = "words_too", .type = "boolean", .fallback = "false", .doc = "dbow trains the vectors of words beside, as skip_gram does"},
    {.name = "epochs", .type = "integer", .fallback = "5", .doc = "times that the text is read for training", .range = {1, 100000}},
    {.name = "lr", .type = "number", .fallback = "0.025, 0.05 of glove", .doc = "learning rate at the beginning", .range = {1e-9, 100}},
    {.name = "min_lr",
     .type = "number",
     .fallback = "0.0001",
     .doc = "learning rate at the end; it falls evenly with the words read",
     .range = {0, 100}},
    {.name = "sample",
     .type = "number",
     .fallback = "0.001, 0 of graphs",
     .doc = "words with a larger share of the text than this are left out now and then; 0: never",
     .range = {0, 1}},
    {.name = "min_count", .type = "integer", .fallback = "5", .doc = "words that come less often are left out", .range = {1, 1e15}},
    {.name = "max_words",
     .type = "integer",
     .fallback = "0",
     .doc = "words at most, the most frequent ones; 0: all",
     .range = {0, 67108864}},
    {.name = "unit",
     .type = "string",
     .fallback = "word",
     .doc = "word: runs of letters and digits, without marks; blank: what stands between blanks, as it is",
     .choices = {"word", "blank"}},
    {.name = "lowercase", .type = "boolean", .fallback = "true", .doc = "makes all letters small; of unit = \"word\""},
    {.name = "least_subword",
     .type = "integer",
     .fallback = "0",
     .doc = "subwords of at least so many characters have vectors too (Bojanowski et al. 2017), so that words that were never seen have "
            "one; 0: none",
     .range = {0, 30}},
    {.name = "longest_subword", .type = "integer", .fallback = "6", .doc = "subwords of at most so many characters", .range = {1, 30}},
    {.name = "buckets", .type = "integer", .fallback = "2000000", .doc = "vectors that all subwords share", .range = {1, 67108864}},
    {.name = "glove_most",
     .type = "number",
     .fallback = "100",
     .doc = "pairs that come so often or more count in full; of glove",
     .range = {1e-3, 1e12}},
    {.name = "glove_power",
     .type = "number",
     .fallback = "0.75",
     .doc = "rarer ones by their share of that to this power; of glove",
     .range = {0, 4}},
    {.name = "graph",
     .type = "boolean",
     .fallback = "false",
     .doc = "the files are lists of edges, two nodes and perhaps a weight on a line; random walks over the graph are the sentences "
            "(DeepWalk, node2vec)"},
    {.name = "directed", .type = "boolean", .fallback = "false", .doc = "edges lead one way; of graph"},
    {.name = "walks", .type = "integer", .fallback = "10", .doc = "walks from each node in an epoch; of graph", .range = {1, 1e6}},
    {.name = "walk_length", .type = "integer", .fallback = "40", .doc = "nodes of a walk; of graph", .range = {2, 10000}},
    {.name = "back",
     .type = "number",
     .fallback = "1",
     .doc = "node2vec's p: above 1 a walk goes back less often; of graph",
     .range = {1e-3, 1e3}},
    {.name = "further",
     .type = "number",
     .fallback = "1",
     .doc = "node2vec's q: above 1 a walk stays near, below it goes further away; of graph",
     .range = {1e-3, 1e3}},
    {.name = "threads", .type = "integer", .fallback = "0", .doc = "how many train; 0: one for each core", .range = {0, 256}},
    {.name = "deterministic",
     .type = "boolean",
     .fallback = "false",
     .doc = "the same seed and number of threads give the same bits, and training takes longer; false: threads do not wait for each other "
            "(HogWild)"},
    {.name = "seed", .type = "integer", .fallback = "1", .doc = "of first values and draws", .range = {0, 9e15}},
};

VectorModel model_of(const std::string& name) {
  if (name == "cbow") return VectorModel::cbow;
  if (name == "dbow") return VectorModel::dbow;
  if (name == "glove") return VectorModel::glove;
  return name == "dm" ? VectorModel::dm : VectorModel::skip_gram;
}

void refuse_together(const Config& config, const VectorOptions& options) {
  if (options.negative == 0 && !options.hierarchical)
    config.fail("negative", "is 0 and hierarchical is false: nothing would be learned", "0", "negative = 5, or hierarchical = true");
  if (options.min_lr > options.lr)
    config.fail("min_lr", "is larger than lr", Json(options.min_lr).dump(), "at most " + Json(options.lr).dump());
  if (options.form.blanks && config.has("lowercase") && options.form.lowercase)
    config.fail("lowercase", "belongs to unit = \"word\"", "true", "no lowercase, or unit = \"word\"");
  if (options.words_too && options.model != VectorModel::dbow)
    config.fail("words_too", "belongs to model = \"dbow\"", "true", "model = \"dbow\", or no words_too");
  for (const char* key : {"directed", "walks", "walk_length", "back", "further"})
    if (!options.graph && config.has(key)) config.fail(key, "belongs to graphs", config.raw(key)->dump(), "graph = true");
  for (const char* key : {"min_count", "max_words", "unit", "lowercase"})
    if (options.graph && config.has(key))
      config.fail(key, "belongs to texts", config.raw(key)->dump(), std::string("no ") + key + ", or no graph");
  if (options.graph && options.has_labels())
    config.fail("model", "has vectors of documents, of which a graph has none", config.raw("model")->dump(), "\"skip_gram\" or \"cbow\"");
  const bool glove = options.model == VectorModel::glove;
  for (const char* key : {"glove_most", "glove_power"})
    if (!glove && config.has(key)) config.fail(key, "belongs to glove", config.raw(key)->dump(), "model = \"glove\"");
  for (const char* key : {"negative", "noise_exponent", "hierarchical", "mean", "shrink", "sample", "min_lr", "least_subword"})
    if (glove && config.has(key))
      config.fail(key, "has no part in glove", config.raw(key)->dump(), std::string("no ") + key + ", or another model");
  if (options.least_subword > options.longest_subword)
    config.fail("least_subword", "is larger than longest_subword", std::to_string(options.least_subword),
                "at most " + std::to_string(options.longest_subword));
  if (options.least_subword > 0 && options.has_labels())
    config.fail("least_subword", "belongs to vectors of words", std::to_string(options.least_subword), "model = \"skip_gram\" or \"cbow\"");
}

}  // namespace

extern const Schema word_vectors_schema;
const Schema word_vectors_schema{.options = kVectorOptionsOptions, .positional = kPositional};

VectorOptions vector_options(const Json& given, const std::string& where) {
  const Config config(given, word_vectors_schema, where, ErrorKind::usage);
  VectorOptions options;
  options.files = config.string_list("files");
  options.form = {.blanks = config.choice("unit") == "blank", .lowercase = config.boolean("lowercase")};
  options.model = model_of(config.choice("model"));
  options.size = config.integer("size");
  options.window = config.integer("window");
  options.negative = config.integer("negative");
  options.epochs = config.integer("epochs");
  options.threads = config.integer("threads");
  if (options.threads == 0) options.threads = available_cores();
  options.min_count = config.integer("min_count");
  options.max_words = config.integer("max_words");
  if (options.max_words == 0) options.max_words = ElementTable::kMost;
  options.hierarchical = config.boolean("hierarchical");
  options.deterministic = config.boolean("deterministic");
  options.shrink = config.boolean("shrink");
  options.mean = config.boolean("mean");
  options.words_too = config.boolean("words_too");
  options.least_subword = config.integer("least_subword");
  options.longest_subword = config.integer("longest_subword");
  options.buckets = config.integer("buckets");
  options.sample = config.has("sample") ? config.number("sample") : config.boolean("graph") ? 0 : 1e-3;
  options.lr = config.has("lr") ? config.number("lr") : options.model == VectorModel::glove ? 0.05 : 0.025;
  options.glove_most = config.number("glove_most");
  options.glove_power = config.number("glove_power");
  options.min_lr = config.number("min_lr");
  options.noise_exponent = config.number("noise_exponent");
  options.seed = static_cast<uint64_t>(config.integer("seed"));
  options.graph = config.boolean("graph");
  options.directed = config.boolean("directed");
  options.walks = {.walks = config.integer("walks"),
                   .length = config.integer("walk_length"),
                   .back = config.number("back"),
                   .out = config.number("further"),
                   .seed = options.seed};
  if (options.files.empty()) config.fail("files", "names no file", "", "the name of a text");
  refuse_together(config, options);
  return options;
}

}  // namespace perigee
