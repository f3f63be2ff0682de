// The one exception type: the caller's mistake or the world's fault, told so that it can be mended.
// Our own broken invariants are not Errors; they are asserts.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

// The kind of an error; its number is the program's exit code.
enum class ErrorKind { usage = 2, data = 3, model = 4, cluster = 5, authentication = 6, resources = 7 };

class Error : public std::exception {
 public:
  // `where` is a file and line, a path through the model or a key path; `what` one clause; the rest may be empty.
  struct Parts {
    std::string where, what, got, expected, hint;
  };

  Error(ErrorKind kind, Parts parts);

  const char* what() const noexcept override { return text_.c_str(); }
  ErrorKind kind() const { return kind_; }
  const Parts& parts() const { return parts_; }

  // The same error seen from further out: `where` gets `outer` in front.
  Error within(std::string_view outer) const;

 private:
  ErrorKind kind_;
  Parts parts_;
  std::string text_;
};

// "did you mean 'kernel'?" — the known names nearest to `name`, best first, as a hint; empty when none is near.
std::string nearest_hint(std::string_view name, const std::vector<std::string>& known);

}  // namespace perigee
