// {"type": "mnist", "part": "train"}: the handwritten digits of LeCun, Cortes and Burges, 60000 to train and 10000 to test.
// Looked for in $PERIGEE_DATA/mnist, then in the user's cache, then downloaded; where all lack them, `digits` stands in.
#include <cstdlib>
#include <mutex>

#include "src/core/warning.h"
#include "src/data/array_source.h"
#include "src/data/sources/digits.h"
#include "src/io/codec/compress.h"
#include "src/io/digest.h"
#include "src/io/http.h"
#include "src/io/idx.h"

namespace perigee {
namespace {

constexpr uint64_t kMnistLimit = 60000 * 784 + 16;

struct PublishedFile {
  const char* name;
  const char* md5;  // of the .gz, as published
};
struct MnistPart {
  const char* name;
  int64_t examples;
  PublishedFile images, labels;
};
constexpr MnistPart kMnistParts[] = {
    {"train",
     60000,
     {"train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873"},
     {"train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432"}},
    {"test",
     10000,
     {"t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3"},
     {"t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c"}},
};
constexpr const char* kMirrors[] = {
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
};

// The .gz or the plain file; empty when the folder has neither.
std::string find_in(const std::string& folder, const PublishedFile& file) {
  if (folder.empty()) return "";
  for (const char* suffix : {".gz", ""})
    if (std::string path = folder + "/" + file.name + suffix; file_exists(path)) return path;
  return "";
}

bool has_part(const std::string& folder, const MnistPart& part) {
  return !find_in(folder, part.images).empty() && !find_in(folder, part.labels).empty();
}

std::string cache_folder() {
  const std::string cache = user_cache_folder();
  return cache.empty() ? "" : cache + "/mnist";
}

// Fetches what is missing of all four files into `folder`; returns why not, or nothing.
std::string download(const std::string& folder) {
  if (folder.empty()) return "there is no cache folder (neither HOME nor XDG_CACHE_HOME is set)";
  std::string problems;
  for (const std::string mirror : kMirrors) {
    bool complete = true;
    for (const auto& part : kMnistParts)
      for (const auto& file : {part.images, part.labels}) {
        if (!complete || !find_in(folder, file).empty()) continue;
        HttpAnswer answer = http_get(mirror + file.name + ".gz", {.limit_bytes = uint64_t{64} << 20});
        // Not the published file (a login page, say) is as good as none.
        if (answer.status == 200 && md5_hex(answer.body) != file.md5) answer.problem = "other content than published";
        complete = answer.problem.empty();
        if (complete) write_file(folder + "/" + file.name + ".gz", answer.body);
        else problems += (problems.empty() ? "" : "; ") + mirror + ": " + answer.problem;
      }
    if (complete) return "";
  }
  return problems;
}

// One attempt per process: a machine without a network must not wait for it twice.
const std::string& download_once(const std::string& folder) {
  static std::mutex mutex;
  static std::string tried_folder, problem;
  const std::lock_guard lock(mutex);
  if (tried_folder.empty() || tried_folder != folder) {
    tried_folder = folder;
    try {
      problem = download(folder);
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  return problem;
}

template <const auto& file>
void check_published(std::span<const std::byte> raw, const std::string& path) {
  if (compression_of(raw) == Compression::none && !path.ends_with(".gz")) return;
  const std::string md5 = md5_hex(raw);
  if (md5 == file.md5) return;
  gunzip(raw, path, kMnistLimit);  // names the offset, if it is damage that zlib can see
  throw Error(ErrorKind::data, {.where = path,
                                .what = "this is not the published file: its MD5 differs",
                                .got = md5,
                                .expected = file.md5,
                                .hint = "remove it to have it downloaded again, or read your own data as {\"type\": \"idx\"}"});
}

constexpr PublishedFile kTrainImages = kMnistParts[0].images, kTrainLabels = kMnistParts[0].labels;
constexpr PublishedFile kTestImages = kMnistParts[1].images, kTestLabels = kMnistParts[1].labels;

struct MnistLoaded {
  FileContent image_content, label_content;
  IdxArray images, labels;
};

void expect_shape(const IdxArray& array, const Shape& shape, const std::string& path) {
  if (array.dtype != Dtype::u8 || !(array.shape == shape))
    throw Error(ErrorKind::data, {.where = path,
                                  .what = "this is not MNIST's array",
                                  .got = Type{array.dtype, array.shape}.text(),
                                  .expected = Type{Dtype::u8, shape}.text()});
}

SourcePtr load_mnist(const MnistPart& part, const std::string& folder, float scale) {
  const bool train = &part == &kMnistParts[0];
  const std::string images = find_in(folder, part.images), labels = find_in(folder, part.labels);
  auto loaded = std::make_shared<MnistLoaded>();
  loaded->image_content = FileContent::open(images, kMnistLimit, train ? check_published<kTrainImages> : check_published<kTestImages>);
  loaded->label_content = FileContent::open(labels, kMnistLimit, train ? check_published<kTrainLabels> : check_published<kTestLabels>);
  loaded->images = parse_idx(loaded->image_content.bytes(), images);
  loaded->labels = parse_idx(loaded->label_content.bytes(), labels);
  expect_shape(loaded->images, {part.examples, 28, 28}, images);
  expect_shape(loaded->labels, {part.examples}, labels);
  const Column x{.field = {.name = "x", .dtype = Dtype::f32, .shape = {1, 28, 28}},
                 .stored = Dtype::u8,
                 .data = loaded->images.data.data(),
                 .scale = scale};
  const Column y{
      .field = {.name = "y", .dtype = Dtype::i64, .shape = {}, .classes = 10}, .stored = Dtype::u8, .data = loaded->labels.data.data()};
  check_labels(y, part.examples, labels);
  return std::make_shared<ArraySource>(
      "mnist " + std::string(part.name) + " (" + std::to_string(part.examples) + " examples, " + folder + ")", part.examples,
      std::vector{x, y}, std::vector<std::shared_ptr<const void>>{loaded});
}

SourcePtr open_mnist(const Config& config, const std::string& base) {
  const MnistPart& part = kMnistParts[config.choice("part") == "test"];
  const auto scale = static_cast<float>(config.number("scale", 1.0 / 255));
  const bool stand_in = config.boolean("stand_in");
  if (config.has("folder")) {
    const std::string folder = path_in(base, config.string("folder"));
    if (!has_part(folder, part))
      throw Error(ErrorKind::data, {.where = folder,
                                    .what = "the MNIST files are not here",
                                    .expected = std::string(part.images.name) + ".gz and " + part.labels.name + ".gz"});
    return load_mnist(part, folder, scale);
  }
  const char* shared = std::getenv("PERIGEE_DATA");
  const std::string given = shared != nullptr && *shared != '\0' ? std::string(shared) + "/mnist" : "";
  for (const std::string& folder : {given, cache_folder()})
    if (has_part(folder, part)) return load_mnist(part, folder, scale);
  const std::string& problem = download_once(cache_folder());
  if (has_part(cache_folder(), part)) return load_mnist(part, cache_folder(), scale);
  if (!stand_in)
    throw Error(ErrorKind::data, {.where = "mnist",
                                  .what = "the data set is not on this machine and cannot be downloaded: " + problem,
                                  .hint = "put the four .gz files into $PERIGEE_DATA/mnist"});
  warn("MNIST is not on this machine and cannot be downloaded (" + problem + "); the synthetic data set 'digits' stands in for it");
  return open_digits({.size = part.examples, .seed = part.examples == 60000 ? 1u : 2u, .scale = scale * 255},
                     "digits, standing in for mnist " + std::string(part.name));
}

constexpr Option kMnistOptions[] = {{"part", "name", "train", "which of the two", {}, {"train", "test"}},
                                    {"scale", "number", "1/255", "factor on each value"},
                                    {"folder", "file", "none", "where the files lie"},
                                    {"stand_in", "boolean", "true", "drawn digits where there is no file"}};

}  // namespace

extern const SourceDef source_mnist;
const SourceDef source_mnist{.type = "mnist",
                             .doc =
                                 "Handwritten digits, 1x28x28. Options: part ('train' or 'test'), scale (1/255), folder, stand_in (true: "
                                 "'digits' when it cannot be had)",
                             .schema = {.options = kMnistOptions},
                             .open = open_mnist,
                             .two_parts = true};

}  // namespace perigee
