#include "cluster/launch/secret.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr size_t kMaxFileBytes = 4096;

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

constexpr const char* kMakeOne = "make one with `perigee secret new > FILE` and copy it to every machine";

[[noreturn]] void fail_secret(std::string_view where, std::string what, std::string got = "", std::string expected = "",
                              std::string hint = "") {
  throw Error(ErrorKind::authentication, {.where = std::string(where),
                                          .what = std::move(what),
                                          .got = std::move(got),
                                          .expected = std::move(expected),
                                          .hint = std::move(hint)});
}

// The mode is checked on the descriptor that is read, so that the file cannot be exchanged in between.
std::string read_private_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail_secret(path, "cannot read the secret", std::strerror(errno), "", kMakeOne);
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) fail_secret(path, "a secret is a regular file", "something else", "", kMakeOne);
  if (info.st_mode & 077) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(info.st_mode & 07777));
    fail_secret(path, "others than its owner may read or change this secret", std::string("mode ") + mode, "0600", "chmod 600 " + path);
  }
  std::string text(kMaxFileBytes + 1, '\0');
  const ssize_t size = ::read(fd, text.data(), text.size());
  if (size < 0) fail_secret(path, "cannot read the secret", std::strerror(errno));
  text.resize(static_cast<size_t>(size));
  return text;
}

constexpr const char* kStandardInput = "standard input";

// From a pipe, so that no file holds the secret.
std::string read_standard_input(int64_t patience_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  std::string text;
  while (text.size() <= kMaxFileBytes) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const int ready = left > 0 ? ::poll(&input, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) fail_secret(kStandardInput, "the secret has not come to its end in time", "", "", "perigee ... --secret - < FILE");
    char part[kMaxFileBytes];
    const ssize_t size = ready < 0 ? -1 : ::read(STDIN_FILENO, part, sizeof part);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) fail_secret(kStandardInput, "cannot read the secret", std::strerror(errno));
    if (size == 0) break;
    text.append(part, static_cast<size_t>(size));
  }
  return text;
}

}  // namespace

Secret Secret::random() {
  Secret secret;
  if (RAND_priv_bytes(secret.bytes_.data(), static_cast<int>(secret.bytes_.size())) != 1)
    throw Error(ErrorKind::resources, {.what = "the system has no random numbers for a key"});
  secret.present_ = true;
  return secret;
}

Secret Secret::from_hex(std::string_view hex, std::string_view where) {
  Secret secret;
  const auto expected = std::to_string(2 * secret.bytes_.size()) + " hexadecimal digits";
  if (hex.size() != 2 * secret.bytes_.size())
    fail_secret(where, "not a secret", std::to_string(hex.size()) + " characters", expected, kMakeOne);
  for (size_t i = 0; i < secret.bytes_.size(); ++i) {
    const int high = digit_value(hex[2 * i]), low = digit_value(hex[2 * i + 1]);
    if (high < 0 || low < 0)
      fail_secret(where, "not a secret", "another character at position " + std::to_string(2 * i + 1), expected, kMakeOne);
    secret.bytes_[i] = static_cast<uint8_t>(high << 4 | low);
  }
  secret.present_ = true;
  return secret;
}

Secret Secret::from_file(const std::string& path, int64_t patience_ms) {
  const std::string where = path == "-" ? kStandardInput : path;
  const std::string text = path == "-" ? read_standard_input(patience_ms) : read_private_file(path);
  std::string_view rest = text, found;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty() || line.front() == '#') continue;
    if (!found.empty())
      fail_secret(where, "a secret file has one key", "more than one line", "one line, beside those that begin with #", kMakeOne);
    found = line;
  }
  return from_hex(found, where);
}

std::string Secret::hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  assert(present_);
  std::string text;
  text.reserve(2 * bytes_.size());
  for (const uint8_t byte : bytes_) text += kDigits[byte >> 4], text += kDigits[byte & 15];
  return text;
}

std::string Secret::text() const {
  return "# A perigee secret: who has it may join the cluster and see what it trains. Keep it at mode 0600.\n" + hex() + "\n";
}

Secret Secret::derive(std::string_view purpose) const {
  assert(present_);
  Secret result;
  const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr), EVP_PKEY_CTX_free);
  static constexpr std::string_view kSalt = "perigee secret 1";
  size_t size = result.bytes_.size();
  const auto data = [](std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); };
  const bool ok = context && EVP_PKEY_derive_init(context.get()) == 1 && EVP_PKEY_CTX_set_hkdf_md(context.get(), EVP_sha256()) == 1 &&
                  EVP_PKEY_CTX_set1_hkdf_salt(context.get(), data(kSalt), static_cast<int>(kSalt.size())) == 1 &&
                  EVP_PKEY_CTX_set1_hkdf_key(context.get(), bytes_.data(), static_cast<int>(bytes_.size())) == 1 &&
                  EVP_PKEY_CTX_add1_hkdf_info(context.get(), data(purpose), static_cast<int>(purpose.size())) == 1 &&
                  EVP_PKEY_derive(context.get(), result.bytes_.data(), &size) == 1;
  if (!ok || size != result.bytes_.size()) throw Error(ErrorKind::resources, {.what = "HKDF-SHA256 is not available in this OpenSSL"});
  result.present_ = true;
  return result;
}

Secret Secret::for_job(uint64_t job) const { return derive("job " + std::to_string(job)); }

std::string Secret::identity() const { return "perigee-1-" + derive("identity").hex().substr(0, 16); }

std::unique_ptr<const TlsCredentials> credentials_of(const Secret& own, const std::vector<Secret>& accepted) {
  assert(!own.empty());
  std::vector<PreSharedKey> others;
  for (const Secret& other : accepted) others.push_back(other.shared_key());
  return std::make_unique<const PreSharedKeys>(own.shared_key(), std::move(others));
}

}  // namespace perigee
