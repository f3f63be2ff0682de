#include "src/core/host_isa.h"

#include <cstdlib>
#include <cstring>

namespace perigee {

Isa host_isa() {
  static const Isa isa = [] {
    Isa best = Isa::baseline;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) best = Isa::avx2;
    if (best == Isa::avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
      best = Isa::avx512;
    const char* cap = std::getenv("PERIGEE_ISA");
    if (cap && std::strcmp(cap, "baseline") == 0) best = Isa::baseline;
    if (cap && std::strcmp(cap, "avx2") == 0 && best > Isa::avx2) best = Isa::avx2;
    return best;
  }();
  return isa;
}

const char* isa_name(Isa isa) {
  static constexpr const char* kNames[] = {"baseline", "avx2", "avx512"};
  return kNames[static_cast<int>(isa)];
}

}  // namespace perigee
