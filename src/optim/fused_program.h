// A traced program of elementwise ops as one pass of the `fused` kernel over a block. What is made of numbers alone is computed once a pass, in
// double; the rest becomes instructions. The rules of optimisers (rule_program.h) and the outer steps of policies
// (cluster/exchange/outer_program.h) read their own names and compile them here.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops/fused.h"
#include "src/core/config.h"

namespace perigee {

inline constexpr size_t kMaxProgramName = 64;

// Those whose result IEEE 754 fixes to the last bit: no library function, and nothing that a compiler may contract. Only these may make
// the numbers of a block.
std::span<const Elementwise> exact_ops();

bool is_trace_name(const std::string& name);    // t1, t2, ...: a trace's own results
bool is_program_name(const std::string& name);  // 1 to 64 letters, digits and _

// A number, a register that is filled before the first instruction, or the result of an op.
struct ProgramValue {
  enum class Kind : uint8_t { number, input, op };
  Kind kind = Kind::number;
  int index = 0;
};

// The numbers of a program. The first `given` come with each pass; the others are constants or made of numbers before them.
class ProgramNumbers {
 public:
  explicit ProgramNumbers(size_t given = 0) : given_(given), all_(given) {}

  size_t size() const { return all_.size(); }
  ProgramValue constant(double value);  // one number for equal values
  ProgramValue computed(Elementwise op, const std::vector<ProgramValue>& sources);
  bool is_constant(ProgramValue number, double value) const;
  // `values` has room for size(), and the given numbers at its front: fills in the others.
  void evaluate(double* values) const;

 private:
  struct Number {
    bool computed = false;
    double value = 0;  // unless computed
    Elementwise op = Elementwise::add;
    uint16_t sources[3] = {};
  };
  size_t given_;
  std::vector<Number> all_;
};

class FusedCompiler {
 public:
  // Room that the caller needs for instructions of its own; its temporaries are the first ones.
  struct Kept {
    int instructions = 0, constants = 0, temporaries = 0;
  };

  // Errors of the whole program name `where`, which lives as long as the compiler.
  FusedCompiler(const Config& where, ProgramNumbers* numbers, Kept kept) : where_(where), numbers_(*numbers), kept_(kept) {}

  // The entry `in` of an op: names, which `named` knows, and numbers. Error(model) at the op.
  std::vector<ProgramValue> operands(const Config& op, const std::function<ProgramValue(const std::string&)>& named);
  static double checked(const Config& where, const std::string& key, double value);

  // A number where all sources are numbers.
  ProgramValue add(Elementwise op, std::vector<ProgramValue> sources);

  // The instructions that `outputs` need, into *code, whose n_inputs is set, and the number of each of its constants. Error(model): too many
  // of anything.
  void emit(std::vector<ProgramValue> outputs, FusedParams* code, std::vector<uint16_t>* constants);

 private:
  struct Op {
    Elementwise op;
    std::vector<ProgramValue> sources;
    int last_use = -1;  // of the op that reads it last
  };
  void find_last_uses(const std::vector<ProgramValue>& outputs);
  void emit_op(int i, FusedParams* code, std::vector<uint16_t>* constants);
  uint8_t constant(int number, std::vector<uint16_t>* constants) const;
  [[noreturn]] void too_large(const std::string& what, int most) const;

  const Config& where_;
  ProgramNumbers& numbers_;
  const Kept kept_;
  std::vector<Op> ops_;
  std::vector<uint8_t> free_, place_;  // temporaries; of each op
};

}  // namespace perigee
