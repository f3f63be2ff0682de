// Calls of the operating system and of libraries that fail in the middle of work, as they do on full disks, tired machines and odd installations:
// this program has functions of their names, which refuse once when a test asks for it. It is a program of its own for that.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "cluster/launch/secret.h"
#include "cluster/ledger/file_ledger.h"
#include "cluster/ledger/ledger.h"
#include "src/core/error.h"
#include "src/io/codec/zstd.h"
#include "src/io/file.h"
#include "src/io/module.h"
#include "src/io/plot/png.h"
#include "src/io/record/shard_writer.h"
#include "src/net/loop.h"
#include "src/net/tls.h"
#include "src/net/tls_keys.h"
#include "src/net/tls_records.h"
#include "tests/io/temporary.h"

namespace {

// The call that fails next, after `spared` that do not; with which errno.
struct {
  std::string_view call;
  int error = 0, spared = 0;
} next_failure;

bool fails(std::string_view call) {
  if (next_failure.call != call || next_failure.spared-- > 0) return false;
  next_failure.call = {};
  errno = next_failure.error;
  return true;
}

// The function of the library, under its own name there.
template <class F>
F* real(F*, const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  return reinterpret_cast<F*>(found);
}

}  // namespace

extern "C" {

int fsync(int file) { return fails("fsync") ? -1 : real(fsync, "fsync")(file); }
int close(int file) {
  static const auto own = real(close, "close");
  const bool refused = fails("close");
  const int status = own(file);
  if (refused) errno = next_failure.error;
  return refused ? -1 : status;
}
ssize_t read(int file, void* bytes, size_t size) {
  static const auto own = real(read, "read");
  return fails("read") ? 0 : own(file, bytes, size);  // the end of the file
}
ssize_t write(int file, const void* bytes, size_t size) {
  static const auto own = real(write, "write");
  return fails("write") ? -1 : own(file, bytes, size);
}
int fstat(int file, struct stat* info) noexcept { return fails("fstat") ? -1 : real(fstat, "fstat64")(file, info); }
int ftruncate(int file, off_t size) noexcept { return fails("ftruncate") ? -1 : real(ftruncate, "ftruncate64")(file, size); }
int flock(int file, int operation) noexcept { return fails("flock") ? -1 : real(flock, "flock")(file, operation); }

SSL_CTX* SSL_CTX_new(const SSL_METHOD* method) { return fails("SSL_CTX_new") ? nullptr : real(SSL_CTX_new, "SSL_CTX_new")(method); }
SSL* SSL_new(SSL_CTX* context) { return fails("SSL_new") ? nullptr : real(SSL_new, "SSL_new")(context); }
void SSL_CTX_set_keylog_callback(SSL_CTX* context, SSL_CTX_keylog_cb_func tell) {
  if (!fails("SSL_CTX_set_keylog_callback")) real(SSL_CTX_set_keylog_callback, "SSL_CTX_set_keylog_callback")(context, tell);
}
EVP_CIPHER_CTX* EVP_CIPHER_CTX_new() { return fails("EVP_CIPHER_CTX_new") ? nullptr : real(EVP_CIPHER_CTX_new, "EVP_CIPHER_CTX_new")(); }
int EVP_CipherInit_ex(EVP_CIPHER_CTX* context, const EVP_CIPHER* cipher, ENGINE* engine, const unsigned char* key, const unsigned char* iv,
                      int encrypts) {
  return fails("EVP_CipherInit_ex") ? 0 : real(EVP_CipherInit_ex, "EVP_CipherInit_ex")(context, cipher, engine, key, iv, encrypts);
}
int EVP_PKEY_derive_init(EVP_PKEY_CTX* context) {
  return fails("EVP_PKEY_derive_init") ? 0 : real(EVP_PKEY_derive_init, "EVP_PKEY_derive_init")(context);
}
int RAND_priv_bytes(unsigned char* bytes, int size) {
  return fails("RAND_priv_bytes") ? 0 : real(RAND_priv_bytes, "RAND_priv_bytes")(bytes, size);
}
int compress2(Bytef* out, uLongf* size, const Bytef* bytes, uLong count, int level) {
  return fails("compress2") ? Z_MEM_ERROR : real(compress2, "compress2")(out, size, bytes, count, level);
}

}  // extern "C"

namespace perigee {
namespace {

// The message of the error that `act` ends with when `call` fails; the failure must have come up in it.
std::string refusal(std::string_view call, int error, const std::function<void()>& act, int spared = 0) {
  next_failure = {call, error, spared};
  std::string message = "nothing was refused";
  try {
    act();
  } catch (const Error& refused) {
    message = refused.what();
  }
  if (!next_failure.call.empty()) message += "; the call did not come up";
  next_failure = {};
  return message;
}

void expect_said(const std::string& message, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
}

// As many descriptors as the process has now, or memory of so many bytes, until the end of the scope.
class Limit {
 public:
  Limit(int what, rlim_t most) : what_(what) {
    ::getrlimit(static_cast<__rlimit_resource_t>(what_), &before_);
    const rlimit now{most, before_.rlim_max};
    ::setrlimit(static_cast<__rlimit_resource_t>(what_), &now);
  }
  ~Limit() { ::setrlimit(static_cast<__rlimit_resource_t>(what_), &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  int what_;
  rlimit before_{};
};

TEST(FailingCalls, AFileThatIsWrittenOrRead) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  const auto write = [&] { write_file(path, as_bytes("new")); };
  write_file(path, as_bytes("old"));
  expect_said(refusal("write", ENOSPC, write), {path, "cannot be written: No space left on device", "free some space on this disk"});
  expect_said(refusal("fsync", EIO, write), {path + ": cannot be synced: Input/output error"});
  expect_said(refusal("close", EDQUOT, write), {path + ": cannot be closed: Disk quota exceeded"});
  EXPECT_EQ(as_text(read_file(path)), "old") << "a file that could not be written whole is the one before";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "nothing is left behind";
  expect_said(refusal("fsync", EIO, write, 1), {folder.path() + ": cannot be synced"});  // the folder, after the file
  expect_said(refusal("fstat", EIO, [&] { read_file(path); }), {path + ": cannot be examined: Input/output error"});
  expect_said(refusal("read", 0, [&] { read_file(path); }), {path + ": the file became shorter while it was read"});
}

TEST(FailingCalls, AMappingThatIsLargerThanTheProcessMayHave) {
  const TemporaryFolder folder;
  const std::string path = folder / "sparse";
  std::ofstream(path) << "x";
  std::filesystem::resize_file(path, uint64_t{1} << 40);
  const Limit memory(RLIMIT_AS, rlim_t{1} << 39);
  expect_said(refusal("", 0, [&] { MappedFile file(path); }), {path + ": cannot be mapped: Cannot allocate memory"});
}

// Zstandard asks for its own memory, of which there is too little beside the result's.
TEST(FailingCalls, ACompressionWithoutMemory) {
  const Bytes content(size_t{32} << 20);
  Bytes packed;
  zstd_compress(as_bytes("small"), 3, packed);
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const Limit memory(RLIMIT_AS, pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + (size_t{64} << 20));
  Bytes out;
  expect_said(refusal("", 0, [&] { zstd_compress(content, 22, out); }), {"Zstandard cannot compress: ", "not enough memory"});
}

TEST(FailingCalls, AFileOfRecords) {
  const TemporaryFolder folder;
  const auto finish = [&](const std::string& name) {
    return [path = folder / name] {
      records::BlockBuilder rows({.per_block = 1, .stride = 8}, 0);
      rows.add_row();
      records::ShardWriter writer(path, {.per_block = 1, .stride = 8});
      writer.add(rows.encode());
      writer.finish(1, Json::object());
    };
  };
  expect_said(refusal("fsync", EIO, finish("a")), {folder / "a: cannot be synced: Input/output error"});
  expect_said(refusal("close", EIO, finish("b")), {folder / "b: cannot be closed: Input/output error"});
  std::filesystem::create_directory(folder / "c");
  expect_said(refusal("", 0, finish("c")), {folder / "c: cannot be named: Is a directory"});
}

TEST(FailingCalls, ALedger) {
  const TemporaryFolder folder;
  const std::string path = folder / "ledger";
  { FileLedger made(path); }
  const auto open = [&] { FileLedger ledger(path); };
  expect_said(refusal("flock", ENOLCK, open), {path + ": the ledger cannot be locked; got No locks available"});
  std::ofstream(path, std::ios::app) << "torn";
  expect_said(refusal("ftruncate", EIO, open), {path + ": the torn record cannot be cut off; got Input/output error"});
  EXPECT_NO_THROW(open());
}

TEST(FailingCalls, KeysAndRandomNumbers) {
  expect_said(refusal("RAND_priv_bytes", 0, [] { Secret::random(); }), {"the system has no random numbers for a key"});
  const Secret secret = Secret::random();
  expect_said(refusal("EVP_PKEY_derive_init", 0, [&] { (void)secret.for_job(1); }), {"HKDF-SHA256 is not available in this OpenSSL"});
}

struct Silent final : TlsSink {
  void put(std::span<const std::byte> bytes) override { sent.insert(sent.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> sent;
};

TEST(FailingCalls, AnOpenSslThatCannot) {
  const Secret secret = Secret::random();
  expect_said(refusal("SSL_CTX_new", 0, [&] { TlsContext context(credentials_of(secret)); }),
              {"this OpenSSL cannot do TLS 1.3", "install OpenSSL 1.1.1 or newer"});
  const TlsContext context(credentials_of(secret));
  Silent sink;
  expect_said(refusal("SSL_new", 0, [&] { Tls tls(context, Tls::Role::client, sink); }), {"no memory for a TLS connection"});
  const TlsRecords::Secret traffic{};
  expect_said(refusal("EVP_CIPHER_CTX_new", 0, [&] { TlsRecords records(traffic); }), {"no memory for a TLS connection"});
  expect_said(refusal("EVP_CipherInit_ex", 0, [&] { TlsRecords records(traffic); }), {"this OpenSSL cannot do TLS 1.3", "no AES-128-GCM"});
}

// One that does not tell the keys of a connection, as a build without the key log.
TEST(FailingCalls, AnOpenSslThatKeepsTheKeys) {
  const Secret secret = Secret::random();
  next_failure = {"SSL_CTX_set_keylog_callback", 0, 0};
  const TlsContext context(credentials_of(secret));
  EXPECT_TRUE(next_failure.call.empty());
  Silent from_client, from_server;
  Tls client(context, Tls::Role::client, from_client), server(context, Tls::Role::server, from_server);
  client.start();
  std::vector<std::byte> room(5000);
  for (int turn = 0; turn < 4; ++turn) {
    const std::vector<std::byte> there = std::exchange(from_client.sent, {}), back = std::exchange(from_server.sent, {});
    server.feed(there), server.read(room);
    client.feed(back), client.read(room);
  }
  EXPECT_EQ(client.state(), Tls::State::failed);
  EXPECT_EQ(client.problem(), "OpenSSL keeps the keys to itself");
}

TEST(FailingCalls, TooFewDescriptors) {
  const int next = ::dup(0);
  ::close(next);
  const Limit files(RLIMIT_NOFILE, static_cast<rlim_t>(next));
  expect_said(refusal("", 0, [] { UvLoop loop; }),
              {"cannot make an event loop", "too many open files", "raise the limit of open files: ulimit -n"});
}

TEST(FailingCalls, ASignalThatNobodyMayWatch) {
  UvLoop loop;
  expect_said(refusal("", 0, [&] { loop.on_signal(SIGKILL, [](int) {}); }), {"cannot watch signal 9", "invalid argument"});
}

TEST(FailingCalls, PicturesWithoutMemory) {
  const std::vector<uint8_t> pixels(3 * 4 * 4);
  expect_said(refusal("compress2", 0, [&] { png_file(4, 4, pixels); }), {"PNG", "there is no memory to compress an image"});
}

TEST(FailingCalls, ALibraryOfAnotherVersion) {
  const Module module({"libz.so.1", "libz.1.dylib"}, "a test", "zlib1g");
  int (*function)() = nullptr;
  expect_said(refusal("", 0, [&] { module.symbol("deflateBackwards", function); }), {"libz", "the library lacks deflateBackwards"});
}

}  // namespace
}  // namespace perigee
