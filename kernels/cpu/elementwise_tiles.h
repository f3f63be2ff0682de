// Evaluates a program of element-wise instructions over broadcast, strided operands in tiles that stay in the L1 cache.
// The operands' common index space is ordered as the first output lies in memory and merged to as few dimensions as possible; it is
// then walked as one flat range, cut into tiles. An operand that is dense in that order is read in place; others are gathered into
// tiles (converted to f32 on the way), once for all if they repeat.
#pragma once

#include <cmath>
#include <cstring>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/half.h"
#include "kernels/ops/fused.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE {
namespace {

constexpr int kTile = 512;
// The program of a call: `fused` has its own; each element-wise op is one of a single instruction.
struct TileProgram {
  const double* constants = nullptr;
  const FusedInstruction* code = nullptr;
  int n_constants = 0, n_instructions = 0;
  const uint8_t* outputs = nullptr;
};

constexpr int kMaxOperands = kFusedInputs + kFusedOutputs;

// --- instructions: dst[i] = op(a[i], b[i], c[i]) ---

using Instruction = void (*)(float* dst, const float* a, const float* b, const float* c, int64_t n);

template <class F>
void each_vector(float* dst, const float* a, const float* b, const float* c, int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(dst + i, f(load(a + i), load(b + i), load(c + i)));
  const int64_t rest = n - i;
  if (rest > 0) store_part(dst + i, f(load_part(a + i, rest), load_part(b + i, rest), load_part(c + i, rest)), rest);
}

template <float (*f)(float)>
void by_element(float* dst, const float* a, const float*, const float*, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = f(a[i]);
}

void power(float* dst, const float* a, const float* b, const float*, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = powf(a[i], b[i]);
}

template <Elementwise op>
void vectors(float* dst, const float* a, const float* b, const float* c, int64_t n) {
  using E = Elementwise;
  each_vector(dst, a, elementwise_arity(op) > 1 ? b : a, elementwise_arity(op) > 2 ? c : a, n, [](Floats x, Floats y, Floats z) {
    const Floats zero = {};
    if constexpr (op == E::neg) return as_floats(as_ints(x) ^ static_cast<int32_t>(0x80000000));
    else if constexpr (op == E::abs) return magnitude(x);
    else if constexpr (op == E::sign) return choose(x > zero, all(1), choose(x < zero, all(-1), x));
    else if constexpr (op == E::square) return x * x;
    else if constexpr (op == E::reciprocal) return 1.0f / x;
    else if constexpr (op == E::sqrt) return root(x);
    else if constexpr (op == E::rsqrt) return 1.0f / root(x);
    else if constexpr (op == E::exp) return exp_of(x);
    else if constexpr (op == E::expm1) return expm1_of(x);
    else if constexpr (op == E::log) return log_of(x);
    else if constexpr (op == E::log1p) return log1p_of(x);
    else if constexpr (op == E::tanh) return tanh_of(x);
    else if constexpr (op == E::sigmoid) return sigmoid_of(x);
    else if constexpr (op == E::softplus) return softplus_of(x);
    else if constexpr (op == E::relu) return choose(x < zero, zero, x);
    else if constexpr (op == E::erf) return erf_of(x);
    else if constexpr (op == E::floor) return rounded<_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC>(x);
    else if constexpr (op == E::ceil) return rounded<_MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC>(x);
    else if constexpr (op == E::round) return rounded<_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC>(x);
    else if constexpr (op == E::logical_not) return truth(x == zero);
    else if constexpr (op == E::is_finite) return truth(magnitude(x) < __builtin_inff());
    else if constexpr (op == E::add) return x + y;
    else if constexpr (op == E::sub) return x - y;
    else if constexpr (op == E::mul) return x * y;
    else if constexpr (op == E::div) return x / y;
    else if constexpr (op == E::mod) return x - rounded<_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC>(x / y) * y;
    else if constexpr (op == E::maximum) return larger(x, y);
    else if constexpr (op == E::minimum) return smaller(x, y);
    else if constexpr (op == E::equal) return truth(x == y);
    else if constexpr (op == E::not_equal) return truth(x != y);
    else if constexpr (op == E::less) return truth(x < y);
    else if constexpr (op == E::less_equal) return truth(x <= y);
    else if constexpr (op == E::greater) return truth(x > y);
    else if constexpr (op == E::greater_equal) return truth(x >= y);
    else if constexpr (op == E::logical_and) return truth((x != zero) & (y != zero));
    else if constexpr (op == E::logical_or) return truth((x != zero) | (y != zero));
    else return choose(x != zero, y, z);
  });
}

template <Elementwise op>
constexpr Instruction instruction() {
  using E = Elementwise;
  if constexpr (op == E::sin) return by_element<sinf>;
  else if constexpr (op == E::cos) return by_element<cosf>;
  else if constexpr (op == E::tan) return by_element<tanf>;
  else if constexpr (op == E::asin) return by_element<asinf>;
  else if constexpr (op == E::acos) return by_element<acosf>;
  else if constexpr (op == E::atan) return by_element<atanf>;
  else if constexpr (op == E::sinh) return by_element<sinhf>;
  else if constexpr (op == E::cosh) return by_element<coshf>;
  else if constexpr (op == E::pow) return power;
  else return vectors<op>;
}

constexpr Instruction kInstructions[] = {
#define PERIGEE_ENTRY(name, arity, result) instruction<Elementwise::name>(),
    PERIGEE_ELEMENTWISE_OPS(PERIGEE_ENTRY)
#undef PERIGEE_ENTRY
};

// --- the common index space ---

struct Space {
  int rank = 0;
  int64_t dims[kMaxRank] = {};
  int64_t total = 1;
};

enum class Access { direct, scalar, repeated, transposed, gathered };

struct Stream {
  std::byte* data = nullptr;
  Dtype dtype = Dtype::f32;
  int64_t strides[kMaxRank] = {};
  Access access = Access::gathered;
};

int64_t absolute(int64_t x) { return x < 0 ? -x : x; }

// Orders the dimensions as the first output lies in memory, leaves out those of size 1 and merges neighbours that every operand
// walks as one.
void build_space(const KernelCall& call, Space& space, Stream* streams, int n_streams) {
  const View& shape = call.out[0];
  int order[kMaxRank], n = 0;
  for (int d = 0; d < shape.rank; ++d) {
    space.total *= shape.dims[d];
    if (shape.dims[d] == 1) continue;
    int at = n++;
    for (; at > 0 && absolute(shape.strides[order[at - 1]]) < absolute(shape.strides[d]); --at) order[at] = order[at - 1];
    order[at] = d;
  }
  for (int k = 0; k < n; ++k) {
    const int d = order[k];
    int64_t steps[kMaxOperands];
    bool merges = space.rank > 0;
    for (int s = 0; s < n_streams; ++s) {
      const View& view = s < call.n_in ? call.in[s] : call.out[s - call.n_in];
      const int own = d - (shape.rank - view.rank);
      steps[s] = own < 0 || view.dims[own] == 1 ? 0 : view.strides[own];
      if (merges && streams[s].strides[space.rank - 1] != steps[s] * shape.dims[d]) merges = false;
    }
    if (!merges) space.dims[space.rank++] = 1;
    space.dims[space.rank - 1] *= shape.dims[d];
    for (int s = 0; s < n_streams; ++s) streams[s].strides[space.rank - 1] = steps[s];
  }
  for (int s = 0; s < n_streams; ++s) {
    const View& view = s < call.n_in ? call.in[s] : call.out[s - call.n_in];
    streams[s].data = view.as<std::byte>();
    streams[s].dtype = view.dtype;
  }
}

constexpr int64_t kRowsAhead = 16;      // a cache line of a transposed operand
constexpr int64_t kWidestAhead = 1024;  // numbers of a row, so that the rows stay in the second-level cache

// Rows of a transposed operand in the order of the space. Its numbers of one row lie far apart, often in few sets of the cache: each line is
// read once for all the rows that it has numbers of.
struct RowsAhead {
  const float* first = nullptr;  // where the first of them begins
  alignas(64) float values[kRowsAhead * kWidestAhead];
};

bool is_transposed(const Space& space, const Stream& stream) {
  const int inner = space.rank - 1;
  return space.rank > 1 && stream.dtype == Dtype::f32 && stream.strides[inner] >= kRowsAhead && stream.strides[inner - 1] == 1 &&
         space.dims[inner - 1] >= kRowsAhead && space.dims[inner] >= kRowsAhead && space.dims[inner] <= kWidestAhead;
}

// How a stream is best read or written in tiles; `period` becomes the length after which a repeated one starts again.
Access classify(const Space& space, const Stream& stream) {
  bool dense = true, scalar = true, repeated = space.rank > 1;
  int64_t expected = 1;
  for (int d = space.rank - 1; d >= 0; --d) {
    if (stream.strides[d] != expected) dense = false;
    if (stream.strides[d] != 0) scalar = false;
    if (d < space.rank - 1 && stream.strides[d] != 0) repeated = false;
    expected *= space.dims[d];
  }
  if (scalar) return Access::scalar;
  if (dense) return Access::direct;
  return repeated && space.dims[space.rank - 1] <= kTile ? Access::repeated : Access::gathered;
}

// --- moving between memory and tiles ---

float as_float(float x) { return x; }
float as_float(uint8_t x) { return x; }
float as_float(int32_t x) { return static_cast<float>(x); }
float as_float(int64_t x) { return static_cast<float>(x); }

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};
struct Truth {
  uint8_t byte;
};
float as_float(Bf16 x) { return float_from_bf16(x.bits); }
float as_float(F16 x) { return float_from_f16(x.bits); }
float as_float(Truth x) { return x.byte != 0 ? 1.0f : 0.0f; }
void assign(float& to, float x) { to = x; }
void assign(Bf16& to, float x) { to.bits = bf16_from_float(x); }
void assign(F16& to, float x) { to.bits = f16_from_float(x); }
void assign(Truth& to, float x) { to.byte = x != 0.0f; }

// Calls f(offset of the first, stride, count, place in the tile) for each run along the innermost dimension of flat range [begin, end).
template <class F>
void each_run(const Space& space, const Stream& stream, int64_t begin, int64_t count, F f) {
  if (space.rank == 0) return f(int64_t{0}, int64_t{0}, count, int64_t{0});
  const int inner = space.rank - 1;
  int64_t index[kMaxRank];
  int64_t rest = begin;
  for (int d = inner; d >= 0; --d) {
    index[d] = rest % space.dims[d];
    rest /= space.dims[d];
  }
  for (int64_t done = 0; done < count;) {
    int64_t offset = 0;
    for (int d = 0; d <= inner; ++d) offset += index[d] * stream.strides[d];
    const int64_t left = space.dims[inner] - index[inner], run = left < count - done ? left : count - done;
    f(offset, stream.strides[inner], run, done);
    done += run;
    index[inner] = 0;
    for (int d = inner - 1; d >= 0 && ++index[d] == space.dims[d]; --d) index[d] = 0;
  }
}

template <class T>
void gather(const Space& space, const Stream& stream, int64_t begin, int64_t count, float* tile) {
  const T* data = reinterpret_cast<const T*>(stream.data);
  each_run(space, stream, begin, count, [&](int64_t offset, int64_t stride, int64_t run, int64_t place) {
    const T* from = data + offset;
    float* to = tile + place;
    if (stride == 1) {
      for (int64_t i = 0; i < run; ++i) to[i] = as_float(from[i]);
    } else if (stride == 0) {
      const float x = as_float(*from);
      for (int64_t i = 0; i < run; ++i) to[i] = x;
    } else {
      for (int64_t i = 0; i < run; ++i) to[i] = as_float(from[i * stride]);
    }
  });
}

template <class T>
void scatter(const Space& space, const Stream& stream, int64_t begin, int64_t count, const float* tile, bool accumulate) {
  T* data = reinterpret_cast<T*>(stream.data);
  each_run(space, stream, begin, count, [&](int64_t offset, int64_t stride, int64_t run, int64_t place) {
    T* to = data + offset;
    const float* from = tile + place;
    if (accumulate) {
      for (int64_t i = 0; i < run; ++i) assign(to[i * stride], as_float(to[i * stride]) + from[i]);
    } else if (stride == 1) {
      for (int64_t i = 0; i < run; ++i) assign(to[i], from[i]);
    } else {
      for (int64_t i = 0; i < run; ++i) assign(to[i * stride], from[i]);
    }
  });
}

void fetch(const Space& space, const Stream& stream, int64_t begin, int64_t count, float* tile) {
  switch (stream.dtype) {
    case Dtype::f32: return gather<float>(space, stream, begin, count, tile);
    case Dtype::u8: return gather<uint8_t>(space, stream, begin, count, tile);
    case Dtype::boolean: return gather<Truth>(space, stream, begin, count, tile);
    case Dtype::bf16: return gather<Bf16>(space, stream, begin, count, tile);
    case Dtype::f16: return gather<F16>(space, stream, begin, count, tile);
    case Dtype::i32: return gather<int32_t>(space, stream, begin, count, tile);
    case Dtype::i64: return gather<int64_t>(space, stream, begin, count, tile);
    case Dtype::f64: return;
  }
}

void fetch_transposed(const Space& space, const Stream& stream, int64_t begin, int64_t count, float* tile, RowsAhead& ahead) {
  const int inner = space.rank - 1;
  const int64_t width = space.dims[inner], rows = space.dims[inner - 1], pitch = (width + kLanes - 1) / kLanes * kLanes;
  int64_t row = begin / width, column = begin % width;
  for (int64_t done = 0; done < count; ++row, column = 0) {
    const int64_t number = row % rows, behind = number % kRowsAhead;
    int64_t offset = number - behind, rest = row / rows;
    for (int d = inner - 2; d >= 0; rest /= space.dims[d--]) offset += rest % space.dims[d] * stream.strides[d];
    const float* first = reinterpret_cast<const float*>(stream.data) + offset;
    if (first != ahead.first) {
      const int64_t left = rows - (number - behind);
      gemm::transpose_copy(first, stream.strides[inner], width, left < kRowsAhead ? left : kRowsAhead, ahead.values, pitch, true);
      ahead.first = first;
    }
    const int64_t run = width - column < count - done ? width - column : count - done;
    std::memcpy(tile + done, ahead.values + behind * pitch + column, static_cast<size_t>(run) * sizeof(float));
    done += run;
  }
}

void put(const Space& space, const Stream& stream, int64_t begin, int64_t count, const float* tile, bool accumulate) {
  switch (stream.dtype) {
    case Dtype::f32: return scatter<float>(space, stream, begin, count, tile, accumulate);
    case Dtype::boolean: return scatter<Truth>(space, stream, begin, count, tile, false);
    case Dtype::bf16: return scatter<Bf16>(space, stream, begin, count, tile, false);
    case Dtype::f16: return scatter<F16>(space, stream, begin, count, tile, false);
    default: return;
  }
}

void fill(float* tile, float x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) tile[i] = x;
}

// Null when run_tiles can do it.
const char* decline_tiles(const KernelCall& call) {
  for (int i = 0; i < call.n_in; ++i)
    if (call.in[i].dtype == Dtype::f64) return "computes in f32";
  for (int i = 0; i < call.n_out; ++i) {
    const Dtype dtype = call.out[i].dtype;
    if (dtype != Dtype::f32 && dtype != Dtype::boolean && dtype != Dtype::bf16 && dtype != Dtype::f16)
      return "writes f32, f16, bf16 and booleans";
    if (call.accumulate && dtype != Dtype::f32) return "accumulates in f32 only";
  }
  return nullptr;
}

// The last instruction that writes the register; -1: none does.
int writer_of(const TileProgram& program, uint8_t number) {
  for (int i = program.n_instructions - 1; i >= 0; --i)
    if (program.code[i].target == number) return i;
  return -1;
}

// Whether an instruction may write the output without a tile in between: it needs no conversion, and if it lies where an input does,
// which later instructions may read, the instruction must be the last.
bool writes_in_place(const Space& space, const Stream* streams, int n_in, int output, bool last) {
  const Stream& stream = streams[output];
  const bool dense = stream.access == Access::direct || (stream.access == Access::scalar && space.total == 1);
  if (!dense || stream.dtype != Dtype::f32) return false;
  for (int s = 0; s < n_in && !last; ++s)
    if (streams[s].data >= stream.data && streams[s].data < stream.data + space.total * static_cast<int64_t>(sizeof(float))) return false;
  return true;
}

void run_tiles(const KernelCall& call, const TileProgram& program) {
  Space space;
  Stream streams[kMaxOperands];
  const int n_in = call.n_in, n_streams = call.n_in + call.n_out;
  build_space(call, space, streams, n_streams);
  if (space.total == 0) return;
  int64_t tile = kTile;
  bool has_ahead = false;  // there is room for one
  for (int s = 0; s < n_streams; ++s) {
    streams[s].access = classify(space, streams[s]);
    if (s < n_in && !has_ahead && streams[s].access == Access::gathered && is_transposed(space, streams[s]))
      streams[s].access = Access::transposed, has_ahead = true;
    if (streams[s].access == Access::repeated) tile = kTile / space.dims[space.rank - 1] * space.dims[space.rank - 1];
  }
  if (tile > space.total) tile = space.total;

  alignas(64) float memory[kFusedRegisters][kTile];
  RowsAhead ahead;
  const float* registers[kFusedRegisters];
  for (int r = 0; r < kFusedRegisters; ++r) registers[r] = memory[r];
  for (int i = 0; i < program.n_constants; ++i) fill(memory[kFusedConstantBase + i], static_cast<float>(program.constants[i]), tile);
  for (int s = 0; s < n_in; ++s)
    if (streams[s].access == Access::scalar || streams[s].access == Access::repeated) fetch(space, streams[s], 0, tile, memory[s]);

  bool direct[kFusedOutputs] = {};
  float* in_memory[kFusedInstructions] = {};  // by instruction: the output that it writes where it belongs
  for (int o = 0; o < call.n_out && !call.accumulate; ++o) {
    const int writer = writer_of(program, program.outputs[o]);
    if (writer < 0 || in_memory[writer] || !writes_in_place(space, streams, n_in, n_in + o, writer == program.n_instructions - 1)) continue;
    in_memory[writer] = reinterpret_cast<float*>(streams[n_in + o].data);
    direct[o] = true;
  }

  for (int64_t begin = 0; begin < space.total; begin += tile) {
    const int64_t count = tile < space.total - begin ? tile : space.total - begin;
    for (int s = 0; s < n_in; ++s) {
      if (streams[s].access == Access::direct && streams[s].dtype == Dtype::f32)
        registers[s] = reinterpret_cast<const float*>(streams[s].data) + begin;
      else if (streams[s].access == Access::transposed) fetch_transposed(space, streams[s], begin, count, memory[s], ahead);
      else if (streams[s].access == Access::direct || streams[s].access == Access::gathered)
        fetch(space, streams[s], begin, count, memory[s]);
    }
    for (int i = 0; i < program.n_instructions; ++i) {
      const FusedInstruction& step = program.code[i];
      float* target = in_memory[i] ? in_memory[i] + begin : memory[step.target];
      kInstructions[static_cast<int>(step.op)](target, registers[step.sources[0]], registers[step.sources[1]], registers[step.sources[2]],
                                               count);
      registers[step.target] = target;
    }
    for (int o = 0; o < call.n_out; ++o)
      if (!direct[o]) put(space, streams[n_in + o], begin, count, registers[program.outputs[o]], call.accumulate);
  }
}

}  // namespace
}  // namespace PERIGEE_CPU_NAMESPACE
}  // namespace perigee
