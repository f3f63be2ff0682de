// gensim's files without gensim: tests/vectors/gensim_test.py has it read and write them.
#include "src/vectors/files/keyed_vectors.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cmath>
#include <filesystem>

#include "src/core/error.h"
#include "src/io/codec/compress.h"
#include "src/io/file.h"
#include "src/io/npy.h"
#include "src/vectors/files/pickle.h"
#include "src/vectors/files/vector_file.h"

namespace perigee {
namespace {

std::string keyed_folder() {
  const std::string path = testing::TempDir() + "perigee_keyed";
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

std::string keyed_refusal(std::string_view bytes, const std::string& where = "x.kv") {
  try {
    parse_vectors(as_bytes(bytes), where);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string contents(const std::string& path) {
  const FileContent content = FileContent::open(path, 1 << 20);
  return std::string(reinterpret_cast<const char*>(content.bytes().data()), content.bytes().size());
}

TEST(KeyedVectors, ComeBackAsTheyWere) {
  ElementTable names;
  names.add("king", 7), names.add("of gold", 3), names.add("na\xc3\xafve", 0);
  VectorRows rows(3, 5);
  for (int64_t i = 0; i < 15; ++i) rows.row(i / 5)[i % 5] = static_cast<float>(i) * 0.25f;
  const std::string path = keyed_folder() + "/words.kv";
  write_vectors(path, WordVectors(names, rows), vector_format(path));
  const WordVectors again = read_vectors(path);
  ASSERT_EQ(again.size(), 3);
  EXPECT_EQ(again.names().name(1), "of gold");
  EXPECT_EQ(again.names().count(0), 7);
  for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(again.rows().row(i / 5)[i % 5], static_cast<float>(i) * 0.25f);
  const std::string bytes = contents(path);
  for (size_t cut = 3; cut + 1 < bytes.size(); ++cut) EXPECT_NE(keyed_refusal(bytes.substr(0, cut), path), "accepted") << cut;
  std::filesystem::remove(path + ".vectors.npy");
  EXPECT_NE(keyed_refusal(bytes, path).find("the vectors are in a file of their own, which is not there"), std::string::npos);
}

TEST(KeyedVectors, NothingIsCarriedOut) {
  // A pickle that would run os.system("false").
  EXPECT_NE(keyed_refusal(std::string_view("\x80\x04"
                                           "cos\nsystem\nX\x05\0\0\0false\x85R.",
                                           31))
                .find("the pickle has no words"),
            std::string::npos);
  EXPECT_NE(keyed_refusal(std::string_view("\x80\x04P7\n.", 6)).find("the pickle has what no file of vectors has; got operation 80"),
            std::string::npos);
}

TEST(Pickle, DamageIsRefused) {
  const std::pair<std::string, const char*> kCases[] = {
      {std::string("\x80\x04N", 3), "the pickle is cut short"},
      {std::string("\x80\x04.", 3), "the pickle takes a value that is not there"},
      {std::string("\x80\x04(.", 4), "the pickle takes a value that is not there"},
      {std::string("\x80\x04NNa.", 6), "the pickle adds to what is no list"},
      {std::string("\x80\x04}(Nu.", 7), "the pickle has a key without a value"},
      {std::string("\x80\x04t.", 4), "the pickle has no mark where it needs one"},
      {std::string("\x80\x04h\x05.", 5), "the pickle recalls what was not remembered"},
      {std::string("\x80\x04q\x05.", 5), "the pickle remembers what is not there"},
      {std::string("\x80\x04r\xff\xff\xff\x7f.", 8), "the pickle remembers what is not there"},
      {std::string("\x80\x04NN\x93.", 6), "the pickle names what is no name"},
      {std::string("\x80\x04\x8a\x09.", 5), "the pickle has too large an integer"},
      {std::string("\x80\x04\x80\x09.", 5), "the pickle is of another protocol"},
  };
  for (const auto& [bytes, expected] : kCases)
    EXPECT_NE(keyed_refusal(bytes).find(expected), std::string::npos) << keyed_refusal(bytes) << " for " << expected;
}

TEST(Pickle, HasABoundOnItsSize) {
  // Addresses without memory: nothing of so large a pickle is read.
  constexpr size_t size = size_t{1} << 31;
  void* const nothing = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(nothing, MAP_FAILED);
  try {
    Pickle(std::span(static_cast<const std::byte*>(nothing), size), "x.kv");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("at most 2 GiB; gensim keeps large vectors in a file beside it"), std::string::npos);
  }
  ::munmap(nothing, size);
}

// An object with a state, whose items are `body`.
std::string object(const std::string& body) {
  return std::string(
             "\x80\x04"
             "ca\nb\n)\x81}(",
             11) +
         body + "ub.";
}
std::string text(const std::string& value) {
  return "X" + std::string(1, static_cast<char>(value.size())) + std::string("\0\0\0", 3) + value;
}

TEST(KeyedVectors, WhatIsNoneIsRefused) {
  EXPECT_NE(keyed_refusal(object(text("wv") + "N")).find("the file is a whole model of gensim"), std::string::npos);
  const std::string words = text("index_to_key") + "](" + text("a") + "e";
  EXPECT_NE(keyed_refusal(object(words + text("vectors") + "ca\nb\n)R")).find("the file has no array where one should be"),
            std::string::npos);
  EXPECT_NE(keyed_refusal(object(words + text("vectors") + "ca\nb\n)R")).find("KeyedVectors as gensim 4 saves them"), std::string::npos);
  EXPECT_NE(keyed_refusal(object(words + text("vectors") + "ca\nb\n)R(K\x01NNNNtb")).find("the file has an array of another make"),
            std::string::npos);
  const std::string path = keyed_folder() + "/x.kv";
  write_file(path + ".vectors.npy", npy_bytes(Tensor::from<float>(Shape{1, 2}, std::vector<float>{1, 2})));
  EXPECT_NE(
      keyed_refusal(object(text("index_to_key") + "](" + text("a") + text("b") + "e"), path).find("words and vectors do not go together"),
      std::string::npos);
  EXPECT_NE(keyed_refusal(object(text("index_to_key") + "](Ne"), path).find("a word is no text"), std::string::npos);
  EXPECT_EQ(keyed_refusal(object(words), path), "accepted");
  write_file(path + ".vectors.npy", npy_bytes(Tensor::from<float>(Shape{1, 2}, std::vector<float>{1, INFINITY})));
  EXPECT_NE(keyed_refusal(object(words), path).find("a vector has a number that is not finite"), std::string::npos);
}

}  // namespace
}  // namespace perigee
