// A codec turns one segment of the parameter block into bytes, and adds what such bytes stand for to a sum without a dense temporary.
// With error feedback, what the bytes could not say stays in a residual and is sent later: sent + residual = value + decay * residual.
//
// A segment is any run of elements; each is encoded alone, so that a big block goes in chunks and the owner of a segment decodes its part
// of every worker's contribution. What a codec keeps between rounds (residual, state) is plain floats that the caller owns, can store and
// send, and that are zero at the start. Encoding and decoding allocate nothing. One codec object serves one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/codec_loops.h"
#include "src/core/config.h"
#include "src/optim/schedule.h"

namespace perigee {

struct CodecSegment {
  int64_t first = 0;  // number of its first element in the block: random draws depend on the element, not on how the block is cut
  int64_t count = 0;
  int64_t rows = 0;  // > 0: it is one whole matrix, row by row
  // In a run of several tensors: those that train, ascending, for codecs that work on each by itself. The caller owns them.
  const CodecSegment* tensors = nullptr;
  size_t tensor_count = 0;
};

struct EncodeCall {
  CodecSegment segment;
  std::span<const float> values;
  std::span<float> residual;  // of the segment; empty exactly when the codec has no feedback
  std::span<float> state;     // state_floats(segment)
  uint64_t seed = 0, round = 0;
  uint64_t stream = 0;           // which worker: each rounds with draws of its own
  StepProgress when = {};        // for options that follow the run
  int workers = 1;               // whose contributions are merged
  std::span<std::byte> scratch;  // scratch_bytes(segment), on a 64-byte border
};

struct CodecDef;

struct CodecSetup {
  const CodecDef* def = nullptr;
  const CodecLoops* loops = nullptr;
  bool feedback = false;
  double decay = 1;  // of the residual, each round
};

// The header of every payload. Its integers are little-endian; `elements` must be the segment's, of which the receiver knows.
struct PayloadHeader {
  uint8_t format = 0;
  uint8_t version = 1;
  uint16_t variant = 0;
  uint32_t detail = 0;
  uint64_t elements = 0;
};
constexpr size_t kPayloadHeader = 16;
static_assert(sizeof(PayloadHeader) == kPayloadHeader);

class Codec {
 public:
  virtual ~Codec() = default;

  const CodecDef& def() const { return *setup_.def; }
  bool feedback() const { return setup_.feedback; }
  float decay() const { return static_cast<float>(setup_.decay); }
  virtual Json to_json() const;  // with every option; make_codec() of it is this codec

  // The most bytes of a segment's payload, and what it takes on average, without header: for describe, and for the choice of a codec.
  virtual size_t bound(const CodecSegment& segment) const = 0;
  virtual double bits_per_element(const CodecSegment& segment) const = 0;
  virtual size_t scratch_bytes(const CodecSegment&) const { return 0; }
  virtual size_t state_floats(const CodecSegment&) const { return 0; }
  virtual bool keeps_zero() const { return true; }   // false: a zero (a gap of the block) becomes something else
  virtual bool marks_sent() const { return false; }  // encode leaves a mask of the elements that were sent at the beginning of scratch
  virtual float limit() const;                       // the largest magnitude that can be encoded

  // Bytes written to `out` (at least bound() long), and the new residual. 0: a value, or value + decay * residual, is not finite or above
  // limit(); then residual and state are as they were.
  virtual size_t encode(const EncodeCall& call, std::span<std::byte> out) const;
  // sum += weight * decoded. False when the bytes are not what this codec can have made of a segment of that size; then the sum is as it
  // was. A payload never holds a number that is not finite. `scratch` as for encode.
  virtual bool decode_add(std::span<const std::byte> bytes, float weight, const CodecSegment& segment, std::span<float> sum,
                          std::span<std::byte> scratch) const;

  // Linear codecs can be all-reduced: an exchange has so many passes, each over part_floats floats that are averaged over the workers (all
  // with the same seed, round and state) in place. `parts` holds those of all passes, one after another. 0: there is no such exchange.
  virtual int passes() const { return 0; }
  virtual int64_t part_floats(const CodecSegment&, int /*pass*/) const { return 0; }
  // Writes the part of one pass, from the averages of those before; the last pass updates the residual. False as encode's 0.
  virtual bool make_part(const EncodeCall&, int /*pass*/, std::span<float> /*parts*/) const { return false; }
  // All parts are averages now: sum += weight * what they stand for. Keeps in state what the next round starts from.
  virtual void add_parts(const EncodeCall&, std::span<const float> /*parts*/, float /*weight*/, std::span<float> /*sum*/) const {}

 protected:
  explicit Codec(const CodecSetup& setup) : setup_(setup) {}
  const CodecLoops& loops() const { return *setup_.loops; }
  bool encodable(const EncodeCall& call) const;  // finite and within the limit

  // `header` is filled in but for variant and detail; returns the bytes of the body. The values are encodable.
  virtual size_t encode_body(const EncodeCall& call, PayloadHeader* header, std::byte* body) const = 0;
  // The header's format, version and elements are right.
  virtual bool decode_body(const PayloadHeader& header, std::span<const std::byte> body, float weight, const CodecSegment& segment,
                           std::span<float> sum, std::span<std::byte> scratch) const = 0;
  virtual void add_options(Json* json) const = 0;

  const CodecSetup& setup() const { return setup_; }

 private:
  CodecSetup setup_;
};

// The definition of a codec, for Lua, the C++ DSL, help and make_codec: the one list. One file in codec/ defines one.
struct CodecDef {
  const char* name = nullptr;
  const char* doc = nullptr;
  uint8_t format = 0;  // of its payloads
  Schema schema = {};
  std::unique_ptr<Codec> (*make)(const Config& config, const CodecSetup& setup) = nullptr;
};

std::span<const CodecDef* const> all_codecs();

// From "int4" or {"type": "topk", "share": 0.01, "zstd": 3}; null or absent: fp32. Error(model) with the nearest name for an unknown codec
// or option; Error(resources) when zstd is asked for and missing.
std::unique_ptr<Codec> make_codec(const Json* spec, const std::string& where, const CodecLoops& loops);
std::unique_ptr<Codec> make_codec(const Json* spec, const std::string& where);  // with the best loops of this machine

}  // namespace perigee
