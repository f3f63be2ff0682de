#include "src/io/plot/short_names.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include "src/core/utf8.h"

namespace perigee {
namespace {

std::string_view last_characters(std::string_view text, size_t width) {
  size_t begin = text.size();
  while (begin > 0 && width > 0)
    if ((static_cast<unsigned char>(text[--begin]) & 0xC0) != 0x80) --width;
  return text.substr(begin);
}

}  // namespace

std::vector<std::string> short_names(const std::vector<std::string>& names, size_t most, const std::string& mark) {
  std::vector<std::string> shown = names;
  std::vector<size_t> open(names.size());
  std::iota(open.begin(), open.end(), size_t{0});
  std::erase_if(open, [&](size_t i) { return utf8_width(names[i]) <= most; });
  const auto cut = [&](size_t i, std::string_view end) {
    shown[i] = utf8_prefix(names[i], most - std::min(most, utf8_width(mark) + utf8_width(end))).append(mark).append(end);
  };
  for (const size_t tail : {size_t{0}, most / 2}) {
    for (const size_t i : open) cut(i, last_characters(names[i], tail));
    std::map<std::string_view, std::string_view> name_of;  // an empty one: of several
    for (size_t i = 0; i < names.size(); ++i)
      if (const auto [at, added] = name_of.emplace(shown[i], names[i]); !added && at->second != names[i]) at->second = {};
    std::erase_if(open, [&](size_t i) { return !name_of[shown[i]].empty(); });
    if (open.empty()) return shown;
  }
  for (const size_t i : open) cut(i, "#" + std::to_string(i));
  return shown;
}

}  // namespace perigee
