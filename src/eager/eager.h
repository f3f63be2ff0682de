// Ops at once: what the graph would append is inferred, computed and returned, by the same op table and the same kernels.
// Large operands are cut along their first dimension and run on a team of threads.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "kernels/ops/elementwise.h"
#include "src/eager/array.h"
#include "src/graph/op.h"

namespace perigee {

// An operand of an element-wise op: an array, or a number.
struct EagerOperand {
  const Array* array = nullptr;
  double number = 0;
};

// Operands are promoted (array.h) and broadcast; integers divided give f32, functions of reals take integers as f32. Error(model) names the
// shapes.
Array eager_elementwise(Elementwise op, std::span<const EagerOperand> operands);
// The same where it is short: f32 operands of one dense shape of few elements, `b` perhaps null, a number. Makes the result at `out`, which is all zero;
// its elements lie in `room` where they fit, and `out` owns nothing then. False when the call is not of this kind.
bool eager_few(Elementwise op, const Array& a, const Array* b, double number, std::span<std::byte> room, Array* out);
// The same into `target`, in target's dtype. Error when the result would not fit its shape or would lose fractions.
void eager_elementwise_into(Elementwise op, std::span<const EagerOperand> operands, const Array& target);
// target += scale * x in one pass.
void eager_add_scaled(const Array& target, const Array& x, double scale);

// Any op of the registry but leaves, on operands of the dtypes that it takes (`prepared` converts them). Null: an absent operand.
std::vector<Array> eager_apply(const OpDef& op, std::span<const Array* const> inputs, const Json& attrs, const StepInfo& step = {});

// An operand's part in the choice of a common dtype: its own dtype, or the number that it is.
struct OperandDtype {
  std::optional<Dtype> dtype;
  double number = 0;
};
// The dtype that an element-wise op computes its operands in; of `where` all but the condition count.
Dtype elementwise_dtype(Elementwise op, std::span<const OperandDtype> operands);

// The dtypes that operands are converted to before `op` sees them: one common dtype where the op wants that, else their own.
std::vector<Dtype> operand_dtypes(const OpDef& op, std::span<const Dtype> dtypes);

// Error(model) with place and value when a number of `numbers` (i64, i32, u8; others pass) is outside of [low, low + count). `op` has the
// place in front, as "cross_entropy"; `labels`: they are called so, else indices.
void check_choices(const std::string& op, const Array& numbers, int64_t low, int64_t count, bool labels);

// The table's index of an element-wise op by name; false when it is none.
bool find_elementwise(std::string_view name, Elementwise* op);

// On views alone, for this folder. Copies `from`, which broadcasts to `to`; converts where the dtypes differ.
void move_elements(const View& from, const View& to);
View broadcast_to_shape_of(const View& from, const View& to);

}  // namespace perigee
