// softmax and cross entropy, row by row, where the classes of a position lie next to each other in memory.
#include "kernels/ops/softmax.h"

#include <cmath>

#include "kernels/cpu/vector_math.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE {
namespace {

constexpr float kNone = -__builtin_inff();

// --- one row of n classes ---

float row_max(const float* x, int64_t n) {
  Floats top = all(kNone);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) top = larger(load(x + i), top);
  if (i < n) top = larger(first_or(load_part(x + i, n - i), n - i, kNone), top);
  return largest_lane(top);
}

// y[i] = exp(x[i] - top), unless y is null; returns the sum.
float row_exp(const float* x, float top, float* y, int64_t n) {
  Floats sum = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Floats e = exp_of(load(x + i) - top);
    if (y) store(y + i, e);
    sum += e;
  }
  if (i < n) {
    const Floats e = first_or(exp_of(load_part(x + i, n - i) - top), n - i, 0);
    if (y) store_part(y + i, e, n - i);
    sum += e;
  }
  return sum_lanes(sum);
}

// y[i] = x[i] * scale + shift
void row_affine(const float* x, float scale, float shift, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, load(x + i) * scale + shift);
  if (i < n) store_part(y + i, load_part(x + i, n - i) * scale + shift, n - i);
}

float row_sum(const float* x, int64_t n) {
  Floats sum = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum += load(x + i);
  if (i < n) sum += load_part(x + i, n - i);
  return sum_lanes(sum);
}

// --- walking the rows ---

// The dimensions of `first` without `axis`, outermost first; f gets the index among them.
template <class F>
void each_row(const View& first, int axis, F f) {
  int64_t dims[kMaxRank], index[kMaxRank] = {};
  int n = 0;
  for (int d = 0; d < first.rank; ++d) {
    if (first.dims[d] == 0) return;
    if (d != axis) dims[n++] = first.dims[d];
  }
  while (true) {
    f(static_cast<const int64_t*>(index));
    int d = n - 1;
    while (d >= 0 && ++index[d] == dims[d]) index[d--] = 0;
    if (d < 0) return;
  }
}

// Where a row begins in a view that has the axis, and in one that lacks it.
int64_t row_offset(const View& view, int axis, const int64_t* index) {
  int64_t offset = 0;
  for (int d = 0, k = 0; d < view.rank; ++d)
    if (d != axis) offset += index[k++] * view.strides[d];
  return offset;
}

int64_t place_offset(const View& view, const int64_t* index) { return row_offset(view, -1, index); }

bool packed_axis(const View& view, int axis) { return view.strides[axis] == 1 || view.dims[axis] == 1; }

const char* decline_softmax(const KernelCall& call) {
  const int axis = call.as<SoftmaxParams>().axis;
  if (call.in[0].dtype != Dtype::f32) return "f32 only";
  if (!packed_axis(call.in[0], axis) || !packed_axis(call.out[0], axis)) return "the axis is not innermost in memory";
  return nullptr;
}

void run_softmax(const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  const int axis = call.as<SoftmaxParams>().axis;
  const int64_t n = x.dims[axis];
  each_row(x, axis, [&](const int64_t* index) {
    const float* from = x.as<float>() + row_offset(x, axis, index);
    float* to = y.as<float>() + row_offset(y, axis, index);
    const float sum = row_exp(from, row_max(from, n), to, n);
    row_affine(to, 1.0f / sum, 0, to, n);
  });
}

void run_log_softmax(const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  const int axis = call.as<SoftmaxParams>().axis;
  const int64_t n = x.dims[axis];
  each_row(x, axis, [&](const int64_t* index) {
    const float* from = x.as<float>() + row_offset(x, axis, index);
    const float top = row_max(from, n);
    // Rounding top + log(sum) first would lose digits of values near the top.
    const float logarithm = std::log(row_exp(from, top, nullptr, n));
    float* to = y.as<float>() + row_offset(y, axis, index);
    row_affine(from, 1, -top, to, n);
    row_affine(to, 1, -logarithm, to, n);
  });
}

// Positions side by side in the lanes, where the axis has neighbours inside it: outer x n x inner, all contiguous.
const char* decline_columns(const KernelCall& call) {
  if (call.in[0].dtype != Dtype::f32) return "f32 only";
  if (!call.in[0].contiguous() || !call.out[0].contiguous()) return "operands are not contiguous";
  return packed_axis(call.in[0], call.as<SoftmaxParams>().axis) ? "the axis is innermost: rows are better" : nullptr;
}

template <bool logarithm, class Load, class Store>
void softmax_columns(const float* x, float* y, int64_t n, int64_t inner, Load load_lanes, Store store_lanes) {
  Floats top = all(kNone), sum = {};
  for (int64_t c = 0; c < n; ++c) top = larger(load_lanes(x + c * inner), top);
  for (int64_t c = 0; c < n; ++c) {
    const Floats shifted = load_lanes(x + c * inner) - top, e = exp_of(shifted);
    store_lanes(y + c * inner, logarithm ? shifted : e);
    sum += e;
  }
  const Floats last = logarithm ? log_of(sum) : 1.0f / sum;
  for (int64_t c = 0; c < n; ++c) {
    const Floats value = load_lanes(y + c * inner);
    store_lanes(y + c * inner, logarithm ? value - last : value * last);
  }
}

template <bool logarithm>
void run_columns(const KernelCall& call) {
  const View& shape = call.in[0];
  const int axis = call.as<SoftmaxParams>().axis;
  const int64_t n = shape.dims[axis], total = shape.elements();
  int64_t inner = 1;
  for (int d = axis + 1; d < shape.rank; ++d) inner *= shape.dims[d];
  for (int64_t begin = 0; begin < total; begin += n * inner) {
    const float* x = shape.as<float>() + begin;
    float* y = call.out[0].as<float>() + begin;
    int64_t i = 0;
    for (; i + kLanes <= inner; i += kLanes) softmax_columns<logarithm>(x + i, y + i, n, inner, load, store);
    const int64_t rest = inner - i;
    if (rest > 0)
      softmax_columns<logarithm>(
          x + i, y + i, n, inner, [rest](const float* from) { return load_part(from, rest); },
          [rest](float* to, Floats v) { store_part(to, v, rest); });
  }
}

const char* decline_cross_entropy(const KernelCall& call) {
  if (call.in[0].dtype != Dtype::f32) return "f32 only";
  if (!packed_axis(call.in[0], 1)) return "the classes are not innermost in memory";
  if (call.in[1].dtype == Dtype::f32 && !packed_axis(call.in[1], 1)) return "the label distributions are not innermost in memory";
  if (call.n_in > 2 && !packed_axis(call.out[0], 1)) return "the gradient's classes are not innermost in memory";
  return nullptr;
}

// The class of a position; NaN is the answer for one out of range.
struct ClassLabel {
  int64_t value;
  bool valid;
};

ClassLabel class_at(const View& labels, const int64_t* index, int64_t classes) {
  const int64_t value = labels.as<int64_t>()[place_offset(labels, index)];
  return {value, value >= 0 && value < classes};
}

void run_loss(const KernelCall& call) {
  const View &logits = call.in[0], &labels = call.in[1], &loss = call.out[0];
  const int64_t n = logits.dims[1];
  const float smoothing = static_cast<float>(call.as<CrossEntropyParams>().label_smoothing);
  each_row(logits, 1, [&](const int64_t* index) {
    const float* x = logits.as<float>() + row_offset(logits, 1, index);
    const float top = row_max(x, n);
    const float logarithm = std::log(row_exp(x, top, nullptr, n));  // each class's loss is logarithm - (x - top)
    float result = 0;
    if (labels.dtype == Dtype::i64) {
      const ClassLabel label = class_at(labels, index, n);
      result = label.valid ? (1 - smoothing) * (logarithm - (x[label.value] - top)) : __builtin_nanf("");
    } else {
      const float* q = labels.as<float>() + row_offset(labels, 1, index);
      for (int64_t c = 0; c < n; ++c) result += q[c] * (logarithm - (x[c] - top));
      result *= 1 - smoothing;
    }
    if (smoothing > 0) result += smoothing * (logarithm - (row_sum(x, n) / static_cast<float>(n) - top));
    loss.as<float>()[place_offset(loss, index)] = result;
  });
}

void run_gradient(const KernelCall& call) {
  const View &logits = call.in[0], &labels = call.in[1], &grad = call.in[2], &out = call.out[0];
  const int64_t n = logits.dims[1];
  const float smoothing = static_cast<float>(call.as<CrossEntropyParams>().label_smoothing), spread = smoothing / static_cast<float>(n);
  each_row(logits, 1, [&](const int64_t* index) {
    const float* x = logits.as<float>() + row_offset(logits, 1, index);
    float* dx = out.as<float>() + row_offset(out, 1, index);
    const float g = grad.as<float>()[place_offset(grad, index)];
    const float sum = row_exp(x, row_max(x, n), dx, n);
    if (labels.dtype == Dtype::i64) {
      const ClassLabel label = class_at(labels, index, n);
      row_affine(dx, label.valid ? g / sum : __builtin_nanf(""), -spread * g, dx, n);
      if (label.valid) dx[label.value] -= (1 - smoothing) * g;
    } else {
      const float* q = labels.as<float>() + row_offset(labels, 1, index);
      const float mass = (1 - smoothing) * row_sum(q, n) + smoothing;
      row_affine(dx, mass * g / sum, -spread * g, dx, n);
      for (int64_t c = 0; c < n; ++c) dx[c] -= (1 - smoothing) * q[c] * g;
    }
  });
}

// --- positions side by side: logits (N, C, inner), contiguous ---

const char* decline_loss_columns(const KernelCall& call) {
  if (call.in[0].dtype != Dtype::f32) return "f32 only";
  for (int i = 0; i < call.n_in; ++i)
    if (!call.in[i].contiguous()) return "operands are not contiguous";
  if (!call.out[0].contiguous()) return "the output is not contiguous";
  return packed_axis(call.in[0], 1) ? "the classes are innermost: rows are better" : nullptr;
}

// Up to kLanes neighbouring positions of one example. Lanes beyond `count` hold nothing of use.
struct Columns {
  int64_t classes, inner, count;

  Floats read(const float* x, int64_t c) const { return count == kLanes ? load(x + c * inner) : load_part(x + c * inner, count); }
  void write(float* x, int64_t c, Floats v) const {
    if (count == kLanes) store(x + c * inner, v);
    else store_part(x + c * inner, v, count);
  }
  Floats top(const float* x) const {
    Floats result = all(kNone);
    for (int64_t c = 0; c < classes; ++c) result = larger(read(x, c), result);
    return result;
  }
};

// Calls f(columns, offset of the first position's class 0 in the logits, its number among all positions).
template <class F>
void each_columns(const View& logits, F f) {
  const int64_t classes = logits.dims[1], examples = logits.dims[0];
  int64_t inner = 1;
  for (int d = 2; d < logits.rank; ++d) inner *= logits.dims[d];
  for (int64_t n = 0; n < examples; ++n)
    for (int64_t i = 0; i < inner; i += kLanes)
      f(Columns{classes, inner, inner - i < kLanes ? inner - i : kLanes}, n * classes * inner + i, n * inner + i);
}

void run_loss_columns(const KernelCall& call) {
  const View& labels = call.in[1];
  const float smoothing = static_cast<float>(call.as<CrossEntropyParams>().label_smoothing);
  each_columns(call.in[0], [&](const Columns& columns, int64_t at, int64_t position) {
    const float* x = call.in[0].as<float>() + at;
    const Floats top = columns.top(x);
    Floats sum = {}, all_classes = {}, chosen = {};
    for (int64_t c = 0; c < columns.classes; ++c) {
      const Floats shifted = columns.read(x, c) - top;
      sum += exp_of(shifted);
      all_classes += shifted;
    }
    const Floats logarithm = log_of(sum);
    if (labels.dtype == Dtype::i64) {
      for (int64_t lane = 0; lane < columns.count; ++lane) {
        const int64_t label = labels.as<int64_t>()[position + lane];
        const bool valid = label >= 0 && label < columns.classes;
        chosen[lane] = valid ? logarithm[lane] - (x[label * columns.inner + lane] - top[lane]) : __builtin_nanf("");
      }
    } else {
      for (int64_t c = 0; c < columns.classes; ++c)
        chosen += columns.read(labels.as<float>() + at, c) * (logarithm - (columns.read(x, c) - top));
    }
    const Floats mean = logarithm - all_classes / static_cast<float>(columns.classes);
    columns.write(call.out[0].as<float>() + position, 0, chosen * (1 - smoothing) + (smoothing > 0 ? mean * smoothing : Floats{}));
  });
}

void run_gradient_columns(const KernelCall& call) {
  const View& labels = call.in[1];
  const float smoothing = static_cast<float>(call.as<CrossEntropyParams>().label_smoothing);
  each_columns(call.in[0], [&](const Columns& columns, int64_t at, int64_t position) {
    const float* x = call.in[0].as<float>() + at;
    float* dx = call.out[0].as<float>() + at;
    const Floats top = columns.top(x), g = columns.read(call.in[2].as<float>() + position, 0);
    Floats sum = {}, mass = all(1);
    for (int64_t c = 0; c < columns.classes; ++c) {
      const Floats e = exp_of(columns.read(x, c) - top);
      columns.write(dx, c, e);
      sum += e;
    }
    const bool distributions = labels.dtype != Dtype::i64;
    const float* q = labels.as<float>() + at;
    if (distributions) {
      mass = Floats{};
      for (int64_t c = 0; c < columns.classes; ++c) mass += columns.read(q, c);
      mass = mass * (1 - smoothing) + smoothing;
    } else {
      for (int64_t lane = 0; lane < columns.count; ++lane) {
        const int64_t label = labels.as<int64_t>()[position + lane];
        if (label < 0 || label >= columns.classes) mass[lane] = __builtin_nanf("");
      }
    }
    const Floats scale = mass * g / sum, spread = g * (smoothing / static_cast<float>(columns.classes));
    for (int64_t c = 0; c < columns.classes; ++c) {
      const Floats target = distributions ? columns.read(q, c) * g * (1 - smoothing) : Floats{};
      columns.write(dx, c, columns.read(dx, c) * scale - spread - target);
    }
    for (int64_t lane = 0; lane < columns.count && !distributions; ++lane) {
      const int64_t label = labels.as<int64_t>()[position + lane];
      if (label >= 0 && label < columns.classes) dx[label * columns.inner + lane] -= (1 - smoothing) * g[lane];
    }
  });
}

constexpr Isa kIsa = kLanes == 16 ? Isa::avx512 : kLanes == 8 ? Isa::avx2 : Isa::baseline;

constexpr Kernel kKernels[] = {
    {.op = "softmax", .name = "rows", .backend = Backend::cpu, .isa = kIsa, .decline = decline_softmax, .run = run_softmax},
    {.op = "log_softmax", .name = "rows", .backend = Backend::cpu, .isa = kIsa, .decline = decline_softmax, .run = run_log_softmax},
    {.op = "softmax", .name = "columns", .backend = Backend::cpu, .isa = kIsa, .decline = decline_columns, .run = run_columns<false>},
    {.op = "log_softmax", .name = "columns", .backend = Backend::cpu, .isa = kIsa, .decline = decline_columns, .run = run_columns<true>},
    {.op = "cross_entropy", .name = "rows", .backend = Backend::cpu, .isa = kIsa, .decline = decline_cross_entropy, .run = run_loss},
    {.op = "cross_entropy_grad",
     .name = "rows",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_cross_entropy,
     .run = run_gradient},
    {.op = "cross_entropy",
     .name = "columns",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_loss_columns,
     .run = run_loss_columns},
    {.op = "cross_entropy_grad",
     .name = "columns",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_loss_columns,
     .run = run_gradient_columns},
};

}  // namespace
}  // namespace PERIGEE_CPU_NAMESPACE

extern const KernelList PERIGEE_CPU_KERNELS(softmax);
const KernelList PERIGEE_CPU_KERNELS(softmax) = kernel_list(PERIGEE_CPU_NAMESPACE::kKernels);

}  // namespace perigee
