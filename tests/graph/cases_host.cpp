// An op of the program's own: y[n] = tanh(beta x[n]) * w, with x by example and w the same for all.
#include <cmath>

#include "src/graph/host_op.h"
#include "tests/graph/cases.h"

namespace perigee {
namespace {

template <class T>
void forward_of(const double* options, const View* in, const View& out) {
  const int64_t columns = in[1].dims[0], rows = in[0].elements() / columns;
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t c = 0; c < columns; ++c)
      out.as<T>()[n * columns + c] =
          static_cast<T>(std::tanh(options[0] * static_cast<double>(in[0].as<T>()[n * columns + c]))) * in[1].as<T>()[c];
}

template <class T>
void backward_of(const double* options, const View* in, const View* out) {
  const int64_t columns = in[1].dims[0], rows = in[0].elements() / columns;
  for (int64_t c = 0; c < columns; ++c) {
    double sum = 0;
    for (int64_t n = 0; n < rows; ++n) {
      const int64_t at = n * columns + c;
      const double t = std::tanh(options[0] * static_cast<double>(in[0].as<T>()[at])), dy = static_cast<double>(in[3].as<T>()[at]);
      out[0].as<T>()[at] = static_cast<T>(dy * static_cast<double>(in[1].as<T>()[c]) * options[0] * (1 - t * t));
      sum += dy * t;
    }
    out[1].as<T>()[c] = static_cast<T>(sum);
  }
}

void forward(const void*, const double* options, const View* in, int, const View& out) {
  out.dtype == Dtype::f64 ? forward_of<double>(options, in, out) : forward_of<float>(options, in, out);
}

void backward(const void*, const double* options, const View* in, int, const View* out, int) {
  out[0].dtype == Dtype::f64 ? backward_of<double>(options, in, out) : backward_of<float>(options, in, out);
}

void make(Cases& cases) {
  static const bool registered = [] {
    register_host_op({.name = "cases.gate",
                      .inputs = 2,
                      .whole = 2,
                      .options = {"beta"},
                      .defaults = {1},
                      .infer = [](std::span<const Type> inputs, const double*) { return inputs[0]; },
                      .kernel = {.definition = nullptr, .forward = forward, .backward = backward}});
    return true;
  }();
  static_cast<void>(registered);
  const int64_t n = cases.pick(1, 5), c = cases.pick(1, 6);
  cases.add("host", {real({n, c}), real({c})}, R"({"name": "cases.gate", "beta": 0.7})");
  cases.add("host", {real({n, 2, 3, c}), real({c})}, R"({"name": "cases.gate"})");
  cases.add("host_grad", {real({n, c}), real({c}), real({n, c}), real({n, c})}, R"({"name": "cases.gate", "beta": 0.7})");
}

}  // namespace

extern const CaseFamily cases_host;
const CaseFamily cases_host = {"host", make};

}  // namespace perigee
