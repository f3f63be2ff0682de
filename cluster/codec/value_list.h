// The values of chosen elements, one after another: in fp32 or bf16, or int8 in blocks of kBlock with a scale each.
// Size of k: 4k, 2k, or k + 4 ceil(k / 256).
#pragma once

#include <span>

#include "cluster/codec/options.h"

namespace perigee {

// How many of n elements are chosen: `count` of them, or that share (1e-6 to 1) where it is 0.
int64_t chosen_elements(int64_t count, double share, int64_t n);

class ValueList {
 public:
  enum class Format : uint8_t { fp32 = 0, bf16 = 1, int8 = 2 };
  static constexpr int64_t kBlock = 256;
  static constexpr Option kOption = {
      "values", "name", "fp32", "how each value is written: fp32, bf16 or int8", {}, {"fp32", "bf16", "int8"}};

  explicit ValueList(Format format) : format_(format) {}
  static ValueList read(const Config& config);  // the option

  Format format() const { return format_; }
  const char* name() const;
  size_t bytes(int64_t k) const;
  // Leaves in `values` what was lost of them.
  void write(const CodecLoops& loops, float* values, int64_t k, std::byte* out) const;
  bool valid(std::span<const std::byte> in, int64_t k) const;  // right size, all finite

  // use(j, value) for each of k valid values in turn.
  template <class Use>
  void each(const std::byte* in, int64_t k, Use use) const {
    if (format_ == Format::fp32) {
      for (int64_t j = 0; j < k; ++j) use(j, read_as<float>(in, j));
    } else if (format_ == Format::bf16) {
      for (int64_t j = 0; j < k; ++j) use(j, float_of_bf16(read_as<uint16_t>(in, j)));
    } else {
      const std::byte* codes = in + bytes(k) - static_cast<size_t>(k);
      for (int64_t j = 0; j < k; ++j) use(j, static_cast<float>(static_cast<int>(codes[j]) - 127) * read_as<float>(in, j / kBlock));
    }
  }

 private:
  template <class T>
  static T read_as(const std::byte* in, int64_t index) {
    T value;
    __builtin_memcpy(&value, in + index * static_cast<int64_t>(sizeof value), sizeof value);
    return value;
  }
  static float float_of_bf16(uint16_t half);

  Format format_;
};

}  // namespace perigee
