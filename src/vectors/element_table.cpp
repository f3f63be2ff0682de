#include "src/vectors/element_table.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "src/core/error.h"

namespace perigee {
namespace {

uint64_t hash_of(std::string_view name) {
  uint64_t hash = name.size() * 0x9E3779B97F4A7C15u;
  const auto mix = [&](uint64_t word) {
    const auto product = static_cast<unsigned __int128>(hash ^ word) * 0xD6E8FEB86659FD93u;
    hash = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  size_t at = 0;
  uint64_t word = 0;
  for (; at + 8 <= name.size(); at += 8) {
    std::memcpy(&word, name.data() + at, 8);
    mix(word);
  }
  word = 0;
  std::memcpy(&word, name.data() + at, name.size() - at);
  mix(word ^ 0x2545F4914F6CDD1Du);
  return hash;
}

}  // namespace

// The name's slot, or the free one where it would stand.
size_t ElementTable::slot_of(std::string_view name, uint64_t hash) const {
  for (size_t at = (hash & UINT32_MAX) * slots_.size() >> 32;; at = at + 1 == slots_.size() ? 0 : at + 1) {
    const Slot& slot = slots_[at];
    if (slot.number < 0 || (slot.hash == static_cast<uint32_t>(hash >> 32) && this->name(slot.number) == name)) return at;
  }
}

void ElementTable::place(size_t slots) {
  slots_ = std::vector<Slot>(slots);
  for (int64_t number = 0; number < size(); ++number) {
    const uint64_t hash = hash_of(name(number));
    slots_[slot_of(name(number), hash)] = {static_cast<uint32_t>(hash >> 32), static_cast<int32_t>(number)};
  }
}

int32_t ElementTable::add(std::string_view name, int64_t count) {
  if (static_cast<size_t>(size() + 1) * 3 > slots_.size() * 2) place(std::max<size_t>(64, slots_.size() * 2));
  const uint64_t hash = hash_of(name);
  Slot& slot = slots_[slot_of(name, hash)];
  if (slot.number < 0) {
    if (size() == kMost)
      throw Error(ErrorKind::resources, {.what = "there are too many different elements",
                                         .expected = "at most " + std::to_string(kMost),
                                         .hint = "train on a part of the text, or write rare words alike"});
    slot = {static_cast<uint32_t>(hash >> 32), static_cast<int32_t>(size())};
    bytes_.append(name);
    begins_.push_back(bytes_.size());
    counts_.push_back(0);
  }
  counts_[static_cast<size_t>(slot.number)] += count;
  total_ += count;
  return slot.number;
}

int32_t ElementTable::find(std::string_view name) const {
  if (slots_.empty()) return -1;
  return slots_[slot_of(name, hash_of(name))].number;
}

size_t ElementTable::bytes() const {
  return bytes_.capacity() + begins_.capacity() * sizeof(uint64_t) + counts_.capacity() * sizeof(int64_t) +
         slots_.capacity() * sizeof(Slot);
}

ElementTable ElementTable::ranked(int64_t least, int64_t most) const {
  std::vector<int32_t> order;
  for (int64_t number = 0; number < size(); ++number)
    if (count(number) >= least) order.push_back(static_cast<int32_t>(number));
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return count(a) != count(b) ? count(a) > count(b) : name(a) < name(b); });
  if (static_cast<int64_t>(order.size()) > most) order.resize(static_cast<size_t>(most));
  ElementTable table;
  table.begins_.reserve(order.size() + 1), table.counts_.reserve(order.size());
  table.place((order.size() + 1) * 3 / 2 + 1);
  for (const int32_t number : order) table.add(name(number), count(number));
  table.bytes_.shrink_to_fit();
  return table;
}

std::vector<std::string> ElementTable::nearest_names(std::string_view wanted) const {
  std::vector<std::string> names;
  for (int64_t number = 0; number < size() && names.size() < 20000; ++number) {
    const std::string_view known = name(number);
    const size_t longer = std::max(known.size(), wanted.size()), shorter = std::min(known.size(), wanted.size());
    if (longer - shorter <= 2) names.emplace_back(known);
  }
  return names;
}

}  // namespace perigee
