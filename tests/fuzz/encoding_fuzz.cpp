// The first byte chooses the encoding and where the text is torn apart, the rest is the text: the parts say what the whole says, which is UTF-8. Then
// its sentences, which leave nothing out but blanks.
#include "src/io/codec/encoding.h"

#include "src/core/error.h"
#include "src/core/utf8.h"
#include "src/text/sentences.h"
#include "tests/fuzz/fuzz.h"

namespace {

constexpr const char* kNames[] = {"utf-8", "utf-16", "latin-1", "windows-1252", "gb18030", "shift_jis", "iso-2022-jp", "utf-7"};

size_t letters(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += c != ' ' && (c < '\t' || c > '\r');
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const char* name = kNames[data[0] % 8];
  try {
    const perigee::DecodedText whole = perigee::decoded_text(bytes, name, "input");
    for (size_t i = 0, length = 0; i < whole.text.size(); i += length) {
      length = perigee::utf8_length(whole.text, i);
      PERIGEE_FUZZ_CHECK(length > 0);
    }
    perigee::TextDecoder decoder(name, "input");
    std::string parts;
    const size_t cut = bytes.empty() ? 0 : data[0] / 8 % bytes.size();
    decoder.add(bytes.substr(0, cut), false, parts);
    decoder.add(bytes.substr(cut), true, parts);
    PERIGEE_FUZZ_CHECK(parts == whole.text);
  } catch (const perigee::Error&) {}
  size_t kept = 0;
  for (const std::string_view sentence : perigee::sentences_of(bytes)) kept += letters(sentence);
  PERIGEE_FUZZ_CHECK(kept <= letters(bytes));
  return 0;
}
