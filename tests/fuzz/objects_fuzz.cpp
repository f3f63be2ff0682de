// The first byte chooses the file's name and whether classes are given, the rest is the file: a table of boxes, or COCO's JSON. What is read has
// boxes that can lie on a picture, of classes that there are.
#include <cmath>

#include "src/core/error.h"
#include "src/data/sources/objects_on_pictures.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  std::vector<std::string> classes;
  if (data[0] % 4 < 2) classes = {"cat", "dog"};
  try {
    const perigee::ObjectsOnPictures objects = perigee::parse_objects(text, data[0] % 2 ? "boxes.tsv" : "boxes.csv", classes);
    for (size_t i = 1; i < objects.classes.size() && classes.empty(); ++i) PERIGEE_FUZZ_CHECK(objects.classes[i - 1] < objects.classes[i]);
    for (const auto& [file, boxes] : objects.boxes) {
      PERIGEE_FUZZ_CHECK(file.find('/') == file.npos && !boxes.empty() && boxes.size() % 5 == 0);
      for (size_t b = 0; b < boxes.size(); b += 5) {
        for (size_t k = 0; k < 4; ++k) PERIGEE_FUZZ_CHECK(std::abs(boxes[b + k]) <= 1e7f);
        PERIGEE_FUZZ_CHECK(boxes[b] < boxes[b + 2] && boxes[b + 1] < boxes[b + 3]);
        PERIGEE_FUZZ_CHECK(boxes[b + 4] >= 0 && boxes[b + 4] < static_cast<float>(objects.classes.size()));
      }
    }
  } catch (const perigee::Error&) {}
  return 0;
}
