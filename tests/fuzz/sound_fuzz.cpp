// Recordings of every kind, decoded. A file below 2 MB has room for 48 MB of numbers.
#include <algorithm>
#include <cmath>

#include "src/core/error.h"
#include "src/io/sound/sound.h"
#include "tests/fuzz/fuzz.h"

// The decoders of Debian 12 lose memory of damaged files; what is lost is theirs, and bounded by the file.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libsndfile\nleak:libvorbis\nleak:libogg\nleak:libFLAC\nleak:libopus\nleak:libmpg123\n";
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static perigee::Sound sound;  // used again, as sources do
  const auto bytes = perigee::fuzz_bytes(data, size);
  try {
    const perigee::SoundInfo info = perigee::sound_info(bytes, "input");
    PERIGEE_FUZZ_CHECK(perigee::is_sound(bytes));
    for (const int64_t most : {int64_t{7}, int64_t{1} << 40}) {
      perigee::decode_sound(
          bytes, "input", [&](const perigee::SoundInfo&) { return most; }, sound);
      PERIGEE_FUZZ_CHECK(sound.rate == info.rate && sound.channels == info.channels && sound.frames <= std::min(most, info.frames));
      PERIGEE_FUZZ_CHECK(sound.samples.size() == static_cast<size_t>(sound.frames * sound.channels));
      PERIGEE_FUZZ_CHECK(sound.samples.size() * sizeof(float) <= size_t{48} << 20 || size >= size_t{2} << 20);
      for (const float value : sound.samples) PERIGEE_FUZZ_CHECK(std::isfinite(value));
    }
  } catch (const perigee::Error&) {}
  return 0;
}
