// A tokenizer file cuts and replaces by patterns: a string, or a regular expression of PCRE2, a library that is loaded when a file has one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/config.h"
#include "src/text/aligned.h"

namespace perigee {

class TextPattern {
 public:
  explicit TextPattern(std::string literal) : literal_(std::move(literal)) {}
  // {"String": ...} or {"Regex": ...}. Error(data) for an expression that PCRE2 does not take.
  explicit TextPattern(const Config& config);
  static TextPattern expression(const std::string& pattern, const std::string& where);

  // In order. Error(data) when an expression needs more steps than are allowed for a text.
  std::vector<TextSpan> matches(std::string_view text) const;
  const std::string& literal() const { return literal_; }  // empty: an expression
  bool is_expression() const { return code_ != nullptr; }

 private:
  void compile(const std::string& pattern, const std::string& where);

  std::string literal_, where_;
  std::shared_ptr<void> code_;
};

}  // namespace perigee
