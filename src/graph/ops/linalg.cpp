// Linear algebra: solve, inv, cholesky, qr, svd, eigh, det, slogdet. Matrices are the last two dimensions, those before them a batch.
// The derivatives are those of M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation" (2008);
// of cholesky, I. Murray, "Differentiation of the Cholesky decomposition" (2016).
#include "kernels/ops/linalg.h"

#include <algorithm>
#include <cstring>

#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/lapack.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

[[noreturn]] void refuse_linalg(std::string what, std::string got, std::string expected = "", std::string hint = "") {
  throw Error(ErrorKind::model, {.what = std::move(what), .got = std::move(got), .expected = std::move(expected), .hint = std::move(hint)});
}

// --- shapes ---

struct LinalgSizes {
  std::vector<int64_t> batch;
  int64_t rows, columns, least;

  explicit LinalgSizes(const Type& a, bool square = false) {
    if (a.dtype != Dtype::f32 && a.dtype != Dtype::f64) refuse_linalg("takes real matrices", a.text(), "f32 or f64");
    const int rank = a.shape.rank();
    if (rank < 2) refuse_linalg("takes matrices", a.text(), "at least two dimensions");
    rows = a.shape[rank - 2];
    columns = a.shape[rank - 1];
    least = std::min(rows, columns);
    if (square && rows != columns) refuse_linalg("takes square matrices", a.text());
    batch = a.shape.vector();
    batch.resize(batch.size() - 2);
  }
  Shape with(std::initializer_list<int64_t> dims) const {
    std::vector<int64_t> all = batch;
    all.insert(all.end(), dims);
    return Shape(all);
  }
};

bool is_vector(const OpCall& call) { return call.inputs[1].shape.rank() == call.inputs[0].shape.rank() - 1; }

std::vector<Type> infer_solve(const OpCall& call) {
  const Type &a = call.inputs[0], &b = call.inputs[1];
  const LinalgSizes sizes(a, true);
  const bool vector = is_vector(call);
  const Shape expected = vector ? sizes.with({sizes.rows}) : sizes.with({sizes.rows, b.shape.rank() > 0 ? b.shape[b.shape.rank() - 1] : 0});
  if (b.dtype != a.dtype || b.shape != expected)
    refuse_linalg("the right side does not fit the matrix", b.text() + " for " + a.text(), "[..., n] or [..., n, k]");
  return {b};
}

std::vector<Type> infer_same(const OpCall& call) { return LinalgSizes(call.inputs[0], true), std::vector<Type>{call.inputs[0]}; }

std::vector<Type> infer_qr(const OpCall& call) {
  const LinalgSizes sizes(call.inputs[0]);
  const Dtype dtype = call.inputs[0].dtype;
  return {{dtype, sizes.with({sizes.rows, sizes.least})}, {dtype, sizes.with({sizes.least, sizes.columns})}};
}

std::vector<Type> infer_svd(const OpCall& call) {
  const LinalgSizes sizes(call.inputs[0]);
  const Dtype dtype = call.inputs[0].dtype;
  return {{dtype, sizes.with({sizes.rows, sizes.least})},
          {dtype, sizes.with({sizes.least})},
          {dtype, sizes.with({sizes.least, sizes.columns})}};
}

std::vector<Type> infer_eigh(const OpCall& call) {
  const LinalgSizes sizes(call.inputs[0], true);
  return {{call.inputs[0].dtype, sizes.with({sizes.rows})}, call.inputs[0]};
}

std::vector<Type> infer_det(const OpCall& call) { return {{call.inputs[0].dtype, LinalgSizes(call.inputs[0], true).with({})}}; }

std::vector<Type> infer_slogdet(const OpCall& call) {
  const Type one = infer_det(call)[0];
  return {one, one};
}

// --- what derivatives are written in ---

Value apply_linalg(const char* op, Value x) { return x.graph().apply(op, {x}); }
Value linalg_inverse(Value a) { return apply_linalg("inv", a); }
Value solution(Value a, Value b) { return a.graph().apply("solve", {a, b}); }

Value turned(Value a) {
  std::vector<int64_t> order;
  for (int i = 0; i < a.rank(); ++i) order.push_back(i);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transpose(a, order);
}

Value symmetric(Value a) { return (a + turned(a)) * 0.5; }

// x with dimensions of size 1 behind, or before the last.
Value as_column(Value x) {
  std::vector<int64_t> dims = x.shape().vector();
  dims.push_back(1);
  return reshape(x, Shape(dims));
}
Value as_row(Value x) {
  std::vector<int64_t> dims = x.shape().vector();
  dims.insert(dims.end() - 1, 1);
  return reshape(x, Shape(dims));
}
Value as_matrix(Value x) { return as_column(as_column(x)); }

// An n x n table of f(row, column) in the dtype of `like`.
template <class F>
Value table(Value like, int64_t n, F f) {
  Tensor values(Dtype::f64, Shape{n, n});
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) values.data<double>()[i * n + j] = f(i, j);
  return like.graph().constant(values.to(like.dtype()));
}

Value identity(Value like, int64_t n) {
  return table(like, n, [](int64_t i, int64_t j) { return i == j; });
}

// 1 / (x_j - x_i), and 0 on the diagonal.
Value differences(Value x) {
  const int64_t n = x.shape()[x.rank() - 1];
  const Value one = identity(x, n);
  return (1.0 - one) / (as_row(x) - as_column(x) + one);
}

// --- derivatives ---

std::vector<Value> solve_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const OperandTypes types(graph, node);
  const bool vector = is_vector(types.call());
  const Value a = node.in(graph, 0), x = node.out(graph), b = solution(turned(a), grads[0]);
  return {-matmul(vector ? as_column(b) : b, vector ? as_column(x) : x, false, true), b};
}

std::vector<Value> inv_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value y = node.out(graph);
  return {-matmul(matmul(y, grads[0], true, false), y, false, true)};
}

std::vector<Value> det_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  return {as_matrix(grads[0] * node.out(graph)) * turned(linalg_inverse(node.in(graph, 0)))};
}

// The sign does not change.
std::vector<Value> slogdet_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  if (!grads[1]) return {};
  return {as_matrix(grads[1]) * turned(linalg_inverse(node.in(graph, 0)))};
}

// The gradient of a symmetric matrix, as in eigh: symmetric again, as if both halves were read.
std::vector<Value> cholesky_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value l = node.out(graph);
  const Value half = table(l, l.shape()[l.rank() - 1], [](int64_t i, int64_t j) { return i > j ? 1 : i == j ? 0.5 : 0; });
  const Value back = linalg_inverse(l);
  return {symmetric(matmul(matmul(back, half * matmul(l, grads[0], true, false), true, false), back))};
}

std::vector<Value> qr_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value a = node.in(graph, 0), q = node.out(graph, 0), r = node.out(graph, 1);
  const int64_t rows = a.shape()[a.rank() - 2], n = a.shape()[a.rank() - 1];
  if (rows < n)
    refuse_linalg("qr has no derivative where there are more columns than rows", a.type().text(), "",
                  "factor the transpose, or the first columns");
  Value m;
  if (grads[1]) m = matmul(r, grads[1], false, true);
  if (grads[0]) m = m ? m - matmul(grads[0], q, true, false) : -matmul(grads[0], q, true, false);
  const Value lower = table(a, n, [](int64_t i, int64_t j) { return i >= j; }),
              below = table(a, n, [](int64_t i, int64_t j) { return i > j; });
  Value sum = matmul(q, m * lower + turned(m * below));
  if (grads[0]) sum = grads[0] + sum;
  return {turned(solution(r, turned(sum)))};
}

std::vector<Value> eigh_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value w = node.out(graph, 0), v = node.out(graph, 1);
  Value inner;
  if (grads[0]) inner = as_row(grads[0]) * identity(w, w.shape()[w.rank() - 1]);
  if (grads[1]) {
    const Value turns = differences(w) * matmul(v, grads[1], true, false);
    inner = inner ? inner + turns : turns;
  }
  return {symmetric(matmul(matmul(v, inner), v, false, true))};
}

// The part of g outside the span of u's columns: g - u u^T g.
Value linalg_outside(Value u, Value g) { return g - matmul(u, matmul(u, g, true, false)); }

std::vector<Value> svd_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value a = node.in(graph, 0), u = node.out(graph, 0), s = node.out(graph, 1), vt = node.out(graph, 2);
  const int64_t rows = a.shape()[a.rank() - 2], columns = a.shape()[a.rank() - 1], k = s.shape()[s.rank() - 1];
  Value inner, sum;  // u inner v^T, and the rest
  const auto add = [](Value& to, Value x) { to = to ? to + x : x; };
  if (grads[1]) add(inner, as_row(grads[1]) * identity(s, k));
  if (grads[0]) {
    const Value turns = matmul(u, grads[0], true, false);
    add(inner, differences(s * s) * (turns - turned(turns)) * as_row(s));
    if (rows > k) add(sum, matmul(linalg_outside(u, grads[0]) / as_row(s), vt));
  }
  if (grads[2]) {
    const Value v = turned(vt), g = turned(grads[2]), turns = matmul(vt, g);
    add(inner, as_column(s) * (differences(s * s) * (turns - turned(turns))));
    if (columns > k) add(sum, matmul(u / as_row(s), linalg_outside(v, g), false, true));
  }
  const Value within = matmul(matmul(u, inner), vt);
  return {sum ? within + sum : within};
}

// --- the table ---

template <const char* name>
size_t linalg_params(const OpCall&, void* out) {
  const LinalgParams params{missing_linear_algebra, linear_algebra(name)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

template <const char* name>
constexpr OpDef linalg(const char* doc, auto infer, auto vjp, int operands = 1) {
  return {.name = name,
          .doc = doc,
          .min_inputs = operands,
          .max_inputs = operands,
          .infer = infer,
          .vjp = vjp,
          .sliced = sliced_never,
          .params = linalg_params<name>,
          .operand_dtypes = OperandDtypes::real};
}

constexpr char kSolve[] = "solve", kInv[] = "inv", kCholesky[] = "cholesky", kQr[] = "qr", kSvd[] = "svd", kEigh[] = "eigh", kDet[] = "det",
               kSlogdet[] = "slogdet";

constexpr OpDef kLinalgOps[] = {
    linalg<kSolve>("x with a x = b, for b [..., n] or [..., n, k].", infer_solve, solve_vjp, 2),
    linalg<kInv>("The inverse.", infer_same, inv_vjp),
    linalg<kCholesky>("The lower L with L L^T = a, of a symmetric positive definite a, whose lower half is read.", infer_same,
                      cholesky_vjp),
    linalg<kQr>("Q [..., m, k] and R [..., k, n], k = min(m, n).", infer_qr, qr_vjp),
    linalg<kSvd>("U [..., m, k], S [..., k] descending and V^T [..., k, n], k = min(m, n).", infer_svd, svd_vjp),
    linalg<kEigh>("The eigenvalues of a symmetric matrix, ascending, and its eigenvectors in columns.", infer_eigh, eigh_vjp),
    linalg<kDet>("The determinant.", infer_det, det_vjp),
    linalg<kSlogdet>("The determinant's sign and the logarithm of its size.", infer_slogdet, slogdet_vjp),
};

}  // namespace

extern const OpList ops_linalg;
const OpList ops_linalg = op_list(kLinalgOps);

}  // namespace perigee
