// Tokenizers beside what Hugging Face's tokenizers and SentencePiece gave for 253 texts ($PERIGEE_DATA/oracles/tokenizers), and files that are
// damaged or made by hand.
#include "src/text/tokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "src/io/codec/compress.h"
#include "src/io/file.h"

namespace perigee {
namespace {

std::string oracle_path(const std::string& name) {
  const char* folder = std::getenv("PERIGEE_DATA");
  return std::string(folder ? folder : "$PERIGEE_DATA") + "/oracles/tokenizers/" + name;
}

Json oracle(const std::string& name) {
  Bytes bytes = read_file(oracle_path(name));
  if (name.ends_with(".gz")) bytes = gunzip(bytes, name, uint64_t{1} << 28);
  return Json::parse(as_text(bytes), name);
}

Json numbers(const std::vector<int32_t>& ids) {
  Json list = Json::array();
  for (const int32_t id : ids) list.push(int64_t{id});
  return list;
}

// The expected files count characters.
Json characters(std::string_view text, const std::vector<TextSpan>& places) {
  std::vector<int64_t> before(text.size() + 1);
  for (size_t i = 0; i < text.size(); ++i) before[i + 1] = before[i] + ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80);
  Json list = Json::array();
  for (const TextSpan& place : places) list.push(Json(Json::Array{before[place.from], before[place.to]}));
  return list;
}

class TokenizerOracle : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerOracle, IdsPlacesAndTextsAreTheirs) {
  const std::string name = GetParam();
  if (!file_exists(oracle_path(name))) GTEST_SKIP() << oracle_path(name) << " is not there";
  const Json texts = oracle("texts.json"), expected = oracle(name + ".expected.json.gz");
  const TokenizerPtr tokenizer = Tokenizer::read(as_text(read_file(oracle_path(name))), name);
  ASSERT_EQ(texts.as_array().size(), expected.as_array().size());
  TokenCache cache;
  for (int round = 0; round < 2; ++round)  // the second finds every part of a text in the cache
    for (size_t i = 0; i < texts.as_array().size(); ++i) {
      const std::string& text = texts.as_array()[i].as_string();
      const Json& wanted = expected.as_array()[i];
      TokenEncoding encoding, alone;
      tokenizer->encode(text, "text", true, encoding, &cache);
      tokenizer->encode(text, "text", true, alone);
      EXPECT_EQ(encoding.ids, alone.ids) << text;
      EXPECT_EQ(encoding.places, alone.places) << text;
      EXPECT_EQ(numbers(encoding.ids).dump(), wanted.find("ids")->dump()) << text;
      if (const Json* offsets = wanted.find("offsets")) {
        EXPECT_EQ(characters(text, encoding.places).dump(), offsets->dump()) << text;
      }
      const std::vector<int64_t> ids(encoding.ids.begin(), encoding.ids.end());
      EXPECT_EQ(tokenizer->decode(ids), wanted.find("decoded")->as_string()) << text;
      tokenizer->encode(text, "text", false, encoding, &cache);
      if (const Json* bare = wanted.find("no_special")) {
        EXPECT_EQ(numbers(encoding.ids).dump(), bare->dump()) << text;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerOracle,
                         testing::Values("bert-base-uncased.json", "bpe-bytelevel-2k.json", "llama2.tokenizer.model",
                                         "spm_unigram_en_1k.model", "unigram-nfkc-metaspace-2k.json", "wordlevel-punct.json",
                                         "wordpiece-2k.json"));

std::string refusal(const std::string& file) {
  try {
    Tokenizer::read(file, "file");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
    return error.what();
  }
  return "accepted";
}

#define EXPECT_REFUSED(file, part) EXPECT_NE(refusal(file).find(part), std::string::npos) << refusal(file)

std::string with_model(const std::string& model, const std::string& rest = "") { return "{" + rest + "\"model\":" + model + "}"; }

TEST(Tokenizer, DamagedFilesAreRefused) {
  EXPECT_REFUSED("", "the model has no pieces");
  EXPECT_REFUSED(
      "\x0a\x03\x0a\x01"
      "a",
      "the model has no piece for the unknown");
  EXPECT_REFUSED("not a model", "neither a tokenizer.json nor a model of SentencePiece");
  EXPECT_REFUSED("{}", "model");
  EXPECT_REFUSED("{\"model\":", "file:1:10: not JSON");
  EXPECT_REFUSED(with_model(R"({"type":"Magic"})"), "is not a model that can be read");
  EXPECT_REFUSED(with_model(R"({"type":"WordLevel","vocab":[]})"), "must be a table of tokens");
  EXPECT_REFUSED(with_model(R"({"type":"WordLevel","vocab":{"a":"b"}})"), "whose number is none");
  EXPECT_REFUSED(with_model(R"({"type":"WordLevel","vocab":{"a":4000000}})"), "a token's number is out of range");
  EXPECT_REFUSED(with_model(R"({"type":"WordLevel","vocab":{"a":-1}})"), "a token's number is out of range");
  EXPECT_REFUSED(with_model(R"({"type":"WordLevel","vocab":{"a":0},"unk_token":"b"})"), "is not in the vocabulary");
  EXPECT_REFUSED(with_model(R"({"type":"BPE","vocab":{"a":0},"merges":["a b"]})"), "does not join two tokens to a third");
  EXPECT_REFUSED(with_model(R"({"type":"BPE","vocab":{"a":0},"merges":[],"dropout":0.1})"), "would leave out merges at random");
  EXPECT_REFUSED(with_model(R"({"type":"Unigram","vocab":[["a"]]})"), "no token and its score");
  EXPECT_REFUSED(with_model(R"({"type":"Unigram","vocab":[["a",0]],"unk_id":1})"), "unk_id");
  const std::string words = R"({"type":"WordLevel","vocab":{"a":0}})";
  EXPECT_REFUSED(with_model(words, R"("normalizer":{"type":"Magic"},)"), "is not a normalizer that can be read");
  EXPECT_REFUSED(with_model(words, R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"AA!="},)"), "this is no base64");
  EXPECT_REFUSED(with_model(words, R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"////fw=="},)"), "precompiled_charsmap");
  EXPECT_REFUSED(with_model(words, R"("pre_tokenizer":{"type":"Magic"},)"), "is not a pre-tokenizer that can be read");
  EXPECT_REFUSED(with_model(words, R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"("}},)"),
                 "this regular expression cannot be read");
  EXPECT_REFUSED(with_model(words, R"("decoder":{"type":"Magic"},)"), "is not a decoder that can be read");
  EXPECT_REFUSED(with_model(words, R"("post_processor":{"type":"Magic"},)"), "is not a post-processor that can be read");
  EXPECT_REFUSED(with_model(words, R"("added_tokens":[{"id":-1,"content":"x"}],)"), "id");
  const auto with_template = [&](const std::string& single, const std::string& specials) {
    return with_model(words,
                      R"("post_processor":{"type":"TemplateProcessing","single":)" + single + R"(,"special_tokens":)" + specials + "},");
  };
  EXPECT_REFUSED(with_template(R"([{"Sequence":{"id":"A"}},{"Sequence":{"id":"A"}}])", "{}"), "has the text twice");
  EXPECT_REFUSED(with_template(R"([{"SpecialToken":{"id":"x"}}])", R"({"x":{"ids":3}})"), "must give each token its numbers");
  EXPECT_REFUSED(with_template(R"([{"SpecialToken":{"id":"x"}}])", R"({"x":{"ids":[-1]}})"), "has a number that no token has");
  EXPECT_REFUSED(with_model(words, R"("post_processor":{"type":"BertProcessing","cls":["a"],"sep":["a",0]},)"),
                 "must be a token and its number");
  std::string deep = R"({"type":"NFC"})";
  for (int i = 0; i < 12; ++i) deep = R"({"type":"Sequence","normalizers":[)" + deep + "]}";
  EXPECT_REFUSED(with_model(words, "\"normalizer\":" + deep + ","), "nested no more than 8 times");
}

TEST(Tokenizer, CutSentencePieceModelsAreRefused) {
  const std::string path = oracle_path("spm_unigram_en_1k.model");
  if (!file_exists(path)) GTEST_SKIP() << path << " is not there";
  const std::string file(as_text(read_file(path)));
  EXPECT_REFUSED(file.substr(0, file.size() - 1), "is damaged");
  EXPECT_REFUSED(file.substr(0, 7), "is damaged");
  for (size_t i = 0; i < file.size(); i += 97) {
    std::string flipped = file;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x5A);
    try {
      TokenEncoding encoding;
      Tokenizer::read(flipped, "file")->encode("Hello \xEF\xBC\xA1 world", "text", true, encoding);
    } catch (const Error&) {}
  }
}

TEST(Tokenizer, WhatIsNoUtf8IsAnErrorThatNamesTheByte) {
  const TokenizerPtr tokenizer = Tokenizer::read(with_model(R"({"type":"WordLevel","vocab":{"a":0}})"), "file");
  TokenEncoding encoding;
  try {
    tokenizer->encode("0123456789ab\xFFzz", "text", true, encoding);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "text: byte 12: this is not UTF-8");
  }
}

TokenEncoding encode(const Tokenizer& tokenizer, std::string_view text, bool special_tokens = true) {
  TokenEncoding encoding;
  tokenizer.encode(text, "text", special_tokens, encoding);
  return encoding;
}

TEST(Tokenizer, AddedTokensAreFoundBeforeAnythingElse) {
  const TokenizerPtr tokenizer =
      Tokenizer::read(with_model(R"({"type":"WordLevel","vocab":{"a":0,"b":1,"<u>":2},"unk_token":"<u>"})",
                                 R"("added_tokens":[{"id":7,"content":"<x>","lstrip":true,"rstrip":true,"normalized":false,"special":true},
                                    {"id":8,"content":"ab","single_word":true,"normalized":false},{"id":9,"content":"<x>>","normalized":false}],
                    "normalizer":{"type":"Lowercase"},"pre_tokenizer":{"type":"WhitespaceSplit"},)"),
                      "file");
  const TokenEncoding found = encode(*tokenizer, "A  <x> b ab abb <x>>");
  EXPECT_EQ(found.ids, (std::vector<int32_t>{0, 7, 1, 8, 2, 9}));
  EXPECT_EQ(found.places[1], (TextSpan{1, 7}));
  EXPECT_EQ(tokenizer->size(), 10);
  EXPECT_EQ(tokenizer->id("<x>"), 7);
  EXPECT_EQ(*tokenizer->token(9), "<x>>");
  EXPECT_EQ(tokenizer->token(5), nullptr);
  EXPECT_EQ(tokenizer->decode(std::vector<int64_t>{0, 7, 1, 99, -1}), "a b");
  EXPECT_EQ(tokenizer->decode(std::vector<int64_t>{0, 7}, false), "a <x>");
}

TEST(Tokenizer, BytesTakeTheUnknownsPlaceAndTextsAreCutAndPadded) {
  const TokenizerPtr tokenizer = Tokenizer::read(
      with_model(R"({"type":"BPE","vocab":{"<0xC3>":0,"<0xA9>":1,"a":2,"aa":3,"<u>":4},"merges":["a a"],"unk_token":"<u>",
                     "byte_fallback":true,"fuse_unk":true})",
                 R"("truncation":{"max_length":5,"direction":"Left"},"padding":{"strategy":{"Fixed":6},"direction":"Right","pad_id":9},
                    "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],
                    "special_tokens":{"<s>":{"ids":[8]}}},)"),
      "file");
  EXPECT_EQ(encode(*tokenizer, "aa\xC3\xA9zz", false).ids, (std::vector<int32_t>{3, 0, 1, 4, 9, 9}));
  EXPECT_EQ(encode(*tokenizer, "zaaa\xC3\xA9").ids, (std::vector<int32_t>{8, 3, 2, 0, 1, 9}));
}

TEST(Tokenizer, AnExpressionCutsAsPcre2Finds) {
  const TokenizerPtr tokenizer =
      Tokenizer::read(with_model(R"({"type":"WordLevel","vocab":{"ab":0,"-":1,"12":2,"3":3}})",
                                 R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\p{N}{1,2}"},"behavior":"Isolated"},)"),
                      "file");
  EXPECT_EQ(encode(*tokenizer, "ab123ab").ids, (std::vector<int32_t>{0, 2, 3, 0}));
}

TEST(Tokenizer, AnExpressionThatTakesTooManyStepsIsRefused) {
  const TokenizerPtr tokenizer =
      Tokenizer::read(with_model(R"({"type":"WordLevel","vocab":{"a":0}})",
                                 R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a|aa)+$"},"behavior":"Isolated"},)"),
                      "file");
  TokenEncoding encoding;
  try {
    tokenizer->encode(std::string(200, 'a') + "b", "text", true, encoding);
    FAIL() << "it was found that nothing matches";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("the regular expression fails; got match limit exceeded; a repetition in a repetition, such as (a+)+, takes "
                        "too many steps: write it without"),
              std::string::npos)
        << error.what();
  }
}

// 2 million pieces, and a text of 1 GiB of which only the size counts.
TEST(Tokenizer, HasBounds) {
  std::string pieces;
  for (int i = 0; i <= 1 << 21; ++i)
    pieces +=
        "\x0a\x03\x0a\x01"
        "a";
  EXPECT_REFUSED(pieces, "the model has too many pieces");
  const TokenizerPtr tokenizer = Tokenizer::read(with_model(R"({"type":"WordLevel","vocab":{"a":0}})"), "file");
  TokenEncoding encoding;
  try {
    tokenizer->encode(std::string_view("a", (size_t{1} << 30) + 1), "text", true, encoding);
    FAIL() << "too much";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("text: the text is too large for a tokenizer; got 1073741825 bytes"), std::string::npos)
        << error.what();
  }
}

// Numbers and places by Hugging Face's tokenizers 0.22.2.
constexpr const char* kBytePairs =
    R"({"type":"BPE","vocab":{"\u0120":0,"\u00d0":1,"\u00bd":2,"a":3,",":4,"\u0120a":5},"merges":["\u0120 a"]})";
constexpr const char* kByteLevel = R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true},
    "post_processor":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true},)";

TEST(Tokenizer, ABlankThatWasPutInFrontHasNoPlace) {
  const TokenizerPtr tokenizer = Tokenizer::read(with_model(kBytePairs, kByteLevel), "file");
  const TokenEncoding found = encode(*tokenizer, "\u043d");  // two bytes, behind a blank of its own
  EXPECT_EQ(found.ids, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(found.places, (std::vector<TextSpan>{{0, 0}, {0, 2}, {0, 2}}));
}

TEST(Tokenizer, WhatFollowsAnAddedTokenBeginsATextOfItsOwn) {
  const std::string added = R"("added_tokens":[{"id":6,"content":"<x>","lstrip":true,"normalized":true}],)";
  const TokenizerPtr tokenizer = Tokenizer::read(with_model(kBytePairs, kByteLevel + added), "file");
  const TokenEncoding found = encode(*tokenizer, "a <x>,a <x> a");
  EXPECT_EQ(found.ids, (std::vector<int32_t>{5, 6, 0, 4, 3, 6, 5}));
  EXPECT_EQ(found.places, (std::vector<TextSpan>{{0, 1}, {2, 5}, {6, 6}, {5, 6}, {6, 7}, {8, 11}, {12, 13}}));
  EXPECT_EQ(encode(*tokenizer, "<x>a").places, (std::vector<TextSpan>{{0, 3}, {4, 4}}));
}

TEST(Tokenizer, WhatIsPutInFrontIsAWordWhereTheTextBeginsWithABlank) {
  const TokenizerPtr tokenizer =
      Tokenizer::read(with_model(R"({"type":"WordLevel","vocab":{"_":0,"a":1,"_a":2,"?":3},"unk_token":"?"})",
                                 R"("normalizer":{"type":"Prepend","prepend":"_"},"pre_tokenizer":{"type":"Whitespace"},)"),
                      "file");
  EXPECT_EQ(encode(*tokenizer, " a").ids, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(encode(*tokenizer, "a a").ids, (std::vector<int32_t>{2, 1}));
}

TEST(Tokenizer, MarksAreOfWords) {  // as Oniguruma has it: vowels of many scripts are marks
  const std::string words = R"({"type":"WordLevel","vocab":{"\u1780\u17b6\u1793\u17cb":0,"\u00e9_1":1,"?":2},"unk_token":"?"})";
  for (const char* split :
       {R"({"Regex":"[\\w]+|\\w+"},"behavior":"Removed","invert":true)", R"({"Regex":"\\W+"},"behavior":"Removed")",
        R"({"Regex":"[[:digit:]\\w]+"},"behavior":"Removed","invert":true)", R"({"Regex":"[]\\w]+"},"behavior":"Removed","invert":true)",
        R"({"Regex":"[([:]?\\w+"},"behavior":"Removed","invert":true)"}) {
    const TokenizerPtr tokenizer =
        Tokenizer::read(with_model(words, R"("pre_tokenizer":{"type":"Split","pattern":)" + std::string(split) + "},"), "file");
    EXPECT_EQ(encode(*tokenizer, "\u1780\u17b6\u1793\u17cb \u00e9_1").ids, (std::vector<int32_t>{0, 1})) << split;
  }
}

// A message of SentencePiece: pieces of a kind (1 usual, 2 unknown, 4 of the user), model_type, and a normalizer that changes nothing.
std::string sentence_pieces(char model, std::initializer_list<std::pair<std::string, char>> pieces) {
  const auto field = [](char number, const std::string& bytes) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
  };
  std::string file;
  for (const auto& [text, kind] : pieces) file += field(1, field(1, text) + std::string{3 << 3, kind});
  return file + field(2, {3 << 3, model});
}

TEST(Tokenizer, SentencePiecesWordsAndCharacters) {  // sentencepiece 0.2.3
  const TokenizerPtr words =
      Tokenizer::read(sentence_pieces(3, {{"<unk>", 2}, {"<x>", 4}, {"\u2581ab", 1}, {"\u2581a", 1}, {"\u2581ba", 1}}), "file");
  EXPECT_EQ(encode(*words, "ab ba zz yy ab").ids, (std::vector<int32_t>{2, 4, 0, 2}));
  EXPECT_EQ(encode(*words, "ab ba zz yy ab").places, (std::vector<TextSpan>{{0, 2}, {2, 5}, {5, 11}, {11, 14}}));
  EXPECT_EQ(words->decode(std::vector<int64_t>{2, 4, 0, 2}), "ab ba \u2047  ab");
  const TokenizerPtr characters =
      Tokenizer::read(sentence_pieces(4, {{"<unk>", 2}, {"<x>", 4}, {"\u2581", 1}, {"a", 1}, {"b", 1}}), "file");
  EXPECT_EQ(encode(*characters, "ab zz b").ids, (std::vector<int32_t>{2, 3, 4, 2, 0, 2, 4}));
  EXPECT_EQ(encode(*characters, " a<x>b  \u00e9").ids, (std::vector<int32_t>{2, 3, 1, 4, 2, 0}));
  EXPECT_REFUSED(sentence_pieces(5, {{"<unk>", 2}}), "a model of this type cannot be read; got model_type 5");
}

TEST(Tokenizer, Gpt2WordsTakeTheSpaceBeforeThem) {
  const std::string text = "I'll  go\n\n to\xC2\xA0 x2 !?";
  std::string cut;
  for (size_t i = 0; i < text.size();) {
    const size_t end = gpt2_word_end(text, i);
    cut += (cut.empty() ? "" : "|") + text.substr(i, end - i);
    i = end;
  }
  EXPECT_EQ(cut, "I|'ll| | go|\n\n| to|\xC2\xA0| x|2| !?");
}

}  // namespace
}  // namespace perigee
