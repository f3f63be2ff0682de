// Owns a structure of Arrow's C interface (a schema, an array, a stream): what it held is released once, by the last owner.
#pragma once

#include "src/data/table/columnar/arrow/perigee_arrow.h"

namespace perigee::tables::arrow {

template <class T>
class Owned {
 public:
  Owned() = default;
  // Moves it out of the other program's structure, as the specification says: that one counts as released afterwards.
  explicit Owned(T* from) noexcept {
    if (from == nullptr) return;
    value_ = *from;
    from->release = nullptr;
  }
  ~Owned() {
    if (value_.release != nullptr) value_.release(&value_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  bool there() const { return value_.release != nullptr; }
  T* get() { return &value_; }
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_{};
};

}  // namespace perigee::tables::arrow
