// Texts as words, their tree and their noise, and what training makes of a text whose answer is known.
#include "src/vectors/vector_training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <queue>
#include <random>
#include <set>

#include "src/core/error.h"
#include "src/io/archive/zip.h"
#include "src/vectors/subwords_of.h"
#include "src/vectors/trained_vectors.h"

namespace perigee {
namespace {

std::string text_of(const TextCorpus& corpus) {
  std::string all;
  std::vector<std::string_view> words;
  for (int64_t part = 0; part < corpus.parts(); ++part)
    for (SentenceReader reader(corpus, part); reader.next(words);) {
      for (const std::string_view word : words) all.append(word).append(" ");
      all.append("| ");
    }
  return all;
}

std::string folder() {
  const std::string path = testing::TempDir() + "perigee_vectors";
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

TEST(TextCorpus, WordsAreRunsOfLettersAndSentencesAreLines) {
  const std::string text = "Don't stop -- it's 3.5!\n\n Été Übung \xe2\x80\x99tis\nx'\n";
  EXPECT_EQ(text_of(TextCorpus(text, "text", {})), "don't stop it's 3 5 | été übung tis | x | ");
  EXPECT_EQ(text_of(TextCorpus(text, "text", {.lowercase = false})), "Don't stop it's 3 5 | Été Übung tis | x | ");
  EXPECT_EQ(text_of(TextCorpus(text, "text", {.blanks = true, .lowercase = false})),
            "Don't stop -- it's 3.5! | Été Übung \xe2\x80\x99tis | x' | ");
  try {
    text_of(TextCorpus("fine\n\xff", "text", {}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "text: byte 5: the text is not UTF-8; got 0xff, expected text in UTF-8; iconv -f LATIN1 -t UTF-8 converts text in Latin-1");
  }
}

TEST(TextCorpus, AsciiAndUnicodeAreCutAlike) {
  const std::string ascii = "It's a dog-eared 'quoted' word, isn't it? A" + std::string(600, 'b') + "'c d''e";
  const std::string plain = text_of(TextCorpus(ascii, "text", {})), with_more = ascii + " \xc3\xa9";
  EXPECT_EQ(plain.substr(0, plain.size() - 2) + "\xc3\xa9 | ", text_of(TextCorpus(with_more, "text", {})));
}

TEST(TextCorpus, FilesFoldersAndArchives) {
  const std::string path = folder();
  write_file(path + "/a.txt", as_bytes("one two\n"));
  write_file(path + "/deeper/b.text", as_bytes("three\n"));
  write_file(path + "/c.jpg", as_bytes("no text\n"));
  const std::string packed = "four five";
  const std::pair<std::string, Bytes> entry{"x/d.txt", Bytes(as_bytes(packed).begin(), as_bytes(packed).end())};
  write_file(path + "/e.zip", zip_bytes({&entry, 1}));
  EXPECT_EQ(text_of(TextCorpus({path}, {})), "one two | three | four five | ");
  EXPECT_EQ(TextCorpus({path}, {}).names().back(), path + "/e.zip: x/d.txt");
  EXPECT_THROW(TextCorpus({path + "/nothing.txt"}, {}), Error);
  write_file(path + "/empty.txt", as_bytes(""));
  try {
    TextCorpus({path + "/empty.txt"}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), path + "/empty.txt: there is no text");
  }
}

TEST(TextCorpus, PartsHoldEverySentenceOnceAndThreadsCountAlike) {
  std::string text;
  std::mt19937 random(1);
  for (int line = 0; line < 20000; ++line) {
    for (int word = 0; word < 7; ++word) text += "w" + std::to_string(random() % 1000) + " ";
    text += "\n";
  }
  text += std::string(30000, 'x') + " end";  // longer than a part: cut at the blank
  const TextCorpus corpus(text, "text", {});
  EXPECT_GT(corpus.parts(), 50);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n') + 2, [&] {
    const std::string all = text_of(corpus);
    return std::count(all.begin(), all.end(), '|');
  }());
  const WordCounts one = count_words(corpus, 1), three = count_words(corpus, 3);
  EXPECT_EQ(one.before, three.before);
  const ElementTable a = one.words.ranked(5, 500), b = three.words.ranked(5, 500);
  ASSERT_EQ(a.size(), 500);
  for (int64_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a.name(i), b.name(i));
    EXPECT_EQ(a.count(i), b.count(i));
  }
  for (int64_t i = 1; i < a.size(); ++i)
    EXPECT_TRUE(a.count(i - 1) > a.count(i) || (a.count(i - 1) == a.count(i) && a.name(i - 1) < a.name(i)));
}

ElementTable table_of(const std::vector<int64_t>& counts) {
  ElementTable table;
  for (size_t i = 0; i < counts.size(); ++i) table.add("e" + std::to_string(i), counts[i]);
  return table;
}

TEST(HuffmanTree, NoCodeIsShorterInAll) {
  std::mt19937 random(3);
  for (const size_t size : {2, 3, 10, 1000}) {
    std::vector<int64_t> counts(size);
    for (int64_t& count : counts) count = 1 + static_cast<int64_t>(random() % 1000);
    std::sort(counts.rbegin(), counts.rend());
    const HuffmanTree tree(table_of(counts));
    std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> queue(counts.begin(), counts.end());
    int64_t least = 0, found = 0;
    while (queue.size() > 1) {
      int64_t joined = queue.top();
      queue.pop();
      joined += queue.top(), queue.pop(), queue.push(joined);
      least += joined;
    }
    std::set<std::string> ways;
    double kraft = 0;
    for (size_t i = 0; i < size; ++i) {
      const auto nodes = tree.nodes(static_cast<int64_t>(i));
      found += counts[i] * static_cast<int64_t>(nodes.size());
      kraft += std::pow(0.5, static_cast<double>(nodes.size()));
      EXPECT_EQ(nodes[0], 0) << "ways begin at the root";
      std::string way;
      for (const float side : tree.sides(static_cast<int64_t>(i))) way += side > 0 ? '1' : '0';
      ways.insert(way);
    }
    EXPECT_EQ(found, least);
    EXPECT_DOUBLE_EQ(kraft, 1);
    EXPECT_EQ(ways.size(), size);
    EXPECT_EQ(tree.inner(), static_cast<int64_t>(size) - 1);
  }
}

TEST(Draws, NoiseComesAsOftenAsItShould) {
  const ElementTable table = table_of({1000, 100, 10, 1});
  const AliasTable noise = noise_table(table, 0.75);
  PartDraws draws(1, 0, 0);
  std::vector<double> found(4);
  constexpr int kDraws = 400000;
  for (int i = 0; i < kDraws; ++i) found[static_cast<size_t>(noise.draw(draws.bits()))] += 1.0 / kDraws;
  const double sum = std::pow(1000, 0.75) + std::pow(100, 0.75) + std::pow(10, 0.75) + 1;
  EXPECT_NEAR(found[0], std::pow(1000, 0.75) / sum, 3e-3);
  EXPECT_NEAR(found[1], std::pow(100, 0.75) / sum, 3e-3);
  EXPECT_NEAR(found[2], std::pow(10, 0.75) / sum, 2e-3);
  EXPECT_NEAR(found[3], 1 / sum, 1e-3);
}

// word2vec's program keeps a word with chance (sqrt(f / s) + 1) s / f.
TEST(Draws, FrequentWordsAreLeftOut) {
  const std::vector<uint32_t> keep = keep_chances(table_of({900, 99, 1}), 1e-2);
  EXPECT_NEAR(keep[0] / 4294967296.0, (std::sqrt(0.9 / 0.01) + 1) * 0.01 / 0.9, 1e-6);
  EXPECT_NEAR(keep[1] / 4294967296.0, (std::sqrt(0.099 / 0.01) + 1) * 0.01 / 0.099, 1e-6);
  EXPECT_EQ(keep[2], UINT32_MAX);
  EXPECT_TRUE(keep_chances(table_of({900, 99, 1}), 0).empty());
}

TEST(Subwords, AreFastTexts) {
  std::vector<std::string> parts;
  each_subword("été", 3, 4, [&](std::string_view part) { parts.emplace_back(part); });
  EXPECT_EQ(parts, (std::vector<std::string>{"<ét", "<été", "été", "été>", "té>"}));
  parts.clear();
  each_subword("a", 1, 3, [&](std::string_view part) { parts.emplace_back(part); });
  EXPECT_EQ(parts, (std::vector<std::string>{"<a", "<a>", "a", "a>"}));
  EXPECT_EQ(subword_bucket("<ét", 1 << 30), static_cast<int64_t>(0x75c5f725u % (1u << 30)));
}

// Two topics whose words come together and never with the others'.
std::string topics(uint32_t seed, int lines) {
  std::mt19937 random(seed);
  std::string text;
  for (int line = 0; line < lines; ++line) {
    const char topic = random() % 2 == 0 ? 'a' : 'b';
    for (int word = 0; word < 8; ++word) text += topic + std::to_string(random() % 20) + " ";
    text += "\n";
  }
  return text;
}

VectorOptions options_of(const std::string& more) {
  Json given = Json::parse(more, "options");
  given.set("files", "none");
  return vector_options(given, "test");
}

struct Trained {
  explicit Trained(const std::string& text, const VectorOptions& options) : corpus(text, "text", options.form) {
    WordCounts counts = count_words(corpus, 2);
    elements = counts.words.ranked(1, 1000);
    training.emplace(elements, 0, options);
    EXPECT_TRUE(training->run(*text_sequences(corpus, elements, counts.before, false)));
  }
  std::vector<float> values() const {
    const VectorRows& rows = training->inputs();
    return {rows.row(0), rows.row(0) + rows.rows * rows.width};
  }
  // The share of words whose nearest word is of their topic.
  double sorted() {
    training->finish();
    const WordVectors vectors(elements, training->inputs().slice(0, elements.size()));
    double right = 0;
    for (int64_t i = 0; i < vectors.size(); ++i) {
      const std::string name(elements.name(i));
      right += elements.name(vectors.nearest(vectors.vector(name), 1, {name})[0].number)[0] == name[0];
    }
    return right / static_cast<double>(vectors.size());
  }
  TextCorpus corpus;
  ElementTable elements;
  std::optional<VectorTraining> training;
};

TEST(VectorTraining, EveryModelSortsTopics) {
  const std::string text = topics(1, 3000);
  for (const char* model :
       {R"({"model": "skip_gram"})", R"({"model": "cbow", "lr": 0.1})", R"({"model": "skip_gram", "negative": 0, "hierarchical": true})",
        R"({"model": "cbow", "negative": 3, "hierarchical": true, "lr": 0.1})", R"({"model": "cbow", "mean": false})",
        R"({"deterministic": true})", R"({"model": "skip_gram", "least_subword": 2, "buckets": 1000})",
        R"({"model": "cbow", "deterministic": true, "lr": 0.1})"}) {
    Json given = Json::parse(model, "options");
    given.set("sample", 0), given.set("size", 16), given.set("threads", 2), given.set("epochs", 8);
    Trained trained(text, options_of(given.dump()));
    EXPECT_EQ(trained.sorted(), 1.0) << model;
  }
}

TEST(VectorTraining, TheSameSeedAndThreadsGiveTheSameBits) {
  const std::string text = topics(2, 2000);
  for (const char* threads : {R"("threads": 1)", R"("threads": 2, "deterministic": true)", R"("threads": 3, "deterministic": true)",
                              R"("threads": 2, "deterministic": true, "model": "cbow", "least_subword": 2, "buckets": 100)"}) {
    const std::string common = std::string(R"({"size": 20, "epochs": 2, )") + threads;
    const std::vector<float> first = Trained(text, options_of(common + "}")).values(),
                             second = Trained(text, options_of(common + "}")).values();
    EXPECT_EQ(first, second) << threads;
    EXPECT_NE(first, Trained(text, options_of(common + R"(, "seed": 2})")).values());
    for (const float value : first) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST(VectorTraining, ItStopsAndKeepsWhatThereIs) {
  const std::string text = topics(3, 2000);
  for (const char* more : {R"({"epochs": 100000, "threads": 2})", R"({"epochs": 100000, "threads": 2, "deterministic": true})"}) {
    const VectorOptions options = options_of(more);
    const TextCorpus corpus(text, "text", options.form);
    const WordCounts counts = count_words(corpus, 1);
    const ElementTable elements = counts.words.ranked(1, 1000);
    VectorTraining training(elements, 0, options);
    std::atomic<bool> stop{false};
    int reports = 0;
    const auto report = [&](const VectorProgress& now) {
      EXPECT_LT(now.done, now.all);
      if (now.done > 0) {
        EXPECT_NEAR(now.remaining, static_cast<double>(now.all - now.done) / now.speed, 1e-6 * now.remaining);
      }
      stop = ++reports == 3;
    };
    EXPECT_FALSE(training.run(*text_sequences(corpus, elements, counts.before, false), report, &stop, 1000));
    EXPECT_EQ(reports, 3);
  }
}

TEST(VectorTraining, DocumentsOfATopicLieTogether) {
  std::mt19937 random(5);
  std::vector<std::vector<std::string>> documents;
  std::vector<std::string> labels;
  for (int i = 0; i < 60; ++i) {
    std::vector<std::string> words;
    for (int k = 0; k < 60; ++k) words.push_back((i % 2 == 0 ? "a" : "b") + std::to_string(random() % 20));
    documents.push_back(words), labels.push_back((i % 2 == 0 ? "a" : "b") + std::string("_") + std::to_string(i));
  }
  for (const char* model : {R"({"model": "dbow"})", R"({"model": "dm"})", R"({"model": "dbow", "words_too": true})"}) {
    Json given = Json::parse(model, "options");
    given.set("sample", 0), given.set("size", 12), given.set("threads", 1), given.set("epochs", 30), given.set("min_count", 1);
    const TrainedVectors trained(documents, labels, options_of(given.dump()), {}, nullptr);
    ASSERT_EQ(trained.documents().size(), 60);
    int right = 0;
    for (int64_t i = 0; i < 60; ++i) {
      const std::string name(trained.documents().names().name(i));
      right += trained.documents().names().name(trained.documents().nearest(trained.documents().vector(name), 1, {name})[0].number)[0] ==
               name[0];
    }
    EXPECT_GE(right, 57) << model;
    std::string unseen;
    for (int k = 0; k < 60; ++k) unseen += "a" + std::to_string(random() % 20) + " ";
    const std::vector<float> text = trained.infer(unseen, 50, 0.025);
    EXPECT_EQ(trained.documents().names().name(trained.documents().nearest(text, 1)[0].number)[0], 'a') << model;
    EXPECT_EQ(text, trained.infer(unseen, 50, 0.025));
  }
}

std::string message_of(const std::string& options) {
  try {
    options_of(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(VectorOptions, WhatCannotBeTogether) {
  EXPECT_NE(message_of(R"({"negative": 0})").find("is 0 and hierarchical is false: nothing would be learned"), std::string::npos);
  EXPECT_NE(message_of(R"({"min_lr": 1})").find("is larger than lr"), std::string::npos);
  EXPECT_NE(message_of(R"({"unit": "blank", "lowercase": true})").find("belongs to unit = \"word\""), std::string::npos);
  EXPECT_NE(message_of(R"({"words_too": true})").find("belongs to model = \"dbow\""), std::string::npos);
  EXPECT_NE(message_of(R"({"least_subword": 7})").find("is larger than longest_subword"), std::string::npos);
  EXPECT_NE(message_of(R"({"least_subword": 3, "model": "dm"})").find("belongs to vectors of words"), std::string::npos);
  EXPECT_NE(message_of(R"({"sise": 3})").find("did you mean 'size'"), std::string::npos);
}

}  // namespace
}  // namespace perigee
