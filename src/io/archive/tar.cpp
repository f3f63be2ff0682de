#include "src/io/archive/tar.h"

#include <algorithm>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr size_t kTarBlock = 512;
constexpr size_t kMaxTarEntries = 1 << 20;

[[noreturn]] void fail_tar(const std::string& where, const std::string& what, size_t offset) {
  throw Error(ErrorKind::data, {.where = where, .what = what + " at byte " + std::to_string(offset)});
}

std::string_view field(std::span<const std::byte> header, size_t offset, size_t bytes) {
  const std::string_view text = as_text(header.subspan(offset, bytes));
  return text.substr(0, text.find('\0'));
}

bool decimal(std::string_view text, uint64_t& value) {
  value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return !text.empty() && text.size() <= 18;
}

bool octal(std::string_view text, uint64_t& value) {
  value = 0;
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  for (const char c : text) {
    if (c < '0' || c > '7') return false;
    value = value * 8 + static_cast<uint64_t>(c - '0');
  }
  return !text.empty();  // at most 12 digits: 36 bits
}

// A header in front says this of the next file, because its name or size has no room in the old fields.
struct TarExtra {
  std::string name;
  bool sized = false;
  uint64_t size = 0;
};

// Records such as "30 path=name\n", each with its own length in front.
void read_pax(std::string_view records, TarExtra& extra, const std::string& where, size_t offset) {
  while (!records.empty()) {
    const size_t blank = records.find(' ');
    uint64_t length = 0;
    const bool counted = blank < 20 && decimal(records.substr(0, blank), length) && length > blank + 1 && length <= records.size();
    if (!counted || records[length - 1] != '\n') fail_tar(where, "a pax header is damaged", offset);
    const std::string_view record = records.substr(blank + 1, length - blank - 2);
    const size_t equals = std::min(record.find('='), record.size());
    const std::string_view key = record.substr(0, equals), value = record.substr(std::min(equals + 1, record.size()));
    if (key == "path") extra.name = value;
    if (key == "size") {
      if (!decimal(value, extra.size)) fail_tar(where, "a pax header is damaged", offset);
      extra.sized = true;
    }
    records.remove_prefix(length);
  }
}

// The sum of the header's bytes, its own field counted as blanks.
uint64_t checksum(std::span<const std::byte> header) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) sum += i >= 148 && i < 156 ? ' ' : std::to_integer<uint64_t>(header[i]);
  return sum;
}

}  // namespace

std::vector<TarEntry> tar_entries(std::span<const std::byte> archive, const std::string& where) {
  std::vector<TarEntry> entries;
  TarExtra extra;
  for (size_t at = 0; at < archive.size();) {
    if (archive.size() - at < kTarBlock) fail_tar(where, "the archive is cut short", archive.size());
    const auto header = archive.subspan(at, kTarBlock);
    if (std::all_of(header.begin(), header.end(), [](std::byte b) { return b == std::byte{0}; })) return entries;
    uint64_t size = 0, sum = 0;
    if (!octal(field(header, 148, 8), sum) || sum != checksum(header)) fail_tar(where, "not a tar header (its checksum differs)", at);
    if (!octal(field(header, 124, 12), size)) fail_tar(where, "the tar header has no size", at + 124);
    at += kTarBlock;
    const char kind = static_cast<char>(header[156]);
    const bool file = kind == '0' || kind == '\0' || kind == '7';
    if (file && extra.sized) size = extra.size;
    if (size > archive.size() - at) fail_tar(where, "the archive is cut short", archive.size());
    const auto content = archive.subspan(at, size);
    if (kind == 'L') extra.name = field(content, 0, content.size());
    if (kind == 'x') read_pax(as_text(content), extra, where, at);
    if (file) {
      const std::string prefix(field(header, 257, 6) == "ustar" ? field(header, 345, 155) : "");
      std::string name = (prefix.empty() ? "" : prefix + "/") + std::string(field(header, 0, 100));
      entries.push_back({extra.name.empty() ? std::move(name) : std::move(extra.name), content});
      if (entries.size() > kMaxTarEntries) fail_tar(where, "the archive has too many files", at);
    }
    if (kind != 'L' && kind != 'x' && kind != 'K' && kind != 'g') extra = {};
    at += std::min<size_t>((size + kTarBlock - 1) / kTarBlock * kTarBlock, archive.size() - at);
  }
  fail_tar(where, "the archive is cut short: its end marker is missing", archive.size());
}

}  // namespace perigee
