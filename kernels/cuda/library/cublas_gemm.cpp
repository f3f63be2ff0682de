#include "kernels/cuda/library/cublas_gemm.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "kernels/cuda/library/libraries.h"
#include "kernels/cuda/library/library_cache.h"
#include "kernels/cuda/runtime/counters.h"

namespace perigee {
namespace {

constexpr CudaLibrary kLibrary = CudaLibrary::cublas_lt;
constexpr int kAlgorithms = 6;

struct CublasLt {
  CublasLt() {
#define PERIGEE_FIND(name) find_function(kLibrary, "cublasLt" #name, &name)
    PERIGEE_FIND(Create);
    PERIGEE_FIND(Destroy);
    PERIGEE_FIND(GetStatusName);
    PERIGEE_FIND(MatmulDescCreate);
    PERIGEE_FIND(MatmulDescDestroy);
    PERIGEE_FIND(MatmulDescSetAttribute);
    PERIGEE_FIND(MatrixLayoutCreate);
    PERIGEE_FIND(MatrixLayoutDestroy);
    PERIGEE_FIND(MatrixLayoutSetAttribute);
    PERIGEE_FIND(MatmulPreferenceCreate);
    PERIGEE_FIND(MatmulPreferenceDestroy);
    PERIGEE_FIND(MatmulPreferenceSetAttribute);
    PERIGEE_FIND(MatmulAlgoGetHeuristic);
    PERIGEE_FIND(MatmulAlgoConfigGetAttribute);
    PERIGEE_FIND(Matmul);
#undef PERIGEE_FIND
  }
  decltype(&cublasLtCreate) Create;
  decltype(&cublasLtDestroy) Destroy;
  decltype(&cublasLtGetStatusName) GetStatusName;
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate;
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy;
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute;
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate;
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) MatrixLayoutSetAttribute;
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate;
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute;
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) MatmulAlgoConfigGetAttribute;
  decltype(&cublasLtMatmul) Matmul;
};

const CublasLt& lt() {
  static const CublasLt functions;
  return functions;
}

cudaDataType_t type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64: return CUDA_R_64F;
    case Dtype::f16: return CUDA_R_16F;
    case Dtype::bf16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

// A matrix as cuBLASLt sees memory: columns of `rows` elements, `leading` apart; the matrix meant is this or its transpose.
struct Stored {
  int64_t rows = 0, columns = 0, leading = 0, batch_stride = 0;
  bool transposed = false;
};

bool store(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride, int64_t batch_stride, Stored* stored) {
  if ((row_stride == 1 || rows == 1) && (columns == 1 || column_stride >= rows)) {
    *stored = {rows, columns, columns == 1 ? rows : column_stride, batch_stride, false};
    return true;
  }
  if ((column_stride == 1 || columns == 1) && (rows == 1 || row_stride >= columns)) {
    *stored = {columns, rows, rows == 1 ? columns : row_stride, batch_stride, true};
    return true;
  }
  return false;
}

// cuBLASLt counts along columns, we along rows: it computes transpose(c) = transpose(b) transpose(a), where bias belongs to the rows.
struct Product {
  Stored left, right, result;
};

const char* lay_out(const Gemm& g, Product* product) {
  if (!store(g.n, g.k, g.b.column_stride, g.b.row_stride, g.b.batch_stride, &product->left) ||
      !store(g.k, g.m, g.a.column_stride, g.a.row_stride, g.a.batch_stride, &product->right))
    return "an operand has no dimension without gaps";
  if (!store(g.n, g.m, g.c.column_stride, g.c.row_stride, g.c.batch_stride, &product->result) || product->result.transposed)
    return "the result's rows have gaps";
  return nullptr;
}

Gemm transposed(const Gemm& g) {
  Gemm t = g;
  std::swap(t.m, t.n);
  const auto turn = [](GemmMatrix x) {
    std::swap(x.row_stride, x.column_stride);
    return x;
  };
  t.a = turn(g.b), t.b = turn(g.a), t.c = turn(g.c);
  return t;
}

// A result whose columns lie without gaps is the transposed product's.
Gemm oriented(const Gemm& g) {
  const bool plain = g.bias == nullptr && g.row_sums == nullptr && g.kept == nullptr;
  return plain && g.c.column_stride != 1 && g.n != 1 && (g.c.row_stride == 1 || g.m == 1) ? transposed(g) : g;
}

uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  return address == 0 ? 256 : static_cast<uint32_t>(std::min<uintptr_t>(256, address & (~address + 1)));
}

const void* bias_of(const Gemm& g) { return g.row_sums != nullptr ? g.row_sums : g.bias; }

// Alignment of the result and of the epilogue's other operands: cuBLASLt takes one preference for both.
uint32_t result_alignment(const Gemm& g) { return std::min({alignment_of(g.c.data), alignment_of(bias_of(g)), alignment_of(g.kept)}); }

// Everything that descriptors and algorithms depend on; the heuristic also looks at the addresses of bias and kept values.
using Key = std::array<int64_t, 25>;

Key key_of(const Gemm& g, const Product& product, const CudaQueue& queue, cublasLtEpilogue_t epilogue) {
  Key key = {g.m,
             g.n,
             g.k,
             g.batches,
             static_cast<int64_t>(g.dtype),
             static_cast<int64_t>(g.result),
             epilogue,
             queue.device,
             queue.tf32,
             static_cast<int64_t>(queue.workspace_bytes),
             alignment_of(g.b.data),
             alignment_of(g.a.data),
             alignment_of(g.c.data),
             alignment_of(bias_of(g)),
             alignment_of(g.kept)};
  size_t at = 15;
  for (const Stored* stored : {&product.left, &product.right, &product.result})
    key[at++] = stored->leading, key[at++] = stored->batch_stride, key[at++] = stored->transposed;
  key[at] = g.kept_stride;
  return key;
}

struct KeyHash {
  size_t operator()(const Key& key) const { return std::hash<std::string_view>()({reinterpret_cast<const char*>(key.data()), sizeof key}); }
};

struct Prepared {
  Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() {
    for (cublasLtMatrixLayout_t layout : {left, right, result})
      if (layout != nullptr) lt().MatrixLayoutDestroy(layout);
    if (operation != nullptr) lt().MatmulDescDestroy(operation);
  }
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, result = nullptr;
  std::array<cublasLtMatmulAlgo_t, kAlgorithms> algorithms = {};  // the heuristic's best first
  int count = 0;
};

struct State : CudaLibraryState {
  State() { lt().Create(&handle); }
  ~State() override {
    prepared.clear();
    if (handle != nullptr) lt().Destroy(handle);
  }
  cublasLtHandle_t handle = nullptr;
  LibraryCache<Key, Prepared, KeyHash> prepared;
};

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, T value) {
  lt().MatmulDescSetAttribute(operation, attribute, &value, sizeof value);
}

cublasLtMatrixLayout_t layout_of(const Stored& stored, Dtype dtype, int64_t batches) {
  cublasLtMatrixLayout_t layout = nullptr;
  lt().MatrixLayoutCreate(&layout, type_of(dtype), static_cast<uint64_t>(stored.rows), static_cast<uint64_t>(stored.columns),
                          stored.leading);
  const auto count = static_cast<int32_t>(batches);
  lt().MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
  lt().MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stored.batch_stride, sizeof stored.batch_stride);
  return layout;
}

cublasLtEpilogue_t epilogue_of(const Gemm& g) {
  if (g.row_sums != nullptr) return CUBLASLT_EPILOGUE_BGRADB;
  if (g.gelu == Gemm::Gelu::slope) return CUBLASLT_EPILOGUE_DGELU;
  if (g.gelu == Gemm::Gelu::value) {
    if (g.kept != nullptr) return g.bias != nullptr ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    return g.bias != nullptr ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  }
  if (g.bias != nullptr) return g.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  return g.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

void describe(const Gemm& g, const Product& product, bool tf32, cublasLtEpilogue_t epilogue, Prepared* p) {
  const bool wide = g.dtype == Dtype::f64;
  const cublasComputeType_t narrow = g.dtype == Dtype::f32 && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  lt().MatmulDescCreate(&p->operation, wide ? CUBLAS_COMPUTE_64F : narrow, wide ? CUDA_R_64F : CUDA_R_32F);
  set(p->operation, CUBLASLT_MATMUL_DESC_TRANSA, product.left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(p->operation, CUBLASLT_MATMUL_DESC_TRANSB, product.right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(p->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (g.bias != nullptr || g.row_sums != nullptr) set(p->operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(g.result));
  if (g.kept != nullptr) set(p->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, g.kept_stride);
  p->left = layout_of(product.left, g.dtype, g.batches);
  p->right = layout_of(product.right, g.dtype, g.batches);
  p->result = layout_of(product.result, g.result, g.batches);
}

// The epilogue's operands belong to the operation's description, though only their addresses change from call to call.
void point(const Gemm& g, const Prepared& p) {
  if (g.kept != nullptr) set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, g.kept);
  if (bias_of(g) != nullptr) set(p.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_of(g));
}

// A sum that is cut into parts can lose its end: cuBLASLt 12.8 and 13.1 were seen, on an H100 among others, to add up whole blocks of k
// alone where these go evenly into the parts and fewer elements are left over than there are parts. An algorithm does not say how large its
// blocks are, so none may do that with any.
bool can_lose_the_end(const cublasLtMatmulAlgo_t& algorithm, int64_t k) {
  int32_t parts = 1;
  size_t written = 0;
  lt().MatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof parts, &written);
  for (int64_t block = 8; parts > 1 && block <= 512; block *= 2)
    if (k % block != 0 && k % block < parts && k / block % parts == 0) return true;
  return false;
}

cublasStatus_t choose(cublasLtHandle_t handle, const Gemm& g, uint64_t workspace, Prepared* p) {
  cublasLtMatmulPreference_t preference = nullptr;
  lt().MatmulPreferenceCreate(&preference);
  const auto prefer = [preference](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    lt().MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(g.b.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(g.a.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, result_alignment(g));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result_alignment(g));
  // Parts of a long sum meet in f32 and in one order.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  std::array<cublasLtMatmulHeuristicResult_t, kAlgorithms> found = {};
  int count = 0;
  const cublasStatus_t status = lt().MatmulAlgoGetHeuristic(handle, p->operation, p->left, p->right, p->result, p->result, preference,
                                                            kAlgorithms, found.data(), &count);
  lt().MatmulPreferenceDestroy(preference);
  for (size_t i = 0; i < static_cast<size_t>(count) && status == CUBLAS_STATUS_SUCCESS; ++i)
    if (found[i].state == CUBLAS_STATUS_SUCCESS && !can_lose_the_end(found[i].algo, g.k))
      p->algorithms[static_cast<size_t>(p->count++)] = found[i].algo;
  // Nothing is known for it; an epilogue that does not go with the types or layouts may be called invalid too.
  const bool more = g.bias != nullptr || g.row_sums != nullptr || g.relu || g.gelu != Gemm::Gelu::none;
  const bool unknown = status == CUBLAS_STATUS_NOT_SUPPORTED || (more && status == CUBLAS_STATUS_INVALID_VALUE);
  return unknown ? CUBLAS_STATUS_SUCCESS : status;
}

cublasStatus_t multiply(cublasLtHandle_t handle, const Gemm& g, const Prepared& p, CudaQueue& queue) {
  const double one = 1, zero = 0;
  const float narrow_one = 1, narrow_zero = 0;
  const bool wide = g.dtype == Dtype::f64;
  const void* const alpha = wide ? static_cast<const void*>(&one) : &narrow_one;
  const void* const none = wide ? static_cast<const void*>(&zero) : &narrow_zero;
  void* const c = const_cast<void*>(g.c.data);
  const int algorithm = std::min(queue.algorithm, p.count - 1);
  queue.taken = std::max(queue.taken, algorithm);
  count_cuda(&CudaCounts::launches);
  return lt().Matmul(handle, p.operation, alpha, g.b.data, p.left, g.a.data, p.right, g.accumulate ? alpha : none, c, p.result, c, p.result,
                     &p.algorithms[static_cast<size_t>(algorithm)], queue.workspace, queue.workspace_bytes,
                     static_cast<cudaStream_t>(queue.stream));
}

bool floating(Dtype dtype) { return dtype == Dtype::f32 || dtype == Dtype::f64 || dtype == Dtype::f16 || dtype == Dtype::bf16; }

}  // namespace

const char* gemm_declines(const Gemm& gemm) {
  if (const char* why = cuda_library_missing(kLibrary)) return why;
  if (!floating(gemm.dtype) || !floating(gemm.result)) return "only floating-point numbers";
  if (gemm.dtype != gemm.result && !(gemm.result == Dtype::f32 && gemm.dtype != Dtype::f64)) return "mixed dtypes";
  if (gemm.m == 0 || gemm.n == 0 || gemm.k == 0 || gemm.batches == 0) return "no elements";
  const bool active = gemm.relu || gemm.gelu != Gemm::Gelu::none;
  if (gemm.dtype == Dtype::f64 && (active || gemm.bias != nullptr || gemm.row_sums != nullptr)) return "no epilogue in f64";
  if (active && gemm.accumulate) return "an activation is not added";
  if (gemm.kept != nullptr && (gemm.kept_stride % 8 != 0 || gemm.kept_stride < gemm.n))
    return "rows beside the result are no multiple of 8 apart";
  Product product;
  return lay_out(oriented(gemm), &product);
}

bool queue_gemm(const Gemm& gemm, CudaQueue& queue, const char* kernel) {
  if (queue.status != 0) return true;
  const Gemm g = oriented(gemm);
  auto& state = queue.libraries->state<State>(kLibrary);
  Product product;
  if (lay_out(g, &product) != nullptr) return false;
  const cublasLtEpilogue_t epilogue = epilogue_of(g);
  const Key key = key_of(g, product, queue, epilogue);
  bool fresh = false;
  Prepared& p = state.prepared.at(key, &fresh);
  if (fresh) describe(g, product, queue.tf32, epilogue, &p);
  point(g, p);
  cublasStatus_t status = fresh ? choose(state.handle, g, queue.workspace_bytes, &p) : CUBLAS_STATUS_SUCCESS;
  if (status == CUBLAS_STATUS_SUCCESS && p.count == 0) return false;
  if (status == CUBLAS_STATUS_SUCCESS) status = multiply(state.handle, g, p, queue);
  if (status != CUBLAS_STATUS_SUCCESS) {
    report_library(queue, kernel, lt().GetStatusName(status));
    state.prepared.erase(key);
  }
  return true;
}

void report_no_algorithm(CudaQueue& queue, const char* kernel) {
  report_library(queue, kernel, "cuBLASLt knows no algorithm for this shape");
}

}  // namespace perigee
