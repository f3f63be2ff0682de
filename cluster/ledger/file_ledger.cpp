#include "cluster/ledger/file_ledger.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>

#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/io/file.h"

namespace perigee {
namespace {

constexpr std::string_view kHeader = "perigee ledger 1\n";
constexpr size_t kMaxUnsynced = size_t{16} << 20;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::resources, {.where = path, .what = what, .got = std::strerror(errno)});
}

// Whole bytes of the file with its header, after checking it. 0: the header itself is torn, that is the file is new.
size_t checked_size(std::span<const std::byte> bytes, const std::string& path) {
  const std::string_view text = as_text(bytes);
  if (text.substr(0, kHeader.size()) != kHeader.substr(0, text.size()))
    throw Error(ErrorKind::data, {.where = path,
                                  .what = "this is no ledger",
                                  .expected = "a file that begins with \"perigee ledger 1\"",
                                  .hint = "that of a run is RUN/ledger"});
  if (text.size() < kHeader.size()) return 0;
  return kHeader.size() + sound_bytes(bytes.subspan(kHeader.size()), path, kHeader.size());
}

}  // namespace

FileLedger::FileLedger(const std::string& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail(path, "the ledger cannot be opened");
  try {
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) fail(path, "the ledger cannot be locked");
      throw Error(ErrorKind::resources,
                  {.where = path, .what = "another process is writing this ledger", .hint = "the run is still going on; stop it first"});
    }
    const Bytes bytes = read_file(path);
    size_ = checked_size(bytes, path);
    if (size_ < bytes.size()) {
      warn(path + ": the last record was not written to its end; cut off at byte " + std::to_string(size_));
      if (::ftruncate(fd_, static_cast<off_t>(size_)) != 0) fail(path, "the torn record cannot be cut off");
    }
    if (size_ == 0) {
      if (!write_at(0, as_bytes(kHeader))) fail(path, "the ledger cannot be written");
      size_ = kHeader.size();
    }
    if (::fsync(fd_) != 0) fail(path, "the ledger cannot be written");
    synced_ = size_;
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

FileLedger::~FileLedger() { ::close(fd_); }

bool FileLedger::write_at(size_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    offset += static_cast<size_t>(wrote);
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
  return true;
}

bool FileLedger::append(std::span<const std::byte> record) {
  assert(!record.empty() && size_ - synced_ == unsynced_.size());
  if (unsynced_.size() + record.size() > kMaxUnsynced && !sync()) return false;
  // A record that was half written is taken back at once, or else before the next one.
  if (cut_ && ::ftruncate(fd_, static_cast<off_t>(size_)) != 0) return false;
  cut_ = false;
  if (!write_at(size_, record)) {
    cut_ = ::ftruncate(fd_, static_cast<off_t>(size_)) != 0;
    return false;
  }
  unsynced_.insert(unsynced_.end(), record.begin(), record.end());
  size_ += record.size();
  return true;
}

bool FileLedger::sync() {
  assert(size_ - synced_ == unsynced_.size());
  if (unsynced_.empty()) return true;
  if (rewrite_ && !write_at(synced_, unsynced_)) return false;
  rewrite_ = ::fdatasync(fd_) != 0;
  if (rewrite_) return false;
  synced_ = size_;
  unsynced_.clear();
  return true;
}

std::vector<std::byte> FileLedger::read() {
  const Bytes bytes = read_file(path_);
  assert(bytes.size() >= size_);
  return {bytes.begin() + kHeader.size(), bytes.begin() + static_cast<std::ptrdiff_t>(size_)};
}

std::vector<std::byte> FileLedger::load(const std::string& path) {
  const Bytes bytes = read_file(path);
  const size_t size = checked_size(bytes, path);
  if (size == 0) return {};
  return {bytes.begin() + kHeader.size(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

}  // namespace perigee
