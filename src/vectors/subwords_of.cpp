#include "src/vectors/subwords_of.h"

#include <algorithm>
#include <string>
#include <vector>

#include "src/core/utf8.h"

namespace perigee {

void each_subword(std::string_view word, int64_t least, int64_t longest, const std::function<void(std::string_view)>& take) {
  std::string set = "<";
  set.append(word).append(">");
  std::vector<size_t> begins;
  for (size_t at = 0; at < set.size();) {
    begins.push_back(at);
    at += std::max<size_t>(1, utf8_length(set, at));
  }
  begins.push_back(set.size());
  const size_t characters = begins.size() - 1;
  for (size_t from = 0; from < characters; ++from)
    for (auto length = static_cast<size_t>(least); length <= static_cast<size_t>(longest) && from + length <= characters; ++length) {
      if (length == 1 && (from == 0 || from + 1 == characters)) continue;  // the signs around the word alone
      take(std::string_view(set).substr(begins[from], begins[from + length] - begins[from]));
    }
}

// FNV-1a of 32 bits over signed bytes.
int64_t subword_bucket(std::string_view subword, int64_t buckets) {
  uint32_t hash = 2166136261u;
  for (const char c : subword) hash = (hash ^ static_cast<uint32_t>(static_cast<int8_t>(c))) * 16777619u;
  return static_cast<int64_t>(hash) % buckets;
}

}  // namespace perigee
