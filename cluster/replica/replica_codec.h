// A replica's codec with its memory, on the side where the trainer's numbers are: the host's, or a GPU's, from which then nothing but payloads
// comes. ReplicaTrainer says what is to be encoded and what is to become of the sum of what came, as addresses of that side.
// Owned by the trainer thread.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "cluster/codec/codec.h"
#include "cluster/replica/replica.h"
#include "src/optim/param_window.h"

namespace perigee {

// A block of the parameters' layout: factor * block, or block - less.
struct CodedValues {
  const float* block = nullptr;
  const float* less = nullptr;
  double factor = 1;
};

struct WeightedPayload {
  std::span<const std::byte> bytes;
  float weight = 1;
};

class ReplicaCodec {
 public:
  virtual ~ReplicaCodec() = default;

  virtual bool on_device() const { return false; }
  virtual size_t bound() const = 0;      // bytes of the largest payload
  virtual double residual_square() = 0;  // sum of the squares of what no result holds yet; -1 without feedback

  // A payload of the values, pending from now on; what was pending is void. Null: something in it cannot be encoded. `room`: of the host, for
  // a block; it is written over.
  virtual SharedBytes encode(const CodedValues& values, std::span<float> room, int64_t round, const StepProgress& when, int workers) = 0;
  // The fate of the pending payload: see CodecMemory.
  virtual void settle(bool counted) = 0;
  virtual void drop() = 0;
  virtual void overtaken() = 0;

  // The sum of all payloads, for take_sum(); the number of one that is none of the codec. `room` as above: it is the sum's until then.
  virtual std::optional<size_t> add(std::span<const WeightedPayload> payloads, std::span<float> room) = 0;
  // Into what trains of a block: a codec may have put something into the rest, and gaps are zero (src/ARCHITECTURE.md, decision 6).
  enum class Take : uint8_t { subtract, replace, replace_all };  // all: what does not train becomes zero
  virtual void take_sum(Take how, float* block) = 0;
};

// The values that a codec works on: the whole block, or what trains in it, packed tensor by tensor (GradientCodec).
enum class CodedForm : uint8_t { block, packed };

struct ReplicaCodecSetup {
  CodedForm form = CodedForm::block;
  std::span<const ParamWindow> windows;
  int64_t block_elements = 0;
  uint64_t seed = 0, stream = 0;  // `stream`: the worker, whose draws are its own
};

std::unique_ptr<ReplicaCodec> make_host_codec(std::unique_ptr<Codec> codec, const ReplicaCodecSetup& setup);

}  // namespace perigee
