// Cases of slopes along steps.
#include "tests/graph/cases.h"

namespace perigee {
namespace {

void make(Cases& cases) {
  const int64_t n = cases.pick(1, 3), c = cases.pick(1, 3), t = cases.pick(9, 30);
  const auto counts = [&] { return integers(Dtype::i64, {n}, 0, static_cast<double>(t + 3)); };
  for (const char* attrs : {R"({})", R"({"order":2})", R"({"polynomial":true,"reach":3})", R"({"polynomial":true,"order":2,"reach":1})",
                            R"({"adjoint":true,"polynomial":true})", R"({"adjoint":true,"order":2,"reach":1})"}) {
    cases.add("deltas", {real({n, c, t})}, attrs);
    cases.add("deltas", {real({n, c, t}), counts()}, attrs);  // some shorter than a window
    cases.add("deltas", {real({n, c, 60})}, attrs);           // most steps are far from the ends
  }
}

}  // namespace

extern const CaseFamily cases_deltas;
const CaseFamily cases_deltas = {"deltas", make};

}  // namespace perigee
