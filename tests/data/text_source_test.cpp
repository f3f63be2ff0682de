// Windows of texts: what is in them, what stays out of them, and whose vocabulary they are read by.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "src/data/source.h"
#include "src/io/codec/compress.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

class TextSource : public testing::Test {
 protected:
  SourcePtr open_json(const Json& json) const { return open_source(Config(json, "test", ErrorKind::data), folder_.path()); }
  SourcePtr open(const std::string& options) const { return open_json(Json::parse("{\"type\":\"text\"," + options + "}", "test")); }

  std::string refusal(const std::string& options, ErrorKind kind = ErrorKind::data) const {
    try {
      open(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    return "accepted";
  }

  void write(const std::string& name, std::string_view text) const { write_file(folder_ / name, as_bytes(text)); }

  TemporaryFolder folder_;
  CacheFolder cache_{folder_ / "cache"};
};

#define EXPECT_REFUSED(options, part) EXPECT_NE(refusal(options).find(part), std::string::npos) << refusal(options)

struct Window {
  std::vector<int64_t> x, y;
};

Window read_window(const DataSource& source, int64_t index) {
  Window window;
  std::vector<std::byte*> slots;
  for (const Field& field : source.fields()) {
    auto& values = field.name == "x" ? window.x : window.y;
    values.assign(static_cast<size_t>(field.shape.elements()), -1);
    slots.push_back(reinterpret_cast<std::byte*>(values.data()));
  }
  source.read({.index = index}, slots);
  return window;
}

// By the names of a source that has them.
std::string joined_text(const std::vector<int64_t>& numbers, const DataSource& named) {
  std::string all;
  for (const int64_t number : numbers) all += named.fields()[1].class_names[static_cast<size_t>(number)];
  return all;
}

using Numbers = std::vector<int64_t>;

TEST_F(TextSource, TakesAWindowAtEveryStride) {
  write("t.txt", "hello wörld");
  const SourcePtr source = open(R"("file":"t.txt","context":4)");
  ASSERT_EQ(source->size(), 7);
  EXPECT_TRUE(source->traits().cheap);
  EXPECT_EQ(source->fields()[0].dtype, Dtype::i64);
  EXPECT_EQ(source->fields()[0].shape, (Shape{4}));
  EXPECT_EQ(source->fields()[1].classes, 10);
  EXPECT_EQ(joined_text(read_window(*source, 0).x, *source) + "|" + joined_text(read_window(*source, 0).y, *source), "hell|o");
  EXPECT_EQ(joined_text(read_window(*source, 6).x, *source) + "|" + joined_text(read_window(*source, 6).y, *source), "wörl|d");
  const SourcePtr sparse = open(R"("file":"t.txt","context":4,"stride":3)");
  ASSERT_EQ(sparse->size(), 3);
  EXPECT_EQ(read_window(*sparse, 2).x, read_window(*source, 6).x);
}

TEST_F(TextSource, TargetsEveryPositionOrNone) {
  write("t.txt", "abcdef");
  const SourcePtr next = open(R"("file":"t.txt","context":3)");
  const SourcePtr every = open(R"("file":"t.txt","context":3,"targets":"every")");
  ASSERT_EQ(every->size(), 3);
  EXPECT_EQ(every->fields()[1].shape, (Shape{3}));
  EXPECT_EQ(every->fields()[1].classes, 0) << "not one label";
  EXPECT_EQ(joined_text(read_window(*every, 1).x, *next) + "|" + joined_text(read_window(*every, 1).y, *next), "bcd|cde");
  const SourcePtr none = open(R"("file":"t.txt","context":3,"targets":"none")");
  ASSERT_EQ(none->size(), 4) << "what follows the last is not known, and not needed";
  EXPECT_EQ(none->fields().size(), 1u);
  EXPECT_EQ(joined_text(read_window(*none, 3).x, *next), "def");
}

// Every number of the vocabulary in 8, 16 and 32 bits.
TEST_F(TextSource, KeepsNumbersOfAnyWidth) {
  for (const int count : {200, 60000, 70000}) {
    std::string words;
    for (int i = 0; i < count; ++i) words += "w" + std::to_string(i) + " ";
    write("t.txt", words);
    const SourcePtr source = open(R"("file":"t.txt","unit":"word","context":1,"max_vocabulary":100000)");
    ASSERT_EQ(source->fields()[1].classes, count + 1);
    for (const int i : {0, 1, 199, count / 2, count - 2}) {
      if (i >= count - 1) continue;
      EXPECT_EQ(joined_text(read_window(*source, i).x, *source), "w" + std::to_string(i));
      EXPECT_EQ(joined_text(read_window(*source, i).y, *source), "w" + std::to_string(i + 1));
    }
  }
}

// No word is in two parts, and none is in no part: each part's windows of one word are its words.
TEST_F(TextSource, PartsShareNothing) {
  std::string all;
  for (int i = 0; i < 997; ++i) all += "w" + std::to_string(i) + (i % 5 ? " " : " é\n");
  write("t.txt", all);
  const std::string common = R"("file":"t.txt","unit":"word","context":1,"targets":"none")";
  const SourcePtr named = open(R"("file":"t.txt","unit":"word","context":1)");
  std::multiset<std::string> seen;
  for (const char* part : {"train", "validation", "test"}) {
    const SourcePtr source = open(common + R"(,"parts":{"train":0.613,"validation":0.171,"test":0.216},"part":")" + part +
                                  R"(","fitted":)" + named->traits().fitted.dump());
    for (int64_t i = 0; i < source->size(); ++i) seen.insert(joined_text(read_window(*source, i).x, *named));
  }
  EXPECT_EQ(seen.erase("é"), 200u);
  EXPECT_EQ(seen.size(), 997u);
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 997u);
}

// Borders fall between characters of any length, wherever the shares put them.
TEST_F(TextSource, PartsCutBetweenCharacters) {
  std::string all;
  for (int i = 0; i < 20; ++i) all += i % 3 == 0 ? "é" : i % 3 == 1 ? "😀" : "a";
  write("t.txt", all);
  for (int percent = 1; percent < 100; ++percent) {
    const std::string parts =
        R"("parts":{"train":)" + std::to_string(percent / 100.0) + R"(,"test":)" + std::to_string(1 - percent / 100.0) + "}";
    int64_t characters = 0;
    for (const char* part : {"train", "test"}) {
      try {
        characters += open(R"("file":"t.txt","context":1,"targets":"none",)" + parts + R"(,"part":")" + part + "\"")->size();
      } catch (const Error& error) {  // nothing is left for it
        EXPECT_TRUE(percent < 4 || percent > 92) << error.what();
        characters = 20;
        break;
      }
    }
    EXPECT_EQ(characters, 20) << percent;
  }
}

TEST_F(TextSource, IsReadByTheTrainingPartsVocabulary) {
  write("t.txt", "aaaaabbbbbccccczzzzz");
  const std::string common = R"("file":"t.txt","context":2,"parts":{"train":0.75,"test":0.25})";
  const SourcePtr train = open(common), test = open(common + R"(,"part":"test")");
  EXPECT_EQ(train->fields()[1].class_names, (std::vector<std::string>{"<unknown>", "a", "b", "c"}));
  EXPECT_EQ(test->fields()[1].class_names, train->fields()[1].class_names) << "also where it is not handed over";
  EXPECT_EQ(read_window(*test, 0).x, (Numbers{0, 0}));
  EXPECT_EQ(test->traits().fitted, train->traits().fitted);

  write("other.txt", "abcxa");
  const Json fitted = Json::parse(train->traits().fitted.dump(), "t");
  const SourcePtr other = open_json(with_fitted(Json::parse(R"({"type":"text","file":"other.txt"})", "t"), fitted));
  ASSERT_EQ(other->size(), 3) << "the context is the model's";
  EXPECT_EQ(read_window(*other, 2).x, (Numbers{3, 0}));
  EXPECT_EQ(read_window(*other, 2).y, (Numbers{1}));
  const Json nested = Json::parse(R"({"type":"take","count":2,"source":{"type":"text","file":"other.txt"}})", "t");
  EXPECT_EQ(read_window(*open_json(with_fitted(nested, fitted)), 1).x, (Numbers{2, 3}));

  EXPECT_REFUSED(R"("file":"other.txt","unit":"word","fitted":)" + fitted.dump(), "not what the vocabulary was fitted with");
  EXPECT_REFUSED(R"("file":"other.txt","lowercase":true,"fitted":)" + fitted.dump(), "not what the vocabulary was fitted with");
  Json damaged = fitted;
  damaged.find("vocabulary")->push("a");
  EXPECT_REFUSED(R"("file":"other.txt","fitted":)" + damaged.dump(), "twice");
  EXPECT_REFUSED(R"("file":"other.txt","fitted":3)", "object");
}

TEST_F(TextSource, UnknownUnitsAreRefusedWhereNothingStandsForThem) {
  write("t.txt", "abababé!");
  const std::string common = R"("file":"t.txt","context":2,"unknown":false,"parts":{"train":0.6,"test":0.4})";
  EXPECT_EQ(open(common)->fields()[1].classes, 2);
  EXPECT_REFUSED(common + R"(,"part":"test")", "t.txt: byte 6");
}

TEST_F(TextSource, SeveralFilesAreOneTextWhoseWindowsStayInside) {
  write("a.txt",
        "\xef\xbb\xbf"
        "abcd");
  write("b.txt", "x");
  write("c.txt", "efgh");
  write_file(folder_ / "c.txt.gz", gzip(as_bytes("efgh")));
  const SourcePtr source = open(R"("file":["a.txt","b.txt","c.txt.gz"],"context":2)");
  ASSERT_EQ(source->size(), 4);
  EXPECT_EQ(joined_text(read_window(*source, 1).x, *source) + joined_text(read_window(*source, 1).y, *source), "bcd");
  EXPECT_EQ(joined_text(read_window(*source, 2).x, *source) + joined_text(read_window(*source, 2).y, *source), "efg");
  EXPECT_NE(source->traits().description.find("2 more"), std::string::npos) << source->traits().description;
  const SourcePtr last = open(R"("file":["a.txt","c.txt"],"context":2,"parts":{"train":0.6,"test":0.4},"part":"test")");
  EXPECT_EQ(last->size(), 2) << "all of the second file";
}

TEST_F(TextSource, SaysWhatIsWrong) {
  write("t.txt", "some text");
  write("latin1.txt", "caf\xe9 au lait");
  write("empty.txt", "");
  EXPECT_REFUSED(R"("context":3)", "'file' is missing");
  EXPECT_REFUSED(R"("file":"t.txt")", "'context' is missing");
  EXPECT_REFUSED(R"("file":"t.txt","context":0)", "out of range");
  EXPECT_REFUSED(R"("file":"t.txt","context":9)", "shorter than one window");
  EXPECT_REFUSED(R"("file":"empty.txt","context":1)", "empty.txt");
  EXPECT_REFUSED(R"("file":"absent.txt","context":1)", "absent.txt");
  EXPECT_REFUSED(R"("file":"latin1.txt","context":1)", "latin1.txt: byte 3");
  EXPECT_REFUSED(R"("file":"t.txt","context":1,"min_count":5)", "min_count");
  EXPECT_REFUSED(R"("file":"t.txt","context":1,"part":"test")", "needs 'parts'");
  EXPECT_REFUSED(R"("file":"t.txt","context":1,"parts":{"train":0.9},"part":"test")", "not among the parts");
  EXPECT_REFUSED(R"("file":"t.txt","context":1,"parts":{"train":0.9,"test":0.2})", "more than the whole");
  EXPECT_REFUSED(R"("file":"t.txt","context":1,"parts":{"test":0.2},"part":"test")", "not among the parts");
  EXPECT_REFUSED(R"("file":"t.txt","context":1,"parts":{"train":0.5,"tset":0.2})", "did you mean 'test'");
  EXPECT_REFUSED(R"("file":"t.txt","context":1,"unit":"wrod")", "did you mean 'word'");
}

TEST_F(TextSource, ReadsShakespeare) {
  const char* data = std::getenv("PERIGEE_DATA");
  if (data == nullptr) GTEST_SKIP() << "PERIGEE_DATA is not set: no real data";
  const std::string file = R"("file":")" + std::string(data) + R"(/text/tinyshakespeare/input.txt",)";
  const SourcePtr characters = open(file + R"("context":12,"parts":{"train":0.9,"test":0.1})");
  EXPECT_EQ(characters->size(), 1003855 - 12);
  EXPECT_EQ(characters->fields()[1].classes, 66);
  EXPECT_EQ(joined_text(read_window(*characters, 0).x, *characters) + joined_text(read_window(*characters, 0).y, *characters),
            "First Citizen");
  const SourcePtr words = open(file + R"("context":5,"unit":"word","lowercase":true,"max_vocabulary":2000)");
  EXPECT_EQ(words->fields()[1].classes, 2000);
  EXPECT_EQ(words->fields()[1].class_names[read_window(*words, 0).x[0]], "first");
}

constexpr const char* kTokens = R"({"model":{"type":"WordPiece","vocab":{"[UNK]":0,"one":1,"two":2,"##s":3,",":4},"unk_token":"[UNK]"},
  "normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece"}})";

TEST_F(TextSource, TokensAreThoseOfTheTokenizersFile) {
  write("t.txt", "One, twos ONE two zwei");
  write("tokenizer.json", kTokens);
  const SourcePtr source = open(R"("file":"t.txt","tokenizer":"tokenizer.json","context":3)");
  ASSERT_EQ(source->size(), 4);
  EXPECT_EQ(read_window(*source, 0).x, (Numbers{1, 4, 2}));
  EXPECT_EQ(read_window(*source, 0).y, (Numbers{3}));
  EXPECT_EQ(read_window(*source, 3).x, (Numbers{3, 1, 2}));
  EXPECT_EQ(read_window(*source, 3).y, (Numbers{0}));
  EXPECT_EQ(source->fields()[1].class_names, (std::vector<std::string>{"[UNK]", "one", "two", "##s", ","}));
  // The vocabulary that is stored with a model reads other texts without the file.
  std::filesystem::remove(folder_ / "tokenizer.json");
  write("other.txt", "two, one two");
  Json other = Json::parse(R"({"type":"text","file":"other.txt","tokenizer":"tokenizer.json"})", "test");
  other.set("fitted", source->traits().fitted);
  EXPECT_EQ(read_window(*open_json(other), 0).x, (Numbers{2, 4, 1}));
}

TEST_F(TextSource, TokenizersAreRefusedWhereTheyDoNotFit) {
  write("t.txt", "One, twos ONE two \xFF");
  write("tokenizer.json", kTokens);
  const std::string file = R"("file":"t.txt","context":1,)";
  EXPECT_REFUSED(file + R"("unit":"token")", "needs 'tokenizer'");
  EXPECT_REFUSED(file + R"("unit":"word","tokenizer":"tokenizer.json")", "is that of the tokenizer");
  EXPECT_REFUSED(file + R"("lowercase":true,"tokenizer":"tokenizer.json")", "belongs to vocabularies that are learned");
  EXPECT_REFUSED(file + R"("tokenizer":"none.json")", "none.json");
  EXPECT_REFUSED(file + R"("tokenizer":"tokenizer.json")", "t.txt: byte 18: this is not UTF-8");
  EXPECT_REFUSED(file + R"("fitted":{"unit":"token","tokenizer":"!!!!","context":1})", "this is no base64");
}

}  // namespace
}  // namespace perigee
