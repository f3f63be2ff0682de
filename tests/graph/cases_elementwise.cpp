#include "tests/graph/cases.h"

namespace perigee {
namespace {

void unary(Cases& cases) {
  const auto shapes = [&] {
    return std::vector<Shape>{{cases.pick(1, 40)}, {cases.pick(1, 3), cases.pick(1, 5), cases.pick(1, 7), cases.pick(1, 7)}};
  };
  for (const char* op : {"neg",     "abs",      "square", "exp", "expm1", "sin",   "cos",  "atan",  "sinh",        "cosh",      "tanh",
                         "sigmoid", "softplus", "relu",   "erf", "sign",  "floor", "ceil", "round", "logical_not", "is_finite", "copy"})
    for (const Shape& shape : shapes()) cases.add(op, {real(shape, -3.03, 3.04)});
  for (const char* op : {"reciprocal", "sqrt", "rsqrt", "log", "log1p"})
    for (const Shape& shape : shapes()) cases.add(op, {real(shape, 0.2, 4)});
  for (const char* op : {"tan", "asin", "acos", "log1p"})
    for (const Shape& shape : shapes()) cases.add(op, {real(shape, -0.9, 0.9)});
  // The far ends of the functions that have their own approximations, and long runs with a tail.
  for (const char* op : {"exp", "expm1", "tanh", "sigmoid", "softplus", "erf", "relu", "neg"}) {
    cases.add(op, {real({1031}, -80, 80)}).gradient = false;
    cases.add(op, {real({cases.pick(500, 1500)}, -0.01, 0.01)}).gradient = false;
  }
  for (const char* op : {"log", "sqrt", "log1p", "rsqrt"}) cases.add(op, {real({1031}, 1e-6, 1e5)}).gradient = false;
  for (const char* op : {"neg", "abs", "sign", "square", "relu", "logical_not"})
    cases.add(op, {integers(Dtype::i64, {cases.pick(1, 9), 3}, -5, 6)});
}

// Dtypes beyond f32, on kernels of their own.
void wide(Cases& cases) {
  const Shape shape{cases.pick(1, 6), 7};
  for (const char* op :
       {"reciprocal", "sqrt", "rsqrt", "exp",     "expm1",    "log", "log1p", "sin",  "cos",   "tan",       "asin", "acos",  "atan",
        "sinh",       "cosh", "tanh",  "sigmoid", "softplus", "erf", "floor", "ceil", "round", "is_finite", "neg",  "square"})
    cases.add(op, {integers(Dtype::f64, shape, op[0] == 'a' ? 0 : 1, 2)}).gradient = false;
  for (const Dtype dtype : {Dtype::f64, Dtype::i64, Dtype::i32}) {
    cases.add("where", {truth(shape), integers(dtype, shape, -9, 9), integers(dtype, shape, -9, 9)}).gradient = false;
    for (const char* op : {"add", "sub", "mul", "div", "maximum", "minimum", "less", "equal"}) {
      cases.add(op, {integers(dtype, shape, -9, 9), integers(dtype, {}, 1, 9)}).gradient = false;
      cases.add(op, {integers(dtype, {}, -9, 9), integers(dtype, shape, 1, 9)}).gradient = false;
    }
  }
}

void binary(Cases& cases) {
  const int64_t n = cases.pick(1, 4), c = cases.pick(2, 5), h = cases.pick(1, 6), w = cases.pick(1, 6);
  struct Pair {
    Shape a, b;
  };
  const std::vector<Pair> pairs = {{{n, c, h, w}, {n, c, h, w}}, {{n, c, h, w}, {c, 1, 1}},
                                   {{c, 1, 1}, {n, c, h, w}},    {{n, c}, {}},
                                   {{n, 1, w}, {1, c, 1}},       {{c}, {n, c}},
                                   {{n, c, h}, {n, 1, 1}}};
  // Large enough that a permuted operand is read many rows at a time, with rows and columns left over.
  for (const Shape& shape : {Shape{cases.pick(17, 50), cases.pick(17, 90)}, Shape{2, cases.pick(33, 40), 19}, Shape{20, 1030}})
    cases.add("sub", {real(shape), real(shape)}).gradient = false;
  for (const Pair& pair : pairs) {
    for (const char* op : {"add", "sub", "mul", "maximum", "minimum"}) cases.add(op, {real(pair.a), real(pair.b, -1.9, 2.2)});
    for (const char* op : {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or"}) {
      cases.add(op, {integers(Dtype::i32, pair.a, -2, 3), integers(Dtype::i32, pair.b, -2, 3)});
      cases.add(op, {real(pair.a), real(pair.b)});
    }
    cases.add("div", {real(pair.a), real(pair.b, 0.5, 2)});
    cases.add("pow", {real(pair.a, 0.5, 2), real(pair.b)});
    cases.add("where", {truth(pair.a), real(pair.b), real(pair.a)});
    cases.add("where", {truth(pair.b), real(pair.a), real({})});
    for (const char* op : {"add", "sub", "mul", "maximum", "minimum", "div", "mod", "pow"})
      cases.add(op, {integers(Dtype::i64, pair.a, -9, 10), integers(Dtype::i64, pair.b, op == std::string("pow") ? 0 : -4, 5)});
  }
  cases.add("mod", {real({7}, 3.1, 3.9), real({7}, 1.1, 1.5)});
  cases.add("add", {real({1031}), real({1031})}).gradient = false;
  cases.add("mul", {real({64, 517}), real({517})}).gradient = false;
  cases.add("add", {real({8, 20, 12, 12}), real({20, 1, 1})}).gradient = false;
}

void copies(Cases& cases) {
  cases.add("copy", {real({2, 21, cases.pick(3, 6), 9})}).gradient = false;
  cases.add("copy", {real({2, 3, 8, cases.pick(3, 20)})}).gradient = false;
  cases.add("copy", {real({cases.pick(30, 40), 37})}).gradient = false;
  cases.add("copy", {integers(Dtype::u8, {2, cases.pick(1, 20), 5, 6}, 0, 255)});
  cases.add("copy", {integers(Dtype::i64, {2, cases.pick(1, 20), 5, 6}, -99, 99)});
  cases.add("copy", {integers(Dtype::bf16, {2, cases.pick(1, 20), 5, 6}, 0, 99)});
}

void fill(Cases& cases) {
  const int64_t n = cases.pick(1, 5), c = cases.pick(1, 6);
  cases.add("full", {}, R"({"value":1.5,"shape":[3,4],"dtype":"f32"})");
  cases.add("full", {}, R"({"value":7,"shape":[5],"dtype":"i64"})");
  cases.add("full_like", {real({n, c})}, R"({"value":-2.25})");
  for (const char* dtype : {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "bool"}) {
    cases.add("cast", {fixed({n, c, 3}, 0.1, 100)}, std::string(R"({"dtype":")") + dtype + "\"}").gradient = false;
    cases.add("cast", {integers(Dtype::u8, {n, c, 3}, 0, 200)}, std::string(R"({"dtype":")") + dtype + "\"}");
    cases.add("cast", {integers(Dtype::boolean, {700}, 0, 2)}, std::string(R"({"dtype":")") + dtype + "\"}");
    cases.add("cast", {integers(Dtype::bf16, {n, 517}, -9, 99)}, std::string(R"({"dtype":")") + dtype + "\"}");
    cases.add("cast", {integers(Dtype::f16, {n, 517}, -9, 99)}, std::string(R"({"dtype":")") + dtype + "\"}");
  }
  cases.add("cast", {real({n, c, 3})}, R"({"dtype":"f64"})");
  cases.add("broadcast_to", {real({c, 1})}, R"({"shape":[2,)" + std::to_string(c) + ",3]}");
  cases.add("broadcast_like", {real({c, 1}), fixed({2, c, 3})});
}

void fused(Cases& cases) {
  const int64_t n = cases.pick(1, 4), c = cases.pick(2, 21), h = cases.pick(1, 9);
  const char* activation =
      R"({"constants":[0.5,3],"code":[["mul",0,1],["add",5,2],["sigmoid",6],["mul",6,7],["sub",8,3],["div",9,4]],"outputs":[10]})";
  cases.add("fused", {real({n, c, h, h}), real({c, 1, 1}), real({c, 1, 1})}, activation);
  cases.add("fused", {real({n, c}), real({c}), real({n, 1})}, activation);
  cases.add("fused", {real({h * 50, 20}), real({20}), real({})}, activation).gradient = false;
  const char* outputs =
      R"({"constants":[0],"code":[["add",0,1],["greater",3,2],["where",4,3,2],["exp",5],["square",3]],"outputs":[5,4,7]})";
  cases.add("fused", {real({n, c, h, h}), real({n, c, h, h})}, outputs);
  cases.add("fused", {integers(Dtype::u8, {n, c, 3}, 0, 9), real({n, c, 3}, -1.93, 1.97)}, outputs);
  cases.add("fused", {real({1031}), real({1})}, outputs).gradient = false;
}

void make(Cases& cases) {
  unary(cases);
  wide(cases);
  copies(cases);
  fused(cases);
  binary(cases);
  fill(cases);
}

}  // namespace

extern const CaseFamily cases_elementwise;
const CaseFamily cases_elementwise = {"elementwise", make};

}  // namespace perigee
