// Texts to times and times to their parts, for whole columns.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/data/table/frame.h"

namespace perigee::tables {

// "2016-01-31" and "2016-01-31 12:30:45" (or T) at exactly their length. False: it is another form, or no time.
bool parse_usual_time(std::string_view text, int64_t& ms);
// Texts of the usual forms as times; the rest as `other` reads them (false: missing).
void parse_times(const Column& texts, bool (*other)(std::string_view, int64_t&), Column& out);
enum class TimePart : uint8_t { year, month, day, hour, minute, second, millisecond, weekday, yearday };
int64_t time_part(int64_t ms, TimePart part);
void time_parts(const Column& times, TimePart part, std::vector<int64_t>& out);

}  // namespace perigee::tables
