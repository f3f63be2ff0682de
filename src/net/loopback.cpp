#include "src/net/loopback.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string_view>

namespace perigee {
namespace {

// Bytes under way should still be in the cache when they are read: with the system's 4 MB they come back from memory, at twice the CPU time
// per byte. The system doubles the number, and says that there is room when a third is free: then a chunk of 256 KB nearly always goes at
// once, without a second wake-up and without a copy for later.
constexpr int kSendBuffer = 512 << 10;

// No traffic of others is met here. Where the system's own choice is BBR, the timers that pace what is sent take a third of the CPU time
// of an exchange. Every kernel has this one, for every user.
constexpr std::string_view kCongestion = "reno";

}  // namespace

void tune_for_loopback(int descriptor) {
  setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
  setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, kCongestion.data(), static_cast<socklen_t>(kCongestion.size()));
}

}  // namespace perigee
