// Pairs of texts: what an encoder and a decoder read and foretell, lengths, the training part's vocabularies, and what is refused.
#include <gtest/gtest.h>

#include "src/data/source.h"
#include "src/io/file.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

class TextPairs : public testing::Test {
 protected:
  SourcePtr open(const std::string& options) const {
    const Json json = Json::parse("{\"type\":\"text_pairs\"," + options + "}", "test");
    return open_source(Config(json, "test", ErrorKind::data), folder_.path());
  }
  // x, n, d, y, m of an example, one after the other.
  static std::vector<std::vector<int64_t>> read(const DataSource& source, int64_t index) {
    std::vector<std::vector<int64_t>> values;
    std::vector<std::byte*> slots;
    for (const Field& field : source.fields()) values.emplace_back(static_cast<size_t>(field.shape.elements()), -7);
    for (std::vector<int64_t>& value : values) slots.push_back(reinterpret_cast<std::byte*>(value.data()));
    source.read({.index = index}, slots);
    return values;
  }
  using Example = std::vector<std::vector<int64_t>>;

  TemporaryFolder folder_;
};

// Inputs: unknown 0, a 1, b 2. Outputs: unknown 0, x 1, y 2, z 3, beginning and end 4.
TEST_F(TextPairs, AreReadAndForetold) {
  const SourcePtr source = open(R"("inputs": ["a", "aab", "b"], "outputs": ["xx", "xyy", "z"])");
  ASSERT_EQ(source->size(), 3);
  EXPECT_EQ(read(*source, 0), (Example{{1, 0, 0}, {1}, {4, 1, 1, 4}, {1, 1, 4, 4}, {3}}));
  EXPECT_EQ(read(*source, 1), (Example{{1, 1, 2}, {3}, {4, 1, 2, 2}, {1, 2, 2, 4}, {4}}));
  EXPECT_EQ(read(*source, 2), (Example{{2, 0, 0}, {1}, {4, 3, 4, 4}, {3, 4, 4, 4}, {2}}));
  const std::vector<Field>& fields = source->fields();
  EXPECT_EQ(fields[3].class_names, (std::vector<std::string>{"<unknown>", "x", "y", "z", "<end>"}));
  EXPECT_EQ(fields[1].of, "x");
  EXPECT_EQ(fields[4].of, "y");
}

TEST_F(TextPairs, LongOnesAreCut) {
  const SourcePtr source = open(R"("inputs": ["aab", "b"], "outputs": ["xyy", ""], "length": 2, "output_length": 3)");
  EXPECT_EQ(read(*source, 0), (Example{{1, 1}, {2}, {3, 2, 1}, {2, 1, 1}, {3}})) << "the end is cut, too";
  EXPECT_EQ(read(*source, 1), (Example{{2, 0}, {1}, {3, 3, 3}, {3, 3, 3}, {1}})) << "an output may be nothing but its end";
}

TEST_F(TextPairs, OtherPartsAreReadAsTheTrainingPartWas) {
  write_file(folder_ / "train.tsv", as_bytes("asked\tanswered\nthe cat\tle chat\nthe dog here\tle chien\n"));
  write_file(folder_ / "test.jsonl", as_bytes("{\"input\": \"the bird here now\", \"output\": \"le chat\"}\n"));
  const SourcePtr train = open(R"("file": "train.tsv", "input": "asked", "output": "answered", "unit": "word")");
  EXPECT_EQ(train->fields()[0].shape, Shape{3});
  EXPECT_EQ(train->fields()[2].shape, Shape{3});
  Json json = Json::parse(R"({"type": "text_pairs", "file": "test.jsonl"})", "test");
  json = with_fitted(json, train->traits().fitted);
  const SourcePtr test = open_source(Config(json, "test", ErrorKind::data), folder_.path());
  const Example example = read(*test, 0), first = read(*train, 0);
  EXPECT_EQ(example[0][0], first[0][0]) << "the";
  EXPECT_EQ(example[0][1], 0) << "a bird is unknown";
  EXPECT_EQ(example[1][0], 3) << "as long as the training part's longest";
  EXPECT_EQ(example[3], first[3]);
}

TEST_F(TextPairs, SayWhatIsWrong) {
  const auto of = [&](const char* options) { return refusal(ErrorKind::data, [&] { open(options); }); };
  EXPECT_HAS(of(R"("inputs": [], "outputs": [])"), "there are no pairs of texts here");
  EXPECT_HAS(of(R"("inputs": ["a"], "outputs": ["\u00e9", "b"])"), "are not as many as 'inputs'");
  EXPECT_HAS(of(R"("inputs": ["a", ""], "outputs": ["x", "y"])"), "text_pairs: pair 2: there is nothing to read in this input");
}

}  // namespace
}  // namespace perigee
