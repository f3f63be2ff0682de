#include "src/graph/lapack.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <utility>

#include "src/core/error.h"
#include "src/core/host_isa.h"
#include "src/io/module.h"
#include "src/tensor/tensor.h"

namespace perigee {
namespace {

// Debian's OpenBLAS does not know newer CPUs and would take them for very old ones.
bool name_core_type() {
  if (host_isa() == Isa::avx512) ::setenv("OPENBLAS_CORETYPE", "SKYLAKEX", 0);
  else if (host_isa() == Isa::avx2) ::setenv("OPENBLAS_CORETYPE", "HASWELL", 0);
  return true;
}

// Fortran: everything by address, matrices by columns.
struct Lapack {
  Lapack() : module({"libopenblas.so.0", "liblapack.so.3"}, "linear algebra (solve, cholesky, qr, svd, ...)", "libopenblas0-openmp") {
    module.symbol("dgesv_", gesv);
    module.symbol("dgetrf_", getrf);
    module.symbol("dpotrf_", potrf);
    module.symbol("dgeqrf_", geqrf);
    module.symbol("dorgqr_", orgqr);
    module.symbol("dgesdd_", gesdd);
    module.symbol("dsyevd_", syevd);
  }
  bool named = name_core_type();  // before the library looks
  Module module;
  void (*gesv)(const int* n, const int* k, double* a, const int* lda, int* pivots, double* b, const int* ldb, int* info);
  void (*getrf)(const int* m, const int* n, double* a, const int* lda, int* pivots, int* info);
  void (*potrf)(const char* half, const int* n, double* a, const int* lda, int* info);
  void (*geqrf)(const int* m, const int* n, double* a, const int* lda, double* tau, double* work, const int* size, int* info);
  void (*orgqr)(const int* m, const int* n, const int* k, double* a, const int* lda, const double* tau, double* work, const int* size,
                int* info);
  void (*gesdd)(const char* job, const int* m, const int* n, double* a, const int* lda, double* s, double* u, const int* ldu, double* vt,
                const int* ldvt, double* work, const int* size, int* iwork, int* info);
  void (*syevd)(const char* job, const char* half, const int* n, double* a, const int* lda, double* w, double* work, const int* size,
                int* iwork, const int* isize, int* info);
};

const Lapack& lapack() {
  static const Lapack library;
  return library;
}

std::string text_of(const View& x) { return Type{x.dtype, Shape(std::vector<int64_t>(x.dims, x.dims + x.rank))}.text(); }

// use(element of `x`, number of the element in row-major order)
template <class T, class Use>
void for_each_element(const View& x, Use use) {
  int64_t at[kMaxRank] = {}, offset = 0;
  const int64_t count = x.elements();
  for (int64_t i = 0; i < count; ++i) {
    use(x.as<T>()[offset], i);
    for (int d = x.rank - 1; d >= 0; --d) {
      offset += x.strides[d];
      if (++at[d] < x.dims[d]) break;
      offset -= at[d] * x.strides[d];
      at[d] = 0;
    }
  }
}

// A dense copy, which LAPACK may write over.
Tensor read_f64(const View& from) {
  Tensor to(Dtype::f64, Shape(std::vector<int64_t>(from.dims, from.dims + from.rank)));
  const auto take = [values = to.data<double>()](auto value, int64_t i) { values[i] = static_cast<double>(value); };
  if (from.dtype == Dtype::f64) for_each_element<double>(from, take);
  else for_each_element<float>(from, take);
  return to;
}

void give(const View& to, const Tensor& from) {
  const double* const values = from.data<double>();
  if (to.dtype == Dtype::f64) for_each_element<double>(to, [values](double& element, int64_t i) { element = values[i]; });
  else for_each_element<float>(to, [values](float& element, int64_t i) { element = static_cast<float>(values[i]); });
}

[[noreturn]] void refuse_lapack(const char* op, std::string what, std::string got, std::string expected = "") {
  throw Error(ErrorKind::model, {.where = op, .what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
}
[[noreturn]] void refuse_endless(const char* op, const std::string& matrix, const char* values, std::string got) {
  refuse_lapack(op, matrix + " has no " + values + " that converge (it may hold NaN)", std::move(got));
}

// Matrices of a batch, in f64 and row-major: by columns they are the transposes.
struct Matrices {
  Matrices(const char* op, const View& x, bool square) {
    if (x.rank < 2) refuse_lapack(op, "takes matrices", text_of(x), "at least two dimensions");
    if (x.dtype != Dtype::f32 && x.dtype != Dtype::f64) refuse_lapack(op, "takes real matrices", text_of(x), "f32 or f64");
    const int64_t m = x.dims[x.rank - 2], n = x.dims[x.rank - 1];
    if (square && m != n) refuse_lapack(op, "takes square matrices", text_of(x));
    if (m * n > std::numeric_limits<int>::max()) refuse_lapack(op, "takes matrices of at most 2^31 elements", text_of(x));
    rows = static_cast<int>(m);
    columns = static_cast<int>(n);
    count = m * n == 0 ? 0 : x.elements() / (m * n);
    data = read_f64(x);
    batch.assign(x.dims, x.dims + x.rank - 2);
  }
  double* matrix(int64_t i) const { return data.data<double>() + i * rows * columns; }
  Tensor result(std::initializer_list<int64_t> dims) const {
    std::vector<int64_t> all = batch;
    all.insert(all.end(), dims);
    return Tensor(Dtype::f64, Shape(all));
  }

  int rows, columns;
  int64_t count;
  Tensor data;
  std::vector<int64_t> batch;
};

double* lapack_at(const Tensor& x, int64_t i, int64_t size) { return x.data<double>() + i * size; }

void lapack_transpose(const double* from, int rows, int columns, double* to) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
}

std::string which(const Matrices& a, int64_t i) { return a.count > 1 ? "matrix " + std::to_string(i + 1) + " of the batch" : "the matrix"; }

// `call(work, size)` once to ask how much room it wants, once to compute.
template <class Call>
void with_work(std::vector<double>& work, Call call) {
  double wanted = 0;
  const int ask = -1;
  call(&wanted, &ask);
  work.resize(std::max<size_t>(work.size(), static_cast<size_t>(wanted)));
  const int size = static_cast<int>(work.size());
  call(work.data(), &size);
}

// LAPACK leaves open which of x and -x an eigenvector is: here its first number of at least 0.7 of the largest is positive.
double sign_of(const double* x, int64_t n, int64_t stride) {
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i * stride]));
  for (int64_t i = 0; i < n; ++i)
    if (std::abs(x[i * stride]) >= 0.7 * largest) return x[i * stride] < 0 ? -1 : 1;
  return 1;
}

void multiply(double* x, int64_t n, int64_t stride, double by) {
  for (int64_t i = 0; i < n; ++i) x[i * stride] *= by;
}

// `name`: the op that errors speak of.
Tensor solve(const View& a, const View& b, const char* name = "solve") {
  const Lapack& library = lapack();
  const Matrices matrices(name, a, true);
  const bool vector = b.rank == a.rank - 1;
  const int n = matrices.rows;
  const int64_t row = b.rank - (vector ? 1 : 2);
  const bool fits = (vector || b.rank == a.rank) && std::equal(matrices.batch.begin(), matrices.batch.end(), b.dims) && b.dims[row] == n;
  if (!fits) refuse_lapack("solve", "the right side does not fit the matrix", text_of(b) + " for " + text_of(a), "[..., n] or [..., n, k]");
  const int k = vector ? 1 : static_cast<int>(b.dims[b.rank - 1]);
  const Tensor right = read_f64(b), result(Dtype::f64, right.shape());
  std::vector<double> columns(static_cast<size_t>(n) * static_cast<size_t>(n)), sides(static_cast<size_t>(n) * static_cast<size_t>(k));
  std::vector<int> pivots(static_cast<size_t>(n));
  for (int64_t i = 0; i < matrices.count && k > 0; ++i) {
    lapack_transpose(matrices.matrix(i), n, n, columns.data());
    lapack_transpose(lapack_at(right, i, int64_t{n} * k), n, k, sides.data());
    int info = 0;
    library.gesv(&n, &k, columns.data(), &n, pivots.data(), sides.data(), &n, &info);
    if (info > 0) refuse_lapack(name, which(matrices, i) + " is singular", text_of(a));
    lapack_transpose(sides.data(), k, n, lapack_at(result, i, int64_t{n} * k));
  }
  return result;
}

Tensor lapack_inverse(const View& a) {
  const Matrices matrices("inv", a, true);
  const Tensor identity = matrices.result({matrices.rows, matrices.rows});
  for (int64_t i = 0; i < matrices.count; ++i)
    for (int64_t j = 0; j < matrices.rows; ++j)
      for (int64_t k = 0; k < matrices.rows; ++k)
        lapack_at(identity, i, int64_t{matrices.rows} * matrices.rows)[j * matrices.rows + k] = j == k;
  return solve(a, identity.view(), "inv");
}

Tensor cholesky(const View& a) {
  const Lapack& library = lapack();
  const Matrices matrices("cholesky", a, true);
  const int n = matrices.rows;
  for (int64_t i = 0; i < matrices.count; ++i) {
    int info = 0;
    library.potrf("U", &n, matrices.matrix(i), &n, &info);  // upper by columns is lower by rows
    if (info > 0) refuse_lapack("cholesky", which(matrices, i) + " is not positive definite", text_of(a));
    for (int64_t j = 0; j < n; ++j) std::fill(matrices.matrix(i) + j * n + j + 1, matrices.matrix(i) + (j + 1) * n, 0.0);
  }
  return matrices.data;
}

std::vector<Tensor> qr(const View& a) {
  const Lapack& library = lapack();
  const Matrices matrices("qr", a, false);
  const int m = matrices.rows, n = matrices.columns, k = std::min(m, n);
  const Tensor q = matrices.result({m, k}), r = matrices.result({k, n});
  std::vector<double> columns(static_cast<size_t>(m) * static_cast<size_t>(n)), tau(static_cast<size_t>(k)), work;
  for (int64_t i = 0; i < matrices.count; ++i) {
    int info = 0;
    lapack_transpose(matrices.matrix(i), m, n, columns.data());
    with_work(work, [&](double* room, const int* size) { library.geqrf(&m, &n, columns.data(), &m, tau.data(), room, size, &info); });
    for (int64_t row = 0; row < k; ++row)
      for (int64_t column = 0; column < n; ++column)
        lapack_at(r, i, int64_t{k} * n)[row * n + column] = column >= row ? columns[static_cast<size_t>(column * m + row)] : 0.0;
    with_work(work, [&](double* room, const int* size) { library.orgqr(&m, &k, &k, columns.data(), &m, tau.data(), room, size, &info); });
    lapack_transpose(columns.data(), k, m, lapack_at(q, i, int64_t{m} * k));
  }
  return {q, r};
}

std::vector<Tensor> svd(const View& a) {
  const Lapack& library = lapack();
  const Matrices matrices("svd", a, false);
  const int m = matrices.rows, n = matrices.columns, k = std::min(m, n);
  const Tensor u = matrices.result({m, k}), s = matrices.result({k}), vt = matrices.result({k, n});
  std::vector<double> work;
  std::vector<int> iwork(8 * static_cast<size_t>(k));
  for (int64_t i = 0; i < matrices.count; ++i) {
    int info = 0;
    // By columns the matrix is its transpose, whose U by columns is V^T by rows, and the other way round.
    with_work(work, [&](double* room, const int* size) {
      library.gesdd("S", &n, &m, matrices.matrix(i), &n, lapack_at(s, i, k), lapack_at(vt, i, int64_t{k} * n), &n,
                    lapack_at(u, i, int64_t{m} * k), &k, room, size, iwork.data(), &info);
    });
    if (info != 0) refuse_endless("svd", which(matrices, i), "singular values", text_of(a));
    for (int64_t j = 0; j < k; ++j) {
      double *const left = lapack_at(u, i, int64_t{m} * k) + j, *const right = lapack_at(vt, i, int64_t{k} * n) + j * n;
      const double sign = sign_of(left, m, k);
      multiply(left, m, k, sign);
      multiply(right, n, 1, sign);
    }
  }
  return {u, s, vt};
}

std::vector<Tensor> eigen_symmetric(const View& a) {
  const Lapack& library = lapack();
  const Matrices matrices("eigh", a, true);
  const int n = matrices.rows;
  const Tensor values = matrices.result({n}), vectors = matrices.result({n, n});
  for (int64_t i = 0; i < matrices.count; ++i) {
    int info = 0, wanted = 0;
    double room = 0;
    const int ask = -1;
    library.syevd("V", "U", &n, matrices.matrix(i), &n, lapack_at(values, i, n), &room, &ask, &wanted, &ask, &info);
    const int size = static_cast<int>(room), isize = wanted;
    std::vector<double> work(static_cast<size_t>(size));
    std::vector<int> iwork(static_cast<size_t>(isize));
    library.syevd("V", "U", &n, matrices.matrix(i), &n, lapack_at(values, i, n), work.data(), &size, iwork.data(), &isize, &info);
    if (info != 0) refuse_endless("eigh", which(matrices, i), "eigenvalues", text_of(a));
    for (int64_t j = 0; j < n; ++j) multiply(matrices.matrix(i) + j * n, n, 1, sign_of(matrices.matrix(i) + j * n, n, 1));
    lapack_transpose(matrices.matrix(i), n, n, lapack_at(vectors, i, int64_t{n} * n));
  }
  return {values, vectors};
}

// f(matrix, sign of the permutation, its LU factors by columns)
template <class F>
void each_factored(const Matrices& matrices, int64_t count, F f) {
  const Lapack& library = lapack();
  const int n = matrices.rows;
  std::vector<int> pivots(static_cast<size_t>(n));
  for (int64_t i = 0; i < count; ++i) {
    double sign = 1;
    int info = 0;
    if (n > 0) library.getrf(&n, &n, matrices.matrix(i), &n, pivots.data(), &info);
    for (int k = 0; k < n; ++k)
      if (pivots[static_cast<size_t>(k)] != k + 1) sign = -sign;
    f(i, sign, matrices.matrix(i));
  }
}

Tensor determinant(const View& a) {
  const Matrices matrices("det", a, true);
  const Tensor result = matrices.result({});
  each_factored(matrices, result.elements(), [&](int64_t i, double product, const double* lu) {
    for (int64_t k = 0; k < matrices.rows; ++k) product *= lu[k * matrices.rows + k];
    result.data<double>()[i] = product;
  });
  return result;
}

std::vector<Tensor> log_determinant(const View& a) {
  const Matrices matrices("slogdet", a, true);
  const Tensor signs = matrices.result({}), logarithms = matrices.result({});
  each_factored(matrices, signs.elements(), [&](int64_t i, double sign, const double* lu) {
    double logarithm = 0;
    for (int64_t k = 0; k < matrices.rows; ++k) {
      const double pivot = lu[k * matrices.rows + k];
      sign *= pivot > 0 ? 1 : pivot < 0 ? -1 : pivot;
      logarithm += std::log(std::abs(pivot));
    }
    signs.data<double>()[i] = sign + 0.0;  // no -0
    logarithms.data<double>()[i] = logarithm;
  });
  return {signs, logarithms};
}

thread_local std::exception_ptr failure;

template <auto compute>
void run_lapack(const KernelCall& call) noexcept {
  try {
    const std::vector<Tensor> results = compute(call);
    for (size_t i = 0; i < results.size(); ++i) give(call.out[i], results[i]);
    return;
  } catch (const std::exception&) {
    if (!failure) failure = std::current_exception();
  }
  for (int i = 0; i < call.n_out; ++i) {
    const Tensor none(Dtype::f64, Shape(std::vector<int64_t>(call.out[i].dims, call.out[i].dims + call.out[i].rank)));
    std::fill_n(none.data<double>(), none.elements(), std::numeric_limits<double>::quiet_NaN());
    give(call.out[i], none);
  }
}

using Results = std::vector<Tensor>;

struct Entry {
  std::string_view op;
  void (*run)(const KernelCall&);
};

constexpr Entry kEntries[] = {
    {"solve", run_lapack<[](const KernelCall& call) { return Results{solve(call.in[0], call.in[1])}; }>},
    {"inv", run_lapack<[](const KernelCall& call) { return Results{lapack_inverse(call.in[0])}; }>},
    {"cholesky", run_lapack<[](const KernelCall& call) { return Results{cholesky(call.in[0])}; }>},
    {"qr", run_lapack<[](const KernelCall& call) { return qr(call.in[0]); }>},
    {"svd", run_lapack<[](const KernelCall& call) { return svd(call.in[0]); }>},
    {"eigh", run_lapack<[](const KernelCall& call) { return eigen_symmetric(call.in[0]); }>},
    {"det", run_lapack<[](const KernelCall& call) { return Results{determinant(call.in[0])}; }>},
    {"slogdet", run_lapack<[](const KernelCall& call) { return log_determinant(call.in[0]); }>},
};

}  // namespace

const char* missing_linear_algebra() {
  static const std::string why = [] {
    try {
      lapack();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  }();
  return why.empty() ? nullptr : why.c_str();
}

void (*linear_algebra(std::string_view op))(const KernelCall&) {
  const auto* const entry = std::find_if(std::begin(kEntries), std::end(kEntries), [&](const Entry& each) { return each.op == op; });
  assert(entry != std::end(kEntries));
  return entry->run;
}

std::exception_ptr take_linear_algebra_failure() { return std::exchange(failure, nullptr); }

}  // namespace perigee
