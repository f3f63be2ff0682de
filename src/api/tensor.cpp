// perigee.h: tensors, windows on them, files.
#include <algorithm>
#include <climits>

#include "src/api/tensor_handles.h"
#include "src/eager/files.h"
#include "src/eager/window.h"
#include "src/graph/op.h"

namespace perigee {
namespace {

// The caller's memory; tells the caller when nothing looks at it any more.
struct Borrowed {
  Storage storage;
  void (*release)(void*) = nullptr;
  void* user = nullptr;

  explicit Borrowed(Storage window) : storage(std::move(window)) {}
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {
    if (release) release(user);
  }
};

// The elements that a strided array reaches around its first one: low <= 0 <= high.
struct Reach {
  int64_t low = 0, high = 0;
};

Reach reach_of(const Shape& shape, const int64_t* strides, const char* function) {
  Reach reach;
  if (shape.elements() == 0) return reach;
  for (int i = 0; i < shape.rank(); ++i) {
    int64_t far = 0;
    int64_t& end = strides[i] < 0 ? reach.low : reach.high;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &far) || __builtin_add_overflow(end, far, &end) || reach.high > kMaxElements ||
        reach.low < -kMaxElements)
      misuse(function, "the strides lead out of any memory", std::to_string(strides[i]) + " for dimension " + std::to_string(i));
  }
  return reach;
}

Shape read_shape(int32_t rank, const int64_t* shape, const char* function) {
  if (rank < 0 || rank > PERIGEE_MAX_RANK) misuse(function, "the rank is out of range", std::to_string(rank), "0 to 8");
  require(shape || rank == 0, function, "shape must not be null");
  return rank == 0 ? Shape() : Shape(std::vector<int64_t>(shape, shape + rank));
}

size_t tensor_bytes_of(const Array& x) { return static_cast<size_t>(x.view.elements()) * dtype_bytes(x.view.dtype); }

// One entry of an index with places from 0; `last` is included, and lies before `first` in the range's direction when it holds nothing.
struct Entry {
  int32_t kind;  // a perigee_index_kind
  int64_t first = 0, last = 0, step = 1;
  int64_t count() const { return (step > 0 ? last < first : last > first) ? 0 : (last - first) / step + 1; }
};

Entry resolve(const perigee_index& given, int64_t size, int dim, const Type& type) {
  constexpr const char* kFunction = "perigee_tensor_window";
  const auto from_start = [size](int64_t place) { return place < 0 ? place + size : place; };
  const auto outside = [&](const std::string& what) {
    misuse(kFunction, what + " lies outside dimension " + std::to_string(dim), type.text(),
           size == 0 ? "none: the dimension is empty" : "0 to " + std::to_string(size - 1) + ", or -1 to -" + std::to_string(size));
  };
  Entry entry{.kind = given.kind};
  if (entry.kind == PERIGEE_WHOLE) {
    entry.last = size - 1;
  } else if (entry.kind == PERIGEE_AT) {
    entry.first = entry.last = from_start(given.start);
    if (entry.first < 0 || entry.first >= size) outside("place " + std::to_string(given.start));
  } else {
    entry.step = given.step == 0 ? 1 : given.step;
    if (entry.step == INT64_MIN) misuse(kFunction, "the step is out of range");
    const bool forward = entry.step > 0;
    entry.first = given.start == PERIGEE_END ? (forward ? size : size - 1) : from_start(given.start);
    const int64_t end = given.stop == PERIGEE_END ? (forward ? size : -1) : from_start(given.stop);
    const bool near = entry.first >= -1 && entry.first <= size && end >= -1 && end <= size;
    if (near) entry.last = forward ? end - 1 : end + 1;
    const bool inside = near && entry.first >= 0 && entry.first < size && entry.last >= 0 && entry.last < size;
    if (!near || (entry.count() > 0 && !inside)) outside("a range from " + std::to_string(given.start));
  }
  return entry;
}

std::vector<Entry> resolve_all(std::span<const perigee_index> given, const Type& type) {
  std::vector<Entry> entries;
  int dim = 0;
  for (const perigee_index& each : given) {
    if (each.kind < PERIGEE_AT || each.kind > PERIGEE_NEW_AXIS)
      misuse("perigee_tensor_window", "unknown kind of index", std::to_string(each.kind), "a perigee_index_kind");
    if (each.kind == PERIGEE_NEW_AXIS) {
      entries.push_back({.kind = PERIGEE_NEW_AXIS});
      continue;
    }
    if (dim == type.shape.rank()) misuse("perigee_tensor_window", "an index has more entries than the tensor has dimensions", type.text());
    entries.push_back(resolve(each, type.shape[dim], dim, type));
    ++dim;
  }
  return entries;
}

Array window_of(const Array& x, const std::vector<Entry>& entries) {
  std::vector<WindowIndex> indices;
  for (const Entry& entry : entries) {
    const auto kind = entry.kind == PERIGEE_AT         ? WindowIndex::at
                      : entry.kind == PERIGEE_RANGE    ? WindowIndex::range
                      : entry.kind == PERIGEE_NEW_AXIS ? WindowIndex::new_axis
                                                       : WindowIndex::whole;
    indices.push_back({kind, entry.first, entry.count(), entry.step});
  }
  return window(x, indices);
}

// The same of a recorded value: a slice and a reshape.
int record_window(Recorder& recorder, int value, const std::vector<Entry>& entries) {
  const Type type = recorder.type(value);
  std::vector<int64_t> start, stop, step, dims;
  for (const Entry& entry : entries) {
    if (entry.kind == PERIGEE_NEW_AXIS) {
      dims.push_back(1);
      continue;
    }
    const bool empty = entry.count() == 0;
    if (entry.step < 0 && !empty) misuse("perigee_tensor_window", "a range that runs backwards cannot be recorded");
    start.push_back(empty ? 0 : entry.first);
    stop.push_back(empty ? 0 : entry.last + 1);
    step.push_back(empty ? 1 : entry.step);
    if (entry.kind != PERIGEE_AT) dims.push_back(entry.count());
  }
  for (int d = static_cast<int>(start.size()); d < type.shape.rank(); ++d) dims.push_back(type.shape[d]);
  Json slice = Json::object(), reshape = Json::object();
  slice.set("start", ints_json(start));
  slice.set("stop", ints_json(stop));
  slice.set("step", ints_json(step));
  reshape.set("shape", ints_json(dims));
  const Recorder::Operand whole{.value = value, .number = {}};
  const Recorder::Operand part{.value = recorder.apply("slice", std::span(&whole, 1), slice)[0], .number = {}};
  return recorder.apply("reshape", std::span(&part, 1), reshape)[0];
}

}  // namespace

Recorder& Recording::open() {
  if (!recorder)
    throw Error(ErrorKind::usage, {.what = "this value belongs to a function that is recorded already", .hint = "call the function"});
  return *recorder;
}

void give_tensor(const std::shared_ptr<const ContextState>& context, Array array, perigee_tensor** out, bool number) {
  auto handle = std::make_unique<perigee_tensor>();
  handle->context = context;
  handle->array = std::move(array);
  handle->number = number;
  *out = handle.release();
}

void give_value(const std::shared_ptr<const ContextState>& context, std::shared_ptr<Recording> recording, int value, bool number,
                perigee_tensor** out) {
  auto handle = std::make_unique<perigee_tensor>();
  handle->context = context;
  handle->recording = std::move(recording);
  handle->value = value;
  handle->number = number;
  *out = handle.release();
}

void take_back(std::span<perigee_tensor*> outputs) {
  for (perigee_tensor*& output : outputs) {
    const std::unique_ptr<perigee_tensor> owned(output);
    output = nullptr;
  }
}

const Array& numbers_of(const perigee_tensor* tensor, const char* function) {
  require(tensor != nullptr, function, "a tensor is null");
  require(!tensor->recording, function, "a recorded value has no numbers yet");
  return tensor->array;
}

Tensors tensors_of(perigee_tensor* const* tensors, int32_t count, const char* function) {
  constexpr int32_t kMost = 4096;
  if (count < 0 || count > kMost) misuse(function, "the number of tensors is out of range", std::to_string(count), "0 to 4096");
  require(tensors || count == 0, function, "the list of tensors is null");
  return {tensors, static_cast<size_t>(count)};
}

Dtype read_dtype(const perigee_dtype& dtype, const char* function) {
  const int number = number_of(dtype);
  if (number < PERIGEE_F32 || number > PERIGEE_BOOL) misuse(function, "unknown dtype", std::to_string(number), "a perigee_dtype");
  return static_cast<Dtype>(number - PERIGEE_F32);
}

perigee_dtype give_dtype(Dtype dtype) { return static_cast<perigee_dtype>(static_cast<int>(dtype) + PERIGEE_F32); }

int value_in(Recording& recording, const perigee_tensor& tensor) {
  if (!tensor.recording) return recording.open().capture(tensor.array);
  if (tensor.recording.get() != &recording) throw Error(ErrorKind::usage, {.what = "this value belongs to another recorded function"});
  return tensor.value;
}

}  // namespace perigee

using namespace perigee;

struct perigee_tensor_file {
  std::shared_ptr<const ContextState> context;
  mutable Message message;
  ArrayFile file;
};

Type perigee_tensor::type() const { return recording ? recording->open().type(value) : array.type(); }

extern "C" {

perigee_status perigee_tensor_create(perigee_context* context, perigee_dtype dtype, int32_t rank, const int64_t* shape, const void* data,
                                     size_t byte_count, perigee_tensor** out) noexcept {
  constexpr const char* kFunction = "perigee_tensor_create";
  if (out) *out = nullptr;
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(out != nullptr, kFunction, "out must not be null");
    const Type type{read_dtype(dtype, kFunction), read_shape(rank, shape, kFunction)};
    const size_t bytes = static_cast<size_t>(type.shape.elements()) * dtype_bytes(type.dtype);
    if (byte_count != bytes && (data || byte_count != 0))
      misuse(kFunction, "the numbers do not fill the shape", std::to_string(byte_count) + " bytes",
             std::to_string(bytes) + " for " + type.text());
    require(data || byte_count == 0, kFunction, "data must not be null");
    Array array = new_array(type);
    if (data && bytes > 0) std::memcpy(array.view.data, data, bytes);
    else std::fill_n(array.view.as<std::byte>(), bytes, std::byte{0});
    give_tensor(context->state, std::move(array), out);
  });
}

perigee_status perigee_tensor_borrow(perigee_context* context, perigee_dtype dtype, int32_t rank, const int64_t* shape,
                                     const int64_t* strides, void* data, void (*release)(void* user), void* user,
                                     perigee_tensor** out) noexcept {
  constexpr const char* kFunction = "perigee_tensor_borrow";
  if (out) *out = nullptr;
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(out && data, kFunction, "data and out must not be null");
    const Type type{read_dtype(dtype, kFunction), read_shape(rank, shape, kFunction)};
    const auto size = static_cast<int64_t>(dtype_bytes(type.dtype));
    if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size) != 0)
      misuse(kFunction, "the address does not suit the dtype", dtype_name(type.dtype), "a multiple of " + std::to_string(size));
    View view = contiguous_view(data, type.dtype, type.shape);
    if (strides) std::copy(strides, strides + rank, view.strides);
    const Reach reach = reach_of(type.shape, view.strides, kFunction);
    const int64_t elements = type.shape.elements() == 0 ? 0 : reach.high - reach.low + 1;
    const auto held =
        std::make_shared<Borrowed>(Storage::borrow(static_cast<std::byte*>(data) + reach.low * size, static_cast<size_t>(elements * size)));
    give_tensor(context->state, Array(std::shared_ptr<Storage>(held, &held->storage), view), out);
    held->release = release;
    held->user = user;
  });
}

perigee_status perigee_tensor_number(perigee_context* context, double value, perigee_tensor** out) noexcept {
  if (out) *out = nullptr;
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(out != nullptr, "perigee_tensor_number", "out must not be null");
    Array array = new_array(Type{Dtype::f64, Shape()});
    *array.view.as<double>() = value;
    give_tensor(context->state, std::move(array), out, true);
  });
}

void perigee_tensor_free(perigee_tensor* tensor) noexcept { const std::unique_ptr<perigee_tensor> owned(tensor); }

const char* perigee_tensor_message(const perigee_tensor* tensor) noexcept { return tensor ? tensor->message.get() : ""; }

perigee_status perigee_tensor_view(perigee_tensor* tensor, perigee_view* view) noexcept {
  if (!tensor) return PERIGEE_USAGE;
  return guard(*tensor->context, tensor->message, [&] {
    require(view != nullptr, "perigee_tensor_view", "view must not be null");
    perigee_view found{};
    Type type;
    if (tensor->recording) {
      const std::lock_guard lock(tensor->recording->mutex);
      type = tensor->type();
      found.contiguous = 1;
    } else {
      type = tensor->type();
      std::copy_n(tensor->array.view.strides, type.shape.rank(), found.strides);
      found.data = tensor->array.view.data;
      found.contiguous = tensor->array.view.contiguous();
    }
    found.dtype = give_dtype(type.dtype);
    found.rank = type.shape.rank();
    for (int i = 0; i < found.rank; ++i) found.shape[i] = type.shape[i];
    found.elements = type.shape.elements();
    found.number = tensor->number;
    write_struct(found, view, "perigee_tensor_view");
  });
}

perigee_status perigee_tensor_read(perigee_tensor* tensor, void* data, size_t byte_count) noexcept {
  constexpr const char* kFunction = "perigee_tensor_read";
  if (!tensor) return PERIGEE_USAGE;
  return guard(*tensor->context, tensor->message, [&] {
    const Array dense = contiguous(numbers_of(tensor, kFunction));
    const size_t bytes = tensor_bytes_of(dense);
    require(data || bytes == 0, kFunction, "data must not be null");
    if (byte_count != bytes)
      misuse(kFunction, "the memory has another size", std::to_string(byte_count) + " bytes",
             std::to_string(bytes) + " for " + dense.text());
    if (bytes > 0) std::memcpy(data, dense.view.data, bytes);
  });
}

perigee_status perigee_tensor_assign(perigee_tensor* target, perigee_tensor* value) noexcept {
  constexpr const char* kFunction = "perigee_tensor_assign";
  if (!target) return PERIGEE_USAGE;
  return guard(*target->context, target->message, [&] {
    require(!target->recording, kFunction, "a recorded value cannot be changed; every op makes a new one");
    copy_into(numbers_of(value, kFunction), target->array);
  });
}

perigee_status perigee_tensor_window(perigee_tensor* tensor, const perigee_index* entries, int32_t count, perigee_tensor** out) noexcept {
  constexpr const char* kFunction = "perigee_tensor_window";
  if (out) *out = nullptr;
  if (!tensor) return PERIGEE_USAGE;
  return guard(*tensor->context, tensor->message, [&] {
    require(out && (entries || count == 0), kFunction, "entries and out must not be null");
    if (count < 0 || count > 2 * PERIGEE_MAX_RANK) misuse(kFunction, "the number of entries is out of range", std::to_string(count));
    const std::span<const perigee_index> given(entries, static_cast<size_t>(count));
    if (!tensor->recording) return give_tensor(tensor->context, window_of(tensor->array, resolve_all(given, tensor->array.type())), out);
    const std::lock_guard lock(tensor->recording->mutex);
    const int value = record_window(tensor->recording->open(), tensor->value, resolve_all(given, tensor->type()));
    give_value(tensor->context, tensor->recording, value, false, out);
  });
}

perigee_status perigee_tensor_file_load(perigee_context* context, const char* path, perigee_tensor_file** out) noexcept {
  if (out) *out = nullptr;
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(path && out, "perigee_tensor_file_load", "path and out must not be null");
    auto handle = std::make_unique<perigee_tensor_file>();
    handle->context = context->state;
    handle->file = read_arrays(path);
    *out = handle.release();
  });
}

void perigee_tensor_file_free(perigee_tensor_file* file) noexcept { const std::unique_ptr<perigee_tensor_file> owned(file); }

const char* perigee_tensor_file_message(const perigee_tensor_file* file) noexcept { return file ? file->message.get() : ""; }

int32_t perigee_tensor_file_count(const perigee_tensor_file* file) noexcept {
  return file ? static_cast<int32_t>(std::min<size_t>(file->file.arrays.size(), INT32_MAX)) : 0;
}

perigee_status perigee_tensor_file_get(perigee_tensor_file* file, int32_t index, const char** name, perigee_tensor** out) noexcept {
  if (out) *out = nullptr;
  if (!file) return PERIGEE_USAGE;
  return guard(*file->context, file->message, [&] {
    const auto& arrays = file->file.arrays;
    if (index < 0 || static_cast<size_t>(index) >= arrays.size())
      misuse("perigee_tensor_file_get", "the file has no such tensor", std::to_string(index),
             "0 to " + std::to_string(arrays.size()) + " - 1");
    const auto& [own_name, array] = arrays[static_cast<size_t>(index)];
    if (name) *name = own_name.c_str();
    if (out) give_tensor(file->context, array, out);
  });
}

perigee_status perigee_tensor_file_save(perigee_context* context, const char* path, const char* const* names,
                                        perigee_tensor* const* tensors, int32_t count) noexcept {
  constexpr const char* kFunction = "perigee_tensor_file_save";
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(path != nullptr, kFunction, "path must not be null");
    const Tensors given = tensors_of(tensors, count, kFunction);
    ArrayFile file{.named = names != nullptr, .arrays = {}, .metadata = {}, .header = {}};
    for (size_t i = 0; i < given.size(); ++i) {
      require(!names || names[i], kFunction, "a name is null");
      file.arrays.emplace_back(names ? names[i] : "", numbers_of(given[i], kFunction));
    }
    write_arrays(path, file);
  });
}
}
