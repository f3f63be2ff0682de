#include "src/io/sound/libsndfile.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "src/core/error.h"
#include "src/io/module.h"

namespace perigee {

struct SndFile::Input {
  std::span<const std::byte> bytes;
  int64_t at = 0;

  int64_t size() const { return static_cast<int64_t>(bytes.size()); }
};

namespace {

// No headers are needed to build: these are from sndfile.h, whose layout is that of libsndfile.so.1.
struct SfInfo {
  int64_t frames;
  int rate, channels, format, sections, seekable;
};
struct SfInput {
  int64_t (*length)(void*);
  int64_t (*seek)(int64_t, int, void*);
  int64_t (*read)(void*, int64_t, void*);
  int64_t (*write)(const void*, int64_t, void*);
  int64_t (*tell)(void*);
};
constexpr int kSfRead = 0x10;

struct Library {
  Library() : module({"libsndfile.so.1"}, "sound other than plain WAV", "libsndfile1") {
    module.symbol("sf_open_virtual", open);
    module.symbol("sf_readf_float", read);
    module.symbol("sf_strerror", error);
    module.symbol("sf_close", close);
  }
  Module module;
  void* (*open)(SfInput*, int, SfInfo*, void*);
  int64_t (*read)(void*, float*, int64_t);
  const char* (*error)(void*);
  int (*close)(void*);
};

const Library& library() {
  static const Library loaded;
  return loaded;
}

template <class Input>
SfInput calls_of() {
  return {.length = [](void* user) { return static_cast<Input*>(user)->size(); },
          .seek =
              [](int64_t offset, int from, void* user) {
                auto& input = *static_cast<Input*>(user);
                const int64_t size = input.size();
                offset = std::clamp<int64_t>(offset, -size, size) + (from == SEEK_CUR ? input.at : from == SEEK_END ? size : 0);
                return input.at = std::clamp<int64_t>(offset, 0, size);
              },
          .read =
              [](void* to, int64_t count, void* user) {
                auto& input = *static_cast<Input*>(user);
                count = std::clamp<int64_t>(count, 0, input.size() - input.at);
                if (count > 0) std::memcpy(to, input.bytes.data() + input.at, static_cast<size_t>(count));
                input.at += count;
                return count;
              },
          .write = [](const void*, int64_t, void*) { return int64_t{0}; },
          .tell = [](void* user) { return static_cast<Input*>(user)->at; }};
}

}  // namespace

SndFile::SndFile(std::span<const std::byte> bytes, const std::string& where) : input_(std::make_unique<Input>(Input{.bytes = bytes})) {
  SfInput calls = calls_of<Input>();
  SfInfo header = {};
  file_ = library().open(&calls, kSfRead, &header, input_.get());
  if (file_ == nullptr)
    throw Error(ErrorKind::data, {.where = where,
                                  .what = std::string("libsndfile cannot read this sound: ") + library().error(nullptr),
                                  .hint = "delete the file or replace it"});
  info_ = {.rate = header.rate, .channels = header.channels, .frames = header.frames};
}

SndFile::~SndFile() { library().close(file_); }

int64_t SndFile::read(float* to, int64_t frames) { return library().read(file_, to, frames); }

}  // namespace perigee
