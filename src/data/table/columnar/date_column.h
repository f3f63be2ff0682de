// Columns of dates in tables: how they are written, and the number that each date becomes. Other times are for the steps of src/data/table/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

// The ways that are known, as strftime has them; the empty one is ISO 8601: "2023-05-09", also with a time of day.
inline constexpr const char* kDateFormats[] = {"", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d %b %Y", "%b %d, %Y"};

class DateFormats {
 public:
  // Drops the ways in which `cell` is not written. False: none is left.
  bool take(std::string_view cell);
  const std::vector<std::string>& left() const { return left_; }
  // Days and months are at most 12 everywhere, so that two ways are left.
  bool ambiguous() const { return left_.size() > 1; }

 private:
  std::vector<std::string> left_{std::begin(kDateFormats), std::end(kDateFormats)};
};

// The year with its part that is over: 2023.5 is noon of July 2nd. None: the cell is not written so.
std::optional<double> year_of_date(std::string_view cell, const std::string& format);

// "2023-05-09" or "09.05.2023": for messages.
std::string example_of_date(const std::string& format);

}  // namespace perigee
