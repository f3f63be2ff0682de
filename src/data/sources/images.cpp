// {"type": "images", "folder": "pets", "size": [64, 64]}: a folder of images per class ("pets/cat/1.jpg"), brought to one size: stretched,
// their middle, with bars, or a part drawn at random. Classes are the folders' names, sorted; files are sorted within them. A flat folder
// has no labels.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <optional>

#include "src/core/warning.h"
#include "src/data/picture_options.h"
#include "src/data/source.h"
#include "src/data/transforms/image.h"
#include "src/io/confined.h"
#include "src/io/image.h"
#include "src/io/store/store.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMaxFileBytes = uint64_t{256} << 20;
constexpr int64_t kReadAhead = 128;  // images of a store whose transfers run while others are decoded
constexpr size_t kMaxFiles = size_t{1} << 27;

bool is_image_name(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension.size() > 1 && is_image_suffix(std::string_view(extension).substr(1));
}

constexpr uint64_t kStream = 0x70696374;  // of random numbers: no transform's

struct Options {
  int64_t channels = 3;
  FitOptions fit;
  std::optional<RandomPart> random;
  bool stretches = false;  // and nobody asked for it
};

class ImageFolder : public DataSource {
 public:
  struct File {
    std::string path;
    int64_t label = 0;
  };

  ImageFolder(std::string folder, std::vector<File> files, std::vector<std::string> classes, const Options& options)
      : folder_(std::move(folder)), files_(std::move(files)), options_(options) {
    fields_.push_back({.name = "x", .dtype = Dtype::f32, .shape = {options.channels, options.fit.height, options.fit.width}});
    if (!classes.empty()) {
      const auto count = static_cast<int64_t>(classes.size());
      fields_.push_back({.name = "y", .dtype = Dtype::i64, .shape = {}, .classes = count, .class_names = std::move(classes)});
    }
  }

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  const std::vector<Field>& fields() const override { return fields_; }
  SourceTraits traits() const override {
    return {.description = "images (" + std::to_string(files_.size()) + " examples, " + folder_ + ")",
            .read_ahead = is_store_path(folder_) ? kReadAhead : 0};
  }

  void expect(std::span<const ReadKey> keys) const override {
    std::vector<std::string> paths;
    for (const ReadKey& key : keys) paths.push_back(files_[static_cast<size_t>(key.index)].path);
    expect_stored(paths);
  }

  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    // Their memory serves the thread's next image.
    thread_local Bytes bytes;
    thread_local Picture image;
    const File& file = files_[static_cast<size_t>(key.index)];
    read_file(file.path, kMaxFileBytes, bytes);
    decode(bytes, file.path, key, image, reinterpret_cast<float*>(slots[0]));
    if (slots.size() > 1) std::memcpy(slots[1], &file.label, sizeof file.label);
  }

 private:
  void decode(const Bytes& bytes, const std::string& path, const ReadKey& key, Picture& image, float* planes) const {
    const ChoosePart part = [&](int64_t height, int64_t width) -> ImagePart {
      Draw draw(key, kStream);
      if (options_.random) return options_.random->draw(height, width, draw);
      warn_of_stretching(path, height, width);
      return {0, 0, static_cast<double>(height), static_cast<double>(width)};
    };
    try {
      fit_image(bytes, path, options_.channels, options_.fit, options_.random || options_.stretches ? &part : nullptr, image, planes);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
      Error::Parts parts = error.parts();
      parts.hint = "delete the file or replace it";
      throw Error(error.kind(), std::move(parts));
    }
  }

  // Once, when the shape changes by more than a fiftieth.
  void warn_of_stretching(const std::string& path, int64_t height, int64_t width) const {
    const int64_t a = height * options_.fit.width, b = width * options_.fit.height;
    if (std::abs(a - b) * 50 <= std::max(a, b) || warned_.exchange(true)) return;
    const auto size = [](int64_t w, int64_t h) { return std::to_string(w) + "x" + std::to_string(h); };
    warn(path + " is " + size(width, height) + " pixels and is stretched to " + size(options_.fit.width, options_.fit.height) +
         ", as are others here; fit = \"crop\" takes the middle, \"pad\" adds bars, \"squash\" says that stretching is meant");
  }

  std::string folder_;
  std::vector<File> files_;
  Options options_;
  mutable std::atomic<bool> warned_{false};
  std::vector<Field> fields_;
};

std::vector<std::string> sorted_entries(const std::string& folder, bool folders) {
  std::vector<std::string> names;
  for (const FolderEntry& entry : list_folder(folder)) {
    if (entry.name.starts_with('.')) continue;
    if (folders ? entry.folder : entry.file && is_image_name(entry.name)) names.push_back(entry.name);
  }
  return names;
}

// A folder that lists the classes keeps their numbers when another part of the data lacks one.
std::vector<std::string> class_folders(const Config& config, const std::string& folder) {
  std::vector<std::string> given = config.string_list("classes");
  const std::vector<std::string> found = sorted_entries(folder, true);
  if (given.empty()) return found;
  for (const auto& name : found)
    if (std::find(given.begin(), given.end(), name) == given.end())
      throw Error(ErrorKind::data,
                  {.where = folder + "/" + name, .what = "this folder is none of the classes", .hint = nearest_hint(name, given)});
  return given;
}

SourcePtr open(const Config& config, const std::string& base) {
  const std::string folder = path_in(base, config.string("folder"));
  if (!folder_exists(folder)) throw Error(ErrorKind::data, {.where = folder, .what = "there is no such folder"});
  Options options;
  options.channels = config.integer_in("channels", 1, 3, 3);
  if (options.channels == 2) config.fail("channels", "is out of range", "2", "1 or 3");
  if (!config.has("size")) config.fail("size", "is missing", "", "{height, width}, or one number for both");
  const std::vector<int64_t> size = config.integers("size", 2, 0);
  if (size[0] < 1 || size[1] < 1 || size[0] > 8192 || size[1] > 8192) config.fail("size", "is out of range", "", "1 to 8192");
  options.fit = fit_options(config, size[0], size[1]);
  options.stretches = !config.has("fit");
  if (config.choice("fit") == "random") options.random.emplace(config);
  else if (config.has("area") || config.has("ratio"))
    config.fail(config.has("area") ? "area" : "ratio", "is of a part that is drawn", "", "fit = \"random\"");
  std::vector<std::string> classes = class_folders(config, folder);
  std::vector<ImageFolder::File> files;
  for (size_t label = 0; label < classes.size(); ++label) {
    const std::string of_class = folder + "/" + classes[label];
    if (config.has("classes") && !folder_exists(of_class)) continue;
    for (const auto& name : sorted_entries(of_class, false)) files.push_back({of_class + "/" + name, static_cast<int64_t>(label)});
  }
  if (classes.empty())
    for (const auto& name : sorted_entries(folder, false)) files.push_back({folder + "/" + name, 0});
  if (files.empty() || files.size() > kMaxFiles)
    throw Error(
        ErrorKind::data,
        {.where = folder, .what = "there are no images here", .expected = std::string("a folder of files per class: ") + kImageSuffixes});
  return std::make_shared<ImageFolder>(folder, std::move(files), std::move(classes), options);
}

constexpr const char* kPositional[] = {"folder"};
constexpr Option kOptions[] = {{"folder", "file", nullptr, "one folder per class"},
                               {"size", "integer or {height, width}", nullptr, "height and width that each image gets", {1, 8192}},
                               {"fit",
                                "name",
                                "squash",
                                "how: stretched; its middle; with bars; a part drawn for each example",
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
                               kRandomPartOptions[1],
                               {"classes", "list of names", "the folders' names", "in the order of their numbers"}};

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

extern const SourceDef source_images;
const SourceDef source_images{.type = "images",
                              .doc =
                                  "A folder of images per class: JPEG, PNG, BMP, WebP, TIFF, GIF. Options: folder, size (height and "
                                  "width), fit ('squash', 'crop', 'pad' or "
                                  "'random', which draws area and ratio), channels (3), scale (1/255), fill (0), decode ('scaled' or "
                                  "'whole'), classes (the folders' names)",
                              .schema = {.options = kOptions, .positional = kPositional},
                              .open = open};

}  // namespace perigee
