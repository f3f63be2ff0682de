// Operands that mixed precision stores in 16 bits: the ops that take such operands, in both formats.
#include "tests/graph/cases.h"

namespace perigee {
namespace {

class Halves {
 public:
  Halves(Cases& cases, Dtype dtype) : cases_(cases), dtype_(dtype) {}

  CaseOperand h(const Shape& shape, double low = -2, double high = 2) const { return half(dtype_, shape, low, high); }

  // A result has 8 significant bits in bf16 and 11 in f16; sums run in f32.
  void add(const char* op, std::vector<CaseOperand> inputs, const char* attrs = "") {
    OpCase& added = cases_.add(op, std::move(inputs), attrs);
    added.tolerance = dtype_ == Dtype::bf16 ? 0x1p-8 : 0x1p-11;
    added.gradient = false;
  }

  void products() {
    const int64_t m = cases_.pick(1, 40), n = cases_.pick(1, 40), k = cases_.pick(1, 70);
    add("matmul", {h({m, k}), h({k, n})});
    add("matmul", {h({2, k, m}), h({n, k})}, R"({"transpose_a":true,"transpose_b":true})");
    for (const char* attrs : {R"({"activation":"none"})", R"({"activation":"relu"})", R"({"activation":"gelu_tanh"})",
                              R"({"activation":"gelu_tanh","keep":true})"})
      add("linear", {h({m, k}), h({n, k}), h({n})}, attrs);
    add("linear_grad_input", {h({m, n}), h({n, k})});
    for (const char* attrs : {R"({"activation":"relu"})", R"({"activation":"gelu_tanh"})"})
      add("linear_grad_input", {h({m, n}), h({n, k}), h({m, k})}, attrs);
    add("linear_grad_weight", {h({m, n}), h({m, k})}, R"({"bias":true})");
  }

  void images() {
    const int64_t c = cases_.pick(1, 9), o = cases_.pick(1, 9), n = cases_.pick(1, 3);
    const Shape x{n, c, 9, 8}, w{o, c, 3, 3}, y{n, o, 7, 6};
    add("conv2d", {h(x), h(w), h({o})}, R"({"activation":"relu"})");
    add("conv2d", {h(x), h(w)}, R"({"stride":[2,2],"padding":[1,1,1,1]})");
    add("conv2d_grad_input", {h(y), h(w)}, R"({"input_size":[9,8]})");
    add("conv2d_grad_weight", {h(y), h(x)}, R"({"kernel_size":[3,3]})");
    add("pool2d", {h(x)}, R"({"kernel":[2,2],"stride":[2,2]})");
    add("pool2d", {h(x)}, R"({"kernel":[3,3],"stride":[2,2],"kind":"average"})");
  }

  // Statistics, gains and offsets are f32.
  void norms() {
    const int64_t n = cases_.pick(2, 6), c = cases_.pick(1, 20);
    const Shape x{n, c, 5, 4}, v{c};
    add("batch_norm", {h(x), fixed(v, 0.5, 1.5), fixed(v)}, R"({"epsilon":1e-3})");
    add("batch_norm", {h(x), fixed(v, 0.5, 1.5), fixed(v), h(x)}, R"({"activation":"relu"})");
    add("batch_norm_grad", {h(x), h(x), absent(), fixed(v, 0.5, 1.5), fixed(v), fixed(v, -0.5, 0.5), fixed(v, 0.5, 2)});
    add("layer_norm", {h({n, c + 1}), fixed({c + 1}, 0.5, 1.5), fixed({c + 1})});
    add("layer_norm_grad", {h({n, c + 1}), h({n, c + 1}), fixed({c + 1}), fixed({n}, -0.5, 0.5), fixed({n}, 0.5, 2)});
    add("layer_norm_grad_params", {h({n, c + 1}), h({n, c + 1}), fixed({n}, -0.5, 0.5), fixed({n}, 0.5, 2)});
  }

  // The mask may have either dtype; sums of exponentials are f32.
  void attention() {
    const int64_t n = cases_.pick(1, 2), q = cases_.pick(1, 9), k = cases_.pick(2, 40);
    const CaseOperand queries = h({n, q, 4, 8}, -1, 1), keys = h({n, k, 2, 8}, -1, 1), values = h({n, k, 2, 5}, -1, 1);
    add("attention", {queries, keys, values, fixed({n, k}, -1, 1)}, R"({"causal":"lower_right"})");
    add("attention", {h({n, q, 4, 8}, -1, 1), absent(), absent(), h({n, q}, -1, 1)}, R"({"kv_heads":1})");
    add("attention_grad", {h({n, q, 4, 5}), queries, keys, values, absent(), h({n, q, 4, 5}), fixed({n, 4, q}, 2, 4)});
    add("rotary", {queries});
  }

  void element_wise() {
    const int64_t n = cases_.pick(1, 9), c = cases_.pick(1, 90);
    add("add", {h({n, c}), h({n, c})});
    add("mul", {h({n, c}), h({c})});
    add("reduce_sum", {h({n, c})}, R"({"axes":[0]})");
    const char* types = dtype_ == Dtype::bf16 ? R"("types":["bf16"])" : R"("types":["f16"])";
    add("fused", {h({n, c}), fixed({n, c})}, (std::string(R"({"code":[["mul",0,1],["tanh",2]],"outputs":[3],)") + types + "}").c_str());
  }

 private:
  Cases& cases_;
  const Dtype dtype_;
};

void make(Cases& cases) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    Halves halves(cases, dtype);
    halves.products();
    halves.images();
    halves.norms();
    halves.attention();
    halves.element_wise();
  }
}

}  // namespace

extern const CaseFamily cases_half;
const CaseFamily cases_half = {"half", make};

}  // namespace perigee
