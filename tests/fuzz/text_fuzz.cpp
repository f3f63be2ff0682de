// The first byte chooses the kind of units, the rest is the text. Its units lie in it, the vocabulary of them comes back from its JSON, and
// the same bytes as JSON are a vocabulary that makes sense or none.
#include "src/io/text.h"

#include "src/core/utf8.h"
#include "tests/fuzz/fuzz.h"

namespace perigee {
namespace {

void check_vocabulary(const Vocabulary& vocabulary, bool unknown) {
  for (size_t i = unknown ? 1 : 0; i < vocabulary.names().size(); ++i)
    PERIGEE_FUZZ_CHECK(vocabulary.number(vocabulary.names()[i]) == static_cast<int64_t>(i));
  const Json json = vocabulary.to_json();
  const Vocabulary again(Config(json, "again"));
  PERIGEE_FUZZ_CHECK(again.names() == vocabulary.names() && again.units() == vocabulary.units());
}

void fuzz_text(std::string_view text, uint8_t choice) {
  const std::string where = "input";
  const VocabularyOptions options{.units = {.words = choice % 2 == 1, .lowercase = choice / 2 % 2 == 1},
                                  .unknown = choice / 4 % 2 == 1,
                                  .min_count = choice / 8 % 2 + 1,
                                  .max_size = choice / 16 % 2 == 1 ? 3 : 1 << 16};
  UnitCounts counts;
  UnitReader reader(text, options.units, where);
  counts.add(reader);
  const Vocabulary vocabulary(counts, options);
  PERIGEE_FUZZ_CHECK(vocabulary.size() <= options.max_size);
  if (vocabulary.size() > (options.unknown ? 1 : 0)) check_vocabulary(vocabulary, options.unknown);
  size_t bytes = 0;
  for (UnitReader again(text, options.units, where); again.next(); bytes += again.unit().size()) {
    const int64_t number = vocabulary.number(again.unit());
    PERIGEE_FUZZ_CHECK(number < vocabulary.size() && number >= (options.unknown ? 0 : -1));
    PERIGEE_FUZZ_CHECK(!printable(again.unit()).empty());
  }
  PERIGEE_FUZZ_CHECK(options.units.words ? bytes <= text.size() : bytes == text.size());
}

}  // namespace
}  // namespace perigee

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    perigee::fuzz_text(text, data[0]);
  } catch (const perigee::Error&) {}
  try {
    const perigee::Json json = perigee::Json::parse(text, "input", 10000);
    const perigee::Vocabulary vocabulary(perigee::Config(json, "input"));
    perigee::check_vocabulary(vocabulary, vocabulary.names()[0] == perigee::Vocabulary::kUnknown);
  } catch (const perigee::Error&) {}
  return 0;
}
