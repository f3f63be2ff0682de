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

// The sum of the header's bytes, its own field counted as blanks.
uint64_t checksum(std::span<const std::byte> header) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) sum += i >= 148 && i < 156 ? ' ' : std::to_integer<uint64_t>(header[i]);
  return sum;
}

}  // namespace

std::vector<TarEntry> tar_entries(std::span<const std::byte> archive, const std::string& where) {
  std::vector<TarEntry> entries;
  for (size_t at = 0; at < archive.size();) {
    if (archive.size() - at < kTarBlock) fail_tar(where, "the archive is cut short", archive.size());
    const auto header = archive.subspan(at, kTarBlock);
    if (std::all_of(header.begin(), header.end(), [](std::byte b) { return b == std::byte{0}; })) return entries;
    uint64_t size = 0, sum = 0;
    if (!octal(field(header, 148, 8), sum) || sum != checksum(header)) fail_tar(where, "not a tar header (its checksum differs)", at);
    if (!octal(field(header, 124, 12), size)) fail_tar(where, "the tar header has no size", at + 124);
    at += kTarBlock;
    if (size > archive.size() - at) fail_tar(where, "the archive is cut short", archive.size());
    const char kind = static_cast<char>(header[156]);
    if (kind == '0' || kind == '\0') {
      const std::string prefix(field(header, 257, 5) == "ustar" ? field(header, 345, 155) : "");
      entries.push_back({(prefix.empty() ? "" : prefix + "/") + std::string(field(header, 0, 100)), archive.subspan(at, size)});
      if (entries.size() > kMaxTarEntries) fail_tar(where, "the archive has too many files", at);
    }
    at += std::min<size_t>((size + kTarBlock - 1) / kTarBlock * kTarBlock, archive.size() - at);
  }
  fail_tar(where, "the archive is cut short: its end marker is missing", archive.size());
}

}  // namespace perigee
