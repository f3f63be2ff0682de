#include "src/eager/random.h"

#include <utility>

#include "kernels/philox.h"
#include "src/core/error.h"
#include "src/eager/eager.h"

namespace perigee {
namespace {

constexpr uint64_t kIntegers = 2;  // stream of whole numbers; those of the graph's random ops are 0

uint64_t word(PhiloxKey key, uint64_t step, uint64_t index) {
  const PhiloxBlock block = philox4x32(
      {{static_cast<uint32_t>(index), static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32), static_cast<uint32_t>(index >> 32)}},
      key);
  return uint64_t{block.lane[0]} << 32 | block.lane[1];
}

// 0 .. range - 1; the bias of at most range / 2^64 does not show.
uint64_t below(uint64_t bits, uint64_t range) { return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * range) >> 64); }

}  // namespace

Array RandomStream::draw(const char* op, const Type& type, const Json& attrs) {
  const bool real = type.dtype == Dtype::f32 || type.dtype == Dtype::f64;
  const Array like = new_array({real ? type.dtype : Dtype::f32, type.shape});
  const Array* operands[] = {&like};
  const StepInfo step{.seed = seed_, .step = draws_++};
  const Array numbers = eager_apply(op_named(op), operands, attrs, step)[0];
  if (!real && type.dtype != Dtype::f16 && type.dtype != Dtype::bf16)
    throw Error(ErrorKind::model, {.what = "such random numbers are not whole", .got = dtype_name(type.dtype), .hint = "use pg.randint"});
  return cast(numbers, type.dtype);
}

Array RandomStream::uniform(const Type& type, double low, double high) {
  Json attrs = Json::object();
  attrs.set("per", "step");
  attrs.set("low", low);
  attrs.set("high", high);
  return draw("random_uniform", type, attrs);
}

Array RandomStream::normal(const Type& type, double mean, double stddev) {
  Json attrs = Json::object();
  attrs.set("per", "step");
  attrs.set("mean", mean);
  attrs.set("stddev", stddev);
  return draw("random_normal", type, attrs);
}

Array RandomStream::integers(const Type& type, int64_t low, int64_t high) {
  if (high < low)
    throw Error(ErrorKind::model, {.what = "randint's range is empty", .got = std::to_string(low) + " to " + std::to_string(high)});
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  const PhiloxKey key = philox_key(seed_, kIntegers);
  Array result = new_array({Dtype::i64, type.shape});
  for (int64_t i = 0, n = result.view.elements(); i < n; ++i) {
    const uint64_t bits = word(key, draws_, static_cast<uint64_t>(i));
    result.view.as<int64_t>()[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + (range == 0 ? bits : below(bits, range)));
  }
  ++draws_;
  return cast(result, type.dtype);
}

Array RandomStream::permutation(int64_t n) {
  Array result = new_array({Dtype::i64, Shape{n}});
  auto* places = result.view.as<int64_t>();
  for (int64_t i = 0; i < n; ++i) places[i] = i;
  const PhiloxKey key = philox_key(seed_, kIntegers);
  for (int64_t i = n - 1; i > 0; --i)
    std::swap(places[i], places[below(word(key, draws_, static_cast<uint64_t>(i)), static_cast<uint64_t>(i) + 1)]);
  ++draws_;
  return result;
}

}  // namespace perigee
