#include "src/io/codec/zstd.h"

#include <algorithm>

#include "src/core/error.h"
#include "src/io/codec/compress.h"
#include "src/io/module.h"

namespace perigee {
namespace {

// The part of zstd.h that is used here; stable since 1.0.
struct Zstd {
  struct Buffer {
    const void* data;
    size_t size, at;
  };
  Module module{{"libzstd.so.1", "libzstd.1.dylib"}, "Zstandard compression", "libzstd1"};
  size_t (*bound)(size_t) = nullptr;
  size_t (*compress)(void*, size_t, const void*, size_t, int) = nullptr;
  void* (*create)() = nullptr;
  size_t (*release)(void*) = nullptr;
  size_t (*decompress)(void*, void*, size_t, const void*, size_t) = nullptr;
  size_t (*reset)(void*, int) = nullptr;
  size_t (*decompress_some)(void*, Buffer* out, Buffer* in) = nullptr;
  unsigned (*is_error)(size_t) = nullptr;
  const char* (*error_name)(size_t) = nullptr;
  Zstd() {
    module.symbol("ZSTD_compressBound", bound);
    module.symbol("ZSTD_compress", compress);
    module.symbol("ZSTD_createDCtx", create);
    module.symbol("ZSTD_freeDCtx", release);
    module.symbol("ZSTD_decompressDCtx", decompress);
    module.symbol("ZSTD_DCtx_reset", reset);
    module.symbol("ZSTD_decompressStream", decompress_some);
    module.symbol("ZSTD_isError", is_error);
    module.symbol("ZSTD_getErrorName", error_name);
  }
};

const Zstd& zstd() {
  static const Zstd loaded;
  return loaded;
}

// One for each thread: to make one costs more than a small buffer.
struct Decompressor {
  void* context = zstd().create();
  Decompressor() {
    if (context == nullptr) throw Error(ErrorKind::resources, {.what = "not enough memory for Zstandard"});
  }
  ~Decompressor() { zstd().release(context); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
};

}  // namespace

void zstd_compress(std::span<const std::byte> bytes, int level, Bytes& out) {
  const size_t before = out.size();
  out.resize(before + zstd().bound(bytes.size()));
  const size_t made = zstd().compress(out.data() + before, out.size() - before, bytes.data(), bytes.size(), level);
  if (zstd().is_error(made))
    throw Error(ErrorKind::resources, {.what = std::string("Zstandard cannot compress: ") + zstd().error_name(made)});
  out.resize(before + made);
}

void zstd_decompress(std::span<const std::byte> compressed, std::span<std::byte> out, const std::string& where) {
  thread_local const Decompressor mine;
  const size_t made = zstd().decompress(mine.context, out.data(), out.size(), compressed.data(), compressed.size());
  const bool failed = zstd().is_error(made) != 0;
  if (!failed && made == out.size()) return;
  throw Error(ErrorKind::data, {.where = where,
                                .what = failed ? std::string("the compressed data are damaged (") + zstd().error_name(made) + ")"
                                               : "the compressed data are fewer than said",
                                .got = failed ? "" : std::to_string(made) + " bytes",
                                .expected = failed ? "" : std::to_string(out.size())});
}

Bytes unzstd(std::span<const std::byte> compressed, const std::string& where, uint64_t limit) {
  constexpr int kSessionOnly = 1;
  thread_local const Decompressor mine;
  zstd().reset(mine.context, kSessionOnly);
  limit = std::min<uint64_t>(limit, PTRDIFF_MAX - 1);
  // One byte beyond the limit tells "exactly the limit" from "more".
  Bytes out(static_cast<size_t>(std::min<uint64_t>(limit + 1, std::max<uint64_t>(compressed.size() * uint64_t{4}, 1 << 12))));
  Zstd::Buffer to{out.data(), out.size(), 0}, from{compressed.data(), compressed.size(), 0};
  for (size_t wanted = 1; wanted != 0 || from.at < from.size;) {
    if (to.at > limit) decompressed_too_large(where, limit);
    if (to.at == out.size()) {
      out.resize(static_cast<size_t>(std::min<uint64_t>(out.size() + out.size() / 2, limit + 1)));
      to.data = out.data(), to.size = out.size();
    }
    const size_t taken = from.at, made = to.at;
    wanted = zstd().decompress_some(mine.context, &to, &from);
    const bool failed = zstd().is_error(wanted) != 0;
    if (!failed && (wanted == 0 || from.at != taken || to.at != made)) continue;
    throw Error(ErrorKind::data, {.where = where,
                                  .what = (failed ? std::string("the compressed data are damaged (") + zstd().error_name(wanted) + ")"
                                                  : std::string("the compressed data end too early")) +
                                          " at byte " + std::to_string(from.at)});
  }
  if (to.at > limit) decompressed_too_large(where, limit);
  out.resize(to.at);
  return out;
}

}  // namespace perigee
