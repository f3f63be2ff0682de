#include "src/io/archive/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "src/core/error.h"
#include "src/io/codec/compress.h"

namespace perigee {
namespace {

constexpr uint64_t kMaxZipEntries = 65535;

[[noreturn]] void fail_zip(const std::string& where, const std::string& what, uint64_t offset) {
  throw Error(ErrorKind::data, {.where = where, .what = what + " at byte " + std::to_string(offset)});
}

// Little-endian fields, each read checked against the archive's end.
struct Fields {
  std::span<const std::byte> archive;
  const std::string& where;

  uint64_t get(uint64_t offset, size_t bytes) const {
    if (offset > archive.size() || archive.size() - offset < bytes) fail_zip(where, "the archive is cut short", archive.size());
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= std::to_integer<uint64_t>(archive[offset + i]) << (8 * i);
    return value;
  }
  std::string text(uint64_t offset, size_t bytes) const {
    if (offset > archive.size() || archive.size() - offset < bytes) fail_zip(where, "the archive is cut short", archive.size());
    return std::string(as_text(archive.subspan(offset, bytes)));
  }
};

uint64_t find_end(const Fields& fields) {
  const size_t size = fields.archive.size();
  for (size_t back = 22; back <= size && back <= 22 + 65535; ++back)
    if (fields.get(size - back, 4) == 0x06054b50 && fields.get(size - back + 20, 2) == back - 22) return size - back;
  fail_zip(fields.where, "not a ZIP archive: its directory is missing", size);
}

// The 64-bit fields that stand in for 32-bit ones of all ones, in a fixed order.
void read_zip64(const Fields& fields, uint64_t extra, uint64_t length, uint64_t& size, uint64_t& compressed, uint64_t& offset) {
  const uint64_t end = extra + length;
  for (uint64_t at = extra; at + 4 <= end;) {
    const uint64_t id = fields.get(at, 2), bytes = fields.get(at + 2, 2);
    if (id == 1) {
      uint64_t value = at + 4;
      for (uint64_t* field : {&size, &compressed, &offset})
        if (*field == 0xffffffff) {
          if (value + 8 > at + 4 + bytes || value + 8 > end) fail_zip(fields.where, "a ZIP64 field is cut short", value);
          *field = fields.get(value, 8);
          value += 8;
        }
      return;
    }
    at += 4 + bytes;
  }
}

ZipEntry read_zip_entry(const Fields& fields, uint64_t& at) {
  if (fields.get(at, 4) != 0x02014b50) fail_zip(fields.where, "the ZIP directory is damaged", at);
  const uint64_t flags = fields.get(at + 8, 2), method = fields.get(at + 10, 2);
  if (flags & 1) fail_zip(fields.where, "an entry is encrypted", at);
  if (method != 0 && method != 8) fail_zip(fields.where, "an entry has the unknown compression method " + std::to_string(method), at);
  ZipEntry entry;
  entry.deflated = method == 8;
  entry.crc = static_cast<uint32_t>(fields.get(at + 16, 4));
  entry.compressed = fields.get(at + 20, 4);
  entry.size = fields.get(at + 24, 4);
  const uint64_t name = fields.get(at + 28, 2), extra = fields.get(at + 30, 2), comment = fields.get(at + 32, 2);
  uint64_t local = fields.get(at + 42, 4);
  entry.name = fields.text(at + 46, name);
  read_zip64(fields, at + 46 + name, extra, entry.size, entry.compressed, local);
  if (local > fields.archive.size() || fields.get(local, 4) != 0x04034b50) fail_zip(fields.where, "an entry's header is missing", local);
  entry.offset = local + 30 + fields.get(local + 26, 2) + fields.get(local + 28, 2);
  if (entry.offset > fields.archive.size() || fields.archive.size() - entry.offset < entry.compressed)
    fail_zip(fields.where, "an entry is cut short", fields.archive.size());
  if (!entry.deflated && entry.size != entry.compressed) fail_zip(fields.where, "an entry's sizes contradict each other", at);
  if (entry.deflated && entry.size / 1032 > entry.compressed)
    fail_zip(fields.where, "an entry claims a size that deflate cannot reach", at);
  at += 46 + name + extra + comment;
  return entry;
}

}  // namespace

std::vector<ZipEntry> zip_entries(std::span<const std::byte> archive, const std::string& where) {
  const Fields fields{archive, where};
  if (archive.size() < 22) fail_zip(where, "not a ZIP archive: it is cut short", archive.size());
  const uint64_t end = find_end(fields);
  uint64_t count = fields.get(end + 10, 2), at = fields.get(end + 16, 4);
  if (count == 0xffff || at == 0xffffffff) {
    if (end < 20 || fields.get(end - 20, 4) != 0x07064b50) fail_zip(where, "the ZIP64 locator is missing", end);
    const uint64_t end64 = fields.get(end - 20 + 8, 8);
    if (end64 > archive.size() || fields.get(end64, 4) != 0x06064b50) fail_zip(where, "the ZIP64 directory is missing", end);
    count = fields.get(end64 + 32, 8);
    at = fields.get(end64 + 48, 8);
  }
  if (count > kMaxZipEntries) fail_zip(where, "the archive has too many entries", end);
  std::vector<ZipEntry> entries;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  std::set<std::string> names;
  for (uint64_t i = 0; i < count; ++i) {
    entries.push_back(read_zip_entry(fields, at));
    ranges.emplace_back(entries.back().offset, entries.back().offset + entries.back().compressed);
    if (!names.insert(entries.back().name).second)
      fail_zip(where, "two entries have the name '" + entries.back().name.substr(0, 64) + "'", at);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) fail_zip(where, "two entries share bytes", ranges[i].first);
  return entries;
}

Bytes zip_content(std::span<const std::byte> archive, const ZipEntry& entry, const std::string& where) {
  const auto data = archive.subspan(entry.offset, entry.compressed);
  Bytes content = entry.deflated ? inflate_raw(data, where, entry.size) : Bytes(data.begin(), data.end());
  const auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
  if (static_cast<uint32_t>(crc) != entry.crc)
    throw Error(ErrorKind::data, {.where = where, .what = "the checksum (CRC-32) differs: the archive is damaged"});
  return content;
}

namespace {

void put_zip(Bytes& bytes, uint64_t value, int size) {
  for (int i = 0; i < size; ++i, value >>= 8) bytes.push_back(static_cast<std::byte>(value & 0xff));
}

void put_zip(Bytes& bytes, std::span<const std::byte> content) { bytes.insert(bytes.end(), content.begin(), content.end()); }

// The fields common to a local header and the central directory: version needed, flags (names are UTF-8), stored, 1980-01-01, CRC, sizes.
void put_entry(Bytes& bytes, const std::string& name, const Bytes& content) {
  put_zip(bytes, 20, 2);
  put_zip(bytes, 1u << 11, 2);
  put_zip(bytes, 0, 4);
  put_zip(bytes, 0x21, 2);
  put_zip(bytes, ::crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()), 4);
  put_zip(bytes, content.size(), 4);
  put_zip(bytes, content.size(), 4);
  put_zip(bytes, name.size(), 2);
  put_zip(bytes, 0, 2);
}

}  // namespace

Bytes zip_bytes(std::span<const std::pair<std::string, Bytes>> files) {
  Bytes bytes, directory;
  for (const auto& [name, content] : files) {
    const uint64_t offset = bytes.size();
    if (offset + content.size() + name.size() + 100 > UINT32_MAX || files.size() > UINT16_MAX || name.size() > UINT16_MAX)
      throw Error(ErrorKind::resources, {.where = name, .what = "the archive is too large", .expected = "less than 4 GiB"});
    put_zip(bytes, 0x04034b50, 4);
    put_entry(bytes, name, content);
    put_zip(bytes, as_bytes(name));
    put_zip(bytes, content);
    put_zip(directory, 0x02014b50, 4);
    put_zip(directory, 20, 2);
    put_entry(directory, name, content);
    put_zip(directory, 0, 10);  // no comment, disk 0, attributes
    put_zip(directory, offset, 4);
    put_zip(directory, as_bytes(name));
  }
  const uint64_t start = bytes.size();
  put_zip(bytes, directory);
  put_zip(bytes, 0x06054b50, 4);
  put_zip(bytes, 0, 4);
  put_zip(bytes, files.size(), 2);
  put_zip(bytes, files.size(), 2);
  put_zip(bytes, directory.size(), 4);
  put_zip(bytes, start, 4);
  put_zip(bytes, 0, 2);
  return bytes;
}

}  // namespace perigee
