// Texts with labels: the terms' weights are scikit-learn's, folds share nothing, units are cut and padded, and damage is named.
#include "src/data/documents.h"

#include <gtest/gtest.h>

#include <set>

#include "src/io/codec/compress.h"
#include "src/io/codec/zstd.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

class DocumentsTest : public testing::Test {
 protected:
  SourcePtr open(const std::string& options) const {
    const Json json = Json::parse("{\"type\":\"documents\"," + options + "}", "test");
    return open_source(Config(json, "test", ErrorKind::data), folder_.path());
  }

  std::string refusal(const std::string& options) const {
    try {
      open(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
      return error.what();
    }
    return "accepted";
  }

  void write(const std::string& name, std::string_view text) const { write_file(folder_ / name, as_bytes(text)); }

  TemporaryFolder folder_;
  CacheFolder cache_{folder_ / "cache"};
};

#define EXPECT_REFUSED(options, part) EXPECT_NE(refusal(options).find(part), std::string::npos) << refusal(options)

struct DocumentExample {
  std::vector<float> terms;
  std::vector<int64_t> ids;
  int64_t count = -1, label = -1;
};

DocumentExample read_document(const DataSource& source, int64_t index) {
  DocumentExample example;
  std::vector<std::byte*> slots;
  for (const Field& field : source.fields()) {
    if (field.name == "x" && field.dtype == Dtype::f32) {
      example.terms.assign(static_cast<size_t>(field.shape.elements()), -1.f);
      slots.push_back(reinterpret_cast<std::byte*>(example.terms.data()));
    } else if (field.name == "x") {
      example.ids.assign(static_cast<size_t>(field.shape.elements()), -1);
      slots.push_back(reinterpret_cast<std::byte*>(example.ids.data()));
    } else {
      slots.push_back(reinterpret_cast<std::byte*>(field.name == "n" ? &example.count : &example.label));
    }
  }
  source.read({.index = index}, slots);
  return example;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 2e-6) << i;
}

constexpr const char* kCsv = "text,label\nThe cat sat the cat,a\n\"the dog sat, down\",b\ncat and dog,a\n";

// TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\w+") of scikit-learn 1.9.1.
TEST_F(DocumentsTest, WeightsOfTermsAreScikitLearns) {
  write("d.csv", "text,label\nThe cat sat the cat,a\nthe dog sat down,b\ncat and dog,a\n");
  const SourcePtr plain = open(R"("file":"d.csv","features":"tfidf","ngrams":2)");
  ASSERT_EQ(plain->size(), 3);
  expect_near(read_document(*plain, 0).terms, {0, 0, 0.454388, 0, 0.298733, 0, 0, 0, 0.227194, 0, 0.298733, 0.454388, 0.597465, 0});
  expect_near(read_document(*plain, 2).terms, {0.490479, 0.490479, 0.373022, 0.490479, 0, 0.373022, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(read_document(*plain, 1).label, 1);
  const SourcePtr sublinear = open(R"("file":"d.csv","features":"tfidf","ngrams":2,"sublinear":true)");
  expect_near(read_document(*sublinear, 0).terms, {0, 0, 0.435033, 0, 0.337842, 0, 0, 0, 0.256937, 0, 0.337842, 0.435033, 0.572016, 0});
  const SourcePtr few = open(R"("file":"d.csv","features":"tfidf","ngrams":2,"stop_words":["the"],"min_count":2,"max_vocabulary":3)");
  expect_near(read_document(*few, 0).terms, {0.894427, 0, 0.447214});
  const SourcePtr counts = open(R"("file":"d.csv","features":"count","min_count":2)");  // cat, dog, sat, the
  expect_near(read_document(*counts, 0).terms, {2, 0, 1, 2});
  expect_near(read_document(*open(R"("file":"d.csv","features":"binary","min_count":2)"), 0).terms, {1, 0, 1, 1});
}

TEST_F(DocumentsTest, WordsAreCutToTheirStems) {
  write("d.csv", "text,label\nGenerously running,a\nThe generous runner runs,b\n");
  const SourcePtr source = open(R"("file":"d.csv","features":"count","stop_words":["the"],"stem":"english")");
  EXPECT_EQ(source->traits().fitted.find("terms")->dump(), R"(["generous","run","runner"])");  // as snowballstemmer 2.2 gives them
  expect_near(read_document(*source, 0).terms, {1, 1, 0});
  expect_near(read_document(*source, 1).terms, {1, 1, 1});
  Json again = Json::parse(R"({"type":"documents","file":"d.csv"})", "test");
  again.set("fitted", source->traits().fitted);
  expect_near(read_document(*document_source(Config(again, "test", ErrorKind::data), "Run!", "line"), 0).terms, {0, 1, 0});
}

TEST_F(DocumentsTest, UnitsAreCutAndPaddedAndCounted) {
  write("d.csv", kCsv);
  const SourcePtr source = open(R"("file":"d.csv","length":4)");
  EXPECT_EQ(source->fields()[1].role, FieldRole::length);
  EXPECT_EQ(source->fields()[1].of, "x");
  const DocumentExample cut = read_document(*source, 0), padded = read_document(*source, 2);
  EXPECT_EQ(cut.count, 4);
  EXPECT_EQ(cut.ids[0], cut.ids[3]);
  EXPECT_EQ(padded.count, 3);
  EXPECT_EQ(padded.ids[0], cut.ids[1]);
  EXPECT_EQ(padded.ids[3], 0);
  // By the fitted vocabulary, another text without labels.
  Json again = Json::parse(R"({"type":"documents","file":"d.csv"})", "test");
  again.set("fitted", source->traits().fitted);
  const SourcePtr one = document_source(Config(again, "test", ErrorKind::data), "cat zebra", "line");
  ASSERT_EQ(one->fields().size(), 2u);
  const DocumentExample other = read_document(*one, 0);
  EXPECT_EQ(other.ids, (std::vector<int64_t>{cut.ids[1], 0, 0, 0}));
  EXPECT_EQ(other.count, 2);
}

TEST_F(DocumentsTest, FoldsOfAFolderShareNothing) {
  for (int i = 0; i < 6; ++i) {
    write("d/up/" + std::to_string(i) + ".txt", "up word" + std::to_string(i));
    write("d/down/" + std::to_string(i) + ".txt", "down word" + std::to_string(i));
  }
  write("d/README", "no document");
  write("d/up/notes.md", "no document");
  std::set<std::string> seen;
  for (int fold = 1; fold <= 3; ++fold) {
    const std::string options = R"("file":"d","features":"count","folds":3,"fold":)" + std::to_string(fold);
    const SourcePtr train = open(options), test = open(options + R"(,"part":"test")");
    EXPECT_EQ(train->size(), 8);
    EXPECT_EQ(test->size(), 4);
    EXPECT_EQ(test->fields()[1].class_names, (std::vector<std::string>{"down", "up"}));
    const Json test_fitted = test->traits().fitted, train_fitted = train->traits().fitted;
    for (const Json& term : test_fitted.find("terms")->as_array()) {
      const std::string& name = term.as_string();
      if (!name.starts_with("word")) continue;
      EXPECT_TRUE(seen.insert(name).second) << name;
      for (const Json& other : train_fitted.find("terms")->as_array()) EXPECT_NE(other.as_string(), name);
    }
  }
  EXPECT_EQ(seen.size(), 6u);
}

std::string tar_of(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string archive;
  for (const auto& [name, text] : files) {
    std::string header(512, '\0');
    char size[12];
    std::snprintf(size, sizeof size, "%011zo", text.size());
    header.replace(0, name.size(), name).replace(100, 7, "0000644").replace(124, 11, size).replace(148, 8, "        ");
    header[156] = '0';
    header.replace(257, 5, "ustar");
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    std::snprintf(size, sizeof size, "%06o", sum);
    header.replace(148, 7, std::string(size) + '\0');
    archive += header + text + std::string((512 - text.size() % 512) % 512, '\0');
  }
  return archive + std::string(1024, '\0');
}

TEST_F(DocumentsTest, AnArchiveIsReadAsTheFolderInIt) {
  const std::string archive = tar_of({{"top/b/2.txt", "two"}, {"top/b/1.txt", "one"}, {"top/a/1.txt", "three"}, {"README.txt", "no"}});
  const Bytes packed = gzip(as_bytes(archive));
  write_file(folder_ / "d.tar.gz", packed);
  const SourcePtr source = open(R"("file":"d.tar.gz","features":"binary")");  // one, three, two
  ASSERT_EQ(source->size(), 3);
  expect_near(read_document(*source, 0).terms, {0, 1, 0});
  expect_near(read_document(*source, 1).terms, {1, 0, 0});
  EXPECT_EQ(read_document(*source, 1).label, 1);
  Bytes smaller;
  zstd_compress(as_bytes("text,label\none two,x\nthree,y\n"), 3, smaller);
  write_file(folder_ / "d.csv.zst", smaller);
  EXPECT_EQ(open(R"("file":"d.csv.zst","features":"binary")")->size(), 2);
}

TEST_F(DocumentsTest, RecordsAreRowsToo) {
  write("d.jsonl", "{\"review\":\"good film\",\"stars\":\"5\"}\n{\"review\":\"bad film\",\"stars\":\"1\"}\n");
  const SourcePtr source = open(R"("file":"d.jsonl","text":"review","label":"stars","features":"count")");
  EXPECT_EQ(source->size(), 2);
  EXPECT_EQ(read_document(*source, 0).label, 1);
}

TEST_F(DocumentsTest, SentencesAreExamplesOfTheirOwn) {
  write("s.csv", "text,label\n\"It rains. Mr. Hill is wet!\",bad\nSun.,good\n\"Hot? Yes.\",good\n");
  const SourcePtr source = open(R"("file":"s.csv","sentences":true,"length":4)");
  ASSERT_EQ(source->size(), 5);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < source->size(); ++i) labels.push_back(read_document(*source, i).label);
  EXPECT_EQ(labels, (std::vector<int64_t>{0, 0, 1, 1, 1}));
  // A text that the model is asked about is cut alike.
  Json asked = Json::parse(R"({"type":"documents"})", "test");
  asked.set("fitted", source->traits().fitted);
  EXPECT_EQ(document_source(Config(asked, "test", ErrorKind::data), "Sun. It rains.", "asked")->size(), 2);
  write("blank.csv", "text,label\n\" \",a\n");
  EXPECT_REFUSED(R"("file":"blank.csv","sentences":true,"length":4)", "the documents have no sentence");
}

TEST_F(DocumentsTest, SaysWhatIsWrong) {
  write("d.csv", kCsv);
  write("empty/readme.txt", "no class");
  write("bad.csv", "text,label\na\xFF,b\n");
  write("gap.csv", "text,label\na,b\nc,\n");
  const std::string file = R"("file":"d.csv",)";
  EXPECT_REFUSED(R"("file":"none.csv","length":1)", "none.csv");
  EXPECT_REFUSED(R"("file":"none.tar","length":1)", "none.tar");
  EXPECT_REFUSED(R"("file":"empty","length":1)", "there are no documents here");
  EXPECT_REFUSED(R"("file":"empty/readme.txt","length":1)", "is of no kind that can be read");
  EXPECT_REFUSED(R"("file":"bad.csv","length":1)", "bad.csv:2: byte 1");
  EXPECT_REFUSED(R"("file":"gap.csv","length":1)", "the row has no text or no label");
  EXPECT_REFUSED(R"("file":"d.csv")", "'length' is missing");
  EXPECT_REFUSED(file + R"("text":"txt","length":1)", "is no column of the table");
  EXPECT_REFUSED(file + R"("label":"lab","length":1)", "is no column of the table");
  EXPECT_REFUSED(file + R"("classes":["a"],"length":1)", "this label is none of the classes");
  EXPECT_REFUSED(file + R"("ngrams":2,"length":1)", "belongs to features that count terms");
  EXPECT_REFUSED(file + R"("features":"tfidf","length":1)", "belongs to features of ids");
  EXPECT_REFUSED(file + R"("features":"tfidf","min_count":9)", "there is no term to count");
  EXPECT_REFUSED(file + R"("length":1,"folds":2,"fold":3)", "is out of range");
  EXPECT_REFUSED(R"("file":"d.csv","features":"count","folds":9,"fold":3,"part":"test")", "leaves no documents");
  EXPECT_REFUSED(file + R"("features":"count","stem":"englisch")", "is no language that there are rules for");
  EXPECT_REFUSED(file + R"("stem":"english","length":1)", "belongs to features that count terms");
  const std::string fitted = file + R"("fitted":{"features":"tfidf","unit":"word","lowercase":true,"ngrams":1,)";
  EXPECT_REFUSED(fitted + R"("terms":[]})", "must be a list");
  EXPECT_REFUSED(fitted + R"("terms":["a","b"],"idf":[1]})", "must have a number for each term");
  EXPECT_REFUSED(fitted + R"("terms":["a","a"],"idf":[1,1]})", "has a term twice");
}

}  // namespace
}  // namespace perigee
