// {"type": "cifar10", "part": "train"}: Krizhevsky's 32x32 colour images of ten classes, in the binary version: five training batches and a
// test batch of 10000. Looked for in 'folder', else in $PERIGEE_DATA/cifar10 and the user's cache: the .bin files (also .gz or .xz), in
// the folder itself or its cifar-10-batches-bin/, or cifar-10-binary.tar.gz. Batches that are missing are missed by their examples only.
#include "src/data/sources/cifar10.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "src/data/array_source.h"
#include "src/data/concat_source.h"
#include "src/io/archive/tar.h"
#include "src/io/codec/compress.h"
#include "src/io/confined.h"

namespace perigee {
namespace {

constexpr int64_t kRecord = 1 + 3 * 32 * 32;
constexpr uint64_t kBatchLimit = 50000 * kRecord;
constexpr uint64_t kTarLimit = uint64_t{256} << 20;

// "data_batch_3.bin.xz" belongs to the training part, "test_batch.bin" to the test part; a piece of a batch has a suffix of its own.
bool belongs(const std::string& name, bool test) {
  const bool compressed = name.ends_with(".bin.gz") || name.ends_with(".bin.xz");
  return (compressed || name.ends_with(".bin")) && name.starts_with(test ? "test_batch" : "data_batch_");
}

std::vector<std::string> batch_files(const std::string& folder, bool test) {
  std::vector<std::string> paths;
  for (const std::string& place : {folder, folder + "/cifar-10-batches-bin"}) {
    if (!folder_exists(place)) continue;
    for (const auto& [name, is_folder, is_file] : list_folder(place)) {
      const std::string stem = name.substr(0, name.find(".bin"));
      const bool again =
          std::any_of(paths.begin(), paths.end(), [&](const std::string& p) { return p.starts_with(place + "/" + stem + ".bin"); });
      if (belongs(name, test) && !again && is_file) paths.push_back(place + "/" + name);
    }
    if (!paths.empty()) break;
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<SourcePtr> from_files(const std::vector<std::string>& paths, float scale) {
  std::vector<SourcePtr> batches;
  for (const auto& path : paths) {
    auto content = std::make_shared<FileContent>(FileContent::open(path, kBatchLimit));
    batches.push_back(cifar10_source(content->bytes(), content, path, scale));
  }
  return batches;
}

std::vector<SourcePtr> from_tar(const std::string& path, bool test, float scale) {
  auto content = std::make_shared<FileContent>(FileContent::open(path, kTarLimit));
  std::vector<TarEntry> entries = tar_entries(content->bytes(), path);
  std::sort(entries.begin(), entries.end(), [](const TarEntry& a, const TarEntry& b) { return a.name < b.name; });
  std::vector<SourcePtr> batches;
  for (const TarEntry& entry : entries)
    if (belongs(std::filesystem::path(entry.name).filename().string(), test))
      batches.push_back(cifar10_source(entry.content, content, path + ": " + entry.name, scale));
  if (batches.empty()) throw Error(ErrorKind::data, {.where = path, .what = "the archive has no CIFAR-10 batches of this part"});
  return batches;
}

SourcePtr open_cifar10(const Config& config, const std::string& base) {
  const bool test = config.choice("part") == "test";
  const auto scale = static_cast<float>(config.number("scale", 1.0 / 255));
  std::vector<std::string> folders;
  if (config.has("folder")) {
    folders.push_back(path_in(base, config.string("folder")));
  } else {
    if (const char* shared = std::getenv("PERIGEE_DATA"); shared != nullptr && *shared != '\0')
      folders.push_back(std::string(shared) + "/cifar10");
    if (const std::string cache = user_cache_folder(); !cache.empty()) folders.push_back(cache + "/cifar10");
  }
  std::string tried;
  for (const auto& folder : folders) {
    const std::vector<std::string> paths = batch_files(folder, test);
    const std::string tar = folder + "/cifar-10-binary.tar.gz";
    if (!paths.empty()) return concat_sources(from_files(paths, scale), config.where());
    if (file_exists(tar)) return concat_sources(from_tar(tar, test, scale), config.where());
    tried += (tried.empty() ? "" : ", ") + folder;
  }
  throw Error(ErrorKind::data,
              {.where = "cifar10",
               .what = "the data set is not on this machine; looked in " + tried,
               .expected = test ? "test_batch.bin" : "data_batch_1.bin to data_batch_5.bin",
               .hint = "put cifar-10-binary.tar.gz (https://www.cs.toronto.edu/~kriz/cifar.html) there, or set PERIGEE_DATA"});
}

}  // namespace

SourcePtr cifar10_source(std::span<const std::byte> records, std::shared_ptr<const void> owner, const std::string& where, float scale) {
  const auto bytes = static_cast<int64_t>(records.size());
  if (bytes == 0 || bytes % kRecord != 0)
    throw Error(ErrorKind::data,
                {.where = where,
                 .what = "the file is cut short in record " + std::to_string(bytes / kRecord) + ", at byte " + std::to_string(bytes),
                 .expected = "records of " + std::to_string(kRecord) + " bytes"});
  const int64_t size = bytes / kRecord;
  const Column x{.field = {.name = "x", .dtype = Dtype::f32, .shape = {3, 32, 32}},
                 .stored = Dtype::u8,
                 .data = records.data() + 1,
                 .stride = kRecord,
                 .scale = scale};
  const Column y{.field = {.name = "y",
                           .dtype = Dtype::i64,
                           .shape = {},
                           .classes = 10,
                           .class_names = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}},
                 .stored = Dtype::u8,
                 .data = records.data(),
                 .stride = kRecord};
  check_labels(y, size, where);
  return std::make_shared<ArraySource>("cifar10 (" + std::to_string(size) + " examples, " + where + ")", size, std::vector{x, y},
                                       std::vector<std::shared_ptr<const void>>{std::move(owner)});
}

namespace {

constexpr Option kCifar10Options[] = {{"part", "name", "train", "which of the two", {}, {"train", "test"}},
                                      {"folder", "file", "none", "where the files lie"},
                                      {"scale", "number", "1/255", "factor on each value"}};

}  // namespace

extern const SourceDef source_cifar10;
const SourceDef source_cifar10{.type = "cifar10",
                               .doc = "Colour images of ten classes, 3x32x32. Options: part ('train' or 'test'), folder, scale (1/255)",
                               .schema = {.options = kCifar10Options},
                               .open = open_cifar10,
                               .two_parts = true};

}  // namespace perigee
