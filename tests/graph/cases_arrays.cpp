// Reductions, shapes, indices, softmax and random draws.
#include "tests/graph/cases.h"

namespace perigee {
namespace {

void reductions(Cases& cases) {
  const int64_t n = cases.pick(1, 4), c = cases.pick(2, 6), h = cases.pick(1, 5), w = cases.pick(2, 5);
  for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"}) {
    const double low = op == std::string("reduce_prod") ? 0.5 : -2;
    for (const char* axes : {"[0]", "[1]", "[-1]", "[0,2,3]", "[2,3]", "[0,1]", "[0,1,2,3]", "[]", "[1,3]"}) {
      cases.add(op, {real({n, c, h, w}, low, 2)}, std::string(R"({"axes":)") + axes + "}");
      cases.add(op, {real({n, c, h, w}, low, 2)}, std::string(R"({"axes":)") + axes + R"(,"keep":true})");
    }
    cases.add(op, {real({c}, low, 2)});
    cases.add(op, {integers(Dtype::i64, {n, c}, 1, 5)}, R"({"axes":[1]})");
    for (const Dtype dtype : {Dtype::f64, Dtype::i64, Dtype::i32, Dtype::u8})
      for (const char* axes : {"[0]", "[1]", "[0,2]", "[0,1,2]"})
        cases.add(op, {integers(dtype, {n, c, 37}, 1, 3)}, std::string(R"({"axes":)") + axes + "}");
    cases
        .add(op, {real({cases.pick(30, 40), 333}, op == std::string("reduce_prod") ? 0.9 : -2, op == std::string("reduce_prod") ? 1.1 : 2)},
             R"({"axes":[0]})")
        .gradient = false;
    cases
        .add(op,
             {real({17, cases.pick(200, 300)}, op == std::string("reduce_prod") ? 0.9 : -2, op == std::string("reduce_prod") ? 1.1 : 2)},
             R"({"axes":[1]})")
        .gradient = false;
  }
  for (const char* op : {"arg_max", "arg_min"}) {
    for (const char* axis : {"0", "1", "-1"}) cases.add(op, {real({n, c, h})}, std::string(R"({"axis":)") + axis + "}");
    cases.add(op, {integers(Dtype::i32, {n, c}, 0, 3)}, R"({"axis":1,"keep":true})");
    for (const Dtype dtype : {Dtype::f64, Dtype::i64, Dtype::i32, Dtype::u8})
      for (const char* axis : {"0", "1"}) cases.add(op, {integers(dtype, {n, 41}, 0, 9)}, std::string(R"({"axis":)") + axis + "}");
    cases.add(op, {real({9, 100})}, R"({"axis":1})");
  }
  for (const char* axis : {"0", "1", "-1"}) {
    cases.add("cumulative_sum", {real({n, c, h})}, std::string(R"({"axis":)") + axis + "}");
    cases.add("cumulative_sum", {real({n, c, h})}, std::string(R"({"axis":)") + axis + R"(,"exclusive":true,"reverse":true})");
  }
}

void shapes(Cases& cases) {
  const int64_t n = cases.pick(1, 4), c = cases.pick(2, 6);
  cases.add("reshape", {real({n, c, 6})}, R"({"shape":[-1,3,2]})");
  cases.add("stop_gradient", {real({n, c, 6})});
  cases.add("transpose", {real({n, c, 3})}, R"({"order":[2,0,1]})");
  cases.add("transpose", {real({n, c})});
  cases.add("slice", {real({n + 3, c, 5})}, R"({"start":[1,-2],"stop":[-1],"step":[2]})");
  cases.add("slice", {real({5, 7})}, R"({"start":[0,1],"stop":[5,6],"step":[1,3]})");
  for (int axis : {0, 1, -1}) {
    const auto sized = [&](int64_t size) { return axis == 0 ? Shape{size, c, 3} : axis == 1 ? Shape{n, size, 3} : Shape{n, c, size}; };
    cases.add("concatenate", {real(sized(2)), real(sized(1)), real(sized(cases.pick(1, 9)))}, R"({"axis":)" + std::to_string(axis) + "}");
  }
  cases.add("concatenate", {real({n, 8, 3, 5}), real({n, 3, 3, 5})}, R"({"axis":1})");
  cases.add("concatenate", {integers(Dtype::i64, {2, c}, 0, 9), integers(Dtype::i64, {1, c}, 0, 9)}, R"({"axis":0})");
  cases.add("pad", {real({n, c, 4, 3})}, R"({"before":[0,0,1,2],"after":[0,0,2,0],"value":0.5})");
  cases.add("pad", {real({n, c})}, R"({"before":[1],"after":[0,2],"interior":[1,2]})");
  cases.add("pad", {real({n, 5, 9})}, R"({"before":[0,2],"after":[0,2]})");
}

void indices(Cases& cases) {
  const int64_t n = cases.pick(1, 9), a = cases.pick(2, 7), inner = cases.pick(1, 20);
  cases.add("gather", {real({a, inner}), index({n}, a)});
  cases.add("gather", {real({a, inner}), index({n, 3}, a)}, R"({"axis":0})");
  cases.add("gather", {real({3, a, inner}), index({n}, a)}, R"({"axis":1})");
  cases.add("gather", {real({3, a}), index({2, n}, a)}, R"({"axis":-1})");
  cases.add("gather", {real({a, 3}), index({}, a)});
  cases.add("gather", {integers(Dtype::i64, {a, 3}, 0, 99), index({n}, a)});
  const std::string size = R"("size":)" + std::to_string(a);
  cases.add("scatter_add", {real({n, inner}), index({n}, a)}, "{" + size + "}");
  cases.add("scatter_add", {real({n, 3, inner}), index({n, 3}, a)}, R"({"axis":0,)" + size + "}");
  cases.add("scatter_add", {real({3, n, inner}), index({n}, a)}, R"({"axis":1,)" + size + "}");
  cases.add("scatter_add", {real({3, 2, n}), index({2, n}, a)}, R"({"axis":-1,)" + size + "}");
  cases.add("one_hot", {index({n, 3}, a)}, R"({"depth":)" + std::to_string(a) + "}");
  cases.add("one_hot", {index({n}, a + 1)}, R"({"on":0.9,"off":0.1,"dtype":"f32","depth":)" + std::to_string(a) + "}");
}

void softmaxes(Cases& cases) {
  const int64_t n = cases.pick(1, 5), c = cases.pick(1, 12), h = cases.pick(1, 4);
  for (const char* op : {"softmax", "log_softmax"}) {
    for (const char* axis : {"0", "1", "-1"}) cases.add(op, {real({n, c, h}, -4, 4)}, std::string(R"({"axis":)") + axis + "}");
    cases.add(op, {real({n, c}, -4, 4)});
    cases.add(op, {real({3, cases.pick(100, 300)}, -200, 200)}).gradient = false;
    cases.add(op, {real({n, c, h, 3}, -4, 4)}, R"({"axis":1})");
    cases.add(op, {real({2, 50, 3}, -200, 200)}, R"({"axis":1})").gradient = false;
  }
  for (const char* attrs : {"{}", R"({"label_smoothing":0.1})"}) {
    cases.add("cross_entropy", {real({n, c}, -4, 4), index({n}, c)}, attrs);
    cases.add("cross_entropy", {real({n, c, h, 3}, -4, 4), index({n, h, 3}, c)}, attrs);
    cases.add("cross_entropy", {real({n, c}, -4, 4), real({n, c}, 0, 1)}, attrs);
    cases.add("cross_entropy", {real({n, c, h}, -4, 4), real({n, c, h}, 0, 1)}, attrs);
    cases.add("cross_entropy", {real({2, 7, 5, 9}, -9, 9), index({2, 5, 9}, 7)}, attrs);
    cases.add("cross_entropy_grad", {real({2, 7, 5, 9}, -9, 9), index({2, 5, 9}, 7), real({2, 5, 9})}, attrs);
    cases.add("cross_entropy_grad", {real({2, c, 37}, -4, 4), real({2, c, 37}, 0, 1), real({2, 37})}, attrs);
    cases.add("cross_entropy", {real({9, 203}, -200, 200), index({9}, 203)}, attrs).gradient = false;
    cases.add("cross_entropy_grad", {real({n, c}, -4, 4), index({n}, c), real({n})}, attrs);
    cases.add("cross_entropy_grad", {real({n, c}, -4, 4), real({n, c}, 0, 1), real({n})}, attrs);
    cases.add("cross_entropy_grad", {real({n, c, h}, -4, 4), index({n, h}, c), real({n, h})}, attrs);
    cases.add("cross_entropy_grad", {real({9, 203}, -200, 200), index({9}, 203), real({9})}, attrs).gradient = false;
  }
}

void draws(Cases& cases) {
  const int64_t n = cases.pick(1, 5), c = cases.pick(1, 9);
  for (const char* op : {"random_uniform", "random_normal"}) {
    cases.add(op, {real({n, c, 3})}, R"({"stream":3,"per":"example"})");
    cases.add(op, {real({n, c, 7, 5})}, R"({"stream":3,"per":"example"})");
    cases.add(op, {real({n, c, 7, 5})}, R"({"stream":3,"per":"step"})");
    cases.add(op, {real({n, c * 7 + 1})}, R"({"stream":4,"per":"step"})");
  }
  cases.add("random_uniform", {real({n, 45})}, R"({"stream":5,"low":-2,"high":3})");
  cases.add("random_normal", {real({n, 45})}, R"({"stream":5,"mean":1,"stddev":0.5})");
}

void make(Cases& cases) {
  reductions(cases);
  shapes(cases);
  indices(cases);
  softmaxes(cases);
  draws(cases);
}

}  // namespace

extern const CaseFamily cases_arrays;
const CaseFamily cases_arrays = {"arrays", make};

}  // namespace perigee
