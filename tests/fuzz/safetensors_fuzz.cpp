// Accepted input is written and read back to the same tensors and metadata.
#include "src/io/safetensors.h"

#include <algorithm>

#include "src/core/error.h"
#include "tests/fuzz/fuzz.h"

namespace {

void check_same(const perigee::Safetensors& a, const perigee::Safetensors& b) {
  PERIGEE_FUZZ_CHECK(a.tensors.size() == b.tensors.size());
  for (const perigee::NamedTensor& one : a.tensors) {
    const perigee::Tensor* other = b.find(one.name);
    PERIGEE_FUZZ_CHECK(other && other->dtype() == one.tensor.dtype() && other->shape() == one.tensor.shape());
    const auto* x = one.tensor.data<unsigned char>();
    PERIGEE_FUZZ_CHECK(std::equal(x, x + one.tensor.bytes(), other->data<unsigned char>()));
  }
  for (const auto& [key, value] : a.metadata) PERIGEE_FUZZ_CHECK(key == "xxh3" || b.metadata.at(key) == value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const perigee::Safetensors file = perigee::parse_safetensors(perigee::fuzz_bytes(data, size), "input");
    check_same(file, perigee::parse_safetensors(perigee::safetensors_bytes(file.tensors, file.metadata), "written"));
  } catch (const perigee::Error&) {}
  return 0;
}
