// Files of vectors: what is accepted can be asked, and is read again as it was written.
#include <unistd.h>

#include <string>

#include "kernels/pair_loops.h"
#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/vectors/files/vector_file.h"
#include "tests/fuzz/fuzz.h"

namespace perigee {

// Kernels are written for gcc: obvious loops stand in for them.
namespace {

void sum(const float* const* rows, int64_t count, int64_t width, float factor, float* out) {
  for (int64_t k = 0; k < width; ++k) {
    float total = 0;
    for (int64_t i = 0; i < count; ++i) total += rows[i][k];
    out[k] = total * factor;
  }
}

void products(const float* rows, int64_t count, int64_t width, const float* query, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = 0;
    for (int64_t k = 0; k < width; ++k) out[i] += rows[i * width + k] * query[k];
  }
}

constexpr PairLoops kPlain{.sum = sum, .products = products};

}  // namespace

extern const PairLoops pair_loops_baseline, pair_loops_avx2, pair_loops_avx512;
const PairLoops pair_loops_baseline = kPlain, pair_loops_avx2 = kPlain, pair_loops_avx512 = kPlain;

}  // namespace perigee

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace perigee;
  set_warning_handler([](const std::string&) {});
  try {
    const WordVectors vectors = parse_vectors(fuzz_bytes(data, size), "input");
    PERIGEE_FUZZ_CHECK(vectors.size() > 0 && vectors.size() == vectors.rows().rows);
    const std::string first(vectors.names().name(0));
    PERIGEE_FUZZ_CHECK(static_cast<int64_t>(vectors.nearest(vectors.vector(first), 3).size()) == std::min<int64_t>(3, vectors.size()));
    static const std::string path = "/tmp/perigee_vectors_fuzz_" + std::to_string(getpid());
    write_vectors(path, vectors, VectorFormat::binary);
    const WordVectors again = read_vectors(path);
    PERIGEE_FUZZ_CHECK(again.numbers() == vectors.numbers() && again.size() <= vectors.size());
  } catch (const Error&) {}
  return 0;
}
