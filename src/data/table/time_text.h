// Times as texts: ISO 8601 by itself, others by a format as strftime has it. Times are milliseconds since 1970, UTC.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

}  // namespace perigee::tables
