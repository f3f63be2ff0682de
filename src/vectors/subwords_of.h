// Words as fastText cuts them into subwords (Bojanowski et al. 2017), and the buckets that these fall into.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace perigee {

// Calls take(text) for each subword of `word`, which is set in "<" and ">", of `least` to `longest` characters.
void each_subword(std::string_view word, int64_t least, int64_t longest, const std::function<void(std::string_view)>& take);
// By fastText's hash; `buckets` is above 0.
int64_t subword_bucket(std::string_view subword, int64_t buckets);

}  // namespace perigee
