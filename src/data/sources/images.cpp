// {"type": "images", "folder": "pets", "size": [64, 64]}: a folder of images per class ("pets/cat/1.jpg"), brought to one size: stretched,
// their middle, with bars, or a part drawn at random. Classes are the folders' names, sorted; files are sorted within them. A flat folder
// has no labels.
#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "src/core/warning.h"
#include "src/data/records/encoded.h"
#include "src/data/sources/picture_options.h"
#include "src/io/confined.h"
#include "src/io/image.h"
#include "src/io/store/store.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMaxImagesFileBytes = uint64_t{256} << 20;
constexpr int64_t kReadAhead = 128;  // images of a store whose transfers run while others are decoded
constexpr size_t kMaxImagesFiles = size_t{1} << 27;

bool is_image_name(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension.size() > 1 && is_image_suffix(std::string_view(extension).substr(1));
}

class ImageFolder : public DataSource, public EncodedSource {
 public:
  struct File {
    std::string path;
    int64_t label = 0;
  };

  ImageFolder(std::string folder, std::vector<File> files, std::vector<std::string> classes, PictureDecoder decoder)
      : folder_(std::move(folder)), files_(std::move(files)), decoder_(std::move(decoder)) {
    fields_.push_back({.name = "x", .dtype = Dtype::f32, .shape = decoder_.shape()});
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
    thread_local Bytes bytes;  // their memory serves the thread's next image
    encoded(key.index, bytes, slots);
    decoder_.decode(bytes, files_[static_cast<size_t>(key.index)].path, key, reinterpret_cast<float*>(slots[0]));
  }

  void encoded(int64_t index, Bytes& bytes, std::span<std::byte* const> slots) const override {
    const File& file = files_[static_cast<size_t>(index)];
    read_file(file.path, kMaxImagesFileBytes, bytes);
    if (slots.size() > 1) std::memcpy(slots[1], &file.label, sizeof file.label);
  }

 private:
  std::string folder_;
  std::vector<File> files_;
  PictureDecoder decoder_;
  std::vector<Field> fields_;
};

std::vector<std::string> sorted_entries(const std::vector<FolderEntry>& entries, bool folders) {
  std::vector<std::string> names;
  for (const FolderEntry& entry : entries) {
    if (entry.name.starts_with('.')) continue;
    if (folders ? entry.folder : entry.file && is_image_name(entry.name)) names.push_back(entry.name);
  }
  return names;
}

// A folder that lists the classes keeps their numbers when another part of the data lacks one.
std::vector<std::string> class_folders(const Config& config, const std::string& folder, const std::vector<FolderEntry>& entries) {
  std::vector<std::string> given = config.string_list("classes");
  const std::vector<std::string> found = sorted_entries(entries, true);
  if (given.empty()) return found;
  for (const auto& name : found)
    if (std::find(given.begin(), given.end(), name) == given.end())
      throw Error(ErrorKind::data,
                  {.where = folder + "/" + name, .what = "this folder is none of the classes", .hint = nearest_hint(name, given)});
  return given;
}

SourcePtr open_images(const Config& config, const std::string& base) {
  const std::string folder = path_in(base, config.string("folder"));
  const bool there = folder_exists(folder);  // a store is asked once
  if (!there && file_exists(folder))
    throw Error(ErrorKind::data,
                {.where = folder, .what = "is a file", .expected = "a folder that has a folder of pictures for each class"});
  if (!there) throw Error(ErrorKind::data, {.where = folder, .what = "there is no such folder", .hint = nearby_hint(folder)});
  PictureDecoder decoder(config);
  const std::vector<FolderEntry> entries = list_folder(folder);
  std::vector<std::string> classes = class_folders(config, folder, entries);
  std::vector<std::string> folders;
  for (const std::string& name : classes)
    if (std::ranges::any_of(entries, [&](const FolderEntry& e) { return e.folder && e.name == name; }))
      folders.push_back(folder + "/" + name);
  const std::vector<std::vector<FolderEntry>> listed = list_folders(folders);
  std::vector<ImageFolder::File> files;
  for (size_t label = 0; label < classes.size(); ++label) {
    const std::string of_class = folder + "/" + classes[label];
    const auto at = std::ranges::find(folders, of_class);
    if (at == folders.end()) continue;  // a part that lacks a class that was given
    const size_t before = files.size();
    for (const auto& name : sorted_entries(listed[static_cast<size_t>(at - folders.begin())], false))
      files.push_back({of_class + "/" + name, static_cast<int64_t>(label)});
    if (files.size() == before && !config.has("classes"))
      warn(of_class +
           ": this folder has no pictures, and counts as a class all the same; remove it, or name the classes: classes = { ... }");
  }
  if (classes.empty())
    for (const auto& name : sorted_entries(entries, false)) files.push_back({folder + "/" + name, 0});
  if (files.empty() || files.size() > kMaxImagesFiles)
    throw Error(
        ErrorKind::data,
        {.where = folder, .what = "there are no images here", .expected = std::string("a folder of files per class: ") + kImageSuffixes});
  return std::make_shared<ImageFolder>(folder, std::move(files), std::move(classes), std::move(decoder));
}

constexpr const char* kImagesPositional[] = {"folder"};
// In the order in which help shows them.
constexpr auto kImagesOptions = [] {
  std::array<Option, std::size(kPictureOptions) + 2> all{};
  all.front() = {"folder", "file", nullptr, "one folder per class"};
  std::copy(std::begin(kPictureOptions), std::end(kPictureOptions), all.begin() + 1);
  all.back() = {"classes", "list of names", "the folders' names", "in the order of their numbers"};
  return all;
}();

}  // namespace

extern const SourceDef source_images;
const SourceDef source_images{.type = "images",
                              .doc =
                                  "A folder of images per class: JPEG, PNG, BMP, WebP, TIFF, GIF. Options: folder, size (height and "
                                  "width), fit ('squash', 'crop', 'pad' or "
                                  "'random', which draws area and ratio), channels (3), scale (1/255), fill (0), decode ('scaled' or "
                                  "'whole'), classes (the folders' names)",
                              .schema = {.options = kImagesOptions, .positional = kImagesPositional},
                              .open = open_images};

}  // namespace perigee
