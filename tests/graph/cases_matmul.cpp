#include "tests/graph/cases.h"

namespace perigee {
namespace {

void products(Cases& cases) {
  const int64_t m = cases.pick(1, 7), n = cases.pick(1, 7), k = cases.pick(1, 7), batch = cases.pick(1, 3), heads = cases.pick(1, 3);
  cases.add("matmul", {real({m, k}), real({k, n})});
  cases.add("matmul", {real({k, m}), real({k, n})}, R"({"transpose_a":true})");
  cases.add("matmul", {real({m, k}), real({n, k})}, R"({"transpose_b":true})");
  cases.add("matmul", {real({k, m}), real({n, k})}, R"({"transpose_a":true,"transpose_b":true})");
  cases.add("matmul", {real({batch, m, k}), real({batch, k, n})});
  cases.add("matmul", {real({batch, heads, m, k}), real({heads, n, k})}, R"({"transpose_b":true})");
  cases.add("matmul", {real({k, m}), real({batch, k, n})}, R"({"transpose_a":true})");
  cases.add("matmul", {real({batch, 1, m, k}), real({1, heads, k, n})});
  // Sizes at and around the borders of tiles.
  for (int transposed : {0, 1, 2, 3}) {
    const bool ta = transposed & 1, tb = transposed & 2;
    const int64_t rows = cases.pick(1, 70), columns = cases.pick(1, 130), inner = cases.pick(1, 150);
    cases
        .add("matmul", {real(ta ? Shape{inner, rows} : Shape{rows, inner}), real(tb ? Shape{columns, inner} : Shape{inner, columns})},
             std::string(R"({"transpose_a":)") + (ta ? "true" : "false") + R"(,"transpose_b":)" + (tb ? "true}" : "false}"))
        .gradient = false;
  }
  cases.add("matmul", {real({2, 3, 17, 64}), real({2, 3, 33, 64})}, R"({"transpose_b":true})").gradient = false;
  cases.add("matmul", {real({129, 300}), real({300, 97})}).gradient = false;
}

void dense(Cases& cases) {
  const int64_t n = cases.pick(1, 5), t = cases.pick(1, 3), in = cases.pick(1, 9), out = cases.pick(1, 9);
  for (const Shape& x : {Shape{n, in}, Shape{n, t, in}}) {
    const Shape y = x.with(x.rank() - 1, out);
    for (const char* attrs : {R"({"activation":"none"})", R"({"activation":"relu"})", R"({"activation":"gelu_tanh"})",
                              R"({"activation":"gelu_tanh","keep":true})"}) {
      cases.add("linear", {real(x), real({out, in}), real({out})}, attrs);
      cases.add("linear", {real(x), real({out, in})}, attrs);
    }
    cases.add("linear_grad_input", {real(y), real({out, in})});
    cases.add("linear_grad_input", {real(y), real({out, in}), fixed(x)}, R"({"activation":"relu"})");
    cases.add("linear_grad_input", {real(y), real({out, in}), real(x)}, R"({"activation":"gelu_tanh"})");
    for (const char* attrs : {R"({"bias":true})", R"({"bias":false})"}) cases.add("linear_grad_weight", {real(y), real(x)}, attrs);
  }
  struct Size {
    int64_t rows, in, out;
  };
  for (const Size& s :
       {Size{32, 784, 50}, Size{16, 2100, 21}, Size{5, 19, 1100}, Size{8, 200, 10}, Size{64, 65, 129},
        Size{cases.pick(1, 40), cases.pick(1, 300), cases.pick(1, 300)}, Size{cases.pick(1, 20), cases.pick(1, 70), cases.pick(1, 70)}}) {
    cases.add("linear", {real({s.rows, s.in}), real({s.out, s.in}), real({s.out})}, R"({"activation":"relu"})").gradient = false;
    cases.add("linear", {real({s.rows, s.in}), real({s.out, s.in})}).gradient = false;
    cases.add("linear", {real({s.rows, s.in}), real({s.out, s.in}), real({s.out})}, R"({"activation":"gelu_tanh","keep":true})").gradient =
        false;
    cases.add("linear_grad_input", {real({s.rows, s.out}), real({s.out, s.in})}).gradient = false;
    for (const char* attrs : {R"({"activation":"relu"})", R"({"activation":"gelu_tanh"})"})
      cases.add("linear_grad_input", {real({s.rows, s.out}), real({s.out, s.in}), real({s.rows, s.in})}, attrs).gradient = false;
    cases.add("linear_grad_weight", {real({s.rows, s.out}), real({s.rows, s.in})}).gradient = false;
    cases.add("linear_grad_weight", {real({s.rows, s.out}), real({s.rows, s.in})}, R"({"bias":false})").gradient = false;
  }
}

void make(Cases& cases) {
  products(cases);
  dense(cases);
}

}  // namespace

extern const CaseFamily cases_matmul;
const CaseFamily cases_matmul = {"matmul", make};

}  // namespace perigee
