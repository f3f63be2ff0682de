// A step of `map` on one field of each example. Random transforms draw from the example, never from a generator with a state.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "kernels/philox.h"
#include "src/data/source.h"

namespace perigee {

// The random numbers of one example for one transform, in order.
class Draw {
 public:
  Draw(const ReadKey& key, uint64_t stream) : key_(philox_key(key.seed, stream)), example_(key) {}
  float uniform() {  // [0, 1)
    if (next_ % 4 == 0) block_ = philox_for_example(key_, example_.epoch, static_cast<uint64_t>(example_.index), next_ / 4);
    return uniform_from_bits(block_.lane[next_++ % 4]);
  }
  float between(float low, float high) { return low + (high - low) * uniform(); }
  // 0 .. count - 1, count below 2^24.
  int64_t integer(int64_t count) { return static_cast<int64_t>(uniform() * static_cast<float>(count)); }

 private:
  PhiloxKey key_;
  ReadKey example_;
  uint32_t next_ = 0;
  PhiloxBlock block_ = {};
};

// to(x, y) = from(u, v), u = (m0 x + m1 y + m2) / d, v = (m3 x + m4 y + m5) / d, d = m6 x + m7 y + 1, in pixels.
using PlaneMap = std::array<double, 8>;
inline constexpr PlaneMap kPlaneAsItIs = {1, 0, 0, 0, 1, 0, 0, 0};

// Whether what a picture shows gets other places; told: placed() says which.
enum class Motion : uint8_t { none, told, untold };

class Transform {
 public:
  virtual ~Transform() = default;
  // The field as it comes out; its name stays.
  virtual Field output() const = 0;
  // Row-major in and out, never the same memory. Thread-safe, allocates nothing.
  virtual void apply(const std::byte* in, std::byte* out, Draw& draw) const = 0;
  // The same for a field of which `steps` steps of the last axis count, -1 for all; `steps` becomes that of the output.
  virtual void apply_steps(const std::byte* in, std::byte* out, int64_t* /*steps*/, Draw& draw) const { apply(in, out, draw); }
  virtual Motion motion() const { return Motion::none; }
  // Where the pixels of apply()'s result come from, for the same draws.
  virtual PlaneMap placed(Draw& /*draw*/) const { return kPlaneAsItIs; }
  // False: the result depends on the input alone.
  virtual bool draws() const { return true; }
  // The values fitted to the data, null when there are none; given back as the option "fitted" they make the same transform.
  virtual Json fitted() const { return {}; }
};

// The option of every transform: field.
extern const Schema common_transform_schema;

struct TransformDef {
  const char* type = nullptr;  // "standardize"
  const char* doc = nullptr;
  const char* field = "x";  // which one, unless the option "field" says so
  Schema schema = {};
  // `source` gives the examples as they come in, field number `field` is the one to be changed.
  std::unique_ptr<Transform> (*open)(const Config& config, const DataSource& source, size_t field) = nullptr;
  bool random = false;  // it draws, unless its option "random" is false: for training, not for what a model is asked
};

std::span<const SourceDef* const> source_defs();
std::span<const TransformDef* const> transform_defs();
const SourceDef& source_named(const std::string& type);  // asserts that there is one

// Scratch memory of the calling thread for as long as a read lasts; reads may nest. Allocates only until it is large enough.
class Scratch {
 public:
  explicit Scratch(size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

// The number of the field called `name`; Error(data) with the nearest names otherwise.
size_t field_index(const DataSource& source, const std::string& name, const std::string& where);

}  // namespace perigee
