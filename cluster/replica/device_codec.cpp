#include "cluster/replica/device_codec.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "cluster/codec/gradient_codec.h"
#include "src/train/device/device_memory.h"

namespace perigee {
namespace {

CodecSegment segment_of(const ReplicaCodecSetup& setup) {
  return {.count = setup.form == CodedForm::packed ? trainable_elements(setup.windows) : setup.block_elements};
}

// The trained windows; neighbours are one run.
std::vector<CudaRun> runs_of(std::span<const ParamWindow> windows, CodedForm form) {
  std::vector<CudaRun> runs;
  int64_t packed = 0;
  for (const ParamWindow& window : windows) {
    if (!window.trainable) continue;
    const CudaRun run{window.offset, form == CodedForm::packed ? packed : window.offset, window.elements};
    packed += window.elements;
    const bool joins = !runs.empty() && runs.back().block + runs.back().elements == run.block;
    if (joins) runs.back().elements += run.elements;
    else runs.push_back(run);
  }
  return runs;
}

}  // namespace

DeviceFloats::DeviceFloats(Gpu& gpu, size_t count, const std::string& purpose) : gpu_(&gpu), count_(count) {
  if (count == 0) return;
  memory_ = gpu.allocate(count * sizeof(float), purpose);
  gpu.clear(memory_.data(), count * sizeof(float));
}

DeviceFloats& DeviceFloats::operator=(const DeviceFloats& other) {
  if (this == &other || other.count_ == 0) return *this;
  if (count_ == 0) *this = DeviceFloats(*other.gpu_, other.count_, "a codec's memory");
  assert(count_ == other.count_);
  gpu_->copy(memory_.data(), other.memory_.data(), count_ * sizeof(float));
  return *this;
}

DeviceCodec::DeviceCodec(DeviceRounds& rounds, std::unique_ptr<Codec> codec, std::unique_ptr<CudaCodec> kernels,
                         const ReplicaCodecSetup& setup)
    : rounds_(rounds),
      gpu_(rounds.gpu()),
      codec_(std::move(codec)),
      kernels_(std::move(kernels)),
      segment_(segment_of(setup)),
      seed_(setup.seed),
      stream_(setup.stream),
      block_bytes_(static_cast<size_t>(setup.block_elements) * sizeof(float)) {
  const auto count = static_cast<size_t>(segment_.count);
  const std::vector<CudaRun> trained = runs_of(setup.windows, setup.form);
  trained_runs_ = place(trained);
  encoded_runs_ = place(setup.form == CodedForm::packed ? trained : std::vector<CudaRun>{{0, 0, segment_.count}});
  memory_.residual = DeviceFloats(gpu_, codec_->feedback() ? count : 0, "a codec's residual");
  memory_.state = DeviceFloats(gpu_, codec_->state_floats(segment_), "a codec's state");
  memory_.begin();  // takes the memory for what was before
  packed_ = DeviceFloats(gpu_, count, "what a codec works on");
  const size_t body = bound() - kPayloadHeader;
  body_ = gpu_.allocate(body, "a payload");
  scratch_ = gpu_.allocate(kernels_->scratch_bytes(segment_), "a codec's scratch");
  record_ = gpu_.allocate(sizeof(CudaEncoded), "a codec's record");
  record_read_ = gpu_.allocate_pinned(sizeof(CudaEncoded));
  for (Pinned& each : pinned_) each.memory = gpu_.allocate_pinned(body), each.copied = gpu_.event();
}

size_t device_codec_bytes(const Codec& codec, const CudaCodec& kernels, const ReplicaCodecSetup& setup) {
  const CodecSegment segment = segment_of(setup);
  const auto floats = [](size_t count) { return count == 0 ? 0 : device_bytes(count * sizeof(float)); };
  const size_t runs = device_bytes(runs_of(setup.windows, setup.form).size() * sizeof(CudaRun));
  const auto count = static_cast<size_t>(segment.count);
  return 2 * floats(codec.feedback() ? count : 0) + 2 * floats(codec.state_floats(segment)) + floats(count) + runs +
         (setup.form == CodedForm::packed ? runs : device_bytes(sizeof(CudaRun))) + device_bytes(codec.bound(segment) - kPayloadHeader) +
         device_bytes(kernels.scratch_bytes(segment)) + device_bytes(sizeof(CudaEncoded)) + device_bytes(sizeof(uint32_t));
}

DeviceCodec::Runs DeviceCodec::place(const std::vector<CudaRun>& runs) {
  Runs placed{.table = gpu_.allocate(runs.size() * sizeof(CudaRun), "a codec's tables"), .count = static_cast<int64_t>(runs.size())};
  for (const CudaRun& run : runs) placed.longest = std::max(placed.longest, run.elements);
  gpu_.upload(placed.table.data(), runs.data(), runs.size() * sizeof(CudaRun));
  return placed;
}

double DeviceCodec::residual_square() {
  return memory_.residual.data() ? rounds_.square(memory_.residual.data(), nullptr, segment_.count) : -1;
}

SharedBytes DeviceCodec::encode(const CodedValues& values, std::span<float>, int64_t round, const StepProgress& when, int) {
  if (segment_.count == 0) return nullptr;
  gpu_.select();
  const CudaPack pack{.runs = encoded_runs_.data(),
                      .count = encoded_runs_.count,
                      .longest = encoded_runs_.longest,
                      .block = values.block,
                      .less = values.less,
                      .factor = static_cast<float>(values.factor),
                      .packed = packed_.data()};
  gpu_.check(gpu_.module().rounds->pack(pack, stream()), "gather what a codec sends");
  memory_.begin();
  auto* const record = reinterpret_cast<CudaEncoded*>(record_.data());
  const CudaCodecEncode call{.segment = segment_,
                             .values = packed_.data(),
                             .residual = memory_.residual.data(),
                             .state = memory_.state.data(),
                             .seed = seed_,
                             .round = static_cast<uint64_t>(round),
                             .stream = stream_,
                             .when = when,
                             .scratch = scratch_.data(),
                             .body = body_.data(),
                             .encoded = record};
  gpu_.check(kernels_->encode(call, stream()), "run codec '" + std::string(codec_->def().name) + "'");
  gpu_.queue_download(record_read_.get(), record, sizeof *record);
  gpu_.wait();
  std::byte header[kPayloadHeader];
  const size_t bytes = kernels_->finish(*static_cast<const CudaEncoded*>(record_read_.get()), segment_, header);
  if (bytes == 0) return nullptr;  // and the memory is untouched
  memory_.pend();
  gpu_.queue_download(pinned_[0].memory.get(), body_.data(), bytes - kPayloadHeader);
  gpu_.wait();
  const std::shared_ptr<std::vector<std::byte>> payload = payloads_.take(bytes);
  std::copy_n(header, kPayloadHeader, payload->begin());
  std::memcpy(payload->data() + kPayloadHeader, pinned_[0].memory.get(), bytes - kPayloadHeader);
  return payload;
}

// False: nothing was queued, it cannot be a payload of this codec.
bool DeviceCodec::queue_add(const WeightedPayload& payload, size_t number) {
  const std::span<const std::byte> bytes = payload.bytes;
  if (bytes.size() < kPayloadHeader || bytes.size() > bound()) return false;
  const std::span<const std::byte> body = bytes.subspan(kPayloadHeader);
  Pinned& pinned = pinned_[number % 2];
  if (std::exchange(pinned.in_use, true)) gpu_.check(gpu_.module().wait_for_event(pinned.copied.get()), "copy a payload");
  std::memcpy(pinned.memory.get(), body.data(), body.size());
  gpu_.queue_upload(body_.data(), pinned.memory.get(), body.size());
  gpu_.check(gpu_.module().record_event(pinned.copied.get(), gpu_.queue().stream), "record an event");
  const CudaCodecDecode call{.segment = segment_,
                             .body = body_.data(),
                             .weight = payload.weight,
                             .sum = packed_.data(),
                             .scratch = scratch_.data(),
                             .refused = reinterpret_cast<uint32_t*>(refused_.data()) + number};
  int status = 0;
  const bool queued = kernels_->decode_add(bytes.first(std::min(bytes.size(), CudaCodec::kStart)), bytes.size(), call, stream(), &status);
  gpu_.check(status, "read a payload of codec '" + std::string(codec_->def().name) + "'");
  return queued;
}

std::optional<size_t> DeviceCodec::add(std::span<const WeightedPayload> payloads, std::span<float>) {
  gpu_.select();
  const size_t words = payloads.size() * sizeof(uint32_t);
  if (refused_.bytes() < words) refused_ = {}, refused_ = gpu_.allocate(words, "a codec's record");
  refused_read_.assign(payloads.size(), 0);
  gpu_.clear(packed_.data(), packed_.size() * sizeof(float));
  size_t queued = 0;
  while (queued < payloads.size() && queue_add(payloads[queued], queued)) ++queued;
  gpu_.download(refused_read_.data(), refused_.data(), queued * sizeof(uint32_t));
  for (size_t i = 0; i < queued; ++i)
    if (refused_read_[i] != 0) return i;
  return queued < payloads.size() ? std::optional(queued) : std::nullopt;
}

void DeviceCodec::take_sum(Take how, float* block) {
  gpu_.select();
  if (how == Take::replace_all) gpu_.clear(block, block_bytes_);
  const CudaUnpack unpack{.runs = trained_runs_.data(),
                          .count = trained_runs_.count,
                          .longest = trained_runs_.longest,
                          .packed = packed_.data(),
                          .subtract = how == Take::subtract,
                          .block = block};
  gpu_.check(gpu_.module().rounds->unpack(unpack, stream()), "take over what a codec brought");
}

std::unique_ptr<ReplicaCodec> make_device_codec(DeviceRounds& rounds, std::unique_ptr<Codec>& codec, const ReplicaCodecSetup& setup,
                                                std::string* why) {
  std::unique_ptr<CudaCodec> kernels = make_cuda_codec(*codec, *rounds.gpu().module().codecs, why);
  if (!kernels) return nullptr;
  return std::make_unique<DeviceCodec>(rounds, std::move(codec), std::move(kernels), setup);
}

}  // namespace perigee
