#include "kernels/codec_loops.h"

namespace perigee {

extern const CodecLoops codec_loops_baseline, codec_loops_avx2, codec_loops_avx512;

const CodecLoops& codec_loops(Isa isa) {
  switch (isa) {
    case Isa::avx512: return codec_loops_avx512;
    case Isa::avx2: return codec_loops_avx2;
    default: return codec_loops_baseline;
  }
}

}  // namespace perigee
