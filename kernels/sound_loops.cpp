#include "kernels/sound_loops.h"

namespace perigee {

extern const SoundLoops sound_loops_baseline, sound_loops_avx2, sound_loops_avx512;

const SoundLoops& sound_loops(Isa isa) {
  switch (isa) {
    case Isa::avx512: return sound_loops_avx512;
    case Isa::avx2: return sound_loops_avx2;
    default: return sound_loops_baseline;
  }
}

}  // namespace perigee
