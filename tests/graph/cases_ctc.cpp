// Cases of labels without places.
#include "tests/graph/cases.h"

namespace perigee {
namespace {

// Labels from 1 (0 is the blank), or from 0 below a blank at the end; padding is below 0.
void make(Cases& cases) {
  const int64_t n = cases.pick(1, 4), c = cases.pick(3, 6), last = c - 1, t = cases.pick(7, 10);
  const auto labels = [&](int64_t count, double low, double high) { return integers(Dtype::i64, {n, count}, low, high); };
  const std::string at_end = R"({"blank":)" + std::to_string(last) + "}";
  const double all = static_cast<double>(c), below = static_cast<double>(last);
  cases.add("ctc", {real({n, c, t}), labels(3, 1, all)});
  cases.add("ctc", {real({n, c, t}), labels(3, -1, below)}, at_end);
  cases.add("ctc", {real({n, c, t}), labels(2, 1, all), integers(Dtype::i64, {n}, 4, static_cast<double>(t + 1))});
  cases.add("ctc", {real({n, c, t}), labels(2, 1, 2)});  // the same label twice
  cases.add("ctc", {real({n, c, 3}), labels(3, 1, 2)}, R"({"zero_infinity":true})");
  cases.add("ctc_grad", {real({n, c, t}), labels(3, 1, all), real({n})}).gradient = false;
  cases
      .add("ctc_grad", {real({n, c, t}), labels(2, -1, below), real({n}), integers(Dtype::i64, {n}, 4, static_cast<double>(t + 1))}, at_end)
      .gradient = false;
}

}  // namespace

extern const CaseFamily cases_ctc;
const CaseFamily cases_ctc = {"ctc", make};

}  // namespace perigee
