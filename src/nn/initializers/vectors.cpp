#include "src/core/error.h"
#include "src/nn/initializers/fill.h"
#include "src/vectors/files/vector_file.h"

namespace perigee {

namespace {

constexpr const char* kVectorsPositional[] = {"file"};
constexpr Option kVectorsOptions[] = {{"file", "file", nullptr, "vectors of words: of word2vec, GloVe, fastText or Deeplearning4j"},
                                      {"words", "list of names", "the file's",
                                       "the word of each row, in order; one that has no vector begins with draws as small as the others"}};

[[noreturn]] void fail(const Config& options, std::string what, std::string got, std::string expected) {
  throw Error(ErrorKind::model,
              {.where = options.where(), .what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
}

// Rows without a vector are drawn evenly, with the mean square of those that have one.
void fill_vectors(const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
  const WordVectors vectors = read_vectors(options.string("file"));
  const std::vector<std::string> words = options.string_list("words");
  if (spec.shape.rank() != 2 || spec.shape[1] != vectors.numbers())
    fail(options, "the vectors have another length than the rows of '" + spec.name + "'", std::to_string(vectors.numbers()) + " numbers",
         spec.shape.text());
  const int64_t rows = spec.shape[0], width = spec.shape[1], given = words.empty() ? vectors.size() : static_cast<int64_t>(words.size());
  if (given > rows || (!words.empty() && given < rows))
    fail(options, "there are other words than rows of '" + spec.name + "'", std::to_string(given), std::to_string(rows));
  double squares = 0;
  for (int64_t i = 0; i < vectors.size(); ++i)
    for (int64_t k = 0; k < width; ++k) squares += static_cast<double>(vectors.rows().row(i)[k]) * vectors.rows().row(i)[k];
  const auto reach = static_cast<float>(std::sqrt(3 * squares / static_cast<double>(vectors.size() * width)));
  fill_uniform(spec, seed, -reach, reach, values);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t number = words.empty() ? (row < given ? row : -1) : vectors.names().find(words[static_cast<size_t>(row)]);
    if (number >= 0) std::copy_n(vectors.rows().row(number), width, values.data() + row * width);
  }
}

}  // namespace

extern const InitializerDef init_vectors;
const InitializerDef init_vectors{.name = "vectors",
                                  .doc = "A row of the tensor, such as an embedding's, is the vector of a word from a file.",
                                  .schema = {.options = kVectorsOptions, .positional = kVectorsPositional},
                                  .fill = fill_vectors};

}  // namespace perigee
