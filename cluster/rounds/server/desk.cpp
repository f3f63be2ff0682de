#include "cluster/rounds/server/desk.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "cluster/ledger/ranges.h"
#include "cluster/planted.h"

namespace perigee {
namespace {

constexpr size_t kMaxIsa = 64;

template <class T>
void add_or_copy(std::byte* to, const std::byte* from, size_t count, bool first, T (*join)(T, T)) {
  if (first) {
    std::memcpy(to, from, count * sizeof(T));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, to + i * sizeof(T), sizeof(T));
    std::memcpy(&b, from + i * sizeof(T), sizeof(T));
    a = join(a, b);
    std::memcpy(to + i * sizeof(T), &a, sizeof(T));
  }
}

}  // namespace

void ServerDesk::reset(const ExchangeLayout& layout) {
  layout_ = layout;
  last_.clear(), open_.clear(), idle_.clear(), incoming_.clear(), queue_.clear();
}

bool ServerDesk::sound(const Push& push) const {
  if (push.isa.size() > kMaxIsa || push.base < -1) return false;
  if (push.bytes == 0) return push.payload == 0 && push.ranges.empty() && push.examples == 0;
  const size_t beside = layout_.bytes() - layout_.coded;
  const bool ranges = std::all_of(push.ranges.begin(), push.ranges.end(), [](const Range& r) { return r.begin >= 0 && r.count > 0; });
  return ranges && !push.idle && push.payload > 0 && push.payload <= layout_.payload_bound && push.bytes == push.payload + beside &&
         !push.ranges.empty() && disjoint(push.ranges) && push.examples > 0 && push.examples == examples_of(push.ranges) &&
         push.steps == static_cast<int64_t>(push.ranges.size()) && push.examples_before >= 0 && push.examples_per_step > 0 &&
         push.threads > 0;
}

ServerDesk::Verdict ServerDesk::on_push(WorkerId from, PeerId peer, Push push) {
  uint64_t& last = last_[from];
  if (push.request <= last && !planted(Bug::push_repeated)) return Verdict::stale;
  if (!sound(push) || (open_.contains(from) && !planted(Bug::push_repeated))) return Verdict::refused;
  last = push.request;
  if (push.idle) {
    idle_.insert(from);
    return Verdict::taken;
  }
  idle_.erase(from);
  open_.insert(from);
  if (push.bytes == 0) {
    queue_.push_back({.from = from, .peer = peer, .push = std::move(push), .body = {}});
    return Verdict::taken;
  }
  Incoming& incoming = incoming_[from];
  incoming.receiver.expect(peer, push.request);
  incoming.push = std::move(push);
  return Verdict::taken;
}

ServerDesk::Verdict ServerDesk::on_image(WorkerId from, PeerId peer, Image& image, std::span<const std::byte> body) {
  const auto found = incoming_.find(from);
  if (found == incoming_.end()) return Verdict::stale;
  Incoming& incoming = found->second;
  if (image.request != incoming.push.request) return Verdict::stale;
  if (image.total != incoming.push.bytes || !image.log.empty()) return Verdict::refused;
  switch (incoming.receiver.on_image(peer, image, body)) {
    case ImageReceiver::Progress::unexpected: return Verdict::stale;
    case ImageReceiver::Progress::failed: return Verdict::refused;
    case ImageReceiver::Progress::more: return Verdict::taken;
    case ImageReceiver::Progress::complete: break;
  }
  queue_.push_back({.from = from, .peer = peer, .push = std::move(incoming.push), .body = std::move(incoming.receiver.bytes())});
  incoming_.erase(found);
  return Verdict::taken;
}

std::optional<Arrival> ServerDesk::next() {
  if (queue_.empty()) return std::nullopt;
  Arrival arrival = std::move(queue_.front());
  queue_.pop_front();
  return arrival;
}

void add_beside(const ExchangeLayout& layout, std::span<std::byte> row, std::span<const std::byte> beside, bool first) {
  assert(row.size() >= layout.bytes() && beside.size() == layout.bytes() - layout.coded && layout.dtype == Dtype::f32);
  const size_t sums = (layout.sum_bytes() - layout.coded) / sizeof(float);
  std::byte* to = row.data() + layout.coded;
  add_or_copy<float>(to, beside.data(), sums, first, [](float a, float b) { return a + b; });
  const size_t at = sums * sizeof(float);
  add_or_copy<int64_t>(to + at, beside.data() + at, static_cast<size_t>(layout.maxima), first,
                       [](int64_t a, int64_t b) { return std::max(a, b); });
}

}  // namespace perigee
