// Order along an axis, and linear algebra. Cases of the latter are matrices that any numbers make regular: derivatives of symmetric ones are tested
// through products in tests/lua/derivatives_test.lua.
#include "tests/graph/cases.h"

namespace perigee {
namespace {

std::string axis_and(const char* key, int64_t value, const char* axis) {
  return std::string(R"({"axis":)") + axis + ",\"" + key + "\":" + std::to_string(value) + "}";
}

void order(Cases& cases) {
  const int64_t n = cases.pick(1, 5), size = cases.pick(2, 9), k = cases.pick(1, 4);
  for (const char* axis : {"0", "1", "-1"}) {
    cases.add("arg_sort", {real({n, size, 3})}, std::string(R"({"axis":)") + axis + "}");
    cases.add("arg_sort", {real({n, size, 3})}, std::string(R"({"descending":true,"axis":)") + axis + "}");
  }
  cases.add("arg_sort", {real({n, size})}, R"({"count":2})");
  cases.add("arg_sort", {integers(Dtype::i64, {n, size}, 0, 4)}, R"({"axis":1})");  // of equal ones the first
  cases.add("take_along", {real({n, size}), index({n, k}, size)});
  cases.add("take_along", {real({size, n, 3}), index({k, n, 3}, size)}, R"({"axis":0})");
  cases.add("take_along", {real({n, size}), index({n, k}, size + 2)}).gradient = false;  // some lie outside
  cases.add("put_along", {real({n, k}), index({n, k}, size)}, axis_and("size", size, "1"));
  cases.add("put_along", {real({k, n, 3}), index({k, n, 3}, size)}, axis_and("size", size, "0"));
}

void linear_algebra(Cases& cases) {
  const int64_t n = cases.pick(1, 3);
  for (const char* op : {"inv", "det", "cholesky", "eigh"}) cases.add(op, {real({n, 1, 1}, 0.5, 2)});
  cases.add("slogdet", {real({n, 1, 1}, 0.5, 2)});
  cases.add("solve", {real({n, 1, 1}, 0.5, 2), real({n, 1, 3})});
  cases.add("solve", {real({n, 1, 1}, 0.5, 2), real({n, 1})});
  for (const char* op : {"qr", "svd"}) {
    cases.add(op, {real({n, 3, 1}, 0.5, 2)});
    cases.add(op, {real({n, 1, 1}, 0.5, 2)});
  }
  cases.add("svd", {real({1, 4}, 0.5, 2)});
}

void make(Cases& cases) {
  order(cases);
  linear_algebra(cases);
}

}  // namespace

extern const CaseFamily cases_linalg;
const CaseFamily cases_linalg = {"linalg", make};

}  // namespace perigee
