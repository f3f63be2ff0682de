// XML, JSON and YAML documents as lines. The first byte chooses the kind, and whether a part is named.
#include "src/core/error.h"
#include "src/data/table/reading/documents.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace perigee::tables;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  constexpr DocumentKind kKinds[] = {DocumentKind::json, DocumentKind::yaml, DocumentKind::xml};
  try {
    const std::string lines = lines_of_document(kKinds[data[0] % 3], text, (data[0] & 128) != 0 ? "row" : "", "input", 1 << 16);
    PERIGEE_FUZZ_CHECK(!lines.empty() && lines.back() == '\n');
  } catch (const perigee::Error&) {}
  return 0;
}
