// Cases of one step of attention: rings that are empty, filled in part, full and overwritten; heads in groups.
#include "tests/graph/cases.h"

namespace perigee {
namespace {

void add(Cases& cases, int64_t n, int64_t slots, int64_t heads, int64_t groups, int64_t features, double before,
         const std::string& more = "") {
  cases.add("attention_step",
            {real({n, 1, heads + 2 * groups, features}), real({n, slots, 2 * groups, features}), integers(Dtype::i64, {n}, 0, before)},
            R"({"kv_heads":)" + std::to_string(groups) + more + "}");
}

void make(Cases& cases) {
  const int64_t n = cases.pick(1, 4), slots = cases.pick(1, 9), features = cases.pick(1, 20);
  add(cases, n, slots, 2, 2, features, static_cast<double>(slots));
  add(cases, n, slots, 4, 2, features, static_cast<double>(3 * slots), R"(,"alibi":true)");
  add(cases, n, slots, 3, 1, features, static_cast<double>(slots + 1), R"(,"scale":0.3)");
  add(cases, 2, 1, 1, 1, 8, 1);  // itself alone
  // Whole vectors of kernels, and a little more.
  add(cases, 2, 70, 4, 4, 32, 70);
  add(cases, 1, 33, 4, 2, 64, 100, R"(,"alibi":true)");
  add(cases, 2, 300, 2, 1, 48, 900);
}

}  // namespace

extern const CaseFamily cases_attention_step;
const CaseFamily cases_attention_step = {"attention_step", make};

}  // namespace perigee
