#include "kernels/picture_loops.h"

namespace perigee {

extern const PictureLoops picture_loops_baseline, picture_loops_avx2, picture_loops_avx512;

const PictureLoops& picture_loops(Isa isa) {
  switch (isa) {
    case Isa::avx512: return picture_loops_avx512;
    case Isa::avx2: return picture_loops_avx2;
    default: return picture_loops_baseline;
  }
}

}  // namespace perigee
