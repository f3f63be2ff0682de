// Characters, words and the vocabulary that numbers them.
#include <gtest/gtest.h>

#include "src/io/text.h"
#include "src/io/utf8.h"

namespace perigee {
namespace {

std::vector<std::string> units(std::string_view text, TextUnits options) {
  const std::string where = "t.txt";
  std::vector<std::string> found;
  for (UnitReader reader(text, options, where); reader.next();) found.emplace_back(reader.unit());
  return found;
}

using Strings = std::vector<std::string>;
constexpr TextUnits kCharacters{}, kWords{.words = true}, kLowerWords{.words = true, .lowercase = true};

TEST(Units, CharactersAreCodePoints) {
  EXPECT_EQ(units("aé€😀\n", kCharacters), (Strings{"a", "é", "€", "😀", "\n"}));
  EXPECT_EQ(units("", kCharacters), Strings{});
  EXPECT_EQ(units(std::string_view("\0b", 2), kCharacters), (Strings{std::string(1, '\0'), "b"}));
}

TEST(Units, WordsAreRunsOfLettersAndMarksStandAlone) {
  EXPECT_EQ(units("We know't, 'tis done.", kWords), (Strings{"We", "know't", ",", "'", "tis", "done", "."}));
  EXPECT_EQ(units("€3.14\u00a0naïve—dogs’ bones’s ", kWords), (Strings{"€", "3", ".", "14", "naïve", "—", "dogs", "’", "bones’s"}));
  EXPECT_EQ(units(" \n\t ", kWords), Strings{});
  EXPECT_EQ(units("rock-'n'-roll", kWords), (Strings{"rock", "-", "'", "n", "'", "-", "roll"}));
}

TEST(Units, LongRunsAreCutBetweenCharacters) {
  std::string run;
  for (int i = 0; i < 200; ++i) run += "语";
  const Strings pieces = units(run, kWords);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].size(), 255u) << "a character of three bytes does not fit into the last one";
  EXPECT_EQ(pieces[0] + pieces[1] + pieces[2], run);
}

TEST(Units, LowercaseKnowsThreeScripts) {
  EXPECT_EQ(units("HAMLET Éric ΆΘΗΝΑ ЁЛКА Ÿ Žižek don'T", kLowerWords),
            (Strings{"hamlet", "éric", "άθηνα", "ёлка", "ÿ", "žižek", "don't"}));
  // Lower-case letters stay; the whole plane, so that a vocabulary is read by its own rule.
  const std::string where = "t.txt";
  for (char32_t code = 1; code < 0x30000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    append_utf8(code, text);
    ASSERT_EQ(utf8_length(text, 0), text.size());
    ASSERT_EQ(utf8_code(text, 0, text.size()), code);
    const TextUnits lower{.lowercase = true};
    const Strings once = units(text, lower);
    ASSERT_EQ(units(once[0], lower), once) << static_cast<uint32_t>(code);
    ASSERT_EQ(units(once[0], kWords).empty(), units(text, kWords).empty()) << static_cast<uint32_t>(code);
  }
}

TEST(Units, DamageIsNamedByItsByte) {
  const std::string where = "t.txt";
  for (const TextUnits& options : {kCharacters, kWords}) {
    for (const char* text : {"ab\xff", "ab\xc3", "ab\xed\xa0\x80", "ab\xc0\x80"}) {
      UnitReader reader(text, options, where, 100);
      try {
        while (reader.next()) {}
        ADD_FAILURE() << "accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::data);
        EXPECT_NE(std::string(error.what()).find("t.txt: byte 102"), std::string::npos) << error.what();
      }
    }
  }
}

Vocabulary fit(std::string_view text, const VocabularyOptions& options) {
  const std::string where = "t.txt";
  UnitCounts counts;
  UnitReader reader(text, options.units, where);
  counts.add(reader);
  return {counts, options};
}

TEST(Vocabulary, NumbersTheFrequentFirst) {
  const Vocabulary all = fit("to be or not to be, to see", {.units = kWords});
  EXPECT_EQ(all.names(), (Strings{"<unknown>", "to", "be", ",", "not", "or", "see"}));
  EXPECT_EQ(all.number("be"), 2);
  EXPECT_EQ(all.number(","), 3);
  EXPECT_EQ(all.number("ham"), 0);
  EXPECT_EQ(all.number("."), 0);
  const Vocabulary strict = fit("abab c", {.unknown = false});
  EXPECT_EQ(strict.names(), (Strings{"a", "b", " ", "c"}));
  EXPECT_EQ(strict.number("z"), -1);
  EXPECT_EQ(strict.number("é"), -1);
}

TEST(Vocabulary, LeavesOutTheRare) {
  EXPECT_EQ(fit("to be or not to be, to see", {.units = kWords, .min_count = 2}).names(), (Strings{"<unknown>", "to", "be"}));
  EXPECT_EQ(fit("to be or not to be, to see", {.units = kWords, .max_size = 2}).names(), (Strings{"<unknown>", "to"}));
  EXPECT_EQ(fit("aab", {.unknown = false, .max_size = 2}).size(), 2);
}

TEST(Vocabulary, ComesBackFromItsJson) {
  for (const VocabularyOptions& options :
       {VocabularyOptions{}, {.units = kLowerWords}, {.units = {.lowercase = true}, .unknown = false}, {.units = kWords, .min_count = 2}}) {
    const Vocabulary first = fit("Ünder the \"Ünder\" \t tree, it's Ünder\n", options);
    const Json json = Json::parse(first.to_json().dump(), "t");
    const Vocabulary again(Config(json, "t"));
    EXPECT_EQ(again.names(), first.names());
    EXPECT_EQ(again.units(), first.units());
    EXPECT_EQ(again.to_json(), first.to_json());
    for (size_t i = 0; i < first.names().size(); ++i) {
      const bool unknown = i == 0 && options.unknown;
      EXPECT_EQ(again.number(unknown ? "☃" : first.names()[i]), static_cast<int64_t>(i));
    }
  }
}

TEST(Vocabulary, RefusesWhatNoTextHas) {
  const auto refusal = [](const char* text) -> std::string {
    const Json json = Json::parse(text, "t");
    try {
      const Vocabulary vocabulary(Config(json, "m", ErrorKind::data));
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto expect = [&](const char* text, const char* part) { EXPECT_NE(refusal(text).find(part), std::string::npos) << refusal(text); };
  expect(R"({"unit":"char","vocabulary":["a","b","a"]})", "twice");
  expect(R"({"unit":"word","vocabulary":["and","or","and"]})", "twice");
  expect(R"({"unit":"char","vocabulary":["ab"]})", "no text has");
  expect(R"({"unit":"char","vocabulary":[""]})", "no text has");
  expect(R"({"unit":"word","vocabulary":["a b"]})", "no text has");
  expect(R"({"unit":"word","lowercase":true,"vocabulary":["Ab"]})", "no text has");
  expect(R"({"unit":"word","vocabulary":["<unknown>"]})", "no text has");
  expect(R"({"unit":"char","vocabulary":[]})", "no units");
  expect(R"({"unit":"char"})", "no units");
  expect(R"({"unit":"chra","vocabulary":["a"]})", "did you mean 'char'");
  expect(R"({"unit":"char","vocabulary":[1]})", "wrong type");
  EXPECT_EQ(refusal(R"({"unit":"char","vocabulary":["a","é"]})"), "accepted");
}

TEST(Printable, ShowsWhatWouldNotBeSeen) {
  EXPECT_EQ(printable("\n"), "\\n");
  EXPECT_EQ(printable(" "), "' '");
  EXPECT_EQ(printable(","), "','");
  EXPECT_EQ(printable("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(printable("Iris-setosa"), "Iris-setosa");
  EXPECT_EQ(printable("é"), "é");
  EXPECT_EQ(utf8_width("naïve"), 5u);
  EXPECT_EQ(utf8_prefix("naïve", 3), "naï");
  EXPECT_EQ(utf8_prefix("ab", 3), "ab");
}

}  // namespace
}  // namespace perigee
