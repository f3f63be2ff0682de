// A typed, strided window on memory that it does not own: the only form in which numbers reach a kernel.
// Not a Tensor: it has no owner, no device and no checks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perigee {

enum class Dtype : uint8_t { f32, f64, f16, bf16, i32, i64, u8, boolean };

inline constexpr int kMaxRank = 8;

constexpr size_t dtype_bytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
    case Dtype::i64: return 8;
    case Dtype::f32:
    case Dtype::i32: return 4;
    case Dtype::f16:
    case Dtype::bf16: return 2;
    case Dtype::u8:
    case Dtype::boolean: return 1;
  }
  return 0;
}

// Strides count elements, not bytes. Images have the logical order N,C,H,W whatever their memory order is:
// "channels last" is the same dims with strides (H*W*C, 1, W*C, C). A broadcast dimension has stride 0.
struct View {
  void* data = nullptr;
  Dtype dtype = Dtype::f32;
  int rank = 0;
  int64_t dims[kMaxRank] = {};
  int64_t strides[kMaxRank] = {};

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }

  int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }

  // Row-major without gaps (dimensions of size 1 may have any stride).
  bool contiguous() const {
    int64_t expected = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (dims[i] != 1 && strides[i] != expected) return false;
      expected *= dims[i] > 0 ? dims[i] : 1;  // as strides are made, so that one without elements is contiguous too
    }
    return true;
  }

  // Rank 4, memory order N,H,W,C without gaps.
  bool channels_last() const {
    if (rank != 4) return false;
    const int order[4] = {1, 3, 2, 0};
    int64_t expected = 1;
    for (int i : order) {
      if (dims[i] != 1 && strides[i] != expected) return false;
      expected *= dims[i];
    }
    return true;
  }

  // Without gaps in some order of dimensions, so that a flat loop touches each element once.
  bool dense() const { return contiguous() || channels_last(); }
};

inline bool same_shape(const View& a, const View& b) {
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i)
    if (a.dims[i] != b.dims[i]) return false;
  return true;
}

// Same shape and same memory order (strides of dimensions of size 1 do not matter).
inline bool same_layout(const View& a, const View& b) {
  if (!same_shape(a, b)) return false;
  for (int i = 0; i < a.rank; ++i)
    if (a.dims[i] != 1 && a.strides[i] != b.strides[i]) return false;
  return true;
}

}  // namespace perigee
