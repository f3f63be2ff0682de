// Regular expressions of Perl's kind, by PCRE2, which is loaded when the first one is made. Matching is bounded: a pattern that would take
// for ever is an Error.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace perigee::tables {

class Regex {
 public:
  // Error(data) at `where` with the position for a pattern that is none.
  Regex(const std::string& pattern, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;
  // Anywhere in the text, or all of it. For one thread at a time.
  bool found_in(std::string_view text) const;
  bool is_all_of(std::string_view text) const;
  // Whether all of the text matches; then what each group has of it, empty where it has no part in the match.
  bool groups_of(std::string_view text, std::vector<std::string_view>& groups) const;
  // By the number of each group; empty: it has no name.
  std::vector<std::string> group_names() const;
  // Every match replaced; $1 in `with` is the first group, $$ a dollar.
  std::string replaced(std::string_view text, std::string_view with) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace perigee::tables
