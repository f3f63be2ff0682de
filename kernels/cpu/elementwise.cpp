// The element-wise ops and `fused` on tiles; see elementwise_tiles.h.
#include "kernels/cpu/elementwise_tiles.h"
#include "kernels/ops/full.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE {
namespace {

const char* decline_one(const KernelCall& call) {
  for (int i = 0; i < call.n_in; ++i)
    if (call.in[i].dtype == Dtype::i32 || call.in[i].dtype == Dtype::i64) return "f32 does not hold every integer";
  return decline_tiles(call);
}

// One instruction, f32, operands that lie as the result does or are one number: no tiles, which cost more than the arithmetic of a few numbers.
// False when the call is not of this kind.
bool run_flat(const KernelCall& call, Instruction instruction) {
  const View& y = call.out[0];
  const int64_t n = y.elements();
  if (call.accumulate || y.dtype != Dtype::f32 || !y.contiguous()) return false;
  alignas(64) float repeated[3][kTile];
  const float* in[3] = {};
  for (int i = 0; i < call.n_in; ++i) {
    const View& x = call.in[i];
    if (x.dtype != Dtype::f32) return false;
    in[i] = x.as<float>();
    if (same_shape(x, y) && x.contiguous()) continue;
    if (x.elements() != 1 || n > kTile) return false;
    fill(repeated[i], *in[i], n);
    in[i] = repeated[i];
  }
  instruction(y.as<float>(), in[0], in[1], in[2], n);
  return true;
}

template <Elementwise op>
void run_one(const KernelCall& call) {
  static constexpr FusedInstruction code = {op, kFusedTemporaryBase, {0, 1, 2}};
  static constexpr uint8_t output = kFusedTemporaryBase;
  if (run_flat(call, instruction<op>())) return;
  run_tiles(call, {.code = &code, .n_instructions = 1, .outputs = &output});
}

void run_cast(const KernelCall& call) {
  static constexpr uint8_t output = 0;
  run_tiles(call, {.outputs = &output});
}

// The operand that gives the shape is not read.
void run_full(const KernelCall& call) {
  static constexpr uint8_t output = kFusedConstantBase;
  KernelCall without = call;
  without.n_in = 0;
  run_tiles(without, {.constants = &call.as<FullParams>().value, .n_constants = 1, .outputs = &output});
}

void run_fused(const KernelCall& call) {
  const auto& params = call.as<FusedParams>();
  run_tiles(call, {params.constants, params.code, params.n_constants, params.n_instructions, params.outputs});
}

constexpr Isa kIsa = kLanes == 16 ? Isa::avx512 : kLanes == 8 ? Isa::avx2 : Isa::baseline;

constexpr Kernel kKernels[] = {
#define PERIGEE_ENTRY(entry, arity, result) \
  {.op = #entry,                            \
   .name = "tiles",                         \
   .backend = Backend::cpu,                 \
   .isa = kIsa,                             \
   .decline = decline_one,                  \
   .run = run_one<Elementwise::entry>,      \
   .accumulates = true},
    PERIGEE_ELEMENTWISE_OPS(PERIGEE_ENTRY)
#undef PERIGEE_ENTRY
        {.op = "cast",
         .name = "tiles",
         .backend = Backend::cpu,
         .isa = kIsa,
         .decline = decline_tiles,
         .run = run_cast,
         .accumulates = true},
    {.op = "full", .name = "tiles", .backend = Backend::cpu, .isa = kIsa, .decline = decline_tiles, .run = run_full, .accumulates = true},
    {.op = "full_like",
     .name = "tiles",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_tiles,
     .run = run_full,
     .accumulates = true},
    {.op = "fused", .name = "tiles", .backend = Backend::cpu, .isa = kIsa, .decline = decline_one, .run = run_fused},
};

}  // namespace
}  // namespace PERIGEE_CPU_NAMESPACE

extern const KernelList PERIGEE_CPU_KERNELS(elementwise);
const KernelList PERIGEE_CPU_KERNELS(elementwise) = kernel_list(PERIGEE_CPU_NAMESPACE::kKernels);

}  // namespace perigee
