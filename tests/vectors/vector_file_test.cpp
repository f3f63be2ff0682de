// Files of other programs ($PERIGEE_DATA/models/wordvectors), our own, damaged ones; and what vectors say of one another.
#include "src/vectors/files/vector_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "src/core/error.h"
#include "src/io/archive/zip.h"
#include "src/io/codec/compress.h"
#include "src/vectors/vector_tests.h"

namespace perigee {
namespace {

std::string sample(const std::string& name) {
  const char* folder = std::getenv("PERIGEE_DATA");
  return std::string(folder ? folder : "$PERIGEE_DATA") + "/models/wordvectors/" + name;
}

WordVectors parsed_file(const std::string& text) { return parse_vectors(as_bytes(text), "v"); }

std::string file_problem(const std::string& text) {
  try {
    parsed_file(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_equal(const WordVectors& a, const WordVectors& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_EQ(a.numbers(), b.numbers());
  for (int64_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a.names().name(i), b.names().name(i));
    for (int64_t k = 0; k < a.numbers(); ++k) ASSERT_NEAR(a.rows().row(i)[k], b.rows().row(i)[k], tolerance) << a.names().name(i);
  }
}

#define NEEDS(name) \
  if (!file_exists(sample(name))) GTEST_SKIP() << sample(name) << " is not there"

TEST(VectorFile, Word2VecsText) {
  NEEDS("word2vec_pre_kv_c");
  const WordVectors vectors = read_vectors(sample("word2vec_pre_kv_c"));
  EXPECT_EQ(vectors.size(), 1750);
  EXPECT_EQ(vectors.numbers(), 10);
  EXPECT_EQ(vectors.names().name(0), "the");
  EXPECT_FLOAT_EQ(vectors.vector("the")[0], -0.561106f);
  EXPECT_FLOAT_EQ(vectors.vector("the")[9], -1.416105f);
}

TEST(VectorFile, TheSameInTextAndBinary) {
  NEEDS("dl4j_vec.bin");
  const WordVectors text = read_vectors(sample("dl4j_vec.txt")), binary = read_vectors(sample("dl4j_vec.bin"));
  EXPECT_EQ(text.size(), 4);
  EXPECT_EQ(text.numbers(), 100);
  expect_equal(text, binary, 1e-6f);
  const WordVectors google = read_vectors(sample("word2vecserialization/google_news_30.txt"));
  EXPECT_EQ(google.numbers(), 300);
  expect_equal(google, read_vectors(sample("word2vecserialization/google_news_30.bin.gz")), 1e-6f);
  expect_equal(read_vectors(sample("word2vecserialization/raw_sentence_word2vec.txt")),
               read_vectors(sample("word2vecserialization/raw_sentence_word2vec.bin.gz")), 1e-6f);
  // The first 99 lines of a file of a million.
  for (const char* name : {"fast_text.vec", "fast_text.vec.gz", "fast_text.vec.zip"})
    EXPECT_THROW(read_vectors(sample(std::string("word2vecserialization/") + name)), Error);
}

TEST(VectorFile, GloVesTextHasNoHead) {
  NEEDS("test_glove.txt");
  const WordVectors vectors = read_vectors(sample("test_glove.txt"));
  EXPECT_EQ(vectors.numbers(), 50);
  EXPECT_EQ(vectors.names().name(0), "the");
  EXPECT_FLOAT_EQ(vectors.vector("the")[1], 0.24968f);
}

// fastText's own .vec holds the means of the words' and their subwords' vectors, to five figures.
TEST(VectorFile, FastTextsModelGivesItsVectors) {
  NEEDS("crime-and-punishment.bin");
  const WordVectors model = read_vectors(sample("crime-and-punishment.bin")), vectors = read_vectors(sample("crime-and-punishment.vec"));
  expect_equal(model, vectors, 1e-5f);
  EXPECT_FALSE(model.has("unseenword"));
  EXPECT_EQ(static_cast<int64_t>(model.vector("unseenword").size()), model.numbers());
}

TEST(VectorFile, WhatIsWrittenIsRead) {
  std::mt19937 random(1);
  std::normal_distribution<float> draw;
  ElementTable names;
  VectorRows rows(30, 7);
  for (int64_t i = 0; i < 30; ++i) {
    names.add("w\xc3\xa9_" + std::to_string(i), 30 - i);
    for (int64_t k = 0; k < 7; ++k) rows.row(i)[k] = draw(random);
  }
  const WordVectors vectors(std::move(names), rows);
  for (const auto& [name, format] :
       {std::pair("a.bin", VectorFormat::binary), {"a.txt", VectorFormat::text}, {"a.vec", VectorFormat::glove}}) {
    const std::string path = testing::TempDir() + name;
    write_vectors(path, vectors, format);
    expect_equal(read_vectors(path), vectors, 0);
  }
  EXPECT_EQ(vector_format("x.vec"), VectorFormat::text);
  EXPECT_THROW(vector_format("x.npz"), Error);
}

TEST(VectorFile, Deeplearning4jsArchive) {
  const auto bytes = [](const std::string& text) { return Bytes(as_bytes(text).begin(), as_bytes(text).end()); };
  const std::pair<std::string, Bytes> entries[] = {{"syn0.txt", bytes("2 2 9\nB64:a2luZw== 0.5 -1\nB64:Y2Fm6Q== 2 3e-2\n")},
                                                   {"frequencies.txt", bytes("B64:a2luZw== 17.0 3\nB64:Y2Fm6Q== 5.0 2\n")}};
  const WordVectors vectors = parse_vectors(zip_bytes(entries), "v");
  EXPECT_EQ(vectors.names().name(0), "king");
  EXPECT_EQ(vectors.names().count(0), 17);
  EXPECT_EQ(vectors.vector("king"), (std::vector<float>{0.5f, -1}));
}

TEST(VectorFile, DamageIsNamed) {
  EXPECT_EQ(file_problem("2 2\na 1 2\n"), "v: the file is cut short; got 1 lines, expected 2 vectors of 2 numbers");
  EXPECT_EQ(file_problem("2 2\na 1 2\nb 1 x\n"),
            "v:3: a vector has a number that is none, or too few; got 'x', expected 2 numbers behind the name");
  EXPECT_EQ(file_problem("1 2\na 1 2\n"), "");
  EXPECT_NE(file_problem("a 1 2\nb 1\n").find("v:2: a vector has"), std::string::npos);
  EXPECT_NE(file_problem("2 2\na 1 2\n 1 2\n").find("v:3: a vector has no name"), std::string::npos);
  EXPECT_NE(file_problem("a 1 2\nb nan 2\n").find("v:2: a vector has a number"), std::string::npos);
  EXPECT_NE(file_problem("9000000000000000000 300\nabc \1\2\3\4").find("the file is cut short"), std::string::npos);
  EXPECT_NE(file_problem("1 900000000\nabc \1\2\3\4").find("a vector has another number of numbers than can be"), std::string::npos);
  EXPECT_NE(file_problem("").find("v"), std::string::npos);
  std::string binary = "2 2\na ";
  const float one[] = {1, 2}, bad[] = {1, NAN};
  binary.append(reinterpret_cast<const char*>(one), 8).append("\nb ");
  EXPECT_NE(file_problem(binary + std::string(reinterpret_cast<const char*>(bad), 8)).find("a number that is not finite"),
            std::string::npos);
  binary.append(reinterpret_cast<const char*>(one), 8);
  EXPECT_EQ(file_problem(binary), "");
  for (size_t size = 0; size < binary.size(); ++size) EXPECT_NE(file_problem(binary.substr(0, size)), "") << size;
}

TEST(VectorFile, DamagedFastTextModels) {
  NEEDS("crime-and-punishment.bin");
  const Bytes bytes = read_file(sample("crime-and-punishment.bin"));
  const std::string whole(as_text(bytes));
  EXPECT_EQ(file_problem(whole), "");
  for (size_t size = 4; size < 13000; size = size * 5 / 4 + 1) EXPECT_NE(file_problem(whole.substr(0, size)), "") << size;
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {  // no byte of the head may do worse than an error
    std::string damaged = whole;
    damaged[4 + random() % 200] = static_cast<char>(random());
    file_problem(damaged);
  }
  std::string version = whole;
  version[4] = 11;
  EXPECT_NE(file_problem(version).find("the file is of another version of fastText; got 11, expected 12"), std::string::npos);
}

TEST(VectorFile, NamesThatComeAgainAreLeftOut) {
  const WordVectors vectors = parsed_file("3 1\na 1\nb 2\na 3\n");
  EXPECT_EQ(vectors.size(), 2);
  EXPECT_EQ(vectors.vector("a"), std::vector<float>{1});
}

const char* const kPlane = "5 2\nright 1 0\nup 0 2\nleft -3 0\nupright 1 1\nfar 10 1\n";

TEST(WordVectors, NeighboursAndAnalogies) {
  const WordVectors vectors = parsed_file(kPlane);
  EXPECT_NEAR(vectors.similarity("right", "upright"), std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(vectors.similarity("right", "left"), -1, 1e-6);
  const std::vector<Neighbour> found = vectors.nearest(vectors.vector("right"), 3, {"right"});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(vectors.names().name(found[0].number), "far");
  EXPECT_NEAR(found[0].similarity, 10 / std::sqrt(101.0), 1e-6);
  EXPECT_EQ(vectors.names().name(found[1].number), "upright");
  EXPECT_EQ(vectors.names().name(found[2].number), "up");
  const std::vector<float> mean = vectors.mean({"up", "left"}, {"right"});
  EXPECT_NEAR(mean[0], -2.0 / 3, 1e-6);
  EXPECT_NEAR(mean[1], 1.0 / 3, 1e-6);
  try {
    vectors.vector("rigth");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("there is no vector of 'rigth'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("did you mean 'right'?"), std::string::npos);
  }
}

// The numbers are those of scipy.stats.spearmanr and pearsonr.
TEST(VectorTests, CorrelationsAreSciPys) {
  const WordVectors vectors = parsed_file(kPlane);
  const Json scores =
      vector_scores(vectors, "# comment\nright\tup\t3\nRight left 1\nright upright 3\nright far 9\nup far 2.5\nup nothing 4\n", "pairs", 1);
  EXPECT_NEAR(scores.find("spearman")->as_number(), 0.8207826816681233, 1e-9);
  EXPECT_NEAR(scores.find("pearson")->as_number(), 0.7772892204779214, 1e-6);
  EXPECT_EQ(scores.find("pairs")->as_int(), 5);
  EXPECT_EQ(scores.find("unknown")->as_int(), 1);
  EXPECT_THROW(vector_scores(vectors, "right up\n", "pairs", 1), Error);
  EXPECT_THROW(vector_scores(vectors, "right nothing 1\n", "pairs", 1), Error);
}

TEST(VectorTests, AnalogiesBySection) {
  const WordVectors vectors = parsed_file("4 2\na 1 0\nb 0 1\nc 1 0.2\nd 0.1 1.1\n");
  const Json scores = vector_scores(vectors, ": one\na b c d\nA B C D\n: two\na b c a\na b c nothing\n", "questions", 2);
  EXPECT_EQ(scores.find("asked")->as_int(), 3);
  EXPECT_EQ(scores.find("right")->as_int(), 2);
  EXPECT_EQ(scores.find("unknown")->as_int(), 1);
  EXPECT_EQ(scores.find("sections")->find("two")->find("right")->as_int(), 0);
  EXPECT_THROW(vector_scores(vectors, ": one\na b c d\na b c\n", "questions", 1), Error);
}

}  // namespace
}  // namespace perigee
