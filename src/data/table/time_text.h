// Times as texts: ISO 8601 by itself, others by a format as strftime has it. Times are milliseconds since 1970, UTC.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perigee::tables {

// "2016-01-01", "2016-01-01 12:30:45.123", with T, Z or +01:00. False: it is none.
bool parse_iso_time(std::string_view text, int64_t& ms);
// %Y %m %d %H %M %S %y %b %B %e %f (fraction) %z %j %p %I %s %%; other characters stand for themselves.
bool parse_time(std::string_view text, std::string_view format, int64_t& ms);
// The same letters and %a %A %u. An empty format: ISO 8601, the date alone where it is midnight.
void append_time(int64_t ms, std::string_view format, std::string& out);

struct TimeParts {
  int64_t year = 1970;
  int month = 1, day = 1, hour = 0, minute = 0, second = 0, millisecond = 0;
  int weekday = 4;  // 1 Monday .. 7 Sunday
  int yearday = 1;
};
TimeParts parts_of(int64_t ms);
int64_t ms_of_date(int64_t year, int month, int day);

// "2 hours", "1 minute", "500 ms", "3 days", a number: milliseconds. Error(data) at `where`.
int64_t span_ms(std::string_view text, const std::string& where);

// The offset from UTC of a zone at a time of UTC: "UTC", "+01:00", "Europe/Rome" by the system's tz database. Error(data) at `where`.
int64_t zone_offset_ms(const std::string& zone, int64_t ms, const std::string& where);

// ---- columns of dates

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

}  // namespace perigee::tables
