#include "cluster/uv/shared_link.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "cluster/protocol/message.h"

namespace perigee {
namespace {

// Four chunks each way: enough to keep both sides at work, small enough to stay in the cache that they share.
constexpr size_t kRingBytes = size_t{2} << 20;
constexpr size_t kMemoryBytes = 2 * Ring::memory_bytes(kRingBytes);
constexpr size_t kNameBytes = 16;                                  // of an offer; the rest is the token
constexpr size_t kBudget = size_t{8} << 20;                        // read in one go, then other connections have their turn
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;  // a mapping that cannot be cut short under us

void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

// An abstract socket's name: a zero byte, then whatever one likes. It exists only as long as the socket.
socklen_t abstract_address(const SharedLink::Offer& offer, sockaddr_un* address) {
  static constexpr char kPrefix[] = "perigee-";
  *address = {};
  address->sun_family = AF_UNIX;
  char* at = address->sun_path + 1;
  std::memcpy(at, kPrefix, sizeof kPrefix - 1);
  at += sizeof kPrefix - 1;
  for (size_t i = 0; i < kNameBytes; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto byte = std::to_integer<unsigned>(offer[i]);
    *at++ = kDigits[byte >> 4], *at++ = kDigits[byte & 15];
  }
  return static_cast<socklen_t>(at - reinterpret_cast<char*>(address));
}

// A process of our own user, of this machine.
bool same_user(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid();
}

bool send_descriptors(int socket, std::span<const int, 3> descriptors) {
  std::byte one{1};
  iovec data{&one, 1};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(3 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data, message.msg_iovlen = 1;
  message.msg_control = control.data(), message.msg_controllen = control.size();
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(3 * sizeof(int));
  std::memcpy(CMSG_DATA(head), descriptors.data(), 3 * sizeof(int));
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

// False: three descriptors did not come; those that did are closed.
bool receive_descriptors(int socket, std::span<int, 3> out) {
  std::byte one{};
  iovec data{&one, 1};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(3 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data, message.msg_iovlen = 1;
  message.msg_control = control.data(), message.msg_controllen = control.size();
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return false;
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS || head->cmsg_len < CMSG_LEN(sizeof(int))) return false;
  const size_t count = std::min<size_t>(3, (head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  std::memcpy(out.data(), CMSG_DATA(head), count * sizeof(int));
  if (count == 3) return true;
  for (size_t i = 0; i < count; ++i) close_fd(out[i]);
  return false;
}

bool good_memory(int fd) {
  struct stat about {};
  const int seals = fcntl(fd, F_GET_SEALS);
  return fstat(fd, &about) == 0 && static_cast<size_t>(about.st_size) == kMemoryBytes && seals >= 0 && (seals & kSeals) == kSeals;
}

}  // namespace

// Calls a member function when a descriptor can be read. libuv's handle may live a little longer than its user.
class SharedLink::Watcher {
 public:
  static std::unique_ptr<Watcher> watch(SharedLink& link, int fd, void (SharedLink::*readable)()) {
    auto handle = std::make_unique<Handle>();
    handle->link = &link, handle->readable = readable;
    if (uv_poll_init(link.loop_.handle(), &handle->poll, fd) != 0) return nullptr;
    const auto fired = [](uv_poll_t* poll, int, int) {
      const auto* self = static_cast<Handle*>(poll->data);
      if (self->link) self->link->loop_.guard([&] { (self->link->*self->readable)(); });
    };
    handle->poll.data = handle.get();
    uv_poll_start(&handle->poll, UV_READABLE, fired);
    auto watcher = std::make_unique<Watcher>();
    watcher->handle_ = handle.release();  // freed when libuv has closed it
    return watcher;
  }
  ~Watcher() {
    if (!handle_) return;
    handle_->link = nullptr;
    uv_close(reinterpret_cast<uv_handle_t*>(&handle_->poll),
             [](uv_handle_t* closed) { std::unique_ptr<Handle>(static_cast<Handle*>(closed->data)); });
  }

 private:
  struct Handle {
    uv_poll_t poll;
    SharedLink* link = nullptr;
    void (SharedLink::*readable)() = nullptr;
  };
  Handle* handle_ = nullptr;
};

SharedLink::SharedLink(UvLoop& loop, SharedLinkUser& user) : loop_(loop), user_(user) {}

SharedLink::~SharedLink() {
  listener_watch_.reset(), socket_watch_.reset(), bell_watch_.reset();  // before their descriptors
  for (int* fd : {&memory_fd_, &own_bell_, &other_bell_, &listener_, &socket_}) close_fd(*fd);
  if (memory_) munmap(memory_, kMemoryBytes);
}

bool SharedLink::same_machine(int socket) {
  sockaddr_storage own{}, other{};
  socklen_t own_size = sizeof own, other_size = sizeof other;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return false;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&other), &other_size) != 0 || own.ss_family != other.ss_family) return false;
  // A connection whose two ends have one address has not left the machine.
  if (own.ss_family == AF_INET) {
    const auto &a = reinterpret_cast<sockaddr_in&>(own), &b = reinterpret_cast<sockaddr_in&>(other);
    return a.sin_addr.s_addr == b.sin_addr.s_addr;
  }
  if (own.ss_family == AF_INET6) {
    const auto &a = reinterpret_cast<sockaddr_in6&>(own), &b = reinterpret_cast<sockaddr_in6&>(other);
    return std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof a.sin6_addr) == 0;
  }
  return false;
}

// ---- getting the memory ----

bool SharedLink::offer(Offer* out) {
  if (getrandom(offer_.data(), offer_.size(), 0) != static_cast<ssize_t>(offer_.size()) || !make_memory()) return false;
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address;
  const socklen_t size = abstract_address(offer_, &address);
  if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 4) != 0) return false;
  listener_watch_ = Watcher::watch(*this, listener_, &SharedLink::on_visitor);
  *out = offer_;
  return listener_watch_ != nullptr;
}

bool SharedLink::make_memory() {
  memory_fd_ = memfd_create("perigee", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  own_bell_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  other_bell_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return memory_fd_ >= 0 && own_bell_ >= 0 && other_bell_ >= 0 && ftruncate(memory_fd_, kMemoryBytes) == 0 &&
         fcntl(memory_fd_, F_ADD_SEALS, kSeals) == 0 && map(memory_fd_, true);
}

bool SharedLink::map(int memory, bool offered_here) {
  void* at = mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (at == MAP_FAILED) return false;
  memory_ = static_cast<std::byte*>(at);
  const Ring first = Ring::in(memory_, kRingBytes), second = Ring::in(memory_ + Ring::memory_bytes(kRingBytes), kRingBytes);
  writer_ = RingWriter(offered_here ? first : second);
  reader_ = RingReader(offered_here ? second : first);
  bell_watch_ = Watcher::watch(*this, own_bell_, &SharedLink::on_bell);
  return bell_watch_ != nullptr;
}

// A peer connected to the offer's socket. Another user's process is refused; one without the token gets nothing.
void SharedLink::on_visitor() {
  const int visitor = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (visitor < 0) return;
  if (socket_ >= 0 || !same_user(visitor)) {
    ::close(visitor);
    return;
  }
  socket_ = visitor;
  socket_watch_ = Watcher::watch(*this, socket_, &SharedLink::on_token);
}

void SharedLink::on_token() {
  std::array<std::byte, kOfferBytes - kNameBytes> token{};
  const ssize_t count = recv(socket_, token.data(), token.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const bool right = count == static_cast<ssize_t>(token.size()) && std::equal(token.begin(), token.end(), offer_.begin() + kNameBytes);
  const std::array<int, 3> descriptors{memory_fd_, other_bell_, own_bell_};
  const bool sent = right && send_descriptors(socket_, descriptors);
  socket_watch_.reset();
  close_fd(socket_);
  if (!sent) return;  // the listener stays: the right one may still come
  listener_watch_.reset();
  close_fd(listener_), close_fd(memory_fd_);
}

void SharedLink::answer(const Offer& offer) {
  offer_ = offer;
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address;
  const socklen_t size = abstract_address(offer_, &address);
  const bool there = socket_ >= 0 && connect(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0 && same_user(socket_);
  const ssize_t token = kOfferBytes - kNameBytes;
  if (!there || ::send(socket_, offer_.data() + kNameBytes, static_cast<size_t>(token), MSG_NOSIGNAL) != token) return refuse();
  socket_watch_ = Watcher::watch(*this, socket_, &SharedLink::on_descriptors);
  if (!socket_watch_) refuse();
}

void SharedLink::on_descriptors() {
  std::array<int, 3> descriptors{-1, -1, -1};
  const bool received = receive_descriptors(socket_, descriptors);
  if (!received && (errno == EAGAIN || errno == EINTR)) return;
  socket_watch_.reset();
  close_fd(socket_);
  if (!received) return refuse();
  memory_fd_ = descriptors[0], own_bell_ = descriptors[1], other_bell_ = descriptors[2];
  const bool good = good_memory(memory_fd_) && map(memory_fd_, false);
  close_fd(memory_fd_);
  if (!good) return refuse();
  user_.on_shared_ready();
}

void SharedLink::refuse() {
  close_fd(socket_);
  user_.on_shared_refused();
}

// ---- frames ----

void SharedLink::ring_other() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(other_bell_, &one, sizeof one);  // full: it rings already
}

void SharedLink::ring_own() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(own_bell_, &one, sizeof one);
}

bool SharedLink::send(std::span<const std::byte> head, std::span<const std::byte> body, size_t bound) {
  assert(writing_);
  const size_t size = head.size() + body.size();
  if (waiting_.empty() && size <= writer_.max_record() && writer_.put(RecordKind::whole, head, body)) {
    if (writer_.must_wake()) ring_other();
    return true;
  }
  // A chunk can wait where it is. What is longer than a record has to be kept, and so has a control frame.
  const bool keep = body.empty() ? queued_ + size <= 4 * bound : queued_ == 0 && size > writer_.max_record();
  if (keep) {
    Waiting& waiting = waiting_.emplace_back();
    waiting.frame.reserve(size);
    waiting.frame.insert(waiting.frame.end(), head.begin(), head.end());
    waiting.frame.insert(waiting.frame.end(), body.begin(), body.end());
    queued_ += size;
  }
  wants_room_ = true;
  if (waiting_.size() == 1) flush();
  if (!writer_.wait()) ring_own();  // not told from within this call
  return keep;
}

// Writes what waits, as far as there is room. True: nothing waits any more.
bool SharedLink::flush() {
  while (!waiting_.empty() && put_waiting(waiting_.front())) waiting_.pop_front();
  if (writer_.must_wake()) ring_other();
  return waiting_.empty();
}

// True when nothing waits and half of the ring is free; else a bell is asked for.
bool SharedLink::room() {
  while (true) {
    const bool flushed = flush();
    if (writer_.wait()) return false;
    if (flushed) return true;
  }
}

bool SharedLink::put_waiting(Waiting& waiting) {
  const std::span<const std::byte> frame = waiting.frame;
  while (waiting.sent < frame.size()) {
    const size_t rest = frame.size() - waiting.sent, count = std::min(rest, writer_.max_record());
    const RecordKind kind = frame.size() <= writer_.max_record() ? RecordKind::whole : count == rest ? RecordKind::last : RecordKind::part;
    if (!writer_.put(kind, frame.subspan(waiting.sent, count))) return false;
    waiting.sent += count;
    queued_ -= count;
  }
  return true;
}

void SharedLink::begin_reading() {
  assert(mapped());
  reading_ = true;
  ring_own();
}

void SharedLink::on_bell() {
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(own_bell_, &count, sizeof count);
  if (wants_room_ && room()) {
    wants_room_ = false;
    user_.on_shared_writable();
  }
  drain();
}

void SharedLink::drain() {
  if (!reading_ || draining_) return;
  draining_ = true;
  const bool more = read_some(kBudget);
  draining_ = false;
  if (more) ring_own();  // come back after the others
}

// False: nothing is left, or the user takes no more.
bool SharedLink::read_some(size_t budget) {
  size_t taken = 0;
  RecordKind kind;
  std::span<const std::byte> record;
  while (true) {
    switch (reader_.next(&kind, &record)) {
      case RingReader::Next::broken: user_.on_shared_broken(); return false;
      case RingReader::Next::none:
        if (reader_.wait()) return false;
        continue;
      case RingReader::Next::record: break;
    }
    taken += record.size();
    const bool more = take(kind, record);
    reader_.done();
    if (reader_.must_wake()) ring_other();
    if (!more) return false;
    if (taken >= budget) return true;
  }
}

bool SharedLink::take(RecordKind kind, std::span<const std::byte> record) {
  if (kind == RecordKind::whole) {
    if (parts_.empty()) return user_.on_shared_frame(record);
  } else if (parts_.size() + record.size() <= kMaxFrameBytes) {
    parts_.insert(parts_.end(), record.begin(), record.end());
    if (kind == RecordKind::part) return true;
    std::vector<std::byte> frame;
    frame.swap(parts_);
    return user_.on_shared_frame(frame);
  }
  user_.on_shared_broken();
  return false;
}

}  // namespace perigee
