#include "src/optim/lookahead.h"

#include <cstring>

#include "src/core/config.h"

namespace perigee {
namespace {

constexpr Option kLookaheadOptions[] = {
    {"every", "integer", "5", "updates of the rule from one move of the slow weights to the next", {1, 1e9}},
    {"share", "number", "0.5", "of the way to the rule's weights, that the slow ones move", {0, 1}},
};

template <class T>
void move(T share, int64_t n, T* fast, T* slow) {
  for (int64_t i = 0; i < n; ++i) {
    const T step = share * (fast[i] - slow[i]);
    fast[i] = slow[i] = slow[i] + step;
  }
}

}  // namespace

const Schema lookahead_schema{.options = kLookaheadOptions};

Lookahead::Lookahead(const Json& description, const std::string& where) {
  if (description.is_null()) return;
  const Config options(description, lookahead_schema, where);
  every_ = options.integer("every");
  share_ = options.number("share");
}

void Lookahead::before(int64_t t, int64_t n, const std::byte* fast, std::byte* slow, Dtype dtype) const {
  if (t == 1) std::memcpy(slow, fast, static_cast<size_t>(n) * dtype_bytes(dtype));
}

void Lookahead::after(int64_t t, int64_t n, std::byte* fast, std::byte* slow, Dtype dtype) const {
  if (t % every_ != 0) return;
  if (dtype == Dtype::f64) move(share_, n, reinterpret_cast<double*>(fast), reinterpret_cast<double*>(slow));
  else move(static_cast<float>(share_), n, reinterpret_cast<float*>(fast), reinterpret_cast<float*>(slow));
}

}  // namespace perigee
