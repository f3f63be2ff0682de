// Shared by the C++ headers: the exception, and owners of perigee.h's handles. Include perigee.hpp instead of this.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "perigee.h"

namespace perigee::api {

// Every failure: perigee.h's status and message.
class error : public std::runtime_error {
 public:
  error(perigee_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  perigee_status status() const { return status_; }

 private:
  perigee_status status_;
};

namespace detail {

template <auto free>
struct deleter {
  template <class T>
  void operator()(T* handle) const {
    free(handle);
  }
};
template <class T, auto free>
using handle = std::unique_ptr<T, deleter<free>>;

inline void check(perigee_status status, const char* message) {
  if (status != PERIGEE_OK && status != PERIGEE_STOPPED) throw error(status, *message ? message : "wrong argument");
}

inline std::string take_text(char* text) {
  const handle<char, perigee_free> owned(text);
  return text ? text : "";
}

template <class T>
constexpr perigee_dtype dtype_of() {
  using Bare = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<Bare, float>) return PERIGEE_F32;
  else if constexpr (std::is_same_v<Bare, double>) return PERIGEE_F64;
  else if constexpr (std::is_same_v<Bare, bool>) return PERIGEE_BOOL;
  else if constexpr (std::is_integral_v<Bare> && sizeof(Bare) == 1 && std::is_unsigned_v<Bare>) return PERIGEE_U8;
  else if constexpr (std::is_integral_v<Bare> && sizeof(Bare) == 4 && std::is_signed_v<Bare>) return PERIGEE_I32;
  else if constexpr (std::is_integral_v<Bare> && sizeof(Bare) == 8 && std::is_signed_v<Bare>) return PERIGEE_I64;
  else static_assert(!sizeof(T), "a field holds float, double, bool, uint8_t, int32_t or int64_t");
}

}  // namespace detail
}  // namespace perigee::api
