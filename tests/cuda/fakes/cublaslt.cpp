// A cuBLASLt of the same interface that computes on the host, by the manual's definition: column-major matrices, D = epilogue(op(A) op(B) +
// beta C). So that descriptors, leading dimensions, transposes and epilogues are proved without a GPU. It refuses what the manual forbids,
// and row sums and what reads or writes a second matrix of products with an odd inner size, so that callers' other way is tried. It knows
// three algorithms for each product, which take no address at a lower border than the heuristic was told or saw; the second sums in four
// parts, and loses the end of a sum as cuBLASLt was seen to.
#include <cublasLt.h>

#include <array>
#include <cmath>
#include <cstring>

#include "tests/cuda/fakes/numbers.h"

namespace {

using namespace perigee;

struct Desc {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
  void* aux = nullptr;
  int64_t aux_leading = 0;
};

struct Layout {
  cudaDataType_t type;
  int64_t rows, columns, leading;
  int32_t batches = 1;
  int64_t batch_stride = 0;
};

struct Preference {
  uint64_t workspace = 0;
  std::array<uint32_t, 4> borders = {256, 256, 256, 256};  // of a, b, c, d
};

// The words of an algorithm.
enum Word { kNumber, kBorders, kBiasBorder = kBorders + 4, kAuxBorder, kWorkspace };
constexpr uint64_t kInParts = 2;
constexpr int32_t kParts = 4;

uint64_t border_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  return address % 256 == 0 ? 256 : address & (~address + 1);
}

template <class T>
bool read(T* to, const void* from, size_t bytes) {
  if (bytes != sizeof(T)) return false;
  std::memcpy(to, from, bytes);
  return true;
}

Number number(cudaDataType_t type) {
  return type == CUDA_R_64F ? Number::f64 : type == CUDA_R_16F ? Number::f16 : type == CUDA_R_16BF ? Number::bf16 : Number::f32;
}

double at(const Layout& l, const void* data, cublasOperation_t op, int32_t batch, int64_t i, int64_t j) {
  return load(data, batch * l.batch_stride + (op == CUBLAS_OP_N ? i + j * l.leading : j + i * l.leading), number(l.type));
}

bool added(const Desc& d) { return (d.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
bool biased(const Desc& d) { return added(d) || d.epilogue == CUBLASLT_EPILOGUE_BGRADB; }
bool gelu(const Desc& d) { return (d.epilogue & CUBLASLT_EPILOGUE_GELU) != 0; }
bool relu(const Desc& d) { return (d.epilogue & CUBLASLT_EPILOGUE_RELU) != 0; }
bool beside(const Desc& d) { return (d.epilogue & 128) != 0; }

// The tanh form and its derivative: 1 - tanh^2 is 1 / cosh^2.
double gelu_of(double z) { return z / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * std::pow(z, 3)))); }
double gelu_slope_of(double z) {
  const double u = std::sqrt(2 / M_PI) * (z + 0.044715 * std::pow(z, 3)), inner = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * z * z);
  return (1 + std::tanh(u)) / 2 + z / 2 / std::pow(std::cosh(u), 2) * inner;
}

bool fits(const Desc& d, const Layout& a, const Layout& b, const Layout& out) {
  for (const Layout* l : {&a, &b, &out})
    if (l->leading < l->rows || l->batches != out.batches) return false;
  const int64_t m = d.a == CUBLAS_OP_N ? a.rows : a.columns, k = d.a == CUBLAS_OP_N ? a.columns : a.rows;
  const int64_t kb = d.b == CUBLAS_OP_N ? b.rows : b.columns, n = d.b == CUBLAS_OP_N ? b.columns : b.rows;
  if (m != out.rows || n != out.columns || k != kb) return false;
  if ((a.type == CUDA_R_64F) != (d.compute == CUBLAS_COMPUTE_64F)) return false;
  if (beside(d) && (d.aux == nullptr || d.aux_leading % 8 != 0 || d.aux_leading < out.rows || out.batches > 1)) return false;
  if ((gelu(d) || beside(d)) && a.type == CUDA_R_64F) return false;
  return !biased(d) || (d.bias != nullptr && d.bias_type == out.type && a.type != CUDA_R_64F);
}

int64_t inner(const Desc& d, const Layout& a) { return d.a == CUBLAS_OP_N ? a.columns : a.rows; }

bool borders_kept(const cublasLtMatmulAlgo_t& algorithm, const Desc& d, const std::array<const void*, 4>& operands) {
  for (size_t i = 0; i < operands.size(); ++i)
    if (border_of(operands[i]) < algorithm.data[kBorders + i]) return false;
  return border_of(d.bias) >= algorithm.data[kBiasBorder] && border_of(d.aux) >= algorithm.data[kAuxBorder];
}

void product(const Desc& d, double beta, const Layout& a, const void* pa, const Layout& b, const void* pb, const Layout& out, void* po,
             int32_t l, bool in_parts) {
  const int64_t all = inner(d, a), left = all % 16;
  const int64_t k = in_parts && left != 0 && left < kParts && all / 16 % kParts == 0 ? all - left : all;
  for (int64_t i = 0; i < out.rows; ++i)
    for (int64_t j = 0; j < out.columns; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += at(a, pa, d.a, l, i, p) * at(b, pb, d.b, l, p, j);
      const int64_t to = l * out.batch_stride + i + j * out.leading;
      if (beta != 0) sum += beta * load(po, to, number(out.type));
      if (added(d)) sum += load(d.bias, i, number(d.bias_type));
      if (relu(d) && sum < 0) sum = 0;
      if (d.epilogue == CUBLASLT_EPILOGUE_DGELU) sum *= gelu_slope_of(load(d.aux, i + j * d.aux_leading, number(out.type)));
      if (gelu(d) && beside(d)) store(d.aux, i + j * d.aux_leading, number(out.type), sum);
      if (gelu(d)) sum = gelu_of(sum);
      store(po, to, number(out.type), sum);
    }
  if (d.epilogue != CUBLASLT_EPILOGUE_BGRADB) return;
  for (int64_t j = 0; j < out.columns; ++j) {
    double sum = 0;
    for (int64_t p = 0; p < k; ++p) sum += at(b, pb, d.b, l, p, j);
    store(d.bias, j, number(d.bias_type), sum);
  }
}

}  // namespace

extern "C" {

int64_t fake_live_handles() { return live_handles; }

void fake_queue_by(QueueWork how) { queue_work = how; }

size_t cublasLtGetVersion() { return 130000; }
const char* cublasLtGetStatusName(cublasStatus_t) { return "CUBLAS_STATUS_OF_THE_FAKE"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return *handle = reinterpret_cast<cublasLtHandle_t>(make_handle<int>()), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return drop_handle(reinterpret_cast<int*>(handle)), CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  return *desc = reinterpret_cast<cublasLtMatmulDesc_t>(make_handle<Desc>(compute, scale)), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return drop_handle(reinterpret_cast<Desc*>(desc)), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t which, const void* value,
                                              size_t bytes) {
  auto* const d = reinterpret_cast<Desc*>(desc);
  bool known = false;
  if (which == CUBLASLT_MATMUL_DESC_TRANSA) known = read(&d->a, value, bytes);
  if (which == CUBLASLT_MATMUL_DESC_TRANSB) known = read(&d->b, value, bytes);
  if (which == CUBLASLT_MATMUL_DESC_EPILOGUE) known = read(&d->epilogue, value, bytes);
  if (which == CUBLASLT_MATMUL_DESC_BIAS_POINTER) known = read(&d->bias, value, bytes);
  if (which == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER) known = read(&d->aux, value, bytes);
  if (which == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD) known = read(&d->aux_leading, value, bytes);
  if (which == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE) known = read(&d->bias_type, value, bytes);
  return known ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows, uint64_t columns,
                                          int64_t leading) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
      make_handle<Layout>(type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return drop_handle(reinterpret_cast<Layout*>(layout)), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which, const void* value,
                                                size_t bytes) {
  auto* const l = reinterpret_cast<Layout*>(layout);
  bool known = false;
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) known = read(&l->batches, value, bytes);
  if (which == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) known = read(&l->batch_stride, value, bytes);
  return known ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) {
  return *p = reinterpret_cast<cublasLtMatmulPreference_t>(make_handle<Preference>()), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  return drop_handle(reinterpret_cast<Preference*>(p)), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* value, size_t bytes) {
  auto* const p = reinterpret_cast<Preference*>(preference);
  uint32_t other = 0;
  bool known = false;
  if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) known = read(&p->workspace, value, bytes);
  if (which == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) known = read(&other, value, bytes);
  for (uint32_t i = 0; i < 4; ++i)
    if (which == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i) known = read(&p->borders[i], value, bytes);
  return known ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulAlgoConfigAttributes_t which,
                                                    void* value, size_t bytes, size_t*) {
  if (which != CUBLASLT_ALGO_CONFIG_SPLITK_NUM || bytes != sizeof kParts) return CUBLAS_STATUS_INVALID_VALUE;
  return *static_cast<int32_t*>(value) = algorithm->data[kNumber] == kInParts ? kParts : 1, CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t out,
                                              cublasLtMatmulPreference_t preference, int room, cublasLtMatmulHeuristicResult_t* found,
                                              int* count) {
  const auto& d = *reinterpret_cast<Desc*>(desc);
  const auto& left = *reinterpret_cast<Layout*>(a);
  *count = 0;
  if (!fits(d, left, *reinterpret_cast<Layout*>(b), *reinterpret_cast<Layout*>(out))) return CUBLAS_STATUS_INVALID_VALUE;
  // It takes some sizes of the parity test, and refuses the others in either way.
  const auto k = static_cast<uint64_t>(inner(d, left));
  if (d.epilogue == CUBLASLT_EPILOGUE_BGRADB && k % 4 != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (d.epilogue == CUBLASLT_EPILOGUE_BGRADB && k % 8 == 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (beside(d) && k % 2 != 0) return k % 4 == 1 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_INVALID_VALUE;
  *count = room < 3 ? room : 3;
  const auto& p = *reinterpret_cast<Preference*>(preference);
  for (int i = 0; i < *count; ++i) {
    uint64_t* const words = found[i].algo.data;
    words[kNumber] = static_cast<uint64_t>(i + 1), words[kWorkspace] = p.workspace;
    for (size_t operand = 0; operand < p.borders.size(); ++operand) words[kBorders + operand] = p.borders[operand];
    words[kBiasBorder] = border_of(d.bias), words[kAuxBorder] = border_of(d.aux);
    found[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a, cublasLtMatrixLayout_t la,
                              const void* b, cublasLtMatrixLayout_t lb, const void* beta, const void* c, cublasLtMatrixLayout_t, void* out,
                              cublasLtMatrixLayout_t lo, const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                              cudaStream_t stream) {
  const auto& d = *reinterpret_cast<Desc*>(desc);
  const auto &left = *reinterpret_cast<Layout*>(la), &right = *reinterpret_cast<Layout*>(lb), &result = *reinterpret_cast<Layout*>(lo);
  const auto scalar = [&](const void* p) { return d.scale == CUDA_R_64F ? *static_cast<const double*>(p) : *static_cast<const float*>(p); };
  if (!fits(d, left, right, result) || scalar(alpha) != 1 || c != out || algorithm->data[kNumber] - 1 > 2)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes < algorithm->data[kWorkspace] || (bytes > 0 && border_of(workspace) < 16)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!borders_kept(*algorithm, d, {a, b, c, out})) return CUBLAS_STATUS_INVALID_VALUE;
  const bool in_parts = algorithm->data[kNumber] == kInParts;
  do_on(stream, [d = d, left = left, right = right, result = result, added = scalar(beta), in_parts, a, b, out] {
    for (int32_t l = 0; l < result.batches; ++l) product(d, added, left, a, right, b, result, out, l, in_parts);
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
