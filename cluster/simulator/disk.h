// The coordinator's disk: a ledger that loses what was not synced when the power goes, and the last checkpoint.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "cluster/ledger/ledger.h"
#include "cluster/simulator/seeded_rng.h"

namespace perigee::sim {

class Disk final : public LedgerStore {
 public:
  bool append(std::span<const std::byte> record) override {
    if (full) return ++refused_, false;
    bytes_.insert(bytes_.end(), record.begin(), record.end());
    return true;
  }
  bool sync() override {
    if (full || failing) return false;
    synced_ = bytes_.size();
    return true;
  }
  std::vector<std::byte> read() override { return bytes_; }

  // Unsynced bytes are lost from some byte on, or are zeros from there; opening cuts off the record that is torn there.
  void lose_power(SeededRng& rng) {
    const size_t kept = synced_ + static_cast<size_t>(rng.integer(0, static_cast<int64_t>(bytes_.size() - synced_)));
    if (rng.chance(0.5)) bytes_.resize(kept);
    else std::fill(bytes_.begin() + static_cast<std::ptrdiff_t>(kept), bytes_.end(), std::byte{0});
    const size_t sound = sound_bytes(bytes_, "simulated ledger");
    torn_ += sound < bytes_.size();
    bytes_.resize(sound);
    synced_ = sound;
  }
  void lose_all() { bytes_.clear(), synced_ = 0; }
  std::span<const std::byte> bytes() const { return bytes_; }
  int64_t torn() const { return torn_; }
  int64_t refused() const { return refused_; }

  bool full = false, failing = false;

 private:
  std::vector<std::byte> bytes_;
  size_t synced_ = 0;
  int64_t torn_ = 0, refused_ = 0;
};

}  // namespace perigee::sim
