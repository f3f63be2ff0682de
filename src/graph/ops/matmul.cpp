// Matrix products.
#include "kernels/ops/matmul.h"

#include <cstring>

#include "kernels/cuda/library/libraries.h"
#include "kernels/dtype_kinds.h"
#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kTransposeA = {"transpose_a", "boolean", "false", "a is [..., K, M]"};
constexpr Option kTransposeB = {"transpose_b", "boolean", "false", "b is [..., N, K]"};
constexpr Option kMatmulAttributes[] = {kTransposeA, kTransposeB};

Shape batch_dims(const Shape& shape) {
  auto dims = shape.vector();
  dims.resize(dims.size() - 2);
  return Shape(dims);
}

std::vector<Type> infer_matmul(const OpCall& call) {
  const Type &a = call.inputs[0], &b = call.inputs[1];
  const bool ta = attr_bool(call.attrs, kTransposeA), tb = attr_bool(call.attrs, kTransposeB);
  const std::string got = a.text() + " and " + b.text();
  if (a.shape.rank() < 2 || b.shape.rank() < 2) {
    throw Error(ErrorKind::model, {.what = "matmul takes matrices", .got = got, .expected = "at least two dimensions each"});
  }
  if (a.dtype != b.dtype || !is_floating(a.dtype)) {
    throw Error(ErrorKind::model, {.what = "matmul takes two operands of one floating-point type", .got = got});
  }
  const int64_t inner_a = a.shape.at(ta ? -2 : -1), inner_b = b.shape.at(tb ? -1 : -2);
  if (inner_a != inner_b) {
    throw Error(ErrorKind::model, {.what = "the inner dimensions of a matrix product differ",
                                   .got = got + (ta ? ", a transposed" : "") + (tb ? ", b transposed" : ""),
                                   .expected = std::to_string(inner_a) + " == " + std::to_string(inner_b)});
  }
  auto dims = broadcast(batch_dims(a.shape), batch_dims(b.shape)).vector();
  dims.push_back(a.shape.at(ta ? -1 : -2));
  dims.push_back(b.shape.at(tb ? -2 : -1));
  return {{a.dtype, Shape(dims)}};
}

// c = op(a) op(b): da = dc op(b)^T, db = op(a)^T dc, each transposed again when its operand was, summed over broadcast batches.
std::vector<Value> matmul_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value g = grads[0], a = node.in(graph, 0), b = node.in(graph, 1);
  if (!g) return {Value(), Value()};
  const bool ta = attr_bool(node.attrs, kTransposeA), tb = attr_bool(node.attrs, kTransposeB);
  const Shape shape_a = a.shape(), shape_b = b.shape();
  const Value da = ta ? matmul(b, g, tb, true) : matmul(g, b, false, !tb);
  const Value db = tb ? matmul(g, a, true, ta) : matmul(a, g, !ta, false);
  return {sum_to(da, shape_a), sum_to(db, shape_b)};
}

bool is_by_weight(const OpCall& call) {
  return call.inputs[1].shape.rank() == 2 && attr_bool(call.attrs, kTransposeB) && !attr_bool(call.attrs, kTransposeA);
}

Sliced matmul_sliced(const OpCall& call, std::span<const Sliced> inputs) {
  const Sliced a = inputs[0], b = inputs[1];
  const int rank_a = call.inputs[0].shape.rank(), rank_b = call.inputs[1].shape.rank();
  if (a == Sliced::mixed || b == Sliced::mixed) return Sliced::mixed;
  if (a == Sliced::whole && b == Sliced::whole) return Sliced::whole;
  if ((a == Sliced::partial && b == Sliced::whole) || (a == Sliced::whole && b == Sliced::partial)) return Sliced::partial;
  if (a == Sliced::partial || b == Sliced::partial) return Sliced::mixed;
  const bool ta = attr_bool(call.attrs, kTransposeA), tb = attr_bool(call.attrs, kTransposeB);
  if (b == Sliced::whole) {
    if (rank_a == 2) return !ta && rank_b == 2 ? Sliced::batch : Sliced::mixed;
    return rank_b < rank_a || call.inputs[1].shape[0] == 1 ? Sliced::batch : Sliced::mixed;
  }
  if (a == Sliced::whole) {
    const bool first_is_batch = rank_b > 2 && (rank_a < rank_b || (rank_a == rank_b && call.inputs[0].shape[0] == 1));
    return first_is_batch ? Sliced::batch : Sliced::mixed;
  }
  if (rank_a == 2 && rank_b == 2) return ta && !tb ? Sliced::partial : Sliced::mixed;
  return rank_a == rank_b ? Sliced::batch : Sliced::mixed;
}

size_t matmul_params(const OpCall& call, void* out) {
  const MatmulParams p{attr_bool(call.attrs, kTransposeA), attr_bool(call.attrs, kTransposeB)};
  std::memcpy(out, &p, sizeof p);
  return sizeof p;
}

double matmul_flops(const OpCall& call) {
  const Type out = infer_matmul(call)[0];
  const int64_t inner = call.inputs[0].shape.at(attr_bool(call.attrs, kTransposeA) ? -2 : -1);
  return 2.0 * static_cast<double>(out.shape.elements()) * static_cast<double>(inner);
}

const OpDef kMatmulOps[] = {
    {.name = "matmul",
     .doc = "Matrix product of a [..., M, K] and b [..., K, N]; attributes transpose_a, transpose_b; leading dimensions broadcast.",
     .attributes = {.options = kMatmulAttributes},
     .min_inputs = 2,
     .max_inputs = 2,
     .infer = infer_matmul,
     .vjp = matmul_vjp,
     .sliced = matmul_sliced,
     .params = matmul_params,
     .flops = matmul_flops,
     .operand_dtypes = OperandDtypes::real,
     .precision = Precision::half,
     .dense = is_by_weight,
     .library = CudaLibrary::cublas_lt}};

}  // namespace

extern const OpList ops_matmul;
const OpList ops_matmul = op_list(kMatmulOps);

}  // namespace perigee
