#include "src/data/table/columnar/parquet/encodings.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/core/error.h"

namespace perigee::tables::parquet {

static_assert(std::endian::native == std::endian::little, "numbers of pages are little-endian");

void Place::damaged(const char* what, const char* hint) const {
  throw Error(ErrorKind::data, {.where = where + ": page at byte " + std::to_string(offset), .what = what, .hint = hint});
}

namespace {

using EncodingsBytes = std::span<const std::byte>;

uint64_t word_at(EncodingsBytes bytes, size_t at) {
  uint64_t word = 0;
  if (at < bytes.size()) std::memcpy(&word, bytes.data() + at, std::min<size_t>(8, bytes.size() - at));
  return word;
}

// `width` bits at a bit's place, at most 64; zeros behind the end.
uint64_t bits_at(EncodingsBytes bytes, uint64_t bit, unsigned width) {
  if (width == 0) return 0;
  const size_t at = bit / 8;
  const unsigned shift = bit % 8;
  uint64_t value = word_at(bytes, at) >> shift;
  if (shift + width > 64) value |= word_at(bytes, at + 8) << (64 - shift);
  return width == 64 ? value : value & ((uint64_t{1} << width) - 1);
}

uint64_t encodings_varint(EncodingsBytes bytes, size_t& at, const Place& place) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at >= bytes.size()) place.damaged("the page ends inside a number");
    const auto byte = std::to_integer<uint8_t>(bytes[at++]);
    value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
  place.damaged("the page has a number that does not end");
}

int64_t zigzag(uint64_t value) { return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1); }

template <class Stored, class Out>
void encodings_widen(EncodingsBytes bytes, size_t count, Out* out) {
  for (size_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    out[i] = static_cast<Out>(value);
  }
}

size_t encodings_width_of(const Leaf& leaf) {
  switch (leaf.physical) {
    case Physical::int32:
    case Physical::float32: return 4;
    case Physical::int64:
    case Physical::float64: return 8;
    case Physical::int96: return 12;
    case Physical::fixed: return static_cast<size_t>(leaf.width);
    default: return 0;
  }
}

// Values of a fixed width that stand one after the other.
void read_fixed(EncodingsBytes bytes, const Leaf& leaf, size_t count, Values& out, const Place& place) {
  const size_t width = encodings_width_of(leaf);
  if (width == 0 || count > bytes.size() / width) place.damaged("the page has fewer values than it says");
  switch (leaf.physical) {
    case Physical::int32: out.whole.resize(count), encodings_widen<int32_t>(bytes, count, out.whole.data()); return;
    case Physical::float32: out.real.resize(count), encodings_widen<float>(bytes, count, out.real.data()); return;
    case Physical::int64: out.whole.resize(count), encodings_widen<int64_t>(bytes, count, out.whole.data()); return;
    case Physical::float64: out.real.resize(count), encodings_widen<double>(bytes, count, out.real.data()); return;
    default:
      out.texts.resize(count);
      for (size_t i = 0; i < count; ++i) out.texts[i] = as_text(bytes.subspan(i * width, width));
  }
}

void read_plain(EncodingsBytes bytes, const Leaf& leaf, size_t count, Values& out, const Place& place) {
  if (leaf.physical == Physical::boolean) {
    if (count > bytes.size() * 8) place.damaged("the page has fewer values than it says");
    out.whole.resize(count);
    for (size_t i = 0; i < count; ++i) out.whole[i] = std::to_integer<int64_t>(bytes[i / 8] >> (i % 8)) & 1;
    return;
  }
  if (leaf.physical != Physical::bytes) return read_fixed(bytes, leaf, count, out, place);
  if (count > bytes.size() / 4) place.damaged("the page has fewer values than it says");
  out.texts.resize(count);
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t size = 0;
    if (bytes.size() - at < 4) place.damaged("the page ends inside a text");
    std::memcpy(&size, bytes.data() + at, 4);
    at += 4;
    if (size > bytes.size() - at) place.damaged("the page ends inside a text");
    out.texts[i] = as_text(bytes.subspan(at, size));
    at += size;
  }
}

// DELTA_BINARY_PACKED: blocks of miniblocks of differences. What is used.
size_t read_deltas(EncodingsBytes bytes, size_t most, std::vector<int64_t>& out, const Place& place) {
  size_t at = 0;
  const uint64_t block = encodings_varint(bytes, at, place), minis = encodings_varint(bytes, at, place),
                 count = encodings_varint(bytes, at, place);
  int64_t value = zigzag(encodings_varint(bytes, at, place));
  if (block == 0 || block % 128 != 0 || block > (1 << 20) || minis == 0 || minis > 512 || block % minis != 0 || block / minis % 32 != 0)
    place.damaged("the page has deltas in blocks that there cannot be");
  if (count > most) place.damaged("the page has more deltas than values");
  const uint64_t each = block / minis;
  out.clear();
  out.reserve(count);
  if (count > 0) out.push_back(value);
  while (out.size() < count) {
    const auto least = static_cast<uint64_t>(zigzag(encodings_varint(bytes, at, place)));
    if (bytes.size() - at < minis) place.damaged("the page ends inside its deltas");
    const EncodingsBytes widths = bytes.subspan(at, minis);
    at += minis;
    for (uint64_t m = 0; m < minis && out.size() < count; ++m) {
      const auto width = std::to_integer<unsigned>(widths[m]);
      if (width > 64) place.damaged("the page has deltas of more than 64 bits");
      const uint64_t size = each * width / 8;
      if (size > bytes.size() - at) place.damaged("the page ends inside its deltas");
      const EncodingsBytes packed = bytes.subspan(at, size);
      for (uint64_t i = 0; i < each && out.size() < count; ++i) {
        value = static_cast<int64_t>(static_cast<uint64_t>(value) + least + bits_at(packed, i * width, width));
        out.push_back(value);
      }
      at += size;
    }
  }
  return at;
}

// DELTA_LENGTH_BYTE_ARRAY: all lengths, then all texts.
size_t read_lengths(EncodingsBytes bytes, size_t count, std::vector<std::string_view>& out, const Place& place) {
  std::vector<int64_t> lengths;
  size_t at = read_deltas(bytes, count, lengths, place);
  if (lengths.size() != count) place.damaged("the page has fewer lengths than values");
  out.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (lengths[i] < 0 || static_cast<uint64_t>(lengths[i]) > bytes.size() - at) place.damaged("the page ends inside a text");
    out[i] = as_text(bytes.subspan(at, static_cast<size_t>(lengths[i])));
    at += static_cast<size_t>(lengths[i]);
  }
  return at;
}

// DELTA_BYTE_ARRAY: how much each text shares with the one before, and the rest of it.
void read_prefixed(EncodingsBytes bytes, size_t count, Values& out, const Place& place) {
  std::vector<int64_t> shared;
  const size_t at = read_deltas(bytes, count, shared, place);
  std::vector<std::string_view> rest;
  read_lengths(bytes.subspan(at), count, rest, place);
  if (shared.size() != count) place.damaged("the page has fewer lengths than values");
  std::vector<size_t> ends(count);
  size_t begin = 0, last = 0;
  uint64_t whole = 0;
  for (size_t i = 0; i < count; ++i) {
    whole += static_cast<uint64_t>(std::max<int64_t>(shared[i], 0)) + rest[i].size();
    if (whole > place.room) place.damaged("the page has too much text");
  }
  out.made.reserve(whole);
  for (size_t i = 0; i < count; ++i) {
    if (shared[i] < 0 || static_cast<uint64_t>(shared[i]) > last) place.damaged("the page has a text that shares more than there is");
    const size_t before = begin;
    begin = out.made.size();
    out.made.resize(begin + static_cast<size_t>(shared[i]));
    std::memmove(out.made.data() + begin, out.made.data() + before, static_cast<size_t>(shared[i]));
    out.made += rest[i];
    last = out.made.size() - begin;
    ends[i] = out.made.size();
  }
  out.texts.resize(count);
  for (size_t i = 0; i < count; ++i)
    out.texts[i] = std::string_view(out.made).substr(i > 0 ? ends[i - 1] : 0, ends[i] - (i > 0 ? ends[i - 1] : 0));
}

// BYTE_STREAM_SPLIT: the first bytes of all values, then the second ones, ...
void read_split(EncodingsBytes bytes, const Leaf& leaf, size_t count, Values& out, const Place& place) {
  const size_t width = encodings_width_of(leaf);
  if (width == 0 || count > bytes.size() / width) place.damaged("the page has fewer values than it says");
  const size_t stride = bytes.size() / width;
  std::string joined(count * width, '\0');
  for (size_t b = 0; b < width; ++b)
    for (size_t i = 0; i < count; ++i) joined[i * width + b] = static_cast<char>(bytes[b * stride + i]);
  out.made = std::move(joined);
  read_fixed(as_bytes(out.made), leaf, count, out, place);
}

}  // namespace

bool is_one_run(EncodingsBytes bytes, int width, size_t count, uint32_t* value) {
  size_t at = 0;
  uint64_t head = 0;
  for (unsigned shift = 0; shift < 63; shift += 7) {
    if (at >= bytes.size()) return false;
    const auto byte = std::to_integer<uint8_t>(bytes[at++]);
    head |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) break;
  }
  const size_t size = static_cast<size_t>(width + 7) / 8;
  if ((head & 1) != 0 || head >> 1 < count || bytes.size() - at < size) return false;
  *value = static_cast<uint32_t>(bits_at(bytes.subspan(at, size), 0, static_cast<unsigned>(8 * size)));
  return true;
}

size_t read_runs(EncodingsBytes bytes, int width, size_t count, uint32_t* out, const Place& place) {
  size_t at = 0, done = 0;
  const size_t size = static_cast<size_t>(width + 7) / 8;
  while (done < count) {
    const uint64_t head = encodings_varint(bytes, at, place);
    if ((head & 1) == 0) {
      if (bytes.size() - at < size) place.damaged("the page ends inside a run");
      const auto value = static_cast<uint32_t>(bits_at(bytes.subspan(at, size), 0, static_cast<unsigned>(8 * size)));
      at += size;
      const size_t n = static_cast<size_t>(std::min<uint64_t>(head >> 1, count - done));
      if (n == 0) place.damaged("the page has an empty run");
      std::fill_n(out + done, n, value);
      done += n;
      continue;
    }
    const uint64_t groups = head >> 1;
    if (groups == 0) place.damaged("the page has an empty run");
    // The last group may be cut short.
    const size_t n = static_cast<size_t>(std::min<uint64_t>(groups > count ? count : groups * 8, count - done));
    const size_t there = bytes.size() - at, used = groups > there ? there : std::min<size_t>(there, groups * static_cast<size_t>(width));
    if (static_cast<uint64_t>(n) * static_cast<unsigned>(width) > static_cast<uint64_t>(used) * 8)
      place.damaged("the page ends inside a run");
    const EncodingsBytes packed = bytes.subspan(at, used);
    for (size_t i = 0; i < n; ++i)
      out[done + i] = static_cast<uint32_t>(bits_at(packed, i * static_cast<size_t>(width), static_cast<unsigned>(width)));
    at += used, done += n;
  }
  return at;
}

void read_values(EncodingsBytes bytes, int64_t encoding, const Leaf& leaf, size_t count, Values& out, const Place& place) {
  out.whole.clear(), out.real.clear(), out.texts.clear(), out.made.clear();
  const bool whole = leaf.physical == Physical::int32 || leaf.physical == Physical::int64;
  if (encoding == 0) return read_plain(bytes, leaf, count, out, place);
  if (encoding == 3 && leaf.physical == Physical::boolean) {
    if (bytes.size() < 4) place.damaged("the page ends inside a run");
    std::vector<uint32_t> bits(count);
    read_runs(bytes.subspan(4), 1, count, bits.data(), place);
    out.whole.assign(bits.begin(), bits.end());
    return;
  }
  if (encoding == 5 && whole) {
    read_deltas(bytes, count, out.whole, place);
    if (out.whole.size() != count) place.damaged("the page has fewer values than it says");
    if (leaf.physical == Physical::int32)
      for (int64_t& value : out.whole) value = static_cast<int32_t>(value);
    return;
  }
  const bool texts = leaf.physical == Physical::bytes || leaf.physical == Physical::fixed;
  if (encoding == 6 && texts) return void(read_lengths(bytes, count, out.texts, place));
  if (encoding == 7 && texts) {
    read_prefixed(bytes, count, out, place);
    if (leaf.physical == Physical::fixed &&
        std::any_of(out.texts.begin(), out.texts.end(), [&](auto t) { return t.size() != encodings_width_of(leaf); }))
      place.damaged("the page has values of another width");
    return;
  }
  if (encoding == 9 && leaf.physical != Physical::bytes && leaf.physical != Physical::boolean)
    return read_split(bytes, leaf, count, out, place);
  place.damaged("the page has an encoding that its type cannot have");
}

}  // namespace perigee::tables::parquet
