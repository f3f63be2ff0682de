// pg::grad, pg::value_and_grad, pg::jacobian, pg::compile: a function of tensors is called once with values that record what is done to them; the
// record is differentiated and compiled, and calls with the same shapes and dtypes run it as one plan. Include perigee.hpp instead of this.
//
//     auto step = pg::compile([](const mlp& p, pg::tensor x, pg::tensor y, pg::tensor rate) {
//       auto [loss, g] = pg::value_and_grad([&](const mlp& w) { return w(x).cross_entropy(y).mean(); })(p);
//       return std::tuple(loss, mlp{p.first - rate * g.first, p.second - rate * g.second});
//     }, {.donate = {0}});
//
// Arguments and results are tensors, numbers (as arguments: pg::tensor in the function, and free to change from call to call), and nested
// std::vector, std::array, std::map<std::string, ...>, std::pair, std::tuple of them, or structs whose `members()` returns std::tie of their tensors.
// Tensors from outside are read anew at each call; other captures are as they were when the function was recorded. A compiled function may be
// called by several threads; calls of one recording take turns.
#pragma once

#include <array>
#include <mutex>
#include <tuple>

#include "perigee_tensor_ops.hpp"

namespace perigee::api {

namespace detail {

template <class T>
concept has_members = requires(T& value) {
  value.members();
};
template <class>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;
template <class... T>
inline constexpr char kind_of = 0;  // whose address stands for the types in keys

// f(tensor&) for each tensor in order; `key` gets what sizes and names say.
template <class T, class F>
void each_tensor(T& value, std::string* key, F&& f) {
  using Bare = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<Bare, tensor>) {
    f(value);
  } else if constexpr (is_tuple<Bare>) {
    std::apply([&](auto&... part) { (each_tensor(part, key, f), ...); }, value);
  } else if constexpr (has_members<Bare>) {
    auto parts = const_cast<Bare&>(value).members();
    std::apply([&](auto&... part) { (each_tensor(part, key, f), ...); }, parts);
  } else if constexpr (requires { typename Bare::mapped_type; }) {
    for (auto& [name, part] : value) {
      if (key) *key += std::to_string(name.size()) + ":" + name;
      each_tensor(part, key, f);
    }
    if (key) *key += ']';
  } else if constexpr (requires { value.begin(); }) {
    for (auto& part : value) {
      if (key) *key += '.';
      each_tensor(part, key, f);
    }
    if (key) *key += ']';
  } else {
    static_assert(!sizeof(T), "an argument or result is a tensor, or a container, tuple or struct with members() of tensors");
  }
}

// A number among the arguments is a tensor inside the function.
template <class T>
using as_argument = std::conditional_t<std::is_arithmetic_v<T>, tensor, T>;

template <class T>
std::vector<tensor> leaves_of(const T& value, std::string* key = nullptr) {
  std::vector<tensor> leaves;
  each_tensor(value, key, [&](const tensor& leaf) { leaves.push_back(leaf); });
  return leaves;
}
template <class T>
void replace_leaves(T& value, std::span<const tensor> by) {
  size_t next = 0;
  each_tensor(value, nullptr, [&](tensor& leaf) { leaf = by[next++]; });
}

// While a function is recorded by this thread.
struct recording_scope {
  recording_scope() { ++recording_depth(); }
  ~recording_scope() { --recording_depth(); }
  recording_scope(const recording_scope&) = delete;
  recording_scope& operator=(const recording_scope&) = delete;
};

using trace_handle = handle<perigee_trace, perigee_trace_free>;
using function_handle = handle<perigee_function, perigee_function_free>;

inline std::vector<perigee_tensor*> handles_of(std::span<const tensor> tensors) {
  std::vector<perigee_tensor*> handles;
  for (const tensor& each : tensors) {
    if (!each.defined()) throw error(PERIGEE_USAGE, "an argument or result is a tensor that is not defined");
    handles.push_back(each.get());
  }
  return handles;
}

inline std::vector<tensor> call(perigee_function* function, std::span<const tensor> arguments, size_t results) {
  std::vector<perigee_tensor*> in = handles_of(arguments), out(results, nullptr);
  checked(perigee_function_call(function, in.data(), static_cast<int32_t>(in.size()), out.data(), static_cast<int32_t>(results)), function,
          perigee_function_message);
  std::vector<tensor> made;
  for (perigee_tensor* each : out) made.push_back(tensor::own(each));
  return made;
}

}  // namespace detail

struct compile_options {
  int threads = 0;                  // that share a batch; 0: one per core
  std::vector<size_t> donate = {};  // arguments, from 0, that are not used after a call: results may take their memory
};

// The result of pg::compile.
template <class F>
class compiled {
 public:
  explicit compiled(F f, compile_options given = {}) : shared_(std::make_shared<content>(std::move(f), std::move(given))) {}

  template <class... A>
  auto operator()(const A&... arguments) const {
    const std::tuple<detail::as_argument<A>...> all(arguments...);
    using result = std::decay_t<decltype(std::apply(shared_->f, all))>;
    std::string key(reinterpret_cast<const char*>(&kAddress<A...>), sizeof(void*));
    const std::vector<tensor> leaves = detail::leaves_of(all, &key);
    for (const tensor& leaf : leaves) {
      if (leaf.is_recorded()) return result(std::apply(shared_->f, all));  // part of a larger record
      add_type(leaf, key);
    }
    const std::shared_ptr<const recording> found = find(key, all);
    result made = *static_cast<const result*>(found->results.get());
    detail::replace_leaves(made, detail::call(found->function.get(), leaves, found->count));
    return made;
  }

 private:
  struct recording {
    detail::function_handle function;
    std::shared_ptr<void> results;  // of the function's result type, with undefined tensors
    size_t count = 0;
  };
  struct content {
    content(F function, compile_options given) : f(std::move(function)), options(std::move(given)) {}
    F f;
    compile_options options;
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<const recording>> kept;
  };
  static constexpr size_t kMaxKept = 64;
  template <class... A>
  static inline const char* kAddress = &detail::kind_of<A...>;

  static void add_type(const tensor& leaf, std::string& key) {
    const perigee_view view = leaf.view();
    key += static_cast<char>(view.number ? 0 : view.dtype);
    key.append(reinterpret_cast<const char*>(view.shape), static_cast<size_t>(view.rank) * sizeof view.shape[0]);
    key += ';';
  }
  template <class Arguments>
  std::shared_ptr<const recording> find(const std::string& key, const Arguments& arguments) const {
    {
      const std::lock_guard lock(shared_->mutex);
      if (const auto at = shared_->kept.find(key); at != shared_->kept.end()) return at->second;
    }
    std::shared_ptr<const recording> made = record(arguments);
    const std::lock_guard lock(shared_->mutex);
    if (shared_->kept.size() == kMaxKept) shared_->kept.clear();
    return shared_->kept.emplace(key, std::move(made)).first->second;
  }
  template <class Arguments>
  std::shared_ptr<const recording> record(Arguments arguments) const {
    perigee_trace* begun = nullptr;
    detail::check_tensors(perigee_trace_begin(detail::tensor_context(), &begun));
    const detail::trace_handle trace(begun);
    const detail::recording_scope scope;
    detail::each_tensor(arguments, nullptr, [&](tensor& leaf) {
      perigee_tensor* symbol = nullptr;
      detail::checked(perigee_trace_argument(trace.get(), leaf.get(), &symbol), trace.get(), perigee_trace_message);
      leaf = tensor::own(symbol);
    });
    const std::vector<int32_t> donated = donated_leaves(arguments);
    auto results = std::make_shared<std::decay_t<decltype(std::apply(shared_->f, std::as_const(arguments)))>>(
        std::apply(shared_->f, std::as_const(arguments)));
    const std::vector<tensor> leaves = detail::leaves_of(*results);
    const std::vector<perigee_tensor*> handles = detail::handles_of(leaves);
    perigee_function_options options{};
    options.size = sizeof options;
    options.threads = shared_->options.threads;
    options.donated = donated.data();
    options.donated_count = static_cast<int32_t>(donated.size());
    perigee_function* function = nullptr;
    detail::checked(perigee_trace_end(trace.get(), handles.data(), static_cast<int32_t>(handles.size()), &options, &function), trace.get(),
                    perigee_trace_message);
    auto made = std::make_shared<recording>();
    made->function.reset(function);
    made->count = leaves.size();
    detail::each_tensor(*results, nullptr, [](tensor& leaf) { leaf = tensor(); });
    made->results = std::move(results);
    return made;
  }
  template <class Arguments>
  std::vector<int32_t> donated_leaves(const Arguments& arguments) const {
    std::vector<int32_t> donated;
    int32_t leaf = 0;
    size_t position = 0;
    const auto argument = [&](const auto& each) {
      const bool given = std::ranges::count(shared_->options.donate, position++) > 0;
      for (const tensor& own : detail::leaves_of(each)) {
        if (given && !own.is_number()) donated.push_back(leaf);
        ++leaf;
      }
    };
    std::apply([&](const auto&... each) { (argument(each), ...); }, arguments);
    return donated;
  }

  std::shared_ptr<content> shared_;
};

// f, recorded once for each set of shapes and dtypes of its arguments, and run as a plan.
template <class F>
compiled<F> compile(F f, compile_options given = {}) {
  return compiled<F>(std::move(f), std::move(given));
}

namespace detail {

// As a tuple: what f gives besides its first result stands behind the gradients.
template <class R>
auto as_tuple(R&& result) {
  if constexpr (is_tuple<std::decay_t<R>>) return std::apply([](auto&&... part) { return std::tuple(part...); }, result);
  else return std::tuple<std::decay_t<R>>(std::forward<R>(result));
}

// Inside a recording: (first result, gradients with respect to arguments Which, nested as they are, other results).
template <size_t... Which, class F, class... A>
auto differentiate(const F& f, const A&... arguments) {
  std::tuple<A...> own(arguments...);
  static_assert(((Which < sizeof...(A)) && ...), "there is no such argument");
  std::vector<tensor> targets;
  const auto renew = [&](tensor& leaf) {
    // A value of its own: what the caller computed from the same tensor does not count.
    leaf = leaf.is_number() ? throw error(PERIGEE_USAGE, "gradients are with respect to tensors; an argument is a number")
                            : leaf.reshape(leaf.shape());
    targets.push_back(leaf);
  };
  (each_tensor(std::get<Which>(own), nullptr, renew), ...);
  auto results = as_tuple(std::apply(f, std::as_const(own)));
  const tensor& root = std::get<0>(results);
  static_assert(std::is_same_v<std::decay_t<decltype(std::get<0>(results))>, tensor>,
                "the function's first result is a tensor of one element");
  const std::vector<perigee_tensor*> wanted = handles_of(targets);
  std::vector<perigee_tensor*> found(wanted.size(), nullptr);
  if (!root.is_recorded()) throw error(PERIGEE_USAGE, "the function's result does not depend on its arguments");
  checked(perigee_gradients(root.get(), wanted.data(), static_cast<int32_t>(wanted.size()), found.data()), root.get(),
          perigee_tensor_message);
  std::vector<tensor> gradients;
  for (perigee_tensor* each : found) gradients.push_back(tensor::own(each));
  size_t next = 0;
  const auto replace = [&](tensor& leaf) { leaf = gradients[next++]; };
  (each_tensor(std::get<Which>(own), nullptr, replace), ...);
  return std::apply([&](const auto& first, const auto&... rest) { return std::tuple(first, std::get<Which>(own)..., rest...); }, results);
}

template <class Tuple, size_t... I>
auto some_of(const Tuple& all, std::index_sequence<I...>) {
  if constexpr (sizeof...(I) == 1) return std::get<1>(all);
  else return std::tuple(std::get<1 + I>(all)...);
}

}  // namespace detail

// A function that returns the first result of f, one number as a tensor, its gradients with respect to arguments `Which` (from 0; the first when none
// is named), each nested as the argument is, and f's other results: auto [loss, g] = pg::value_and_grad(f)(w);
template <size_t... Which, class F>
auto value_and_grad(F f) {
  if constexpr (sizeof...(Which) == 0) {
    return value_and_grad<0>(std::move(f));
  } else {
    const auto both = [f = std::move(f)](const auto&... arguments) { return detail::differentiate<Which...>(f, arguments...); };
    return compiled<std::remove_const_t<decltype(both)>>(both);
  }
}

// The gradients alone; several as a tuple: pg::grad(f)(x), pg::grad<0, 2>(f)(x, y, z).
template <size_t... Which, class F>
auto grad(F f) {
  if constexpr (sizeof...(Which) == 0) {
    return grad<0>(std::move(f));
  } else {
    const auto gradients = [f = std::move(f)](const auto&... arguments) {
      return detail::some_of(detail::differentiate<Which...>(f, arguments...), std::index_sequence<Which...>());
    };
    return compiled<std::remove_const_t<decltype(gradients)>>(gradients);
  }
}

// The derivatives of each element of f's result with respect to each of its first argument, a tensor: shape (result's..., argument's...).
template <class F>
auto jacobian(F f) {
  const auto value = compile(f);
  const auto row = grad([f](const tensor& x, const tensor& chosen, const auto&... more) { return (f(x, more...) * chosen).sum(); });
  return [value, row](const tensor& x, const auto&... more) {
    const tensor y = value(x, more...);
    std::vector<tensor> rows;
    for (int64_t i = 0; i < y.numel(); ++i)
      rows.push_back(row(x, arange(static_cast<double>(y.numel()), i64).eq(i).to(y.dtype()).reshape(y.shape()), more...));
    sizes shape = y.shape();
    for (const int64_t size : x.shape()) shape.push_back(size);
    return stack(rows).reshape(shape);
  };
}

}  // namespace perigee::api
