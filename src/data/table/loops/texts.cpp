#include "src/data/table/loops/texts.h"

#include <bit>
#include <cstring>
#include <utility>

#include "src/data/table/loops/block.h"
#include "src/data/table/loops/large.h"

namespace perigee::tables {
namespace {

constexpr uint64_t kMix = 0x9e3779b97f4a7c15;

// A text of less than eight bytes as a number; `there`: eight bytes may be read.
uint64_t short_text(const char* p, size_t size, bool there) {
  uint64_t bits = 0;
  if (there && std::endian::native == std::endian::little) return size == 0 ? 0 : load_eight(p) & ~uint64_t{0} >> (64 - 8 * size);
  std::memcpy(&bits, p, size);
  return bits;
}

// Eight bytes at a time, the last ones overlap those before. Of two short texts of one length the hashes are different.
uint64_t hash_text(std::string_view text, bool there) {
  uint64_t hash = text.size() * kMix;
  const auto join = [&](uint64_t bits) {
    hash = (hash ^ bits) * kMix;
    hash ^= hash >> 32;
  };
  if (text.size() < 8) {
    join(short_text(text.data(), text.size(), there));
    return hash;
  }
  for (size_t i = 0; i + 8 < text.size(); i += 8) join(load_eight(text.data() + i));
  join(load_eight(text.data() + text.size() - 8));
  return hash;
}

// A row's text, and whether eight bytes may be read where it begins.
struct TextPiece {
  std::string_view text;
  bool there;
};
TextPiece piece_of(const Column& column, size_t row) {
  const uint64_t begin = row == 0 ? 0 : column.ends[row - 1];
  return {{column.bytes.data() + begin, column.ends[row] - begin}, begin + 8 <= column.bytes.size()};
}

}  // namespace

TextTable::TextTable() : slots_(64) {}

std::string_view TextTable::text(size_t number) const {
  const uint64_t begin = number == 0 ? 0 : ends_[number - 1];
  return std::string_view(bytes_).substr(begin, ends_[number] - begin);
}

// Where the text is, or would be.
inline const TextTable::Slot& TextTable::slot_of(std::string_view wanted, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.number < 0) return slot;
    if (slot.hash != hash || slot.size != wanted.size()) continue;
    if (wanted.size() < 8 || text(static_cast<size_t>(slot.number)) == wanted) return slot;
  }
}

int64_t TextTable::find(std::string_view wanted, bool there) const { return slot_of(wanted, hash_text(wanted, there)).number; }

int64_t TextTable::add(std::string_view wanted, bool there) {
  const uint64_t hash = hash_text(wanted, there);
  const Slot& slot = slot_of(wanted, hash);
  return slot.number >= 0 ? slot.number : add_new(wanted, hash, slot);
}

[[gnu::noinline]] int64_t TextTable::add_new(std::string_view wanted, uint64_t hash, const Slot& slot) {
  const auto number = static_cast<int32_t>(ends_.size());
  slots_[static_cast<size_t>(&slot - slots_.data())] = {hash, static_cast<uint32_t>(wanted.size()), number};
  bytes_ += wanted;
  ends_.push_back(bytes_.size());
  if (ends_.size() * 2 > slots_.size()) grow();
  return number;
}

void TextTable::grow() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots_.size() * 4));
  for (const Slot& slot : old) {
    if (slot.number < 0) continue;
    size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].number >= 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

// Flat: a call for each row costs as much as what it does.
[[gnu::flatten]] bool add_texts(const Column& column, size_t most, TextTable& table, std::vector<int64_t>* out) {
  const auto n = static_cast<size_t>(column.size());
  if (out != nullptr) resize_large(*out, n);
  for (size_t r = 0; r < n; ++r) {
    int64_t number = -1;
    if (!column.is_missing(static_cast<int64_t>(r))) {
      const TextPiece piece = piece_of(column, r);
      number = table.add(piece.text, piece.there);
      if (table.size() > most) return false;
    }
    if (out != nullptr) (*out)[r] = number;
  }
  return true;
}

void renumber(std::vector<int64_t>& numbers, const std::vector<int64_t>& by) {
  for (int64_t& number : numbers) number = number < 0 ? number : by[static_cast<size_t>(number)];
}

[[gnu::flatten]] void number_texts(const Column& column, TextTable& table, std::vector<int64_t>& out, std::vector<int64_t>& first) {
  const auto n = static_cast<size_t>(column.size());
  resize_large(out, n);
  first.clear();
  for (size_t r = 0; r < n; ++r) {
    const TextPiece piece = piece_of(column, r);
    const int64_t number = out[r] = table.add(piece.text, piece.there);
    if (number == static_cast<int64_t>(first.size())) first.push_back(static_cast<int64_t>(r));
  }
}

[[gnu::flatten]] void find_texts(const Column& column, const TextTable& table, std::vector<int64_t>& out) {
  const auto n = static_cast<size_t>(column.size());
  resize_large(out, n);
  for (size_t r = 0; r < n; ++r) {
    const TextPiece piece = piece_of(column, r);
    out[r] = column.is_missing(static_cast<int64_t>(r)) ? -1 : table.find(piece.text, piece.there);
  }
}

// A block at a time, whose zeros are still in the cache when the ones come.
void one_hot(const std::vector<int64_t>& numbers, std::vector<std::vector<int64_t>>& out) {
  for (auto& column : out) reserve_large(column, numbers.size());
  for (size_t begin = 0; begin < numbers.size(); begin += kBlockRows) {
    const size_t end = std::min(numbers.size(), begin + kBlockRows);
    for (auto& column : out) column.resize(end);
    for (size_t r = begin; r < end; ++r)
      if (numbers[r] >= 0) out[static_cast<size_t>(numbers[r])][r] = 1;
  }
}

}  // namespace perigee::tables
