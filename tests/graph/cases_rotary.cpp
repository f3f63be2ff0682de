// Cases of rotary positions.
#include "tests/graph/cases.h"

namespace perigee {
namespace {

void make(Cases& cases) {
  const int64_t n = cases.pick(1, 3), t = cases.pick(1, 7), h = cases.pick(1, 3), half = cases.pick(1, 5);
  cases.add("rotary", {real({n, t, h, 2 * half})});
  cases.add("rotary", {real({n, t, h, 2 * half})}, R"({"interleaved":true,"theta":100})");
  cases.add("rotary", {real({n, t, h, 2 * half + 3})}, (R"({"offset":5,"width":)" + std::to_string(2 * half) + "}").c_str());
  cases.add("rotary", {real({n, t, h + 2, 8})}, R"({"heads":2,"inverse":true,"width":6})");
  cases.add("rotary", {real({n, t, h, 2 * half}), integers(Dtype::i64, {n}, 0, 3)});  // some the same
  cases.add("rotary", {real({3, 1, 3, 8}), integers(Dtype::i64, {3}, 0, 500)}, R"({"heads":2,"offset":1})");
  cases.add("rotary", {real({2, 9, 4, 32})}, R"({"heads":3})");
}

}  // namespace

extern const CaseFamily cases_rotary;
const CaseFamily cases_rotary = {"rotary", make};

}  // namespace perigee
