// Makes WAV files.
#pragma once

#include <cstdint>
#include <string>

namespace perigee {

struct WavForm {
  uint64_t rate = 8000, channels = 1, bits = 16, coding = 1;
};

// A header of 44 bytes, and the samples.
inline std::string wav_of(const WavForm& form, const std::string& samples) {
  const auto number = [](uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
    return out;
  };
  const auto block = static_cast<uint64_t>(form.channels * form.bits / 8);
  const std::string format = number(form.coding, 2) + number(form.channels, 2) + number(form.rate, 4) + number(form.rate * block, 4) +
                             number(block, 2) + number(form.bits, 2);
  const std::string chunks = "fmt " + number(format.size(), 4) + format + "data" + number(samples.size(), 4) + samples;
  return "RIFF" + number(chunks.size() + 4, 4) + "WAVE" + chunks;
}

}  // namespace perigee
