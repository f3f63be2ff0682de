#include "src/optim/minimizer.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/kernel.h"
#include "src/optim/zoom_search.h"

namespace perigee {
namespace {

constexpr size_t kMostHistory = 100;         // as the option has it
constexpr double kSufficientDescent = 0.01;  // of a conjugate direction, as a share of the steepest one's

}  // namespace

MinimizerOptions MinimizerOptions::of(const Config& optimizer, bool conjugate) {
  MinimizerOptions options{.conjugate = conjugate};
  if (!conjugate) options.history = static_cast<size_t>(optimizer.integer("history"));
  assert(options.history <= kMostHistory);
  options.line = {.wolfe = optimizer.string("line_search") == "strong_wolfe",
                  .decrease = optimizer.number("decrease"),
                  .curvature = optimizer.number("curvature"),
                  .precision = conjugate ? 1e-14 : 0.1,
                  .longest = conjugate ? 1e100 : 1e10,
                  .evaluations = static_cast<int>(optimizer.integer("evaluations")),
                  .bends_early = !conjugate};
  if (options.line.wolfe && options.line.curvature <= options.line.decrease)
    optimizer.fail("curvature", "is not above 'decrease'", Json(options.line.curvature).dump(),
                   "more than " + Json(options.line.decrease).dump());
  return options;
}

std::vector<std::string> MinimizerOptions::slots() const {
  if (conjugate) return {"direction"};
  std::vector<std::string> names;
  for (size_t i = 1; i <= history; ++i) {
    names.push_back("step" + std::to_string(i));
    names.push_back("change" + std::to_string(i));
  }
  return names;
}

Minimizer::Minimizer(MinimizerOptions options, std::vector<ParamWindow> windows, int64_t elements, Dtype dtype)
    : options_(options), windows_(std::move(windows)), dtype_(dtype) {
  std::erase_if(windows_, [](const ParamWindow& window) { return !window.trainable; });
  const size_t bytes = static_cast<size_t>(elements) * dtype_bytes(dtype);
  for (auto* block : {&start_, &direction_, &gradient_, &next_gradient_}) block->assign(bytes, std::byte{0});
}

// Blocks as vectors of the elements that train.
template <class T>
struct Minimizer::Vectors {
  const std::vector<ParamWindow>& windows;

  static T* at(std::byte* block) { return reinterpret_cast<T*>(block); }
  static const T* at(const std::byte* block) { return reinterpret_cast<const T*>(block); }

  template <class F>
  void each(F f) const {
    for (const ParamWindow& window : windows)
      for (int64_t i = window.offset; i < window.offset + window.elements; ++i) f(i);
  }
  double dot(const std::byte* a, const std::byte* b) const {
    const T *x = at(a), *y = at(b);
    double sum = 0;
    each([&](int64_t i) { sum += static_cast<double>(x[i]) * static_cast<double>(y[i]); });
    return sum;
  }
  // to = x + factor * y
  void combine(const std::byte* x, double factor, const std::byte* y, std::byte* to) const {
    const T *a = at(x), *b = at(y);
    T* const c = at(to);
    each([&](int64_t i) { c[i] = static_cast<T>(static_cast<double>(a[i]) + factor * static_cast<double>(b[i])); });
  }
  void scale(double factor, const std::byte* x, std::byte* to) const {
    const T* a = at(x);
    T* const c = at(to);
    each([&](int64_t i) { c[i] = static_cast<T>(factor * static_cast<double>(a[i])); });
  }
};

void Minimizer::forget() { now_ = {}; }

// A search that fails begins again along the steepest descent, and that of a conjugate direction may be made twice.
int Minimizer::most_evaluations() const { return 1 + options_.line.evaluations * (options_.conjugate ? 4 : 2); }

Json Minimizer::state() const {
  const State& now = iterating_ ? kept_ : now_;
  Json state = Json(Json::Object{{"pairs", static_cast<int64_t>(now.pairs)}, {"newest", static_cast<int64_t>(now.newest)}});
  if (now.has_before) state.set("before", now.before);
  return state;
}

void Minimizer::restore(const Config& state) {
  forget();
  const auto most = static_cast<int64_t>(options_.conjugate ? 1 : options_.history);
  now_.pairs = static_cast<size_t>(state.integer_in("pairs", 0, most));
  now_.newest = static_cast<size_t>(state.integer_in("newest", 0, most));
  now_.has_before = state.has("before");
  if (now_.has_before) now_.before = state.number("before", 0);
}

// One iteration on blocks of T.
template <class T>
class Minimizer::Iteration {
 public:
  Iteration(Minimizer& of, std::byte* parameters, std::byte* const* slots, const Evaluate& evaluate, const std::function<void()>& settle)
      : m_(of), v_{of.windows_}, parameters_(parameters), slots_(slots), evaluate_(evaluate), settle_(settle) {}

  Result run(bool same) {
    if (!m_.now_.known || !same) {
      m_.now_.known = false;
      m_.now_.value = evaluate_(gradient());
      ++result_.evaluations;
      m_.now_.known = true;
    }
    result_.value = m_.now_.value;
    square_ = v_.dot(gradient(), gradient());
    result_.gradient_norm = std::sqrt(square_);
    if (square_ == 0 || !std::isfinite(m_.now_.value)) {
      if (settle_) settle_();
      return result_;
    }
    v_.scale(1, parameters_, start());
    try {
      search();
      if (settle_) settle_();
    } catch (...) {
      v_.scale(1, start(), parameters_);
      throw;
    }
    if (line_.found) move_on();
    else v_.scale(1, start(), parameters_);
    return result_;
  }

 private:
  std::byte* start() { return m_.start_.data(); }
  std::byte* direction() { return m_.direction_.data(); }
  std::byte* gradient() { return m_.gradient_.data(); }
  std::byte* next() { return m_.next_gradient_.data(); }
  size_t place_of(size_t age) const { return (m_.now_.newest + m_.options_.history - age) % m_.options_.history; }
  std::byte* step_of(size_t age) const { return slots_[2 * place_of(age)]; }
  std::byte* change_of(size_t age) const { return slots_[2 * place_of(age) + 1]; }

  // The two loops of L-BFGS, or the conjugate direction that the last iteration left; without a history, the steepest descent.
  void aim() {
    v_.scale(-1, gradient(), direction());
    if (m_.options_.conjugate) {
      if (m_.now_.pairs > 0) v_.scale(1, slots_[0], direction());
      return;
    }
    double shares[kMostHistory];
    for (size_t age = 0; age < m_.now_.pairs; ++age) {
      shares[age] = v_.dot(step_of(age), direction()) / v_.dot(step_of(age), change_of(age));
      v_.combine(direction(), -shares[age], change_of(age), direction());
    }
    if (m_.now_.pairs > 0) v_.scale(v_.dot(step_of(0), change_of(0)) / v_.dot(change_of(0), change_of(0)), direction(), direction());
    for (size_t age = m_.now_.pairs; age-- > 0;) {
      const double back = v_.dot(change_of(age), direction()) / v_.dot(step_of(age), change_of(age));
      v_.combine(direction(), shares[age] - back, step_of(age), direction());
    }
  }

  double first_step() {
    if (!m_.options_.conjugate)
      return m_.now_.pairs > 0 ? 1.0 : std::min(1 / std::sqrt(v_.dot(direction(), direction())), m_.options_.line.longest);
    const double before = m_.now_.has_before ? m_.now_.before : m_.now_.value + result_.gradient_norm / 2;
    const double guess = std::min(1.0, 1.01 * 2 * (m_.now_.value - before) / slope_);
    return guess > 0 ? guess : 1.0;
  }

  // The share of the direction that goes on from where the parameters are, and whether its sum with the steepest one descends.
  double going_on() { return std::max(0.0, (v_.dot(next(), next()) - v_.dot(next(), gradient())) / square_); }
  bool descends() {
    const double steepest = v_.dot(next(), next());
    return -steepest + going_on() * v_.dot(direction(), next()) <= -kSufficientDescent * steepest;
  }

  void search() {
    const auto at = [this](double step) {
      v_.combine(start(), step, direction(), parameters_);
      const double value = evaluate_(next());
      ++result_.evaluations;
      return LineValue{value, v_.dot(next(), direction())};
    };
    const LineSearchOptions& options = m_.options_.line;
    for (;;) {
      aim();
      slope_ = v_.dot(gradient(), direction());
      if (!(slope_ < 0) && m_.now_.pairs > 0) {
        m_.now_.pairs = 0;
        continue;
      }
      line_ = search_line(options, {m_.now_.value, slope_}, first_step(), at);
      if (m_.options_.conjugate && options.wolfe && !(line_.found && descends()))
        line_ = search_by_zoom(options, {m_.now_.value, slope_}, first_step(), at, [this] { return descends(); });
      if (line_.found || m_.now_.pairs == 0) return;
      m_.now_.pairs = 0;  // along the steepest descent, then
    }
  }

  // To where the search ended.
  void move_on() {
    result_.step = line_.step;
    if (m_.options_.conjugate) turn();
    else remember();
    std::swap(m_.gradient_, m_.next_gradient_);
    m_.now_.before = m_.now_.value;
    m_.now_.has_before = true;
    m_.now_.value = line_.at.value;
  }

  void turn() {
    v_.scale(going_on(), direction(), direction());
    v_.combine(direction(), -1, next(), slots_[0]);
    if (v_.dot(slots_[0], next()) > -kSufficientDescent * v_.dot(next(), next())) v_.scale(-1, next(), slots_[0]);
    m_.now_.pairs = 1;
  }

  void remember() {
    const double before = slope_ * line_.step, after = line_.at.slope * line_.step;
    if (!(after - before > std::numeric_limits<double>::epsilon() * -before)) return;
    const size_t place = m_.now_.pairs == 0 ? 0 : (m_.now_.newest + 1) % m_.options_.history;
    v_.scale(line_.step, direction(), slots_[2 * place]);
    v_.combine(next(), -1, gradient(), slots_[2 * place + 1]);
    m_.now_.newest = place;
    m_.now_.pairs = std::min(m_.now_.pairs + 1, m_.options_.history);
  }

  Minimizer& m_;
  const Vectors<T> v_;
  std::byte* const parameters_;
  std::byte* const* const slots_;
  const Evaluate& evaluate_;
  const std::function<void()>& settle_;
  Result result_;
  LineSearchResult line_;
  double square_ = 0, slope_ = 0;  // of the gradient; along the direction, at the beginning
};

Minimizer::Result Minimizer::iterate(std::byte* parameters, std::byte* const* slots, bool same, const Evaluate& evaluate,
                                     const std::function<void()>& settle) {
  kept_ = now_;
  iterating_ = true;
  Result result;
  try {
    if (dtype_ == Dtype::f64) result = Iteration<double>(*this, parameters, slots, evaluate, settle).run(same);
    else result = Iteration<float>(*this, parameters, slots, evaluate, settle).run(same);
  } catch (...) {  // no Lua in here: every exception is C++'s
    now_ = kept_;
    if (!same) now_.known = false;  // its gradient may be another one by now
    iterating_ = false;
    throw;
  }
  iterating_ = false;
  return result;
}

}  // namespace perigee
