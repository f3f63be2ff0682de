// Makers and functions of tensors: those that `pg.*` has beside methods in Lua. Include perigee.hpp instead of this.
#pragma once

#include <map>

#include "perigee_tensor.hpp"

namespace perigee::api {

// --- Making -------------------------------------------------------------------------------------------------------------------------

inline tensor zeros(const sizes& shape, perigee_dtype dtype = f32) { return tensor::copy_of(dtype, shape, nullptr, 0); }
inline tensor full(const sizes& shape, double number, perigee_dtype dtype = f32) {
  const tensor made = zeros(shape, dtype);
  detail::checked(perigee_tensor_assign(made.get(), tensor(number).get()), made.get(), perigee_tensor_message);
  return made;
}
inline tensor ones(const sizes& shape, perigee_dtype dtype = f32) { return full(shape, 1, dtype); }

// A copy of numbers that lie row-major in anything contiguous: pg::from(std::vector{1.f, 2.f}, {2}).
template <class Range>
tensor from(const Range& numbers, const sizes& shape) {
  const auto* data = std::data(numbers);
  return tensor::copy_of(detail::dtype_of<std::remove_pointer_t<decltype(data)>>(), shape, data, std::size(numbers) * sizeof *data);
}
// The numbers themselves, without copying; they live until the last tensor on them is gone, or as long as `owner`, which it keeps.
template <class T>
tensor borrow(std::span<T> numbers, const sizes& shape, std::shared_ptr<const void> owner = nullptr) {
  static_assert(!std::is_const_v<T>, "a tensor may be written to; pg::from copies");
  size_t wanted = 1;
  for (const int64_t size : shape) wanted *= static_cast<size_t>(std::max<int64_t>(0, size));
  if (wanted != numbers.size())
    throw error(PERIGEE_USAGE,
                "borrow: the shape has " + std::to_string(wanted) + " elements, the memory " + std::to_string(numbers.size()));
  perigee_tensor* made = nullptr;
  auto held = std::make_unique<std::shared_ptr<const void>>(std::move(owner));
  const auto release = [](void* user) {
    const std::unique_ptr<std::shared_ptr<const void>> last(static_cast<std::shared_ptr<const void>*>(user));
  };
  detail::check_tensors(perigee_tensor_borrow(detail::tensor_context(), detail::dtype_of<T>(), static_cast<int32_t>(shape.size()),
                                              shape.data(), nullptr, numbers.data(), release, held.get(), &made));
  held.release();  // `release` owns it now
  return tensor::own(made);
}

// 0, 1, ... to before `stop`; or from `start` to before `stop`.
inline tensor arange(double start, double stop, double step = 1, perigee_dtype dtype = f32) {
  const double count = step == 0 ? 0 : std::ceil((stop - start) / step - 1e-9);
  if (step == 0 || count > 1e15) throw error(PERIGEE_USAGE, "arange: the step is 0, or too small");
  std::vector<double> numbers;
  for (double i = 0; i < count; ++i) numbers.push_back(start + i * step);
  return from(numbers, {static_cast<int64_t>(numbers.size())}).to(dtype);
}
inline tensor arange(double stop, perigee_dtype dtype = f32) { return arange(0, stop, 1, dtype); }
// `count` numbers from `first` to `last`, both included.
inline tensor linspace(double first, double last, int64_t count, perigee_dtype dtype = f32) {
  if (count < 1) throw error(PERIGEE_USAGE, "linspace: there is at least one number");
  std::vector<double> numbers(static_cast<size_t>(count), first);
  for (int64_t i = 1; i < count; ++i)
    numbers[static_cast<size_t>(i)] =
        i == count - 1 ? last : first + static_cast<double>(i) * (last - first) / static_cast<double>(count - 1);
  return from(numbers, {count}).to(dtype);
}
inline tensor eye(int64_t rows, int64_t columns = -1, perigee_dtype dtype = f32) {
  if (columns < 0) columns = rows;
  return (arange(static_cast<double>(rows), i64).unsqueeze(1).eq(arange(static_cast<double>(columns), i64))).to(dtype);
}

// --- Draws: a stream of each thread's, which pg::seed starts anew -----------------------------------------------------------------------

inline void seed(uint64_t number) { detail::check_tensors(perigee_seed(detail::tensor_context(), number)); }

namespace detail {
inline tensor draw(const char* op, const options& attrs) {
  not_recorded("a draw; make it outside and pass it in: it");
  return tensor::apply(op, {}, attrs);
}
}  // namespace detail

// Uniform on [low, high).
inline tensor rand(const sizes& shape, double low = 0, double high = 1, perigee_dtype dtype = f32) {
  return detail::draw("rand", {{"shape", detail::list(shape)}, {"dtype", dtype_name(dtype)}, {"low", low}, {"high", high}});
}
inline tensor randn(const sizes& shape, double mean = 0, double stddev = 1, perigee_dtype dtype = f32) {
  return detail::draw("randn", {{"shape", detail::list(shape)}, {"dtype", dtype_name(dtype)}, {"mean", mean}, {"stddev", stddev}});
}
// Whole numbers from `low` to before `high`.
inline tensor randint(int64_t low, int64_t high, const sizes& shape, perigee_dtype dtype = i64) {
  return detail::draw("randint", {{"shape", detail::list(shape)}, {"dtype", dtype_name(dtype)}, {"low", low}, {"high", high}});
}
// 0 to n - 1 in random order.
inline tensor randperm(int64_t n) { return detail::draw("randperm", {{"n", n}}); }

// --- Element by element -------------------------------------------------------------------------------------------------------------
// pg::relu, pg::sigmoid, pg::tanh, pg::softplus, which are activations of layers too, are called in the same way (perigee_value.hpp); any other op
// of the table is in pg::ops.

inline tensor abs(const tensor& x) { return tensor::apply("abs", {x}); }
inline tensor sign(const tensor& x) { return tensor::apply("sign", {x}); }
inline tensor square(const tensor& x) { return tensor::apply("square", {x}); }
inline tensor sqrt(const tensor& x) { return tensor::apply("sqrt", {x}); }
inline tensor exp(const tensor& x) { return tensor::apply("exp", {x}); }
inline tensor log(const tensor& x) { return tensor::apply("log", {x}); }
inline tensor sin(const tensor& x) { return tensor::apply("sin", {x}); }
inline tensor cos(const tensor& x) { return tensor::apply("cos", {x}); }
inline tensor erf(const tensor& x) { return tensor::apply("erf", {x}); }
inline tensor floor(const tensor& x) { return tensor::apply("floor", {x}); }
inline tensor ceil(const tensor& x) { return tensor::apply("ceil", {x}); }
inline tensor round(const tensor& x) { return tensor::apply("round", {x}); }
inline tensor pow(const tensor& x, const tensor& y) { return tensor::apply("pow", {x, y}); }
inline tensor mod(const tensor& x, const tensor& y) { return tensor::apply("mod", {x, y}); }
inline tensor maximum(const tensor& x, const tensor& y) { return tensor::apply("maximum", {x, y}); }
inline tensor minimum(const tensor& x, const tensor& y) { return tensor::apply("minimum", {x, y}); }
inline tensor logical_not(const tensor& x) { return tensor::apply("logical_not", {x}); }
inline tensor logical_and(const tensor& x, const tensor& y) { return tensor::apply("logical_and", {x, y}); }
inline tensor logical_or(const tensor& x, const tensor& y) { return tensor::apply("logical_or", {x, y}); }
// a where the condition holds, else b.
inline tensor where(const tensor& condition, const tensor& a, const tensor& b) { return tensor::apply("where", {condition, a, b}); }

template <class T>
requires std::same_as<T, tensor> tensor rule::operator()(const T& x) const { return tensor::apply(name, {x}); }

// --- Together -------------------------------------------------------------------------------------------------------------------------

// One after the other along an axis.
inline tensor concatenate(const std::vector<tensor>& parts, int64_t axis = 0) {
  if (parts.empty()) throw error(PERIGEE_USAGE, "concatenate: the list is empty");
  return tensor::apply_all("concatenate", parts, {{"axis", axis}}, 1)[0];
}
// Joins tensors of one shape along a new axis.
inline tensor stack(const std::vector<tensor>& parts, int64_t axis = 0) {
  std::vector<tensor> wide;
  for (const tensor& each : parts) wide.push_back(each.unsqueeze(axis));
  return concatenate(wide, axis);
}

// The sum of products over labels, as NumPy has it: pg::einsum("bij,bjk->bik", {a, b}). Any number of operands; a label that the result lacks
// is summed over, one that an operand repeats takes its diagonal, "..." stands for the dimensions that no label names.
inline tensor einsum(const std::string& formula, const std::vector<tensor>& of) {
  return tensor::apply_all("einsum", of, {{"formula", formula}}, 1)[0];
}

// --- Files: .npy, .npz, .safetensors, .csv, .png, .jpg (reading) ------------------------------------------------------------------------

// Tensors by name; those of formats that hold one tensor have an empty name.
inline std::map<std::string, tensor> load(const std::string& path) {
  perigee_tensor_file* made = nullptr;
  detail::check_tensors(perigee_tensor_file_load(detail::tensor_context(), path.c_str(), &made));
  const detail::handle<perigee_tensor_file, perigee_tensor_file_free> file(made);
  std::map<std::string, tensor> all;
  for (int32_t i = 0; i < perigee_tensor_file_count(file.get()); ++i) {
    const char* name = nullptr;
    perigee_tensor* each = nullptr;
    detail::checked(perigee_tensor_file_get(file.get(), i, &name, &each), file.get(), perigee_tensor_file_message);
    all[name] = tensor::own(each);
  }
  return all;
}
inline void save(const std::string& path, const std::map<std::string, tensor>& tensors) {
  std::vector<const char*> names;
  std::vector<perigee_tensor*> handles;
  for (const auto& [name, each] : tensors) {
    names.push_back(name.c_str());
    handles.push_back(each.get());
  }
  detail::check_tensors(
      perigee_tensor_file_save(detail::tensor_context(), path.c_str(), names.data(), handles.data(), static_cast<int32_t>(handles.size())));
}
inline void save(const std::string& path, const tensor& only) {
  perigee_tensor* handle = only.get();
  detail::check_tensors(perigee_tensor_file_save(detail::tensor_context(), path.c_str(), nullptr, &handle, 1));
}

}  // namespace perigee::api
