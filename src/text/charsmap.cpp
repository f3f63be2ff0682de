#include "src/text/charsmap.h"

#include <cstring>

#include "src/core/error.h"

namespace perigee {
namespace {

uint32_t step_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

}  // namespace

CharacterMap::CharacterMap(std::string_view bytes, const std::string& where) {
  uint32_t size = 0;
  if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
  if (bytes.size() < sizeof size || size > bytes.size() - sizeof size || size % sizeof(uint32_t) != 0 || size == 0)
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "the table of characters (precompiled_charsmap) is damaged",
                                  .got = std::to_string(bytes.size()) + " bytes, of which it counts " + std::to_string(size)});
  units_.resize(size / sizeof(uint32_t));
  std::memcpy(units_.data(), bytes.data() + sizeof size, size);
  strings_ = bytes.substr(sizeof size + size);
}

// A damaged table leads nowhere, or to another string of it: every place is checked.
CharacterMap::Found CharacterMap::find(std::string_view text, bool first) const {
  Found found;
  if (units_.empty()) return found;
  size_t at = step_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    if (at >= units_.size() || (units_[at] & 0x800000FFu) != byte) break;
    const uint32_t unit = units_[at];
    at ^= step_of(unit);
    if ((unit >> 8 & 1) == 0 || at >= units_.size()) continue;
    const size_t begin = units_[at] & 0x7FFFFFFFu;
    if (begin >= strings_.size()) continue;
    found = {i + 1, std::string_view(strings_).substr(begin, strings_.find('\0', begin) - begin)};
    if (first) break;
  }
  return found;
}

CharacterMap::Found CharacterMap::longest(std::string_view text) const { return find(text, false); }
CharacterMap::Found CharacterMap::shortest(std::string_view text) const { return find(text, true); }

}  // namespace perigee
