#include "tests/graph/cases.h"

#include <algorithm>

namespace perigee {

std::string OpCase::text() const {
  std::string list;
  for (const CaseOperand& operand : inputs) list += (list.empty() ? "" : ", ") + (operand.present ? operand.type.text() : "absent");
  return op + "(" + list + ")" + (attrs.is_null() ? "" : " " + attrs.dump());
}

OpCase& Cases::add(std::string op, std::vector<CaseOperand> inputs, const std::string& attrs) {
  OpCase added{.op = std::move(op), .inputs = std::move(inputs)};
  added.attrs = attrs.empty() ? Json::object() : Json::parse(attrs, added.op);
  cases_.push_back(std::move(added));
  return cases_.back();
}

std::vector<OpCase> all_cases(uint64_t seed) {
  Cases cases(seed);
  for (const CaseFamily* family : case_families()) family->make(cases);
  return cases.all();
}

Tensor case_values(const CaseOperand& operand, bool wide, std::mt19937_64& random) {
  const int64_t n = operand.type.shape.elements();
  if (is_half(operand.type.dtype)) {
    const Tensor values = case_values({{Dtype::f32, operand.type.shape}, operand.low, operand.high}, false, random).to(operand.type.dtype);
    return wide ? values.to(Dtype::f64) : values;
  }
  if (operand.type.dtype != Dtype::f32) {
    Tensor whole(Dtype::f64, operand.type.shape);
    std::uniform_int_distribution<int64_t> draw(static_cast<int64_t>(operand.low), static_cast<int64_t>(operand.high) - 1);
    for (int64_t i = 0; i < n; ++i) whole.data<double>()[i] = static_cast<double>(draw(random));
    return whole.to(operand.type.dtype);
  }
  if (operand.ascending) {
    const Tensor drawn = case_values(integers(Dtype::i64, operand.type.shape, operand.low, operand.high), false, random);
    const int64_t steps = operand.type.shape.at(-1);
    for (int64_t row = 0; row < n; row += steps) std::sort(drawn.data<int64_t>() + row, drawn.data<int64_t>() + row + steps);
    return drawn.to(wide ? Dtype::f64 : Dtype::f32);
  }
  // Evenly spaced and never at a multiple of 1/2 by more than chance, each moved a little, in random order.
  std::vector<double> values(static_cast<size_t>(n));
  const double gap = (operand.high - operand.low) / static_cast<double>(n);
  std::uniform_real_distribution<double> inside(0.3, 0.7);
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = operand.low + gap * (static_cast<double>(i) + inside(random));
  std::shuffle(values.begin(), values.end(), random);
  // Rounded to f32, so that both widths compute with the same numbers.
  Tensor result(wide ? Dtype::f64 : Dtype::f32, operand.type.shape);
  for (int64_t i = 0; i < n; ++i) {
    const float value = static_cast<float>(values[static_cast<size_t>(i)]);
    if (wide) result.data<double>()[i] = value;
    else result.data<float>()[i] = value;
  }
  return result;
}

}  // namespace perigee
