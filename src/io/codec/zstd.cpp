#include "src/io/codec/zstd.h"

#include "src/core/error.h"
#include "src/io/module.h"

namespace perigee {
namespace {

// The part of zstd.h that is used here; stable since 1.0.
struct Zstd {
  Module module{{"libzstd.so.1", "libzstd.1.dylib"}, "Zstandard compression", "libzstd1"};
  size_t (*bound)(size_t) = nullptr;
  size_t (*compress)(void*, size_t, const void*, size_t, int) = nullptr;
  void* (*create)() = nullptr;
  size_t (*release)(void*) = nullptr;
  size_t (*decompress)(void*, void*, size_t, const void*, size_t) = nullptr;
  unsigned (*is_error)(size_t) = nullptr;
  const char* (*error_name)(size_t) = nullptr;
  Zstd() {
    module.symbol("ZSTD_compressBound", bound);
    module.symbol("ZSTD_compress", compress);
    module.symbol("ZSTD_createDCtx", create);
    module.symbol("ZSTD_freeDCtx", release);
    module.symbol("ZSTD_decompressDCtx", decompress);
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
  Decompressor() = default;
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

}  // namespace perigee
