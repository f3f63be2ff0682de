#include "kernels/cuda/elementwise/fused_source.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string_view>

#include "kernels/ops/fused.h"

namespace perigee {
namespace {

constexpr int kOperands = kFusedInputs + kFusedOutputs;
constexpr int64_t kLanes = 4;

// One loop over the elements that all operands share: dimensions in the order of the first output's memory, those that run on evenly in
// every operand joined.
struct Walk {
  int n_operands = 0, rank = 0;
  int64_t dims[kMaxRank] = {};
  int64_t strides[kOperands][kMaxRank] = {};
  int64_t elements = 1;
  int64_t lanes = 1;
};

const View& operand(const KernelCall& call, int i) { return i < call.n_in ? call.in[i] : call.out[i - call.n_in]; }

int64_t broadcast_stride(const View& v, int rank, int dimension) {
  const int i = dimension - rank + v.rank;
  return i >= 0 && v.dims[i] != 1 ? v.strides[i] : 0;
}

bool runs_on(const Walk& w, int outer, const int64_t* stride_of_inner, int64_t inner_size) {
  for (int o = 0; o < w.n_operands; ++o)
    if (w.strides[o][outer] != stride_of_inner[o] * inner_size) return false;
  return true;
}

bool lies_in_fours(const Walk& w, const KernelCall& call) {
  const int inner = w.rank - 1;
  if (w.rank == 0 || w.dims[inner] % kLanes != 0) return false;
  for (int o = 0; o < w.n_operands; ++o) {
    const View& v = operand(call, o);
    if (w.strides[o][inner] > 1 || (o >= call.n_in && w.strides[o][inner] != 1)) return false;
    if (w.strides[o][inner] == 0) continue;
    for (int d = 0; d < inner; ++d)
      if (w.strides[o][d] % kLanes != 0) return false;
    const uintptr_t border = std::min<uintptr_t>(16, kLanes * dtype_bytes(v.dtype));
    if (reinterpret_cast<uintptr_t>(v.data) % border != 0) return false;
  }
  return true;
}

Walk walk_of(const KernelCall& call) {
  const View& shape = call.out[0];
  Walk w;
  w.n_operands = call.n_in + call.n_out;
  w.elements = shape.elements();
  int order[kMaxRank];
  std::iota(order, order + shape.rank, 0);
  std::stable_sort(order, order + shape.rank, [&](int a, int b) { return shape.strides[a] > shape.strides[b]; });
  for (int i = 0; i < shape.rank; ++i) {
    const int d = order[i];
    if (shape.dims[d] == 1) continue;
    int64_t strides[kOperands];
    for (int o = 0; o < w.n_operands; ++o) strides[o] = broadcast_stride(operand(call, o), shape.rank, d);
    const bool joins = w.rank > 0 && runs_on(w, w.rank - 1, strides, shape.dims[d]);
    const int to = joins ? w.rank - 1 : w.rank++;
    w.dims[to] = (joins ? w.dims[to] : 1) * shape.dims[d];
    for (int o = 0; o < w.n_operands; ++o) w.strides[o][to] = strides[o];
  }
  if (lies_in_fours(w, call)) w.lanes = kLanes;
  return w;
}

const char* element_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return "float";
    case Dtype::f64: return "double";
    case Dtype::f16:
    case Dtype::bf16: return "unsigned short";
    case Dtype::i32: return "int";
    case Dtype::i64: return "long long";
    case Dtype::u8:
    case Dtype::boolean: return "unsigned char";
  }
  return "";
}

class Writer {
 public:
  Writer(const KernelCall& call, const Walk& walk)
      : call_(call),
        program_(call.as<FusedParams>()),
        walk_(walk),
        wide_(call.out[0].dtype == Dtype::f64 || (call.n_in > 0 && call.in[0].dtype == Dtype::f64)) {}

  std::string write(const char* name) {
    add("extern \"C\" __global__ void %s(", name);
    for (int o = 0; o < walk_.n_operands; ++o)
      add("%s%s%s* p%d", o > 0 ? ", " : "", o < call_.n_in ? "const " : "", element_type(operand(call_, o).dtype), o);
    add(") {\n  begin_kernel();\n  const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n");
    add("  if (thread >= %lldll) return;\n", static_cast<long long>(walk_.elements / walk_.lanes));
    positions();
    for (int o = 0; o < walk_.n_operands; ++o) reach(o);
    add("#pragma unroll\n  for (int lane = 0; lane < %lld; ++lane) {\n", static_cast<long long>(walk_.lanes));
    evaluate();
    add("  }\n");
    for (int o = call_.n_in; o < walk_.n_operands; ++o)
      if (walk_.lanes > 1) add("  *(Four<%s>*)(p%d + at%d) = x%d;\n", element_type(operand(call_, o).dtype), o, o, o);
    add("}\n");
    return std::move(text_);
  }

 private:
  template <class... Arguments>
  void add(const char* format, Arguments... arguments) {
    char line[256];
    std::snprintf(line, sizeof line, format, arguments...);
    text_ += line;
  }
  void add(const char* text) { text_ += text; }

  // The thread's first element as an index of each dimension; 32-bit arithmetic where it is enough.
  void positions() {
    const char* type = walk_.elements < (int64_t{1} << 31) ? "unsigned" : "long long";
    add("  %s rest = (%s)thread", type, type);
    add(" * %lld;\n", static_cast<long long>(walk_.lanes));
    for (int d = walk_.rank - 1; d > 0; --d) {
      add("  const %s i%d = rest %% %lld;", type, d, static_cast<long long>(walk_.dims[d]));
      add(" rest /= %lld;\n", static_cast<long long>(walk_.dims[d]));
    }
    if (walk_.rank > 0) add("  const %s i0 = rest;\n", type);
  }

  // Where an operand's first element is, and its four elements where it is read or written so.
  void reach(int o) {
    add("  const long long at%d = 0", o);
    for (int d = 0; d < walk_.rank; ++d)
      if (walk_.strides[o][d] != 0) add(" + (long long)i%d * %lld", d, static_cast<long long>(walk_.strides[o][d]));
    add(";\n");
    const char* type = element_type(operand(call_, o).dtype);
    const bool output = o >= call_.n_in;
    if (walk_.lanes == 1) return;
    if (output) add("  Four<%s> x%d;\n", type, o);
    else if (walk_.strides[o][walk_.rank - 1] != 0) add("  const Four<%s> x%d = *(const Four<%s>*)(p%d + at%d);\n", type, o, type, o, o);
  }

  std::string element(int o) const {
    const std::string number = std::to_string(o);
    const bool four = walk_.lanes > 1 && (o >= call_.n_in || walk_.strides[o][walk_.rank - 1] != 0);
    return four ? "x" + number + ".v[lane]" : "p" + number + "[at" + number + "]";
  }

  std::string loaded(int o) const {
    const std::string from = element(o);
    switch (operand(call_, o).dtype) {
      case Dtype::f16: return "(T)float_from_f16(" + from + ")";
      case Dtype::bf16: return "(T)float_from_bf16(" + from + ")";
      case Dtype::boolean: return "(T)(" + from + " != 0)";
      default: return "(T)" + from;
    }
  }

  std::string literal(double value) const {
    char text[64];
    if (wide_)
      std::snprintf(text, sizeof text, "double_of_bits(0x%llxull)", static_cast<unsigned long long>(std::bit_cast<uint64_t>(value)));
    else std::snprintf(text, sizeof text, "float_of_bits(0x%xu)", std::bit_cast<uint32_t>(static_cast<float>(value)));
    return text;
  }

  void evaluate() {
    add("    typedef %s T;\n", wide_ ? "double" : "float");
    std::string values[kFusedRegisters];
    for (int i = 0; i < call_.n_in; ++i) {
      values[i] = "r" + std::to_string(i);
      text_ += "    const T " + values[i] + " = " + loaded(i) + ";\n";
    }
    for (int i = 0; i < program_.n_constants; ++i) values[kFusedConstantBase + i] = literal(program_.constants[i]);
    for (int i = 0; i < program_.n_instructions; ++i) {
      const FusedInstruction& step = program_.code[i];
      const std::string result = "t" + std::to_string(i);
      text_ += "    const T " + result + " = " + expression(step, values) + ";\n";
      values[step.target] = result;
    }
    for (int i = 0; i < call_.n_out; ++i) store(call_.n_in + i, values[program_.outputs[i]]);
  }

  std::string expression(const FusedInstruction& step, const std::string* values) const;

  void store(int o, const std::string& value) {
    const std::string to = "    " + element(o) + " = ";
    switch (operand(call_, o).dtype) {
      case Dtype::f16: text_ += to + "f16_from_float((float)" + value + ");\n"; break;
      case Dtype::bf16: text_ += to + "bf16_from_float((float)" + value + ");\n"; break;
      case Dtype::boolean: text_ += to + value + " != (T)0;\n"; break;
      default: text_ += to + std::string("(") + element_type(operand(call_, o).dtype) + ")" + value + ";\n";
    }
  }

  const KernelCall& call_;
  const FusedParams& program_;
  const Walk& walk_;
  bool wide_;
  std::string text_;
};

// Each instruction in C++: $ stands before the suffix of a function ("f" for float), a, b and c are the operands. The meanings are
// those of kernels/ref/elementwise_math.h.
const char* template_of(Elementwise op) {
  using E = Elementwise;
  switch (op) {
    case E::neg: return "-a";
    case E::abs: return "fabs$(a)";
    case E::sign: return "a > (T)0 ? (T)1 : a < (T)0 ? (T)-1 : a";
    case E::square: return "a * a";
    case E::reciprocal: return "(T)1 / a";
    case E::sqrt: return "sqrt$(a)";
    case E::rsqrt: return "(T)1 / sqrt$(a)";
    case E::exp: return "exp$(a)";
    case E::expm1: return "expm1$(a)";
    case E::log: return "log$(a)";
    case E::log1p: return "log1p$(a)";
    case E::sin: return "sin$(a)";
    case E::cos: return "cos$(a)";
    case E::tan: return "tan$(a)";
    case E::asin: return "asin$(a)";
    case E::acos: return "acos$(a)";
    case E::atan: return "atan$(a)";
    case E::sinh: return "sinh$(a)";
    case E::cosh: return "cosh$(a)";
    case E::tanh: return "tanh$(a)";
    case E::sigmoid: return "(T)1 / ((T)1 + exp$(-a))";
    case E::softplus: return "(a > (T)0 ? a : (T)0) + log1p$(exp$(-fabs$(a)))";
    case E::relu: return "a > (T)0 || a != a ? a : (T)0";
    case E::erf: return "erf$(a)";
    case E::floor: return "floor$(a)";
    case E::ceil: return "ceil$(a)";
    case E::round: return "rint$(a)";
    case E::logical_not: return "(T)(a == (T)0)";
    case E::is_finite: return "(T)(a - a == (T)0)";
    case E::add: return "a + b";
    case E::sub: return "a - b";
    case E::mul: return "a * b";
    case E::div: return "a / b";
    case E::pow: return "pow$(a, b)";
    case E::maximum: return "a > b || a != a ? a : b";
    case E::minimum: return "a < b || a != a ? a : b";
    case E::mod: return "a - floor$(a / b) * b";
    case E::equal: return "(T)(a == b)";
    case E::not_equal: return "(T)(a != b)";
    case E::less: return "(T)(a < b)";
    case E::less_equal: return "(T)(a <= b)";
    case E::greater: return "(T)(a > b)";
    case E::greater_equal: return "(T)(a >= b)";
    case E::logical_and: return "(T)(a != (T)0 && b != (T)0)";
    case E::logical_or: return "(T)(a != (T)0 || b != (T)0)";
    case E::where: return "a != (T)0 ? b : c";
  }
  return "";
}

std::string Writer::expression(const FusedInstruction& step, const std::string* values) const {
  const std::string_view form = template_of(step.op);
  const auto is_letter = [](char x) { return (x >= 'a' && x <= 'z') || (x >= '0' && x <= '9'); };
  std::string text;
  for (size_t i = 0; i < form.size(); ++i) {
    const bool alone = (i == 0 || !is_letter(form[i - 1])) && (i + 1 == form.size() || (!is_letter(form[i + 1]) && form[i + 1] != '$'));
    if (form[i] == '$') text += wide_ ? "" : "f";
    else if (form[i] >= 'a' && form[i] <= 'c' && alone) text += values[step.sources[form[i] - 'a']];
    else text += form[i];
  }
  return text;
}

}  // namespace

const char* fused_source_declines(const KernelCall& call) {
  const auto& program = call.as<FusedParams>();
  if (call.n_in != program.n_inputs || call.n_out != program.n_outputs) return "operands that the program does not name";
  if (call.out[0].elements() == 0) return "no elements";
  for (int i = 0; i < call.n_out; ++i) {
    const Dtype dtype = call.out[i].dtype;
    if (dtype == Dtype::i32 || dtype == Dtype::i64 || dtype == Dtype::u8) return "an output of integers";
    if (!same_shape(call.out[i], call.out[0])) return "outputs of unlike shapes";
  }
  return nullptr;
}

FusedSource fused_source(const KernelCall& call, const char* name) {
  const Walk walk = walk_of(call);
  return {.text = Writer(call, walk).write(name), .threads = walk.elements / walk.lanes};
}

const char* fused_prelude() {
  return R"(__device__ inline void begin_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" :::);
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
template <class E> struct alignas(sizeof(E) * 4 < 16 ? sizeof(E) * 4 : 16) Four { E v[4]; };
__device__ inline float float_of_bits(unsigned bits) { return __uint_as_float(bits); }
__device__ inline double double_of_bits(unsigned long long bits) { return __longlong_as_double((long long)bits); }
__device__ inline float float_from_bf16(unsigned short h) { return __uint_as_float((unsigned)h << 16); }
__device__ inline float float_from_f16(unsigned short h) { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h)); return x; }
__device__ inline unsigned short f16_from_float(float x) { unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
__device__ inline unsigned short bf16_from_float(float x) { unsigned short h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
)";
}

}  // namespace perigee
