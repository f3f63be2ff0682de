// The options of source `images` that say how a picture gets its size: for folders, for pictures in records, and for those that a model is
// asked about.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "src/core/config.h"
#include "src/data/transforms/image.h"
#include "src/io/image.h"

namespace perigee {

inline constexpr Option kPictureOptions[] = {
    {"size", "integer or {height, width}", nullptr, "height and width that each image gets", {1, 8192}},
    {"fit",
     "name",
     "squash",
     "how a picture of another shape gets the size: it is stretched; its middle is cut out; bars are added; a part is drawn for each "
     "example",
     {},
     {"squash", "crop", "pad", "random"}},
    {"channels", "integer", "3", "1: grey; 3: colour", {1, 3}},
    {"scale", "number", "1/255", "factor on each value"},
    {"fill", "number", "0", "value of the bars"},
    {"decode",
     "name",
     "scaled",
     "scaled: a large JPEG at a half, a quarter or an eighth of its size; whole: never",
     {},
     {"scaled", "whole"}},
    kRandomPartOptions[0],
    kRandomPartOptions[1]};

// fit = "random" is the middle here: whoever draws says what.
FitOptions fit_options(const Config& config, int64_t height, int64_t width);

// The bytes of a picture's file to planes of floats of one size, as the options say.
class PictureDecoder {
 public:
  explicit PictureDecoder(const Config& config);  // Error of an option that is missing or out of range
  Shape shape() const { return {channels_, fit_.height, fit_.width}; }
  bool draws() const { return random_.has_value(); }
  // Thread-safe. Error(data) at `path`; a warning, once, when the shape changes by more than a fiftieth and nobody asked for it.
  // `place`: also where the part that was taken stands in the result.
  void decode(std::span<const std::byte> bytes, const std::string& path, const ReadKey& key, float* planes,
              FitPlace* place = nullptr) const;

 private:
  void warn_of_stretching(const std::string& path, int64_t height, int64_t width) const;

  int64_t channels_ = 3;
  FitOptions fit_;
  std::optional<RandomPart> random_;
  std::shared_ptr<std::atomic<bool>> stretches_;  // null: somebody asked for it; else whether it has been told
};

}  // namespace perigee
