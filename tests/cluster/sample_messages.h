// A message with every field set to something that no other field has, whatever the struct: an exchanged field shows. A field that
// `fields` forgets is found by FieldCounter.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "cluster/protocol/message.h"

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

// Converts to any field in an aggregate initialisation.
struct AnyField {
  template <class T>
  operator T() const;
};

// How many fields the aggregate M has.
template <class M, class... Known>
constexpr size_t fields_declared() {
  if constexpr (requires { M{Known{}..., AnyField{}}; }) return fields_declared<M, Known..., AnyField>();
  else return sizeof...(Known);
}

// Counts those that `fields` visits; looks into what is nested.
class FieldCounter {
 public:
  template <class T>
  void operator()(T& value) {
    ++visited_;
    if constexpr (requires { value.fields(*this); }) look_into<T>();
  }
  template <class T>
  void operator()(std::vector<T>&) {
    ++visited_;
    if constexpr (requires(T element) { element.fields(*this); }) look_into<T>();
  }
  void operator()(std::string&) { ++visited_; }
  void long_text(std::string&) { ++visited_; }

  // Fields of M, nested ones too, that are declared but not sent.
  template <class M>
  static size_t unsent() {
    FieldCounter counter;
    M message;
    message.fields(counter);
    return fields_declared<M>() - counter.visited_ + counter.unsent_nested_;
  }

 private:
  template <class T>
  void look_into() {
    unsent_nested_ += unsent<T>();
  }

  size_t visited_ = 0, unsent_nested_ = 0;
};

template <class M>
M sample(size_t elements = 2, uint64_t start = 1) {
  M message;
  Filler filler(elements, start);
  message.fields(filler);
  return message;
}

}  // namespace perigee::test
