#include "cluster/codec/value_list.h"

#include <algorithm>
#include <cmath>

#include "cluster/codec/float_codec.h"
#include "cluster/codec/quantized.h"
#include "kernels/half.h"

namespace perigee {

int64_t chosen_elements(int64_t count, double share, int64_t n) {
  return std::min(n, count > 0 ? count : static_cast<int64_t>(std::ceil(std::clamp(share, 1e-6, 1.0) * static_cast<double>(n))));
}

ValueList ValueList::read(const Config& config) {
  const std::string name = config.choice("values");
  return ValueList(name == "fp32" ? Format::fp32 : name == "bf16" ? Format::bf16 : Format::int8);
}

const char* ValueList::name() const { return format_ == Format::fp32 ? "fp32" : format_ == Format::bf16 ? "bf16" : "int8"; }

size_t ValueList::bytes(int64_t k) const {
  if (format_ == Format::int8) return static_cast<size_t>(k + (k + kBlock - 1) / kBlock * int64_t{sizeof(float)});
  return static_cast<size_t>(k) * (format_ == Format::fp32 ? 4 : 2);
}

void ValueList::write(const CodecLoops& loops, float* values, int64_t k, std::byte* out) const {
  if (format_ == Format::fp32) return kFp32.write(loops, values, k, out, values);
  if (format_ == Format::bf16) return kBf16.write(loops, values, k, out, values);
  loops.quantize({.x = values,
                  .residual = values,
                  .decay = 0,  // v = x
                  .n = k,
                  .block = kBlock,
                  .scales = out,
                  .codes = out + bytes(k) - static_cast<size_t>(k)});
}

bool ValueList::valid(std::span<const std::byte> in, int64_t k) const {
  if (in.size() != bytes(k)) return false;
  if (format_ == Format::int8) return valid_scales(in.data(), (k + kBlock - 1) / kBlock);
  return all_finite(format_ == Format::fp32 ? kFp32 : kBf16, in.data(), k);
}

float ValueList::float_of_bf16(uint16_t half) { return float_from_bf16(half); }

}  // namespace perigee
