// Size: 16 + 8 + what zstd makes of the inner payload, or the payload itself where that is shorter.
#include "cluster/codec/wrapped/zstd.h"

#include <cassert>
#include <cstring>

#include "cluster/codec/wrapped/wrapped_codec.h"
#include "src/io/module.h"

namespace perigee {
namespace {

constexpr uint8_t kFormat = 0x5a;
constexpr size_t kLength = 8;  // bytes of the inner payload's length
enum ZstdVariant : uint16_t { kStored = 0, kCompressed = 1 };

// The library's stable interface, since version 1.4.
struct Library {
  Library() : module({"libzstd.so.1"}, "compressed exchanges (zstd)", "libzstd1") {
    module.symbol("ZSTD_createCCtx", create_encoder);
    module.symbol("ZSTD_freeCCtx", free_encoder);
    module.symbol("ZSTD_compressCCtx", compress);
    module.symbol("ZSTD_createDCtx", create_decoder);
    module.symbol("ZSTD_freeDCtx", free_decoder);
    module.symbol("ZSTD_decompressDCtx", decompress);
    module.symbol("ZSTD_isError", is_error);
  }
  Module module;
  void* (*create_encoder)() = nullptr;
  size_t (*free_encoder)(void*) = nullptr;
  size_t (*compress)(void*, void*, size_t, const void*, size_t, int) = nullptr;
  void* (*create_decoder)() = nullptr;
  size_t (*free_decoder)(void*) = nullptr;
  size_t (*decompress)(void*, void*, size_t, const void*, size_t) = nullptr;
  unsigned (*is_error)(size_t) = nullptr;
};

const Library& library() {
  static const Library loaded;
  return loaded;
}

using Context = std::unique_ptr<void, size_t (*)(void*)>;

class ZstdCodec final : public WrappedCodec {
 public:
  ZstdCodec(std::unique_ptr<Codec> inner, const CodecSetup& setup, int level)
      : WrappedCodec(std::move(inner), setup),
        level_(level),
        encoder_(library().create_encoder(), library().free_encoder),
        decoder_(library().create_decoder(), library().free_decoder) {
    if (!encoder_ || !decoder_) throw Error(ErrorKind::resources, {.where = "zstd", .what = "not enough memory"});
  }

  Json to_json() const override {
    Json json = inner().to_json();
    json.set("zstd", level_);
    return json;
  }
  size_t bound(const CodecSegment& segment) const override { return kPayloadHeader + kLength + inner().bound(segment); }
  size_t scratch_bytes(const CodecSegment& segment) const override { return inner_scratch(segment) + inner().bound(segment); }

  size_t encode(const EncodeCall& call, std::span<std::byte> out) const override {
    assert(out.size() >= bound(call.segment) && call.scratch.size() >= scratch_bytes(call.segment));
    const size_t border = inner_scratch(call.segment);
    EncodeCall inner_call = call;
    inner_call.scratch = call.scratch.first(border);
    const std::span<std::byte> plain = call.scratch.subspan(border, inner().bound(call.segment));
    const uint64_t length = inner().encode(inner_call, plain);
    if (length == 0) return 0;
    std::byte* body = out.data() + kPayloadHeader + kLength;
    size_t bytes = library().compress(encoder_.get(), body, length, plain.data(), length, level_);
    const bool stored = library().is_error(bytes) != 0 || bytes >= length;  // no room is an error too
    if (stored) std::memcpy(body, plain.data(), bytes = length);
    const PayloadHeader header{
        .format = kFormat, .variant = stored ? kStored : kCompressed, .elements = static_cast<uint64_t>(call.segment.count)};
    std::memcpy(out.data(), &header, sizeof header);
    std::memcpy(out.data() + kPayloadHeader, &length, kLength);
    return kPayloadHeader + kLength + bytes;
  }

  bool decode_add(std::span<const std::byte> bytes, float weight, const CodecSegment& segment, std::span<float> sum,
                  std::span<std::byte> scratch) const override {
    assert(scratch.size() >= scratch_bytes(segment));
    PayloadHeader header;
    uint64_t length;
    if (bytes.size() < kPayloadHeader + kLength) return false;
    std::memcpy(&header, bytes.data(), sizeof header);
    std::memcpy(&length, bytes.data() + kPayloadHeader, kLength);
    if (header.format != kFormat || header.version != 1 || header.variant > kCompressed || header.detail != 0 ||
        header.elements != static_cast<uint64_t>(segment.count) || length > inner().bound(segment))
      return false;
    const auto body = bytes.subspan(kPayloadHeader + kLength);
    const size_t border = inner_scratch(segment);
    std::span<const std::byte> plain = body;
    if (header.variant == kCompressed) {
      std::byte* to = scratch.data() + border;
      if (library().decompress(decoder_.get(), to, length, body.data(), body.size()) != length) return false;
      plain = {to, length};
    }
    return plain.size() == length && inner().decode_add(plain, weight, segment, sum, scratch.first(border));
  }

 private:
  int level_;
  Context encoder_, decoder_;
};

}  // namespace

std::unique_ptr<Codec> make_zstd_codec(std::unique_ptr<Codec> inner, const CodecSetup& setup, int level) {
  return std::make_unique<ZstdCodec>(std::move(inner), setup, level);
}

}  // namespace perigee
