// Sentences as pysbd 0.3.4 cuts them (23 of these cases as NLTK's Punkt does, too), and what the rules promise of any text.
#include "src/text/sentences.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace perigee {
namespace {

std::vector<std::string> cut(std::string_view text) {
  std::vector<std::string> all;
  for (const std::string_view each : sentences_of(text)) all.emplace_back(each);
  return all;
}

// Joined by a blank they are the text. Not among them are three where we differ on purpose: "N°. 1026", ". . . I", and "5 a.m. Mr. Smith".
const std::vector<std::vector<std::string>> kPysbd = {
    // clang-format off
    {"Hello world.", "My name is Jonas."},
    {"What is your name?", "My name is Jonas."},
    {"There it is!", "I found it."},
    {"My name is Jonas E. Smith."},
    {"Please turn to p. 55."},
    {"Were Jane and co. at the party?"},
    {"They closed the deal with Pitt, Briggs & Co. at noon."},
    {"Let's ask Jane and co.", "They should know."},
    {"I can see Mt. Fuji from here."},
    {"St. Michael's Church is on 5th st. near the light."},
    {"That is JFK Jr.'s book."},
    {"I visited the U.S.A. last year."},
    {"I live in the E.U.", "How about you?"},
    {"I live in the U.S.", "How about you?"},
    {"I work for the U.S. Government in Virginia."},
    {"I have lived in the U.S. for 20 years."},
    {"She has $100.00 in her bag."},
    {"She has $100.00.", "It is in her bag."},
    {"He teaches science (He previously worked for 5 years as an engineer.) at the local University."},
    {"Her email is Jane.Doe@example.com.", "I sent her an email."},
    {"The site is: https://www.example.50.com/new-site/awesome_content.html.", "Please check it out."},
    {"She turned to him, 'This is great.' she said."},
    {"She turned to him, \"This is great.\" she said."},
    {"She turned to him, \"This is great.\"", "Then she held the book out to show him."},
    {"Hello!!", "Long time no see."},
    {"Hello??", "Who is there?"},
    {"Hello!?", "Is that you?"},
    {"Hello?!", "Is that you?"},
    {"She works at Yahoo! in the accounting department."},
    {"We make a good team, you and I.", "Did you see Albert I. Jones yesterday?"},
    {"Thoreau argues that by simplifying one's life, the laws of the universe will appear less complex."},
    {"\"Bohr [...] used the analogy of parallel stairways [...]\" (Smith 55)."},
    {"If words are left off at the end of a sentence, and that is all that is omitted, indicate the omission with ellipsis marks."},
    {"I never meant that....", "She left the store."},
    {"One further habit which was somewhat weakened . . . was that of combining words into self-interpreting compounds."},
    {"Mr. Smith met Dr. Jones at 5 p.m. on Tuesday.", "They talked for an hour."},
    {"It costs 3.50 euros.", "That is cheap, e.g. for Paris."},
    {"The tree is 3.5 m tall, i.e. small.", "Nobody minds."},
    {"J. R. R. Tolkien wrote it.", "He lived in Oxford."},
    {"See Fig. 3 and pp. 12 to 14.", "They show it."},
    {"He sells apples, pears, etc.", "The shop is small."},
    {"Is it true?", "Yes!", "It is."},
    {"“Really?” he asked.", "“Yes,” she said."},
    {"He came on Jan. 5 and left on Feb. 7.", "Nobody saw him."},
    {"Gov. Brown and Sen. White voted no.", "The bill failed."},
    {"The U.N. building is tall.", "It has 39 floors."},
    {"The end."},
    // clang-format on
};

TEST(Sentences, AreThoseOfPysbd) {
  for (const auto& sentences : kPysbd) {
    std::string text;
    for (const std::string& each : sentences) text += (text.empty() ? "" : " ") + each;
    EXPECT_EQ(cut(text), sentences) << text;
  }
}

TEST(Sentences, OfOtherScriptsAndLayouts) {
  EXPECT_EQ(cut("今日は晴れです。明日は？雨！「はい。」終わり"),
            (std::vector<std::string>{"今日は晴れです。", "明日は？", "雨！", "「はい。」", "終わり"}));
  EXPECT_EQ(cut("A heading\n\nThe text goes\non here. And ends"),
            (std::vector<std::string>{"A heading", "The text goes\non here.", "And ends"}));
  EXPECT_EQ(cut("1. Wash the rice. 2. Cook it."), (std::vector<std::string>{"1. Wash the rice.", "2. Cook it."}));
  EXPECT_EQ(cut("Он ушёл. Никто не знал."), (std::vector<std::string>{"Он ушёл.", "Никто не знал."}));
  EXPECT_TRUE(cut("").empty() && cut(" \n\n \t").empty());
}

std::string without_blanks(std::string_view text) {
  std::string kept;
  for (const char c : text)
    if (c != ' ' && c != '\n' && c != '\t') kept += c;
  return kept;
}

// Whatever the bytes are, also those that are no UTF-8.
TEST(Sentences, LoseNothing) {
  std::mt19937 random(7);
  constexpr std::string_view kParts[] = {"a", "B", "Mr",           ".",    "!",    "?",     " ",  "\n", "\"", "(",
                                         ")", "5", "\xe3\x80\x82", "\xff", "\xe3", ". . .", "\t", "I",  "e.g"};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (uint32_t i = random() % 24; i > 0; --i) text += kParts[random() % std::size(kParts)];
    std::string joined;
    for (const std::string& each : cut(text)) {
      ASSERT_FALSE(each.empty());
      joined += each;
    }
    ASSERT_EQ(without_blanks(joined), without_blanks(text)) << text;
  }
}

}  // namespace
}  // namespace perigee
