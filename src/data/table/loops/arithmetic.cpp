#include "src/data/table/loops/arithmetic.h"

#include <algorithm>
#include <cmath>

namespace perigee::tables {
namespace {

template <class T, class R, class F>
void loop(const T* a, bool a_constant, const T* b, bool b_constant, R* out, size_t count, F f) {
  if (b_constant && !a_constant) {
    const T second = b[0];
    for (size_t i = 0; i < count; ++i) out[i] = f(a[i], second);
  } else if (a_constant && !b_constant) {
    const T first = a[0];
    for (size_t i = 0; i < count; ++i) out[i] = f(first, b[i]);
  } else {
    for (size_t i = 0; i < count; ++i) out[i] = f(a[i], b[i]);
  }
}

}  // namespace

void arithmetic(char op, const double* a, bool a_constant, const double* b, bool b_constant, double* out, size_t count) {
  const auto run = [&](auto f) { loop(a, a_constant, b, b_constant, out, count, f); };
  if (op == '+') run([](double x, double y) { return x + y; });
  else if (op == '-') run([](double x, double y) { return x - y; });
  else if (op == '*') run([](double x, double y) { return x * y; });
  else if (op == '/') run([](double x, double y) { return x / y; });
  else if (op == '%') run([](double x, double y) { return std::fmod(x, y); });
  else if (op == '<') run([](double x, double y) { return y < x ? y : x; });
  else run([](double x, double y) { return x < y ? y : x; });
}

bool arithmetic(char op, const int64_t* a, bool a_constant, const int64_t* b, bool b_constant, int64_t* out, size_t count) {
  bool wrong = false;
  const auto run = [&](auto f) {
    loop(a, a_constant, b, b_constant, out, count, [&](int64_t x, int64_t y) {
      int64_t result = 0;
      wrong |= f(x, y, &result);
      return result;
    });
  };
  if (op == '+') run([](int64_t x, int64_t y, int64_t* r) { return __builtin_add_overflow(x, y, r); });
  else if (op == '-') run([](int64_t x, int64_t y, int64_t* r) { return __builtin_sub_overflow(x, y, r); });
  else if (op == '*') run([](int64_t x, int64_t y, int64_t* r) { return __builtin_mul_overflow(x, y, r); });
  else if (op == '%') run([](int64_t x, int64_t y, int64_t* r) { return y == 0 ? true : (*r = y == -1 ? 0 : x % y, false); });
  else if (op == '<') run([](int64_t x, int64_t y, int64_t* r) { return *r = std::min(x, y), false; });
  else run([](int64_t x, int64_t y, int64_t* r) { return *r = std::max(x, y), false; });
  return !wrong;
}

void compare(char op, const double* a, bool a_constant, const double* b, bool b_constant, int64_t* out, size_t count) {
  const auto run = [&](auto f) { loop(a, a_constant, b, b_constant, out, count, f); };
  if (op == '=') run([](double x, double y) -> int64_t { return x == y; });
  else if (op == '!') run([](double x, double y) -> int64_t { return x != y; });
  else if (op == '<') run([](double x, double y) -> int64_t { return x < y; });
  else if (op == '>') run([](double x, double y) -> int64_t { return x > y; });
  else if (op == '{') run([](double x, double y) -> int64_t { return x <= y; });
  else run([](double x, double y) -> int64_t { return x >= y; });
}

}  // namespace perigee::tables
