// Replaces every occurrence of `from` in `text` by `to`.
#pragma once

#include <string>
#include <string_view>

namespace perigee {

// The new text is not searched again. Nothing happens where `from` is empty.
inline void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
}

}  // namespace perigee
