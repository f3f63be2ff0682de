// The loops of expressions over numbers, compiled for speed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perigee::tables {

// out[i] = a[i] op b[i] with op one of + - * / % < > (smaller, larger). A constant operand has one value.
void arithmetic(char op, const double* a, bool a_constant, const double* b, bool b_constant, double* out, size_t count);
// The same without /. False where a result does not fit.
bool arithmetic(char op, const int64_t* a, bool a_constant, const int64_t* b, bool b_constant, int64_t* out, size_t count);
// out[i] = a[i] op b[i] with op one of = ! < > { } (not equal, at most, at least).
void compare(char op, const double* a, bool a_constant, const double* b, bool b_constant, int64_t* out, size_t count);

}  // namespace perigee::tables
