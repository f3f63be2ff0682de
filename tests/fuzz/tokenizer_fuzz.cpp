// The bytes are a tokenizer's file; or, where the first byte is small, a text for one of a few tokenizers of the shapes that matter: then tokens
// lie in the text, and parts that are looked up are what they are alone.
#include "src/text/tokenizer.h"

#include <cmath>

#include "src/core/error.h"
#include "tests/fuzz/fuzz.h"

namespace perigee {
namespace {

constexpr const char* kFiles[] = {
    R"({"model":{"type":"WordPiece","vocab":{"[U]":0,"a":1,"b":2,"##b":3,"##a":4,"ab":5,".":6},"unk_token":"[U]"},"normalizer":{"type":
       "BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},"added_tokens":[{"id":7,"content":"<x>","lstrip":true,"rstrip":true,
       "normalized":false},{"id":8,"content":"AB","single_word":true,"normalized":true}]})",
    R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"\u0120":2,"ab":3,"\u0120a":4,"\u0120ab":5,"\u00c3":6,"\u010a":7},"merges":["a b","\u0120 a",
       "\u0120a b","\u0120 ab"]},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true},"post_processor":{"type":"ByteLevel"},
       "decoder":{"type":"ByteLevel"}})",
    R"({"model":{"type":"Unigram","vocab":[["<u>",0],["\u2581",-2],["a",-3],["b",-3.5],["ab",-4],["\u2581a",-4.5]],"unk_id":0},"normalizer":
       {"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"},{"type":"StripAccents"}]},"pre_tokenizer":{"type":"Metaspace",
       "replacement":"\u2581","prepend_scheme":"first"},"decoder":{"type":"Metaspace","replacement":"\u2581"}})",
    R"({"model":{"type":"BPE","vocab":{"<u>":0,"\u2581":1,"a":2,"b":3,"\u2581a":4,"ab":5,"<0xC3>":6,"\u2581\u2581":7},"merges":["\u2581 a","a b",
       "\u2581 \u2581"],"unk_token":"<u>","byte_fallback":true,"fuse_unk":true},"normalizer":{"type":"Sequence","normalizers":[{"type":
       "Prepend","prepend":"\u2581"},{"type":"Replace","pattern":{"String":" "},"content":"\u2581"}]}})",
};

void encode(const Tokenizer& tokenizer, std::string_view text) {
  TokenCache cache;
  TokenEncoding first, again, alone;
  tokenizer.encode(text, "text", true, first, &cache);
  tokenizer.encode(text, "text", true, again, &cache);
  tokenizer.encode(text, "text", true, alone);
  PERIGEE_FUZZ_CHECK(first.ids == again.ids && first.places == again.places);
  PERIGEE_FUZZ_CHECK(first.ids == alone.ids && first.places == alone.places);
  PERIGEE_FUZZ_CHECK(first.ids.size() == first.places.size());
  for (const TextSpan& place : first.places) PERIGEE_FUZZ_CHECK(place.from <= place.to && place.to <= text.size());
  const std::vector<int64_t> ids(first.ids.begin(), first.ids.end());
  tokenizer.decode(ids);
  for (const int64_t id : ids) tokenizer.piece(id, false);
}

}  // namespace
}  // namespace perigee

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    if (data[0] < std::size(perigee::kFiles)) {
      static const perigee::TokenizerPtr made[] = {
          perigee::Tokenizer::read(perigee::kFiles[0], "0"), perigee::Tokenizer::read(perigee::kFiles[1], "1"),
          perigee::Tokenizer::read(perigee::kFiles[2], "2"), perigee::Tokenizer::read(perigee::kFiles[3], "3")};
      perigee::encode(*made[data[0]], bytes.substr(1));
    } else {
      perigee::encode(*perigee::Tokenizer::read(bytes, "file"), "Hello  \xC3\xA9 <x>\n\xE3\x80\x80 ab 12");
    }
  } catch (const perigee::Error&) {}
  return 0;
}
