// Pictures made ready for training, images a second of CPU time: picture_bench FOLDER [SECONDS [NAME]]. `pictures.py` makes the folder of JPEGs and
// runs this in turns with torchvision.
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "src/data/arrays.h"
#include "src/data/source.h"
#include "src/io/image.h"

using namespace perigee;

namespace {

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double g_seconds = 1;
std::string g_only;  // measured alone, to be profiled

void measure(const char* name, const std::function<void(int64_t)>& one) {
  if (!g_only.empty() && g_only != name) return;
  for (int64_t i = 0; i < 20; ++i) one(i);
  const double begin = cpu_seconds();
  int64_t count = 0;
  for (; count % 20 != 0 || cpu_seconds() - begin < g_seconds; ++count) one(count);
  std::printf("%s\t%.0f\n", name, static_cast<double>(count) / (cpu_seconds() - begin));
  std::fflush(stdout);
}

SourcePtr open(const std::string& json, const std::string& folder = ".") {
  return open_source(Config(Json::parse(json, "bench"), "bench", ErrorKind::data), folder);
}

void measure(const char* name, const SourcePtr& source) {
  std::vector<float> x(static_cast<size_t>(source->fields()[0].shape.elements()));
  int64_t y = 0;
  std::byte* const slots[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(&y)};
  measure(name, [&](int64_t i) {
    source->read({.index = i % source->size(), .epoch = static_cast<uint64_t>(i)}, std::span(slots, source->fields().size()));
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  g_seconds = argc > 2 ? std::atof(argv[2]) : 1;
  g_only = argc > 3 ? argv[3] : "";
  const std::string files = R"({"type":"images","folder":".","size":224,"fit":)";
  const SourcePtr whole = open(R"({"type":"images","folder":".","size":[375,500],"fit":"squash"})", folder);
  measure("decode, f32", whole);
  measure("decode, random part", open(files + R"("random"})", folder));
  measure("decode, random part, flip", open(R"({"type":"map","transforms":[{"type":"flip"}],"source":)" + files + R"("random"}})", folder));
  // Pictures of 224 x 224 in memory.
  const SourcePtr small = open(files + R"("squash"})", folder);
  const int64_t count = small->size(), each = 3 * 224 * 224;
  Tensor x(Dtype::f32, {count, 3, 224, 224});
  for (int64_t i = 0; i < count; ++i) {
    std::byte* const slots[] = {reinterpret_cast<std::byte*>(x.data<float>() + i * each)};
    small->read({.index = i}, slots);
  }
  register_source("small", arrays_source("small", {{.name = "x", .values = x}}));
  const std::pair<const char*, const char*> transforms[] = {
      {"copy", R"({"type":"flip","probability":0})"},
      {"colour jitter", R"({"type":"colour","brightness":0.4,"contrast":0.4,"saturation":0.4,"hue":0.1,"order":"random","top":1})"},
      {"rand_augment", R"({"type":"rand_augment"})"},
      {"trivial_augment", R"({"type":"trivial_augment"})"},
      {"auto_augment", R"({"type":"auto_augment"})"},
      {"rotate 15, bilinear", R"({"type":"affine","degrees":15})"},
      {"perspective, bilinear", R"({"type":"perspective","probability":1})"},
      {"blur 23", R"({"type":"blur","kernel":23})"},
      {"erase", R"({"type":"erase"})"}};
  for (const auto& [name, transform] : transforms)
    measure(name, open(R"({"type":"map","source":{"type":"arrays","handle":"small"},"transforms":[)" + std::string(transform) + "]}"));
  register_source("small", nullptr);
  Picture image{.width = 500, .height = 375, .channels = 3, .pixels = Bytes(500 * 375 * 3)};
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = std::byte(i * 7919 >> 4 & 255);
  std::vector<float> planes(static_cast<size_t>(each));
  measure("resize 500x375 to 224", [&](int64_t) { resize_image(image, 224, 224, 1 / 255.f, planes.data()); });
}
