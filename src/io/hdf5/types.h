// Types of HDF5 elements that are read: numbers, texts, truth values, and compounds of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perigee::hdf5 {

struct Member;

struct Type {
  enum class Kind : uint8_t { whole, real, boolean, text, any_text, compound, array, other };
  Kind kind = Kind::other;
  bool is_signed = true, big = false;  // of numbers; big: the first byte counts most
  size_t size = 0;                     // bytes of an element
  char padding = '\0';                 // of a text that is shorter
  uint64_t count = 1;                  // of an array of numbers
  std::vector<Member> members;         // of a compound; one, without a name, of an array
  std::string what = {};               // of other kinds: for errors
};

struct Member {
  std::string name;
  size_t offset = 0;
  Type type = {};
};

// A whole number or a truth value; those above 2^63 - 1 wrap: whole_fits() tells.
int64_t whole_of(const Type& type, const std::byte* element);
bool whole_fits(const Type& type, const std::byte* element);
// Any number.
double real_of(const Type& type, const std::byte* element);
// A text of fixed size.
std::string_view text_of(const Type& type, const std::byte* element);

}  // namespace perigee::hdf5
