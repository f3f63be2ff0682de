#include "src/data/sources/picture_options.h"

#include "src/core/warning.h"

namespace perigee {
namespace {

constexpr uint64_t kPictureOptionsStream = 0x70696374;  // of random numbers: no transform's

}  // namespace

FitOptions fit_options(const Config& config, int64_t height, int64_t width) {
  const std::string fit = config.string("fit", "squash");
  return {.fit = fit == "pad"      ? Fit::pad
                 : fit == "squash" ? Fit::squash
                                   : Fit::crop,
          .height = height,
          .width = width,
          .scale = static_cast<float>(config.number("scale", 1.0 / 255)),
          .fill = static_cast<float>(config.number("fill", 0)),
          .scaled = config.string("decode", "scaled") == "scaled"};
}

PictureDecoder::PictureDecoder(const Config& config) {
  channels_ = config.integer_in("channels", 1, 3, 3);
  if (channels_ == 2) config.fail("channels", "is out of range", "2", "1 or 3");
  if (!config.has("size")) config.fail("size", "is missing", "", "{height, width}, or one number for both");
  const std::vector<int64_t> size = config.integers("size", 2, 0);
  if (size[0] < 1 || size[1] < 1 || size[0] > 8192 || size[1] > 8192) config.fail("size", "is out of range", "", "1 to 8192");
  const std::string fit = config.choice("fit", "squash", {"squash", "crop", "pad", "random"});
  fit_ = fit_options(config, size[0], size[1]);
  if (!config.has("fit")) stretches_ = std::make_shared<std::atomic<bool>>(false);
  if (fit == "random") random_.emplace(config);
  else if (config.has("area") || config.has("ratio"))
    config.fail(config.has("area") ? "area" : "ratio", "is of a part that is drawn", "", "fit = \"random\"");
}

void PictureDecoder::decode(std::span<const std::byte> bytes, const std::string& path, const ReadKey& key, float* planes,
                            FitPlace* place) const {
  thread_local Picture image;  // its memory serves the thread's next one
  const ChoosePart part = [&](int64_t height, int64_t width) -> ImagePart {
    Draw draw(key, kPictureOptionsStream);
    ImagePart taken;
    if (random_) taken = random_->draw(height, width, draw);
    const FitPlace whole = fit_place(height, width, fit_, random_ ? &taken : nullptr);
    if (place != nullptr) *place = whole;
    if (stretches_) warn_of_stretching(path, height, width);
    return whole.part;
  };
  try {
    fit_image(bytes, path, channels_, fit_, random_ || stretches_ || place != nullptr ? &part : nullptr, image, planes);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    Error::Parts parts = error.parts();
    parts.hint = "delete the file or replace it";
    throw Error(error.kind(), std::move(parts));
  }
}

void PictureDecoder::warn_of_stretching(const std::string& path, int64_t height, int64_t width) const {
  const int64_t a = height * fit_.width, b = width * fit_.height;
  if (std::abs(a - b) * 50 <= std::max(a, b) || stretches_->exchange(true)) return;
  const auto size = [](int64_t w, int64_t h) { return std::to_string(w) + "x" + std::to_string(h); };
  warn(path + " is " + size(width, height) + " pixels and is stretched to " + size(fit_.width, fit_.height) +
       ", as are others here; fit = \"crop\" takes the middle, \"pad\" adds bars, \"squash\" says that stretching is meant");
}

}  // namespace perigee
