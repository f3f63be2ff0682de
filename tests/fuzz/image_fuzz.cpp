// Pictures of every kind, decoded as grey and as colour, then resized.
#include "src/io/image.h"

#include <cmath>

#include "src/core/error.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static perigee::Picture image;  // used again, as sources do
  static float planes[3 * 7 * 5];
  for (const int64_t channels : {1, 3}) {
    try {
      perigee::decode_image(perigee::fuzz_bytes(data, size), "input", channels, image);
      PERIGEE_FUZZ_CHECK(image.pixels.size() == static_cast<size_t>(image.width * image.height * channels));
      perigee::resize_image(image, 7, 5, 1.f / 255, planes);
      const perigee::WantedPart half{[](int64_t h, int64_t w) {
                                       return perigee::ImagePart{double(h / 2), double(w / 3), double(h - h / 2), double(w - w / 3)};
                                     },
                                     7, 5};
      const perigee::ImagePart part = perigee::decode_part(perigee::fuzz_bytes(data, size), "input", channels, half, image);
      PERIGEE_FUZZ_CHECK(part.top >= 0 && part.left >= 0 && part.top + part.height <= double(image.height) &&
                         part.left + part.width <= double(image.width));
      for (int64_t i = 0; i < channels * 35; ++i) PERIGEE_FUZZ_CHECK(planes[i] >= -.001f && planes[i] <= 1.001f);
    } catch (const perigee::Error&) {}
  }
  return 0;
}
