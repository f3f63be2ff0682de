// The "precompiled" table of characters of SentencePiece: texts and what they become, as a double array (Aoe 1989) and a row of strings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

class CharacterMap {
 public:
  CharacterMap() = default;
  // Error(data) when its sizes are not those of its bytes.
  CharacterMap(std::string_view bytes, const std::string& where);
  bool empty() const { return units_.empty(); }

  struct Found {
    size_t bytes = 0;  // of the text's beginning; 0: nothing
    std::string_view becomes;
  };
  Found longest(std::string_view text) const;
  Found shortest(std::string_view text) const;

 private:
  Found find(std::string_view text, bool first) const;

  std::vector<uint32_t> units_;
  std::string strings_;
};

}  // namespace perigee
