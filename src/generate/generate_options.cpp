#include "src/generate/generate_options.h"

namespace perigee {
namespace {

constexpr const char* kPositional[] = {"prompt"};
constexpr Option kOptions[] = {
    {"prompt", "string", "none", "the text to go on from; with an input, how the output begins"},
    {"input", "string", "none", "the text that a model with an encoder reads, to write what becomes of it"},
    {"tokens", "integer", "200", "how many characters or words are made at most", {1, 1e9}},
    {"temperature", "number", "1", "scores are divided by it: below 1 likely units become likelier; 0 takes the likeliest", {0, 1000}},
    {"top_k", "integer", "0", "draw from so many of the likeliest alone; 0: all", {0, 1048576}},
    {"top_p", "number", "1", "draw from the fewest whose probabilities add up to this", {0, 1}},
    {"min_p", "number", "0", "draw from those with at least this share of the largest probability", {0, 1}},
    {"typical_p", "number", "1", "as top_p, beginning with those of the most usual surprise", {0, 1}},
    {"epsilon", "number", "0", "draw from those with at least this probability", {0, 1}},
    {"eta", "number", "0", "the same, with a lower bound where the model is unsure", {0, 1}},
    {"repetition_penalty", "number", "1", "scores of what the text has already are divided by it; 1: off", {0.01, 100}},
    {"no_repeat", "integer", "0", "no sequence of so many units comes twice; 0: off", {0, 1000}},
    {"beams", "integer", "1", "search the likeliest text with so many at a time; above 1 nothing is drawn", {1, 256}},
    {"length_penalty", "number", "1", "beams are compared by log probability over length to this power", {-10, 10}},
    {"stop", "list of names", "none", "texts before which it ends"},
    {"seed", "integer", "0", "of the draws: the same seed makes the same text"}};

// Options of draws, which a search does without.
constexpr const char* kOfDraws[] = {"temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon", "eta", "seed"};

}  // namespace

extern const Schema generate_schema;
const Schema generate_schema{.options = kOptions, .positional = kPositional};

GenerateOptions generate_options(const Json& given, const std::string& where) {
  const Config config(given, generate_schema, where, ErrorKind::usage);
  GenerateOptions options;
  if (config.has("prompt")) options.prompt = config.string("prompt");
  if (config.has("input")) options.input = config.string("input");
  options.tokens = config.integer("tokens");
  options.beams = config.integer("beams");
  options.length_penalty = config.number("length_penalty");
  options.stop = config.string_list("stop");
  options.sampling = {.repetition_penalty = config.number("repetition_penalty"),
                      .no_repeat = config.integer("no_repeat"),
                      .temperature = config.number("temperature"),
                      .top_k = config.integer("top_k"),
                      .top_p = config.number("top_p"),
                      .min_p = config.number("min_p"),
                      .typical_p = config.number("typical_p"),
                      .epsilon = config.number("epsilon"),
                      .eta = config.number("eta"),
                      .seed = static_cast<uint64_t>(config.integer("seed"))};
  for (const std::string& stop : options.stop)
    if (stop.empty()) config.fail("stop", "has an empty text", "\"\"", "a text of at least one character");
  if (options.beams > 1)
    for (const char* key : kOfDraws)
      if (config.has(key))
        config.fail(key, "belongs to draws, and beams search without them", config.raw(key)->dump(),
                    "beams = 1, or no " + std::string(key));
  return options;
}

}  // namespace perigee
