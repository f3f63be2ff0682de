// The library that reads sound other than plain WAV: FLAC, Ogg (Vorbis, Opus), MP3, AIFF, AU, CAF, W64, compressed WAV. Loaded by the first such file.
#pragma once

#include <memory>

#include "src/io/sound/sound.h"

namespace perigee {

class SndFile {
 public:
  // Error(data) with `where` for what the library cannot read, Error(resources) when it is not installed. `bytes` must outlive this.
  SndFile(std::span<const std::byte> bytes, const std::string& where);
  SndFile(const SndFile&) = delete;
  SndFile& operator=(const SndFile&) = delete;
  ~SndFile();

  const SoundInfo& info() const { return info_; }
  int64_t read(float* to, int64_t frames);  // returns how many there were

 private:
  struct Input;
  std::unique_ptr<Input> input_;
  void* file_;
  SoundInfo info_;
};

}  // namespace perigee
