// Every error about vectors that a file, a text or a call can bring about; damage in the middle of files is in vector_file_test.cpp.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "src/core/error.h"
#include "src/io/archive/zip.h"
#include "src/vectors/files/vector_file.h"
#include "src/vectors/graph_walks.h"
#include "src/vectors/trained_vectors.h"
#include "src/vectors/vector_tests.h"

namespace perigee {
namespace {

void expect(const std::function<void()>& act, const std::string& text) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << "got: " << error.what() << "\nwanted: " << text;
    return;
  }
  ADD_FAILURE() << "nothing was raised; wanted: " << text;
}

WordVectors parsed_vectors(const std::string& text) { return parse_vectors(as_bytes(text), "v"); }

std::string archive(std::vector<std::pair<std::string, std::string>> files) {
  std::vector<std::pair<std::string, Bytes>> entries;
  for (const auto& [name, text] : files) entries.emplace_back(name, Bytes(as_bytes(text).begin(), as_bytes(text).end()));
  return std::string(as_text(zip_bytes(entries)));
}

VectorOptions checked_options(const std::string& json) {
  Json given = Json::parse(json, "options");
  if (!given.find("files")) given.set("files", "none");
  return vector_options(given, "test");
}

TEST(VectorErrors, OfFiles) {
  expect([] { parsed_vectors("\n\n"); }, "a vector has another number of numbers than can be");
  expect([] { parsed_vectors("0 3\n"); }, "the file has no vectors");
  expect([] { parsed_vectors(archive({{"a.txt", "x"}, {"b.txt", "y"}})); }, "the archive has no vectors");
  expect([] { parsed_vectors(archive({{"a.zip", archive({{"b.txt", "a 1\n"}})}})); }, "the archive has an archive in it");
  expect([] { vector_format("x.npz"); }, "the name does not say how vectors are written");
  expect([] { VectorRows(int64_t{1} << 39, 100); }, "the vectors are too large");
}

// A model of one word and two buckets, with one thing changed.
std::string fasttext(const std::function<void(std::string&)>& change, int32_t pruned = -1, char type = 0, char quantised = 0,
                     int64_t rows = 3) {
  std::string bytes;
  const auto put = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const int32_t value : {793712314, 12, 2, 5, 5, 1, 5, 1, 2, 2, 2, 2, 3, 100}) put(value);
  put(1e-4);
  for (const int32_t value : {1, 1, 0}) put(value);
  put(int64_t{9}), put(int64_t{pruned});
  bytes.append("ab\0", 3), put(int64_t{9}), put(type), put(quantised);
  put(rows), put(int64_t{2});
  for (int i = 0; i < 6; ++i) put(static_cast<float>(i));
  change(bytes);
  return bytes;
}

TEST(VectorErrors, OfFastTextsModels) {
  const auto same = [](std::string&) {};
  EXPECT_EQ(parsed_vectors(fasttext(same)).size(), 1);
  expect([&] { parsed_vectors(fasttext(same, 3)); }, "the subwords were pruned");
  expect([&] { parsed_vectors(fasttext(same, -1, 1)); }, "the model has labels: it classifies");
  expect([&] { parsed_vectors(fasttext(same, -1, 0, 1)); }, "the vectors are quantised");
  expect([&] { parsed_vectors(fasttext(same, -1, 0, 0, 4)); }, "the vectors are of another size");
  expect([] { parsed_vectors(fasttext([](std::string& bytes) { bytes[8] = 0; })); }, "the head has a size that cannot be");
  expect([] { parsed_vectors(fasttext([](std::string& bytes) { bytes[64] = 2; })); }, "the head has a size that cannot be");
  expect([] { parsed_vectors(fasttext([](std::string& bytes) { std::memset(bytes.data() + 92, 'x', bytes.size() - 92); })); },
         "a word has no name, or none that ends");
  expect([] { parsed_vectors(fasttext([](std::string& bytes) { std::memset(bytes.data() + bytes.size() - 4, 0xff, 4); })); },
         "a vector has a number that is not finite");
  expect(
      [] {
        parsed_vectors(fasttext([](std::string& bytes) {
          bytes[64] = bytes[68] = 2;
          bytes.insert(92, std::string("ab\0\0\0\0\0\0\0\0\0\0", 12));
        }));
      },
      "a word comes twice");
}

TEST(VectorErrors, OfTextsAndTests) {
  const std::string folder = testing::TempDir() + "perigee_no_texts";
  std::filesystem::create_directories(folder);
  write_file(folder + "/a.zip", as_bytes(archive({{"a.jpg", "x"}})));
  expect([&] { TextCorpus({folder + "/a.zip"}, {}); }, "the archive has no texts");
  std::filesystem::remove(folder + "/a.zip");
  expect([&] { TextCorpus({folder}, {}); }, "the folder has no texts");
  const WordVectors vectors = parsed_vectors("2 2\na 1 2\nb 2 1\n");
  expect([&] { vector_scores(vectors, "a b c\n", "t", 1); }, "the line is no pair of words with a number");
  expect([&] { vector_scores(vectors, "a x 1\n", "t", 1); }, "fewer than two pairs have vectors");
  expect([&] { vector_scores(vectors, "a b a b\na b\n", "t", 1); }, "the line is no question");
  expect([&] { vectors.mean({}); }, "there are no words to take the mean of");
  expect([&] { vectors.nearest(std::vector<float>(3), 1); }, "the vector has another length than those here");
}

TEST(VectorErrors, OfTraining) {
  expect([] { checked_options(R"({"files": []})"); }, "'files' names no file; expected the name of a text");
  const std::string text = testing::TempDir() + "perigee_twice.txt";
  write_file(text, as_bytes("a b a b\n"));
  Json twice = Json::parse(R"({"model": "dbow", "min_count": 1})", "options");
  twice.set("files", Json(Json::Array{Json(text), Json(text)}));
  expect([&] { TrainedVectors(checked_options(twice.dump()), {}, nullptr); }, "two files have one name");
  const VectorOptions plain = checked_options(R"({"min_count": 1, "threads": 1})"),
                      documents = checked_options(R"({"min_count": 1, "threads": 1, "model": "dm"})");
  expect([&] { TrainedVectors({{"a", "a"}}, {}, plain, {}, nullptr); }, "there are too few different elements to tell apart");
  expect([&] { TrainedVectors({{"a", "b"}}, {}, plain, {}, nullptr).infer("a", 1, 0.1); }, "documents have no vectors here");
  expect([&] { TrainedVectors({{"a", "b"}}, {}, documents, {}, nullptr).infer("c", 1, 0.1); }, "the text has no word that was trained on");
}

}  // namespace
}  // namespace perigee
