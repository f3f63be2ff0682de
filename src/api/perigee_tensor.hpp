// Tensors of C++ programs: what `pg.tensor` is in Lua, over the same ops, kernels and names. Include perigee.hpp instead of this.
//
//     pg::tensor w({{1, 2}, {3, 4}}), x = pg::randn({8, 2});
//     auto y = matmul(x, w) + 1;
//     y.sum(0);  y[0];  y[{pg::slice(1, 3), -1}];  x[{pg::whole, 0}] = 5;  y.data<float>()[3];
//
// Places and axes count from 0, and from the end with -1; ranges end before their `stop`; both as C++ has it, where Lua counts from 1 and
// includes ends. A tensor without a named dtype is f32. Copies of a tensor and its windows share memory; clone() has its own.
// Computations are recorded while pg::grad or pg::compile record a function. Errors are pg::error, and name shapes.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstring>
#include <numeric>
#include <utility>

#include "perigee_index.hpp"

namespace perigee::api {

class tensor {
 public:
  tensor() = default;
  tensor(const tensor&) = default;
  tensor(tensor&&) = default;
  ~tensor() = default;
  tensor& operator=(const tensor&) & = default;
  tensor& operator=(tensor&&) & = default;
  // Assigns to a temporary, as x[...] gives it: into the memory that it looks at. (A choice by mask or places is a copy, and const.)
  void operator=(const tensor& value) && { copy_(value); }

  // tensor({1, 2}), tensor({{1, 2}, {3, 4}}, pg::i64)
  tensor(std::initializer_list<detail::nested> entries, perigee_dtype dtype = f32) {
    sizes shape{static_cast<int64_t>(entries.size())};
    std::vector<double> numbers;
    flatten(entries.begin(), entries.size(), shape, 0, numbers);
    *this = copy_of(f64, shape, numbers.data(), numbers.size() * sizeof(double)).to(dtype);
  }
  // A plain number takes the dtype of the tensors that it meets.
  template <class T>
  requires std::is_arithmetic_v<T> tensor(T number) {  // x + 1
    perigee_tensor* made = nullptr;
    detail::check_tensors(perigee_tensor_number(detail::tensor_context(), static_cast<double>(number), &made));
    handle_.reset(made, perigee_tensor_free);
  }
  // Takes over a handle of perigee.h.
  static tensor own(perigee_tensor* handle) {
    tensor made;
    made.handle_.reset(handle, perigee_tensor_free);
    return made;
  }
  static tensor copy_of(perigee_dtype dtype, const sizes& shape, const void* data, size_t bytes) {
    perigee_tensor* made = nullptr;
    detail::check_tensors(
        perigee_tensor_create(detail::tensor_context(), dtype, static_cast<int32_t>(shape.size()), shape.data(), data, bytes, &made));
    return own(made);
  }

  bool defined() const { return handle_ != nullptr; }
  perigee_tensor* get() const { return handle_.get(); }

  // --- Properties

  perigee_view view() const {
    perigee_view found{};
    found.size = sizeof found;
    check(perigee_tensor_view(get(), &found));
    return found;
  }
  perigee_dtype dtype() const { return view().dtype; }
  int64_t rank() const { return view().rank; }
  int64_t numel() const { return view().elements; }
  bool is_contiguous() const { return view().contiguous != 0; }
  bool is_number() const { return view().number != 0; }
  bool is_recorded() const { return defined() && view().data == nullptr; }
  sizes shape() const {
    const perigee_view found = view();
    return {found.shape, found.shape + found.rank};
  }
  int64_t size(int64_t axis) const { return view().shape[axis_of(axis)]; }
  std::string text() const {  // "f32[2x3]"
    std::string dims;
    for (const int64_t size : shape()) dims += (dims.empty() ? "" : "x") + std::to_string(size);
    return std::string(dtype_name(dtype())) + "[" + (dims.empty() ? "scalar" : dims) + "]";
  }

  // --- Its numbers

  // The only element.
  double item() const {
    if (numel() != 1) throw error(PERIGEE_USAGE, "item: " + text() + " has more or fewer elements than one");
    return to_vector<double>()[0];
  }
  // The elements themselves, row-major, as long as the tensor lives; x.contiguous() where there are gaps.
  template <class T>
  std::span<T> data() const {
    const perigee_view found = view();
    if (found.dtype != detail::dtype_of<T>() || !found.contiguous || !found.data)
      throw error(PERIGEE_USAGE, "data: " + text() +
                                     (found.dtype != detail::dtype_of<T>() ? " holds another type; x.to(...)"
                                      : found.data                         ? " has gaps; x.contiguous()"
                                                                           : " is a recorded value"));
    return {static_cast<T*>(found.data), static_cast<size_t>(found.elements)};
  }
  // A converted copy, row-major.
  template <class T>
  std::vector<T> to_vector() const {
    const tensor same = to(detail::dtype_of<T>());
    std::vector<T> numbers(static_cast<size_t>(same.numel()));
    same.check(perigee_tensor_read(same.get(), numbers.data(), numbers.size() * sizeof(T)));
    return numbers;
  }
  tensor to(perigee_dtype dtype) const {
    const perigee_view found = view();
    return found.dtype == dtype && !found.number ? *this : apply("cast", {*this}, {{"dtype", dtype_name(dtype)}});
  }
  tensor clone() const {
    if (is_recorded()) return *this;
    tensor made = copy_of(dtype(), shape(), nullptr, 0);
    made.check(perigee_tensor_assign(made.get(), get()));  // a copy of numbers from outside may be recorded
    return made;
  }
  tensor contiguous() const { return is_contiguous() ? *this : clone(); }

  // --- Windows on it, and what is written into them

  tensor operator[](const index_entry& at) const { return window(&at, 1); }
  tensor operator[](std::initializer_list<index_entry> at) const { return window(at.begin(), at.size()); }
  // The elements where a mask holds, or the slices at places along dimension 0: a copy.
  template <std::same_as<tensor> Chosen>
  const tensor operator[](const Chosen& chosen) const {  // const: an assignment would change only the copy
    return chosen.dtype() == boolean ? apply("masked_select", {*this, chosen}) : take(chosen);
  }

  const tensor& copy_(const tensor& value) const {
    detail::not_recorded("copy_");
    return check(perigee_tensor_assign(get(), value.get()));
  }
  const tensor& fill(double number) const { return copy_(number); }
  // Where the mask holds, x becomes `value`.
  const tensor& set(const tensor& mask, const tensor& value) const {
    detail::not_recorded("set");
    apply("masked_assign", {*this, mask, value});
    return *this;
  }
  // x.into("mul", y): x = x * y in x's memory; any element-wise op of the table.
  template <class... Others>
  const tensor& into(const char* op, const Others&... others) const {
    detail::not_recorded(std::string("a change by ") + op);
    const tensor operands[] = {*this, tensor(others)...};
    perigee_tensor* handles[std::size(operands)];
    for (size_t i = 0; i < std::size(operands); ++i) handles[i] = operands[i].get();
    return check(perigee_op_into(get(), op, handles, static_cast<int32_t>(std::size(operands))));
  }
  const tensor& add_(const tensor& y) const { return into("add", y); }
  const tensor& sub_(const tensor& y) const { return into("sub", y); }
  const tensor& mul_(const tensor& y) const { return into("mul", y); }
  const tensor& div_(const tensor& y) const { return into("div", y); }

  // --- Any op

  // Results of an op of the library, by name; computed at once, or recorded.
  static std::vector<tensor> apply_all(const char* op, std::span<const tensor> in, const options& attrs, size_t count) {
    std::vector<perigee_tensor*> operands, results(count, nullptr);
    for (const tensor& each : in) operands.push_back(each.get());
    const std::string text = attrs.members().empty() ? "" : value(attrs).text();
    detail::check_tensors(perigee_op(detail::tensor_context(), op, operands.data(), static_cast<int32_t>(operands.size()),
                                     text.empty() ? nullptr : text.c_str(), results.data(), static_cast<int32_t>(count)));
    std::vector<tensor> made;
    for (perigee_tensor* each : results) made.push_back(own(each));
    return made;
  }
  static tensor apply(const char* op, std::initializer_list<tensor> in, const options& attrs = {}) {
    perigee_tensor *operands[8] = {}, *result = nullptr;
    if (in.size() > std::size(operands)) return apply_all(op, {in.begin(), in.size()}, attrs, 1)[0];
    std::transform(in.begin(), in.end(), operands, [](const tensor& each) { return each.get(); });
    const std::string text = attrs.members().empty() ? "" : value(attrs).text();
    detail::check_tensors(perigee_op(detail::tensor_context(), op, operands, static_cast<int32_t>(in.size()),
                                     text.empty() ? nullptr : text.c_str(), &result, 1));
    return own(result);
  }

  // --- Over axes

  tensor sum(const axes& over = {}, bool keep = false) const { return reduce("reduce_sum", over, keep); }
  tensor mean(const axes& over = {}, bool keep = false) const { return reduce("reduce_mean", over, keep); }
  tensor prod(const axes& over = {}, bool keep = false) const { return reduce("reduce_prod", over, keep); }
  tensor max(const axes& over = {}, bool keep = false) const { return reduce("reduce_max", over, keep); }
  tensor min(const axes& over = {}, bool keep = false) const { return reduce("reduce_min", over, keep); }
  tensor argmax(int64_t axis = -1, bool keep = false) const { return apply("arg_max", {*this}, {{"axis", axis}, {"keep", keep}}); }
  tensor argmin(int64_t axis = -1, bool keep = false) const { return apply("arg_min", {*this}, {{"axis", axis}, {"keep", keep}}); }
  tensor cumsum(int64_t axis = -1) const { return apply("cumulative_sum", {*this}, {{"axis", axis}}); }
  // `correction` 1 divides by n - 1.
  tensor var(const axes& over = {}, bool keep = false, double correction = 0) const {
    const tensor centred = apply("sub", {*this, mean(over, true)}), total = apply("square", {centred}).sum(over, keep);
    const double count = static_cast<double>(numel()) / static_cast<double>(std::max<int64_t>(1, total.numel()));
    return apply("div", {total, count - correction});
  }
  tensor std(const axes& over = {}, bool keep = false, double correction = 0) const { return root(var(over, keep, correction)); }
  tensor norm(const axes& over = {}, bool keep = false) const { return root(apply("square", {*this}).sum(over, keep)); }
  // log(sum(exp(x))), without overflow.
  tensor logsumexp(const axes& over = {}, bool keep = false) const {
    const tensor top = max(over, true), largest = apply("where", {apply("is_finite", {top}), top, tensor(0.0)}),
                 total = apply("exp", {apply("sub", {*this, largest})}).sum(over, true);
    const tensor wide = apply("add", {apply("log", {total}), largest});
    return keep ? wide : wide.reshape(max(over).shape());
  }
  tensor any(const axes& over = {}, bool keep = false) const { return ne(0).sum(over, keep).gt(0); }
  tensor all(const axes& over = {}, bool keep = false) const { return eq(0).sum(over, keep).eq(0); }

  // --- Comparisons: bool tensors, and one answer for all

  tensor eq(const tensor& y) const { return apply("equal", {*this, y}); }
  tensor ne(const tensor& y) const { return apply("not_equal", {*this, y}); }
  tensor lt(const tensor& y) const { return apply("less", {*this, y}); }
  tensor le(const tensor& y) const { return apply("less_equal", {*this, y}); }
  tensor gt(const tensor& y) const { return apply("greater", {*this, y}); }
  tensor ge(const tensor& y) const { return apply("greater_equal", {*this, y}); }
  bool all_equal(const tensor& y) const { return shape() == y.shape() && eq(y).all().item() != 0; }
  bool all_close(const tensor& y, double rtol = 1e-5, double atol = 1e-8) const {
    if (shape() != y.shape()) return false;
    const tensor distance = apply("abs", {apply("sub", {*this, y})});
    const tensor border = apply("add", {apply("mul", {apply("abs", {y}), rtol}), atol});
    return apply("logical_or", {distance.le(border), eq(y)}).all().item() != 0;
  }

  // --- Shapes: views wherever strides allow

  tensor reshape(const sizes& shape) const { return apply("reshape", {*this}, {{"shape", detail::list(shape)}}); }
  tensor flatten() const { return reshape({-1}); }
  tensor transpose(const std::vector<int64_t>& order = {}) const {
    if (order.empty()) return apply("transpose", {*this});
    return apply("transpose", {*this}, {{"order", detail::list(order)}});
  }
  tensor transpose(int64_t first, int64_t second) const {  // swaps two
    sizes order(static_cast<size_t>(rank()));
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[axis_of(first)], order[axis_of(second)]);
    return transpose(order);
  }
  tensor T() const { return transpose(); }
  tensor unsqueeze(int64_t axis) const {
    sizes wider = shape();
    const int64_t at = axis < 0 ? axis + rank() + 1 : axis;
    if (at < 0 || at > rank()) throw error(PERIGEE_USAGE, "unsqueeze: there is no place " + std::to_string(axis) + " in " + text());
    wider.insert(wider.begin() + at, 1);
    return reshape(wider);
  }
  // Without dimensions of size 1, or without `axis`.
  tensor squeeze() const {
    sizes kept = shape();
    std::erase(kept, 1);
    return reshape(kept);
  }
  tensor squeeze(int64_t axis) const {
    sizes kept = shape();
    const size_t at = axis_of(axis);
    if (kept[at] == 1) kept.erase(kept.begin() + static_cast<ptrdiff_t>(at));
    return reshape(kept);
  }
  tensor expand(const sizes& shape) const { return apply("broadcast_to", {*this}, {{"shape", detail::list(shape)}}); }
  // `count` places from `first` along an axis.
  tensor narrow(int64_t axis, int64_t first, int64_t count) const {
    std::vector<index_entry> at(axis_of(axis), whole);
    at.push_back(slice(first, first < 0 && first + count == 0 ? PERIGEE_END : first + count));
    return window(at.data(), at.size());
  }
  // Parts of `size` along an axis; the last may be smaller.
  std::vector<tensor> split(int64_t size, int64_t axis = 0) const {
    if (size < 1) throw error(PERIGEE_USAGE, "split: a part has at least one place");
    std::vector<tensor> parts;
    const int64_t total = this->size(axis);
    for (int64_t first = 0; first < total; first += size) parts.push_back(narrow(axis, first, std::min(size, total - first)));
    return parts;
  }

  // --- Choice and order

  tensor clamp(const tensor& low, const tensor& high) const { return apply("minimum", {apply("maximum", {*this, low}), high}); }
  tensor take(const tensor& places, int64_t axis = 0) const { return apply("take", {*this, places}, {{"axis", axis}}); }
  tensor take_along(const tensor& places, int64_t axis = -1) const { return apply("take_along", {*this, places}, {{"axis", axis}}); }
  tensor nonzero() const { return apply("nonzero", {*this}); }  // places, i64 [count, rank]
  tensor one_hot(int64_t depth, perigee_dtype dtype = f32) const {
    return apply("one_hot", {*this}, {{"depth", depth}, {"dtype", dtype_name(dtype)}});
  }
  tensor argsort(int64_t axis = -1, bool descending = false) const {
    return apply("arg_sort", {*this}, {{"axis", axis}, {"descending", descending}});
  }
  // Values and the places that they had.
  std::pair<tensor, tensor> sort(int64_t axis = -1, bool descending = false) const {
    const tensor places = argsort(axis, descending);
    return {take_along(places, axis), places};
  }
  std::pair<tensor, tensor> topk(int64_t count, int64_t axis = -1, bool smallest = false) const {
    const tensor places = apply("arg_sort", {*this}, {{"axis", axis}, {"descending", !smallest}, {"count", count}});
    return {take_along(places, axis), places};
  }

  // --- Networks

  tensor softmax(int64_t axis = -1) const { return apply("softmax", {*this}, {{"axis", axis}}); }
  tensor log_softmax(int64_t axis = -1) const { return apply("log_softmax", {*this}, {{"axis", axis}}); }
  // Losses of logits (N, C, ...), for classes (N, ...) or distributions of the logits' shape.
  tensor cross_entropy(const tensor& labels, double label_smoothing = 0) const {
    return apply("cross_entropy", {*this, labels}, {{"label_smoothing", label_smoothing}});
  }
  // x (N, C, H, W), w (O, C / groups, kh, kw), bias (O) or tensor().
  tensor conv2d(const tensor& w, const tensor& bias = tensor(), const window_options& given = {}) const {
    options attrs = window_attrs(given, std::max<int64_t>(1, given.stride));
    attrs.set("groups", given.groups);
    return bias.defined() ? apply("conv2d", {*this, w, bias}, attrs) : apply("conv2d", {*this, w}, attrs);
  }
  tensor maxpool(const window_options& given) const { return pool("max", given); }
  tensor avgpool(const window_options& given) const { return pool("average", given); }
  tensor sumpool(const window_options& given) const { return pool("sum", given); }

  // --- Products and linear algebra

  // A vector is a row on the left and a column on the right; leading dimensions broadcast.
  tensor matmul(const tensor& b) const {
    const bool left = rank() == 1, right = b.rank() == 1;
    if (!left && !right) return apply("matmul", {*this, b});
    const tensor product = apply("matmul", {left ? unsqueeze(0) : *this, right ? b.unsqueeze(1) : b});
    sizes shape = product.shape();
    if (right) shape.pop_back();
    if (left) shape.erase(shape.end() - (right ? 1 : 2));
    return product.reshape(shape);
  }
  tensor solve(const tensor& b) const { return apply("solve", {*this, b}); }  // x with this x = b
  tensor inv() const { return apply("inv", {*this}); }
  tensor cholesky() const { return apply("cholesky", {*this}); }                  // the lower factor
  std::vector<tensor> qr() const { return apply_all("qr", {this, 1}, {}, 2); }    // Q, R
  std::vector<tensor> svd() const { return apply_all("svd", {this, 1}, {}, 3); }  // U, S, V^T
  tensor det() const { return apply("det", {*this}); }
  std::vector<tensor> eigh() const { return apply_all("eigh", {this, 1}, {}, 2); }  // values ascending, vectors in columns

 private:
  // The derivative at 0 is 0, as PyTorch has it, and not infinite times 0.
  static tensor root(const tensor& x) {
    if (!x.is_recorded()) return apply("sqrt", {x});
    const tensor none = x.eq(0);
    return apply("where", {none, tensor(0.0), apply("sqrt", {apply("where", {none, tensor(1.0), x})})});
  }
  const tensor& check(perigee_status status) const {
    if (!defined()) throw error(PERIGEE_USAGE, "the tensor is not defined");
    detail::check(status, perigee_tensor_message(get()));
    return *this;
  }
  size_t axis_of(int64_t axis) const {
    const int64_t ranked = rank();
    if (axis < -ranked || axis >= ranked) throw error(PERIGEE_USAGE, "there is no axis " + std::to_string(axis) + " of " + text());
    return static_cast<size_t>(axis < 0 ? axis + ranked : axis);
  }
  tensor window(const index_entry* at, size_t count) const {
    std::vector<perigee_index> entries(at, at + count);
    perigee_tensor* made = nullptr;
    check(perigee_tensor_window(get(), entries.data(), static_cast<int32_t>(count), &made));
    return own(made);
  }
  tensor reduce(const char* op, const axes& over, bool keep) const {
    options attrs{{"keep", keep}};
    if (!over.list.empty()) attrs.set("axes", detail::list(over.list));
    return apply(op, {*this}, attrs);
  }
  static options window_attrs(const window_options& given, int64_t stride) {
    const int64_t p = given.padding, d = given.dilation;
    return {{"stride", {stride, stride}}, {"padding", {p, p, p, p}}, {"dilation", {d, d}}};
  }
  tensor pool(const char* kind, const window_options& given) const {
    options attrs = window_attrs(given, given.stride > 0 ? given.stride : given.kernel);
    attrs.set("kernel", {given.kernel, given.kernel});
    attrs.set("kind", kind);
    return apply("pool2d", {*this}, attrs);
  }
  static void flatten(const detail::nested* entries, size_t count, sizes& shape, size_t depth, std::vector<double>& numbers) {
    if (static_cast<int64_t>(count) != shape[depth])
      throw error(PERIGEE_USAGE, "a list has " + std::to_string(count) + " entries; its neighbours have " + std::to_string(shape[depth]));
    for (size_t i = 0; i < count; ++i) {
      const detail::nested& entry = entries[i];
      if (entry.is_list && depth + 1 == shape.size() && numbers.empty()) shape.push_back(static_cast<int64_t>(entry.list.size()));
      if (entry.is_list != (depth + 1 < shape.size())) throw error(PERIGEE_USAGE, "lists and numbers are mixed on one level");
      if (entry.is_list) flatten(entry.list.data(), entry.list.size(), shape, depth + 1, numbers);
      else numbers.push_back(entry.number);
    }
  }

  std::shared_ptr<perigee_tensor> handle_;
};

inline tensor operator+(const tensor& a, const tensor& b) { return tensor::apply("add", {a, b}); }
inline tensor operator-(const tensor& a, const tensor& b) { return tensor::apply("sub", {a, b}); }
inline tensor operator*(const tensor& a, const tensor& b) { return tensor::apply("mul", {a, b}); }
inline tensor operator/(const tensor& a, const tensor& b) { return tensor::apply("div", {a, b}); }
inline tensor operator-(const tensor& a) { return tensor::apply("neg", {a}); }
inline tensor matmul(const tensor& a, const tensor& b) { return a.matmul(b); }

}  // namespace perigee::api
