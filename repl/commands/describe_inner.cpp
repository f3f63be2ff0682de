// What `perigee describe` says of exchanges inside groups.
#include "repl/commands/describe_inner.h"

#include <algorithm>
#include <cstdio>

#include "cluster/codec/codec.h"
#include "cluster/rounds/local/inner_plan.h"
#include "repl/display/display.h"

namespace perigee {
namespace {

std::string groups_of(const Policy::Inner& inner) {
  const std::string size = std::to_string(inner.size) + " workers";
  switch (inner.groups) {
    case Policy::Inner::Groups::blocks: return "groups of " + size + " in the order of their ranks";
    case Policy::Inner::Groups::random: return "groups of " + size + ", drawn anew for each exchange";
    case Policy::Inner::Groups::grid: return "groups of " + size + " along the axes of a grid";
    default: return "the workers of each host, or --site";
  }
}

}  // namespace

void describe_inner(const Policy& policy, double dense, double beside, const CodecSegment& segment) {
  const int64_t count = inner_exchanges(policy);
  if (count == 0) return;
  double bytes = dense;
  std::string what = "parameters";
  if (!policy.inner.codec.is_null()) {
    const double bits = make_codec(&policy.inner.codec, "averaging")->bits_per_element(segment);
    bytes = static_cast<double>(kPayloadHeader) + static_cast<double>(segment.count) * bits / 8;
    what += " as " + policy.inner.codec.find("type")->as_string();
  }
  std::printf(
      "inside %s: %s every %lld steps, %lld times before each round of all; of two workers each sends %.0f bytes to the other each time\n",
      groups_of(policy.inner).c_str(), what.c_str(), static_cast<long long>(policy.inner.every), static_cast<long long>(count),
      bytes + beside);
  std::printf("rounds of all: 1/%.3g as many as every %lld steps; accounting: bounded, `perigee ledger` says of how many examples\n",
              static_cast<double>(policy.every) / static_cast<double>(policy.inner.every), static_cast<long long>(policy.inner.every));
}

}  // namespace perigee
