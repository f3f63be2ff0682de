#include "kernels/pair_loops.h"

namespace perigee {

extern const PairLoops pair_loops_baseline, pair_loops_avx2, pair_loops_avx512;

const PairLoops& pair_loops(Isa isa) {
  switch (isa) {
    case Isa::avx512: return pair_loops_avx512;
    case Isa::avx2: return pair_loops_avx2;
    default: return pair_loops_baseline;
  }
}

}  // namespace perigee
