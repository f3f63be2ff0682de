// An outer program from a peer: it is refused with an Error, or what it was compiled to stays within the kernel's registers.
#include "cluster/exchange/outer_program.h"
#include "tests/fuzz/fuzz.h"

using namespace perigee;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const Json json = Json::parse({reinterpret_cast<const char*>(data), size}, "input", 10'000);
    std::vector<OuterState> states;
    OuterKnobs knobs;
    if (json.is_object())
      for (const auto& member : json.as_object()) {
        if (member.first.starts_with("state.")) states.push_back({.name = member.first.substr(6)});
        if (member.first.starts_with("knob.")) knobs.emplace_back(member.first.substr(5), member.second);
      }
    const Config config(json, "input");
    const OuterOf of = config.has("gradients") ? OuterOf::gradient : OuterOf::parameters;
    const OuterProgram program(config.object("outer"), states, knobs, of);
    const FusedParams code = program.at({.workers = 4, .progress = 0.5, .round = 3, .learning_rate = 0.1});
    PERIGEE_FUZZ_CHECK(code.n_inputs == 2 + states.size() && code.n_outputs >= 1 && code.n_outputs <= kFusedOutputs);
    PERIGEE_FUZZ_CHECK(code.n_instructions <= kFusedInstructions && code.n_constants <= kFusedConstants);
    bool written[kFusedRegisters] = {};
    for (int i = 0; i < code.n_inputs; ++i) written[i] = true;
    for (int i = 0; i < code.n_constants; ++i) written[kFusedConstantBase + i] = true;
    for (int i = 0; i < code.n_instructions; ++i) {
      const FusedInstruction& step = code.code[i];
      for (int s = 0; s < elementwise_arity(step.op); ++s)
        PERIGEE_FUZZ_CHECK(step.sources[s] < kFusedRegisters && written[step.sources[s]]);
      PERIGEE_FUZZ_CHECK(step.target >= kFusedTemporaryBase && step.target < kFusedRegisters);
      written[step.target] = true;
    }
    for (int i = 0; i < code.n_outputs; ++i) PERIGEE_FUZZ_CHECK(code.outputs[i] >= kFusedTemporaryBase && written[code.outputs[i]]);
  } catch (const Error&) {}
  return 0;
}
