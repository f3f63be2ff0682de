#include "src/io/hdf5/hdf5.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "src/core/error.h"
#include "src/io/codec/compress.h"
#include "src/io/codec/zstd.h"
#include "src/io/hdf5/headers.h"

namespace perigee::hdf5 {
namespace {

// A chunk's bytes when it is unpacked.
uint64_t most_chunk(uint64_t file) { return (uint64_t{16} << 20) + 16 * file; }

// The bytes of all elements lie by their place in it: all the first ones, then all the second ones, ...
void unshuffle(const Bytes& in, size_t size, Bytes& out) {
  const size_t count = in.size() / size;
  out.resize(in.size());
  for (size_t b = 0; b < size; ++b)
    for (size_t i = 0; i < count; ++i) out[i * size + b] = in[b * count + i];
  std::copy(in.begin() + static_cast<ptrdiff_t>(count * size), in.end(), out.begin() + static_cast<ptrdiff_t>(count * size));
}

// LibLZF: runs of bytes, or a place up to 8 KiB before and how much of it comes again. False: damage.
bool lzf_decompress(std::span<const std::byte> in, std::span<std::byte> out) {
  size_t i = 0, o = 0;
  while (i < in.size()) {
    const auto control = std::to_integer<size_t>(in[i++]);
    if (control < 32) {
      const size_t run = control + 1;
      if (in.size() - i < run || out.size() - o < run) return false;
      std::memcpy(out.data() + o, in.data() + i, run);
      i += run, o += run;
      continue;
    }
    size_t length = control >> 5;
    if (length == 7) {
      if (i >= in.size()) return false;
      length += std::to_integer<size_t>(in[i++]);
    }
    if (i >= in.size()) return false;
    const size_t back = ((control & 31) << 8 | std::to_integer<size_t>(in[i++])) + 1;
    length += 2;
    if (back > o || out.size() - o < length) return false;
    for (size_t k = 0; k < length; ++k, ++o) out[o] = out[o - back];
  }
  return o == out.size();
}

uint32_t fletcher_32(std::span<const std::byte> bytes) {
  uint32_t a = 0, b = 0;
  const size_t words = bytes.size() / 2;
  for (size_t i = 0; i < words; ++i) {
    a += std::to_integer<uint32_t>(bytes[2 * i]) << 8 | std::to_integer<uint32_t>(bytes[2 * i + 1]);
    a = (a & 0xffff) + (a >> 16);
    b += a;
    b = (b & 0xffff) + (b >> 16);
  }
  if (bytes.size() % 2 != 0) {
    a += std::to_integer<uint32_t>(bytes.back()) << 8;
    a = (a & 0xffff) + (a >> 16);
    b += a;
    b = (b & 0xffff) + (b >> 16);
  }
  a = (a & 0xffff) + (a >> 16);
  b = (b & 0xffff) + (b >> 16);
  return b << 16 | a;
}

}  // namespace

uint64_t DataSet::row_elements() const {
  uint64_t count = 1;
  for (size_t a = 1; a < shape.size(); ++a) count *= shape[a];
  return count;
}

File::File(std::string name, std::span<const std::byte> content, std::shared_ptr<const void> owner)
    : name_(std::move(name)), content_(content), owner_(std::move(owner)) {
  Headers(*this).walk();
}

void File::damaged(const std::string& what, uint64_t at, const char* hint) const {
  throw Error(ErrorKind::data, {.where = name_ + ": byte " + std::to_string(at), .what = what, .hint = hint});
}

std::span<const std::byte> File::bytes(uint64_t at, uint64_t size) const {
  if (at > content_.size() || content_.size() - at < size) damaged("the HDF5 file is cut short, or an address leads out of it", at);
  return content_.subspan(at, size);
}

uint64_t File::number(uint64_t at, size_t size) const {
  const auto from = bytes(at, size);
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= std::to_integer<uint64_t>(from[i]) << (8 * i);
  return value;
}

uint64_t File::offset(uint64_t at) const {
  const uint64_t value = number(at, offset_size_);
  if (value == (offset_size_ == 8 ? kNowhere : (uint64_t{1} << (8 * offset_size_)) - 1)) return kNowhere;
  if (value > content_.size() || base_ > content_.size() - value) damaged("an address of the HDF5 file leads out of it", at);
  return value + base_;
}

Bytes File::decoded(const DataSet& set, const StoredChunk& chunk) const {
  uint64_t size = set.type.size;
  for (const uint64_t axis : set.chunk) {
    if (size > most_chunk(content_.size()) / axis)
      damaged("a chunk of '" + set.path.substr(0, 60) + "' is far larger than the file", chunk.address);
    size *= axis;
  }
  const std::string where = name_ + ": byte " + std::to_string(chunk.address);
  const auto stored = bytes(chunk.address, chunk.size);
  Bytes now(stored.begin(), stored.end()), next;
  for (size_t f = set.filters.size(); f-- > 0;) {
    const Filter& filter = set.filters[f];
    if ((chunk.skipped >> f & 1) != 0) continue;
    // A checksum before a compression is in what it makes.
    uint64_t plain = size;
    for (size_t before = 0; before < f; ++before) plain += set.filters[before].id == 3 && (chunk.skipped >> before & 1) == 0 ? 4 : 0;
    if (filter.id == 1) {
      if (now.size() < 6) damaged("a chunk of the HDF5 file is cut short", chunk.address);
      next = inflate_raw(std::span(now).subspan(2, now.size() - 6), where, plain);  // without zlib's head and checksum
    } else if (filter.id == 2) {
      const size_t width = filter.values.empty() ? set.type.size : filter.values[0];
      if (width == 0) damaged("a filter of the HDF5 file has no width", chunk.address);
      unshuffle(now, width, next);
    } else if (filter.id == 3) {
      if (now.size() < 4) damaged("a chunk of the HDF5 file is cut short", chunk.address);
      next.assign(now.begin(), now.end() - 4);
      uint32_t sum = 0;
      for (size_t i = 0; i < 4; ++i) sum |= std::to_integer<uint32_t>(now[now.size() - 4 + i]) << (8 * i);
      const uint32_t expected = fletcher_32(next);
      // Old libraries wrote the bytes of each half the other way round.
      const uint32_t swapped = (expected & 0x00ff00ff) << 8 | (expected >> 8 & 0x00ff00ff);
      if (sum != expected && sum != swapped)
        damaged("the checksum (Fletcher-32) of a chunk differs: the HDF5 file is damaged", chunk.address);
    } else if (filter.id == 32000) {
      next.resize(plain);
      if (!lzf_decompress(now, next)) damaged("a chunk of the HDF5 file is damaged (LZF)", chunk.address);
    } else {
      next.resize(plain);
      zstd_decompress(now, next, where);
    }
    std::swap(now, next);
  }
  if (now.size() != size) damaged("a chunk of the HDF5 file has another size than its elements", chunk.address);
  return now;
}

// The part of a chunk that lies in the rows, a line along the last axis at a time.
void File::copy_chunk(const DataSet& set, const StoredChunk& chunk, uint64_t first_row, uint64_t rows, Bytes& out) const {
  const size_t rank = set.shape.size(), width = set.type.size;
  std::vector<uint64_t> from(rank), count(rank), place(rank);
  for (size_t a = 0; a < rank; ++a) {
    const uint64_t low = a == 0 ? first_row : 0, high = a == 0 ? first_row + rows : set.shape[a];
    const uint64_t begin = std::max(chunk.begin[a], low), end = std::min(chunk.begin[a] + set.chunk[a], high);
    if (chunk.begin[a] >= high || begin >= end) return;
    from[a] = begin, count[a] = end - begin;
  }
  const Bytes plain = decoded(set, chunk);
  for (;;) {
    uint64_t source = 0, target = 0;
    for (size_t a = 0; a < rank; ++a) {
      source = source * set.chunk[a] + (from[a] + place[a] - chunk.begin[a]);
      target = target * (a == 0 ? rows : set.shape[a]) + (from[a] + place[a] - (a == 0 ? first_row : 0));
    }
    std::memcpy(out.data() + target * width, plain.data() + source * width, count[rank - 1] * width);
    size_t a = rank - 1;
    while (a > 0 && ++place[a - 1] == count[a - 1]) place[--a] = 0;
    if (a == 0) return;
  }
}

Bytes File::read(const DataSet& set, uint64_t first_row, uint64_t rows) const {
  const uint64_t row_bytes = set.row_elements() * set.type.size;
  Bytes out(rows * row_bytes);
  if (out.empty()) return out;
  if (!set.fill.empty() && (set.size == 0 || !set.chunk.empty()))
    for (size_t at = 0; at < out.size(); at += set.fill.size()) std::memcpy(out.data() + at, set.fill.data(), set.fill.size());
  if (set.chunk.empty()) {
    if (set.size > 0) std::memcpy(out.data(), bytes(set.address + first_row * row_bytes, out.size()).data(), out.size());
    return out;
  }
  for (const StoredChunk& chunk : set.chunks) copy_chunk(set, chunk, first_row, rows, out);
  return out;
}

std::string_view File::Texts::at(const std::byte* element) {
  uint64_t parts[3] = {};
  const size_t widths[] = {4, file_.offset_size_, 4};
  for (size_t p = 0, i = 0; p < 3; ++p)
    for (size_t b = 0; b < widths[p]; ++b, ++i) parts[p] |= std::to_integer<uint64_t>(element[i]) << (8 * b);
  const auto [length, address, index] = std::tuple(parts[0], parts[1], parts[2]);
  if (address == 0 || length == 0) return {};
  if (address > file_.content_.size()) file_.damaged("a text of the HDF5 file leads out of it", address);
  const uint64_t heap = address + file_.base_;
  auto found = heaps_.find(heap);
  if (found == heaps_.end()) {
    if (as_text(file_.bytes(heap, 4)) != "GCOL") file_.damaged("a heap of the HDF5 file is none", heap);
    std::map<uint64_t, std::span<const std::byte>> objects;
    const uint64_t end = heap + std::min<uint64_t>(file_.number(heap + 8, file_.length_size_), file_.content_.size() - heap);
    for (uint64_t at = heap + 8 + file_.length_size_; at < end && end - at >= 8 + file_.length_size_;) {
      const uint64_t number = file_.number(at, 2), size = file_.number(at + 8, file_.length_size_);
      if (number == 0) break;  // the rest is free
      objects.emplace(number, file_.bytes(at + 8 + file_.length_size_, size));
      at += 8 + file_.length_size_ + (size + 7) / 8 * 8;
    }
    // Heaps that overlap would take more than the file.
    if (heaps_.size() > 4096) heaps_.clear();
    found = heaps_.emplace(heap, std::move(objects)).first;
  }
  const auto object = found->second.find(index);
  if (object == found->second.end() || object->second.size() < length) file_.damaged("a text of the HDF5 file is not in its heap", heap);
  return as_text(object->second.first(length));
}

}  // namespace perigee::hdf5
