#include "src/data/table/reading/byte_stream.h"

#include <fcntl.h>
#include <lzma.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "src/core/error.h"
#include "src/io/codec/compress.h"
#include "src/io/codec/encoding.h"
#include "src/io/module.h"

namespace perigee {
namespace {

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(const std::string& path) : path_(path) {
    expect_there(path);
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) fail();
#ifdef POSIX_FADV_SEQUENTIAL
    ::posix_fadvise(file_, 0, 0, POSIX_FADV_SEQUENTIAL);
#endif
  }
  ~PlainStream() override {
    if (file_ >= 0) ::close(file_);
  }
  PlainStream(const PlainStream&) = delete;
  PlainStream& operator=(const PlainStream&) = delete;

  size_t read(char* out, size_t size) override {
    size_t done = 0;
    while (done < size) {
      const ssize_t count = ::read(file_, out + done, std::min(size - done, size_t{1} << 30));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail();
      if (count == 0) break;
      done += static_cast<size_t>(count);
    }
    return done;
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::data, {.where = path_, .what = std::string("the file cannot be read: ") + std::strerror(errno)});
  }
  std::string path_;
  int file_ = -1;
};

// A decompressor between a file and its reader: step() takes from `in`, and tells whether a stream of it has ended.
class CompressedStream : public ByteStream {
 public:
  CompressedStream(const std::string& path, std::vector<char> head, std::unique_ptr<ByteStream> file)
      : path_(path), in_(std::move(head)), file_(std::move(file)) {
    end_ = in_.size();
  }

  size_t read(char* out, size_t size) override {
    size_t done = 0;
    while (done < size) {
      if (at_ == end_ && !finished_) refill();
      // Streams may follow each other, and zeros a stream.
      while (!inside_ && begun_ && at_ < end_ && in_[at_] == 0) ++at_;
      if (at_ == end_ && !finished_) continue;
      const bool at_end = at_ == end_;
      if (at_end && !inside_) break;
      if (!inside_) begin();
      inside_ = begun_ = true;
      const size_t before = at_, made = done;
      // All input may be taken and some output still be inside.
      if (step(out, size, done)) inside_ = false;
      else if (before == at_ && made == done) damaged(at_end ? "the compressed data end too early" : "the compressed data are damaged");
    }
    return done;
  }

 protected:
  virtual void begin() {}
  virtual bool step(char* out, size_t size, size_t& done) = 0;
  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(ErrorKind::data, {.where = path_, .what = what + " at byte " + std::to_string(base_ + at_)});
  }

  std::string path_;
  std::vector<char> in_;
  size_t at_ = 0, end_ = 0;
  bool finished_ = false;

 private:
  void refill() {
    base_ += end_;
    in_.resize(size_t{1} << 16);
    at_ = 0;
    end_ = file_->read(in_.data(), in_.size());
    finished_ = end_ < in_.size();
  }
  std::unique_ptr<ByteStream> file_;
  uint64_t base_ = 0;
  bool inside_ = false, begun_ = false;
};

class GzipStream : public CompressedStream {
 public:
  using CompressedStream::CompressedStream;
  ~GzipStream() override {
    if (open_) ::inflateEnd(&stream_);
  }

 protected:
  void begin() override {
    if (open_) ::inflateReset(&stream_);
    else if (::inflateInit2(&stream_, 15 + 16) != Z_OK) throw Error(ErrorKind::resources, {.what = "not enough memory for zlib"});
    open_ = true;
  }
  bool step(char* out, size_t size, size_t& done) override {
    const size_t room = std::min(size - done, size_t{1} << 30), given = end_ - at_;
    stream_.next_in = reinterpret_cast<Bytef*>(in_.data() + at_);
    stream_.avail_in = static_cast<uInt>(given);
    stream_.next_out = reinterpret_cast<Bytef*>(out + done);
    stream_.avail_out = static_cast<uInt>(room);
    const int status = ::inflate(&stream_, Z_NO_FLUSH);
    at_ += given - stream_.avail_in;
    done += room - stream_.avail_out;
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      damaged(std::string("the compressed data are damaged (") + (stream_.msg ? stream_.msg : "zlib") + ")");
    return status == Z_STREAM_END;
  }

 private:
  z_stream stream_ = {};
  bool open_ = false;
};

class XzStream : public CompressedStream {
 public:
  using CompressedStream::CompressedStream;
  ~XzStream() override { ::lzma_end(&stream_); }

 protected:
  void begin() override {
    if (::lzma_stream_decoder(&stream_, uint64_t{256} << 20, 0) != LZMA_OK)
      throw Error(ErrorKind::resources, {.where = path_, .what = "not enough memory for liblzma"});
  }
  bool step(char* out, size_t size, size_t& done) override {
    const size_t given = end_ - at_, room = size - done;
    stream_.next_in = reinterpret_cast<const uint8_t*>(in_.data() + at_);
    stream_.avail_in = given;
    stream_.next_out = reinterpret_cast<uint8_t*>(out + done);
    stream_.avail_out = room;
    const lzma_ret status = ::lzma_code(&stream_, LZMA_RUN);
    at_ += given - stream_.avail_in;
    done += room - stream_.avail_out;
    if (status == LZMA_MEM_ERROR || status == LZMA_MEMLIMIT_ERROR)
      throw Error(ErrorKind::resources, {.where = path_,
                                         .what = "decompressing needs more memory than allowed (256 MiB)",
                                         .hint = "unpack it first, or pack it again with a smaller dictionary: xz -6"});
    if (status != LZMA_OK && status != LZMA_STREAM_END && status != LZMA_BUF_ERROR)
      damaged("the compressed data are damaged: status " + std::to_string(status) + " of liblzma");
    return status == LZMA_STREAM_END;
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

// The part of zstd.h that is used here; stable since 1.0.
struct Zstd {
  struct Buffer {
    void* data;
    size_t size, at;
  };
  Module module{{"libzstd.so.1", "libzstd.1.dylib"}, "Zstandard files", "libzstd1"};
  void* (*create)() = nullptr;
  size_t (*release)(void*) = nullptr;
  size_t (*decompress)(void*, Buffer* out, Buffer* in) = nullptr;
  unsigned (*is_error)(size_t) = nullptr;
  const char* (*error_name)(size_t) = nullptr;
  Zstd() {
    module.symbol("ZSTD_createDStream", create);
    module.symbol("ZSTD_freeDStream", release);
    module.symbol("ZSTD_decompressStream", decompress);
    module.symbol("ZSTD_isError", is_error);
    module.symbol("ZSTD_getErrorName", error_name);
  }
};

const Zstd& zstd() {
  static const Zstd loaded;
  return loaded;
}

class ZstdStream : public CompressedStream {
 public:
  ZstdStream(const std::string& path, std::vector<char> head, std::unique_ptr<ByteStream> file)
      : CompressedStream(path, std::move(head), std::move(file)), stream_(zstd().create()) {
    if (stream_ == nullptr) throw Error(ErrorKind::resources, {.where = path_, .what = "not enough memory for Zstandard"});
  }
  ~ZstdStream() override { zstd().release(stream_); }

 protected:
  bool step(char* out, size_t size, size_t& done) override {
    Zstd::Buffer to{out, size, done}, from{in_.data(), end_, at_};
    const size_t status = zstd().decompress(stream_, &to, &from);
    at_ = from.at;
    done = to.at;
    if (zstd().is_error(status)) damaged(std::string("the compressed data are damaged (") + zstd().error_name(status) + ")");
    return status == 0;
  }

 private:
  void* stream_;
};

class DecodedStream : public ByteStream {
 public:
  DecodedStream(std::unique_ptr<ByteStream> stream, const std::string& encoding, const std::string& where)
      : stream_(std::move(stream)), decoder_(encoding, where), raw_(size_t{1} << 20) {}

  size_t read(char* out, size_t size) override {
    while (text_.size() - at_ < size && !ended_) {
      text_.erase(0, at_);
      at_ = 0;
      const size_t got = stream_->read(raw_.data(), raw_.size());
      ended_ = got < raw_.size();
      decoder_.add({raw_.data(), got}, ended_, text_);
    }
    const size_t count = text_.copy(out, size, at_);
    at_ += count;
    return count;
  }

 private:
  std::unique_ptr<ByteStream> stream_;
  TextDecoder decoder_;
  std::vector<char> raw_;
  std::string text_;
  size_t at_ = 0;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> decoded_stream(std::unique_ptr<ByteStream> stream, const std::string& encoding, const std::string& where) {
  return std::make_unique<DecodedStream>(std::move(stream), encoding, where);
}

std::unique_ptr<ByteStream> open_stream(const std::string& path) {
  auto file = std::make_unique<PlainStream>(path);
  std::vector<char> head(6);
  head.resize(file->read(head.data(), head.size()));
  const std::string_view magic(head.data(), head.size());
  if (magic.starts_with("\x1f\x8b")) return std::make_unique<GzipStream>(path, std::move(head), std::move(file));
  if (magic == std::string_view("\xfd"
                                "7zXZ\0",
                                6))
    return std::make_unique<XzStream>(path, std::move(head), std::move(file));
  if (magic.starts_with("\x28\xb5\x2f\xfd")) return std::make_unique<ZstdStream>(path, std::move(head), std::move(file));
  return std::make_unique<PlainStream>(path);
}

std::shared_ptr<const MappedFile> unpacked_file(const std::string& path, uint64_t most) {
  const char* chosen = std::getenv("TMPDIR");
  const std::string folder = chosen != nullptr && *chosen != '\0' ? chosen : "/tmp";
  std::string name = folder + "/perigee-unpacked-XXXXXX";
  const int out = ::mkstemp(name.data());
  const auto fail = [&] {
    throw Error(ErrorKind::resources, {.where = path,
                                       .what = std::string("there is no room to unpack the file: ") + std::strerror(errno),
                                       .got = folder,
                                       .hint = "set TMPDIR to a folder with more room, or unpack the file yourself"});
  };
  if (out < 0) fail();
  struct Named {
    int out;
    const std::string& name;
    ~Named() { ::close(out), ::unlink(name.c_str()); }
  } named{out, name};
  const auto stream = open_stream(path);
  std::vector<char> block(size_t{1} << 20);
  uint64_t whole = 0;
  for (size_t got = block.size(); got == block.size();) {
    got = stream->read(block.data(), block.size());
    for (size_t done = 0; done < got;) {
      const ssize_t count = ::write(out, block.data() + done, got - done);
      if (count < 0 && errno != EINTR) fail();
      if (count > 0) done += static_cast<size_t>(count);
    }
    whole += got;
    if (whole > most)
      throw Error(ErrorKind::resources, {.where = path,
                                         .what = "the file is too large for one that is compressed as a whole",
                                         .expected = "at most " + std::to_string(most >> 20) + " MiB",
                                         .hint = "unpack it first"});
  }
  return std::make_shared<MappedFile>(name);
}

}  // namespace perigee
