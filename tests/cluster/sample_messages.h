// A message with every field set to something that no other field has, whatever the struct: a forgotten or exchanged field shows.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "cluster/message.h"

namespace perigee::test {

class Filler {
 public:
  // `elements` in each list; texts are as long as the number of fields before them.
  explicit Filler(size_t elements = 2, uint64_t start = 1) : elements_(elements), next_(start) {}

  template <class T>
  void operator()(T& value) {
    if constexpr (std::is_same_v<T, bool>) value = !value;  // not its default
    else if constexpr (std::is_floating_point_v<T>) value = static_cast<T>(next_++) + 0.25;
    else if constexpr (std::is_arithmetic_v<T>) value = static_cast<T>(next_++ * 0x0101010101010101u);
    else value.fields(*this);
  }
  void operator()(std::string& text) {
    text.assign(next_ % 50, 'x');
    text += "é" + std::to_string(next_++);
  }
  void long_text(std::string& text) { (*this)(text); }
  template <class T>
  void operator()(std::vector<T>& list) {
    list.resize(elements_);
    for (T& element : list) (*this)(element);
  }

 private:
  size_t elements_;
  uint64_t next_;
};

template <class M>
M sample(size_t elements = 2, uint64_t start = 1) {
  M message;
  Filler filler(elements, start);
  message.fields(filler);
  return message;
}

}  // namespace perigee::test
