#include "cluster/simulator/fake_payloads.h"

#include <cassert>
#include <cstring>

namespace perigee::sim {
namespace {

constexpr size_t kLossy = 16;

struct Head {
  int64_t examples = 0;
  uint64_t pairs = 0;
};
struct Pair {
  uint32_t index = 0;
  float value = 0;
};

std::unique_ptr<Codec> make_lossy() {
  const Json spec = Json::parse(R"({"type": "topk", "count": 3, "values": "fp32", "feedback": true})", "simulator");
  return make_codec(&spec, "simulator", codec_loops_ref());
}

void add_to(std::vector<float>& sum, const std::vector<float>& values) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
}

}  // namespace

FakePayloads::FakePayloads(size_t sums)
    : sums_(sums), codec_(make_lossy(), kLossy, 1, 1), handed_in_(kLossy), sent_(kLossy), last_handed_in_(kLossy), last_sent_(kLossy) {}

size_t FakePayloads::bound() const { return sizeof(Head) + sums_ * sizeof(Pair) + codec_.bound(); }

SharedBytes FakePayloads::encode(std::span<const float> sums, int64_t examples, int64_t round) {
  assert(sums.size() == sums_);
  last_handed_in_.assign(kLossy, 0);
  for (size_t i = 0; i < sums.size(); ++i) last_handed_in_[i % kLossy] += sums[i];
  const SharedBytes lossy = codec_.encode(last_handed_in_, round);
  assert(lossy);
  last_sent_.assign(kLossy, 0);
  add_lossy(*lossy, last_sent_);
  pending_ = true, dropped_ = false;

  std::vector<Pair> pairs;
  for (size_t i = 0; i < sums.size(); ++i)
    if (sums[i] != 0) pairs.push_back({static_cast<uint32_t>(i), sums[i]});
  const Head head{examples, pairs.size()};
  auto bytes = std::make_shared<std::vector<std::byte>>(sizeof head + pairs.size() * sizeof(Pair) + lossy->size());
  std::memcpy(bytes->data(), &head, sizeof head);
  if (!pairs.empty()) std::memcpy(bytes->data() + sizeof head, pairs.data(), pairs.size() * sizeof(Pair));
  std::memcpy(bytes->data() + (bytes->size() - lossy->size()), lossy->data(), lossy->size());
  return bytes;
}

bool FakePayloads::add_lossy(std::span<const std::byte> payload, std::span<float> sum) { return codec_.add(payload, 1, sum); }

bool FakePayloads::add(std::span<const std::byte> payload, std::span<float> sums, int64_t* examples) {
  Head head;
  if (payload.size() < sizeof head) return false;
  std::memcpy(&head, payload.data(), sizeof head);
  if (head.pairs > sums_ || payload.size() < sizeof head + head.pairs * sizeof(Pair)) return false;
  std::vector<float> ignored(kLossy);
  if (!add_lossy(payload.subspan(sizeof head + head.pairs * sizeof(Pair)), ignored)) return false;
  std::vector<Pair> pairs(head.pairs);
  if (!pairs.empty()) std::memcpy(pairs.data(), payload.data() + sizeof head, pairs.size() * sizeof(Pair));
  for (const Pair& pair : pairs)
    if (pair.index >= sums.size()) return false;
  for (const Pair& pair : pairs) sums[pair.index] += pair.value;
  *examples = head.examples;
  return true;
}

void FakePayloads::count_last() {
  add_to(handed_in_, last_handed_in_);
  add_to(sent_, last_sent_);
}

void FakePayloads::settle(bool counted) {
  codec_.settle(counted);
  if (counted) count_last();
  pending_ = dropped_ = false;
}

void FakePayloads::drop() {
  codec_.drop();
  if (pending_) pending_ = false, dropped_ = true;
}

void FakePayloads::overtaken() {
  codec_.overtaken();
  if (dropped_) count_last();
  pending_ = dropped_ = false;
}

bool FakePayloads::conserved() const {
  for (size_t i = 0; i < kLossy; ++i) {
    const float left = codec_.residual()[i] - (pending_ ? last_handed_in_[i] - last_sent_[i] : 0);
    if (sent_[i] + left != handed_in_[i]) return false;
  }
  return true;
}

}  // namespace perigee::sim
