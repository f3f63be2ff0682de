// {"type": "objects", "folder": "pictures", "boxes": "boxes.csv", "masks": "masks", "size": [416, 416]}: pictures with what is on them: a box and a
// class for each object, a class for each pixel, or both. They are brought to the size that the pictures get, and transforms carry them along.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "src/data/sources/objects_on_pictures.h"
#include "src/data/sources/picture_options.h"
#include "src/data/transforms/carried.h"
#include "src/io/confined.h"
#include "src/io/image.h"

namespace perigee {
namespace {

constexpr uint64_t kMaxObjectsFileBytes = uint64_t{256} << 20;
constexpr size_t kMaxObjectsFiles = size_t{1} << 27;

struct Shown {
  std::string picture, mask;  // paths
  std::vector<float> boxes;   // kBoxNumbers each, in pixels of the file's picture
};

class ObjectSource : public DataSource {
 public:
  ObjectSource(std::string folder, std::vector<Shown> files, std::vector<std::string> classes, PictureDecoder decoder, int64_t most,
               double visible)
      : folder_(std::move(folder)),
        files_(std::move(files)),
        classes_(std::move(classes)),
        decoder_(std::move(decoder)),
        most_(most),
        visible_(visible) {
    const Shape size = decoder_.shape();
    fields_.push_back({.name = "x", .dtype = Dtype::f32, .shape = size});
    if (most > 0)
      fields_.push_back({.name = "boxes", .dtype = Dtype::f32, .shape = {most, kBoxNumbers}, .of = "x", .on_picture = OnPicture::boxes});
    if (!files_[0].mask.empty())
      fields_.push_back({.name = "mask", .dtype = Dtype::i64, .shape = {size[1], size[2]}, .of = "x", .on_picture = OnPicture::mask});
  }

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  const std::vector<Field>& fields() const override { return fields_; }
  SourceTraits traits() const override {
    Json fitted;
    if (!classes_.empty()) {
      Json names = Json::array();
      for (const std::string& name : classes_) names.push(name);
      fitted = Json(Json::Object{{"type", "objects"}, {"classes", std::move(names)}});
    }
    return {.description = "objects (" + std::to_string(files_.size()) + " pictures, " + std::to_string(classes_.size()) +
                           " classes of boxes, " + folder_ + ")",
            .fitted = std::move(fitted)};
  }

  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    const Shown& shown = files_[static_cast<size_t>(key.index)];
    thread_local Bytes bytes;  // their memory serves the thread's next picture
    read_file(shown.picture, kMaxObjectsFileBytes, bytes);
    FitPlace place;
    decoder_.decode(bytes, shown.picture, key, reinterpret_cast<float*>(slots[0]), &place);
    const PlaneMap map = fitted_plane(place);
    const int64_t height = decoder_.shape()[1], width = decoder_.shape()[2];
    size_t slot = 1;
    if (most_ > 0) {
      const auto count = static_cast<int64_t>(shown.boxes.size()) / kBoxNumbers;
      auto* boxes = reinterpret_cast<float*>(slots[slot++]);
      carry_boxes(shown.boxes.data(), count, map, height, width, visible_, boxes);
      for (int64_t i = count; i < most_; ++i) {
        std::fill_n(boxes + i * kBoxNumbers, kBoxNumbers - 1, 0.f);
        boxes[i * kBoxNumbers + 4] = -1;
      }
    }
    if (!shown.mask.empty()) read_mask(shown.mask, map, height, width, reinterpret_cast<int64_t*>(slots[slot]));
  }

 private:
  static void read_mask(const std::string& path, const PlaneMap& map, int64_t height, int64_t width, int64_t* to) {
    thread_local Bytes bytes;
    thread_local Picture stored;
    thread_local std::vector<int64_t> classes;
    read_file(path, kMaxObjectsFileBytes, bytes);
    decode_classes(bytes, path, stored);
    classes.resize(stored.pixels.size());
    std::transform(stored.pixels.begin(), stored.pixels.end(), classes.begin(), [](std::byte b) { return std::to_integer<int64_t>(b); });
    carry_mask(classes.data(), stored.height, stored.width, map, height, width, to);
  }

  std::string folder_;
  std::vector<Shown> files_;
  std::vector<std::string> classes_;
  PictureDecoder decoder_;
  int64_t most_;
  double visible_;
  std::vector<Field> fields_;
};

std::string stem(const std::string& name) { return name.substr(0, name.rfind('.')); }

// Each picture of the folder that the files of boxes and masks know, in the order of the names.
std::vector<Shown> find_pictures(const std::string& folder, const std::string& masks, bool with_boxes,
                                 std::map<std::string, std::vector<float>> boxes, const std::string& boxes_file) {
  std::vector<std::string> names;
  for (const FolderEntry& entry : list_folder(folder)) {
    const size_t dot = entry.name.rfind('.');
    if (entry.file && !entry.name.starts_with('.') && dot != std::string::npos &&
        is_image_suffix(std::string_view(entry.name).substr(dot + 1)))
      names.push_back(entry.name);
  }
  if (names.empty() || names.size() > kMaxObjectsFiles)
    throw Error(ErrorKind::data,
                {.where = folder, .what = "there are no images here", .expected = std::string("files: ") + kImageSuffixes});
  std::vector<Shown> files;
  for (const std::string& name : names) {
    Shown shown{.picture = folder + "/" + name, .mask = {}, .boxes = {}};
    if (!masks.empty()) {
      shown.mask = masks + "/" + stem(name) + ".png";
      expect_there(shown.mask);
    }
    if (const auto found = boxes.find(name); found != boxes.end()) {
      shown.boxes = std::move(found->second);
      boxes.erase(found);
    }
    files.push_back(std::move(shown));
  }
  if (with_boxes && !boxes.empty())
    throw Error(ErrorKind::data, {.where = boxes_file,
                                  .what = "names a picture that is not in the folder",
                                  .got = "'" + boxes.begin()->first.substr(0, 80) + "'",
                                  .expected = "a file of " + folder,
                                  .hint = nearest_hint(boxes.begin()->first, names)});
  return files;
}

SourcePtr open_objects(const Config& config, const std::string& base) {
  const std::string folder = path_in(base, config.string("folder"));
  if (!folder_exists(folder)) throw Error(ErrorKind::data, {.where = folder, .what = "there is no such folder"});
  const bool with_boxes = config.has("boxes");
  if (!with_boxes && !config.has("masks"))
    config.fail("boxes", "and 'masks' are missing", "", "one of them, or both; without: pg.data.images");
  std::string file, masks;
  ObjectsOnPictures objects;
  if (with_boxes) {
    file = path_in(base, config.string("boxes"));
    const Config fitted = config.has("fitted") ? config.object("fitted") : config;
    objects = read_objects(file, fitted.string_list("classes"));
  }
  if (config.has("masks")) {
    masks = path_in(base, config.string("masks"));
    if (!folder_exists(masks)) throw Error(ErrorKind::data, {.where = masks, .what = "there is no such folder"});
  }
  const int64_t most = with_boxes ? config.integer("most") : 0;
  for (const auto& [name, boxes] : objects.boxes)
    if (static_cast<int64_t>(boxes.size()) > most * kBoxNumbers)
      config.fail("most", "is less than the boxes of '" + name + "'", std::to_string(most),
                  std::to_string(static_cast<int64_t>(boxes.size()) / kBoxNumbers) + " or more");
  PictureDecoder decoder(config);
  std::vector<Shown> files = find_pictures(folder, masks, with_boxes, std::move(objects.boxes), file);
  return std::make_shared<ObjectSource>(folder, std::move(files), std::move(objects.classes), std::move(decoder), most,
                                        config.number("visible"));
}

constexpr const char* kObjectsPositional[] = {"folder"};
constexpr auto kObjectsOptions = [] {
  std::array<Option, std::size(kPictureOptions) + 7> all{};
  all[0] = {"folder", "file", nullptr, "the pictures"};
  all[1] = {"boxes", "file", "none", "a table with columns file, left, top, right, bottom and class, or COCO's JSON"};
  all[2] = {"masks", "file", "none", "a folder with a PNG of the same name for each picture: grey of 8 bits, or a palette"};
  std::copy(std::begin(kPictureOptions), std::end(kPictureOptions), all.begin() + 3);
  const size_t next = 3 + std::size(kPictureOptions);
  all[next] = {"most", "integer", "64", "boxes of a picture", {1, 65536}};
  all[next + 1] = {"visible", "number", "0.1", "share of a box that must be in the part of the picture that is taken", {0, 1}};
  all[next + 2] = {"classes", "list of names", "those of the boxes, sorted", "in the order of their numbers"};
  all[next + 3] = {"fitted", "table", "none", "classes of the training part"};
  return all;
}();

}  // namespace

extern const SourceDef source_objects;
const SourceDef source_objects{
    .type = "objects",
    .doc =
        "Pictures of a 'folder' with the 'boxes' of their objects (a table with columns file, left, top, right, bottom, class in pixels, "
        "or COCO's "
        "JSON), with 'masks' that give each pixel a class (a folder of PNG), or both. Fields: x, boxes (left, top, right, bottom, class; "
        "-1: no "
        "box), mask. Transforms that move a picture move these too. Options: those of images, most (64), visible (0.1), classes",
    .schema = {.options = kObjectsOptions, .positional = kObjectsPositional},
    .open = open_objects};

}  // namespace perigee
