// ctc: in[0] logits (N, C, T), in[1] labels i64 (N, L), each example's up to its first number below 0, in[2] (optional) how many of the T
//   steps there are, i64 (N) -> out[0] losses (N): -log of the probability that softmax(logits) spells the labels, over all paths that do so
//   when repeated classes become one and blanks are left out (Graves et al., 2006). No such path: infinity, or 0 with zero_infinity. A label
//   that is no class or the blank, and a number of steps outside 0..T, give NaN.
// ctc_grad: in[0] logits, in[1] labels, in[2] gradient of the losses (N), in[3] (optional) steps -> out[0] gradient of the logits. It is 0
//   behind the steps that are there. A loss of infinity has NaN, or 0 with zero_infinity.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace perigee {

struct CtcParams {
  int64_t blank = 0;
  bool zero_infinity = false;
};

// One example's operands.
template <class T>
struct CtcExample {
  const T* logits;
  int64_t class_stride, step_stride, classes, steps;
  const int64_t* labels;
  int64_t label_stride, most_labels, blank;
};

// Numbers of scratch memory that ctc_example needs: paths of all steps, a row of paths, the sum of each step.
constexpr int64_t ctc_scratch(int64_t classes, int64_t steps, int64_t most_labels) {
  return (steps + 2) * (2 * most_labels + 1) + steps + classes;
}

template <class T>
constexpr T ctc_join(T a, T b) {
  const T top = a < b ? b : a, low = a < b ? a : b;
  return top == -std::numeric_limits<T>::infinity() ? top : top + std::log1p(std::exp(low - top));
}

// -1: a label is not valid.
template <class T>
constexpr int64_t ctc_label_count(const CtcExample<T>& x) {
  int64_t count = 0;
  for (; count < x.most_labels; ++count) {
    const int64_t label = x.labels[count * x.label_stride];
    if (label < 0) break;
    if (label >= x.classes || label == x.blank) return -1;
  }
  return count;
}

// The loss; with `slopes`, also its gradient in softmax's operand, (C, steps) by the given strides.
template <class T>
constexpr T ctc_example(const CtcExample<T>& x, T* scratch, T* slopes, int64_t class_stride, int64_t step_stride) {
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  const int64_t labels = ctc_label_count(x), places = 2 * labels + 1;
  if (labels < 0) return std::numeric_limits<T>::quiet_NaN();
  if (x.steps == 0) return labels == 0 ? T(0) : -kNever;
  const auto class_at = [&](int64_t s) { return s % 2 == 0 ? x.blank : x.labels[s / 2 * x.label_stride]; };
  const auto skips = [&](int64_t s) { return s % 2 == 1 && s >= 2 && class_at(s) != class_at(s - 2); };  // s - 2 may come right before s
  T* const sums = scratch + x.steps * places;
  const auto log_p = [&](int64_t t, int64_t c) { return x.logits[c * x.class_stride + t * x.step_stride] - sums[t]; };
  for (int64_t t = 0; t < x.steps; ++t) {
    const T* row = x.logits + t * x.step_stride;
    T top = row[0], sum = 0;
    for (int64_t c = 1; c < x.classes; ++c) top = top < row[c * x.class_stride] ? row[c * x.class_stride] : top;
    for (int64_t c = 0; c < x.classes; ++c) sum += std::exp(row[c * x.class_stride] - top);
    sums[t] = top + std::log(sum);
    T *now = scratch + t * places, *before = now - places;
    for (int64_t s = 0; s < places; ++s) {
      T all = kNever;
      if (t == 0) {
        all = s < 2 ? T(0) : kNever;
      } else {
        all = before[s];
        if (s >= 1) all = ctc_join(all, before[s - 1]);
        if (skips(s)) all = ctc_join(all, before[s - 2]);
      }
      now[s] = all + log_p(t, class_at(s));
    }
  }
  const T* last = scratch + (x.steps - 1) * places;
  const T loss = -(places > 1 ? ctc_join(last[places - 1], last[places - 2]) : last[0]);
  if (!slopes || !(loss < -kNever)) return loss;
  T *after = sums + x.steps, *shares = after + places;  // of the paths from the next step on; of each class at this step
  for (int64_t t = x.steps; t-- > 0;) {
    const T* now = scratch + t * places;
    for (int64_t c = 0; c < x.classes; ++c) shares[c] = kNever;
    // `after[s]` becomes the sum of the paths that leave place s at step t: places in front are taken first, since they need those behind.
    for (int64_t s = 0; s < places; ++s) {
      T all = kNever;
      if (t == x.steps - 1) {
        all = s >= places - 2 ? T(0) : kNever;
      } else {
        all = after[s];
        if (s + 1 < places) all = ctc_join(all, after[s + 1]);
        if (s + 2 < places && skips(s + 2)) all = ctc_join(all, after[s + 2]);
      }
      const int64_t c = class_at(s);
      shares[c] = ctc_join(shares[c], now[s] + all);
      after[s] = all + log_p(t, c);
    }
    for (int64_t c = 0; c < x.classes; ++c) slopes[c * class_stride + t * step_stride] = std::exp(log_p(t, c)) - std::exp(loss + shares[c]);
  }
  return loss;
}

// The part that example n of (logits, labels, steps) has in the loss or, with `out` (C, T), in the gradient.
template <class T>
constexpr T ctc_of(CtcExample<T> x, const CtcParams& p, int64_t all_steps, T flow, T* scratch, T* out, int64_t class_stride,
                   int64_t step_stride) {
  const bool sound = x.steps >= 0 && x.steps <= all_steps;
  T loss = sound ? ctc_example(x, scratch, out, class_stride, step_stride) : std::numeric_limits<T>::quiet_NaN();
  const bool endless = loss == std::numeric_limits<T>::infinity();
  if (endless && p.zero_infinity) loss = 0;
  if (!out) return loss;
  const bool zero = endless && p.zero_infinity, none = (endless || loss != loss) && !zero;
  for (int64_t c = 0; c < x.classes; ++c)
    for (int64_t t = 0; t < all_steps; ++t) {
      T& slope = out[c * class_stride + t * step_stride];
      slope = none && (!sound || t < x.steps) ? std::numeric_limits<T>::quiet_NaN() : zero || none || t >= x.steps ? T(0) : slope * flow;
    }
  return loss;
}

}  // namespace perigee
