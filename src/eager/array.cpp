#include "src/eager/array.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>
#include <new>

#include "src/core/error.h"
#include "src/core/large_blocks.h"
#include "src/eager/eager.h"

namespace perigee {
namespace {

constexpr size_t kCountedBytes = 4096;  // smaller ones are in proportion to the handles, which the collector counts itself
constexpr int64_t kLowestBorder = int64_t{64} << 20;
std::atomic<int64_t> held{0}, border{kLowestBorder};

constexpr size_t kLine = 64;
constexpr size_t kSmallBytes = 1024;
using Blocks = SmallBlocks<kLine, (kSmallBytes + kLine) / kLine>;
thread_local Blocks blocks;  // plain data, which may be looked at while the thread ends
thread_local LargeBlocks large_blocks;

struct BlocksEnd {
  ~BlocksEnd() {
    blocks.close();
    large_blocks.close();
  }
};
thread_local BlocksEnd blocks_end;

// Puts the shared_ptr's own record into the first line of `block`, whose other lines are the storage's bytes.
template <class T>
struct InBlock {
  using value_type = T;
  InBlock(void* memory, size_t size) : block(memory), bytes(size) {}
  template <class U>
  InBlock(const InBlock<U>& other) : block(other.block), bytes(other.bytes) {}
  T* allocate(size_t n) {
    assert(n == 1 && sizeof(T) <= kLine);
    (void)n;
    return static_cast<T*>(block);
  }
  void deallocate(T*, size_t) {
    (void)&blocks_end;  // a thread that only frees has lists, too
    bytes > kLine + kSmallBytes ? large_blocks.give(block, bytes) : blocks.give(block, bytes);
  }
  bool operator==(const InBlock&) const = default;

  void* block;
  size_t bytes;
};

std::shared_ptr<Storage> new_storage(size_t bytes) {
  const size_t size = kLine + Blocks::rounded(bytes);
  void* const block = bytes > kSmallBytes ? large_blocks.take(size) : blocks.take(size);
  if (!block) throw Error(ErrorKind::resources, {.what = "not enough memory for " + std::to_string(bytes) + " bytes"});
  (void)&blocks_end;  // made now, so that it ends with the thread
  return std::allocate_shared<Storage>(InBlock<Storage>(block, size), Storage::borrow(static_cast<std::byte*>(block) + kLine, bytes));
}

bool counts(const Array& x) { return x.storage && x.storage->bytes() >= kCountedBytes; }

}  // namespace

Array new_array(const View& like) { return new_array(like, like.dtype); }

Array new_array(const View& like, Dtype dtype) {
  View view = like;
  view.dtype = dtype;
  int64_t stride = 1;
  size_t bytes = dtype_bytes(dtype);
  for (int i = view.rank - 1; i >= 0; --i) {
    view.strides[i] = stride;
    const int64_t size = std::max<int64_t>(view.dims[i], 1);
    if (__builtin_mul_overflow(stride, size, &stride) || stride > kMaxElements)
      throw Error(ErrorKind::resources, {.what = "a tensor of this shape is too large for any memory"});
  }
  bytes *= static_cast<size_t>(view.elements());
  Array result(new_storage(bytes), view);
  result.view.data = result.storage->data();
  return result;
}

void new_array_at(Array* place, const View& dense) {
  new (place) Array(new_storage(static_cast<size_t>(dense.elements()) * dtype_bytes(dense.dtype)), dense);
  place->view.data = place->storage->data();
}

Array new_array(const Type& type) { return new_array(contiguous_view(nullptr, type.dtype, type.shape)); }

Array contiguous(const Array& x) {
  if (x.view.contiguous()) return x;
  Array result = new_array(x.view);
  copy_into(x, result);
  return result;
}

Array cast(const Array& x, Dtype dtype) {
  if (x.view.dtype == dtype) return x;
  View view = x.view;
  view.dtype = dtype;
  Array result = new_array(view);
  copy_into(x, result);
  return result;
}

Tensor to_tensor(const Array& x) {
  const Array dense = contiguous(x);
  const auto offset = static_cast<size_t>(dense.view.as<std::byte>() - dense.storage->data());
  return Tensor(dense.storage, offset, dense.view.dtype, dense.shape());
}

void copy_into(const Array& from, const Array& to) {
  Array source = from;
  if (from.storage && from.storage == to.storage && !(same_layout(from.view, to.view) && from.view.data == to.view.data)) {
    source = new_array(from.view);
    move_elements(from.view, source.view);
  }
  const View wide = broadcast_to_shape_of(source.view, to.view);
  move_elements(wide, to.view);
}

double item(const Array& x) {
  if (x.view.elements() != 1) throw Error(ErrorKind::model, {.what = "only a tensor of one element is a number", .got = x.text()});
  double value = 0;
  View to;
  to.dtype = Dtype::f64;
  to.data = &value;
  View from = x.view;
  from.rank = 0;
  move_elements(from, to);
  return value;
}

Dtype promote(Dtype a, Dtype b) {
  constexpr auto rank = [](Dtype dtype) {
    switch (dtype) {
      case Dtype::boolean: return 0;
      case Dtype::u8: return 1;
      case Dtype::i32: return 2;
      case Dtype::i64: return 3;
      case Dtype::f64: return 5;
      default: return 4;
    }
  };
  const Dtype wider = rank(a) >= rank(b) ? a : b;
  return rank(wider) == 4 ? Dtype::f32 : wider;
}

Dtype promote(Dtype dtype, double number) {
  if (dtype == Dtype::f32 || dtype == Dtype::f64) return dtype;
  if (dtype == Dtype::f16 || dtype == Dtype::bf16 || number != std::floor(number) || std::isinf(number)) return Dtype::f32;
  if (dtype == Dtype::u8) return number >= 0 && number <= 255 ? Dtype::u8 : Dtype::i64;
  if (dtype == Dtype::i32) return std::fabs(number) <= 2147483647 ? Dtype::i32 : Dtype::i64;
  return Dtype::i64;
}

void ArrayBytes::add(const Array& x) {
  if (counts(x) && x.storage.use_count() == 1) held += static_cast<int64_t>(x.storage->bytes());
}

void ArrayBytes::remove(const Array& x) {
  if (counts(x) && x.storage.use_count() == 1) held -= static_cast<int64_t>(x.storage->bytes());
}

bool ArrayBytes::due() { return held.load(std::memory_order_relaxed) > border.load(std::memory_order_relaxed); }

void ArrayBytes::collected() { border = std::max(kLowestBorder, 2 * held.load()); }

}  // namespace perigee
