#include "src/data/table/loops/times.h"

#include <bit>

#include "src/data/table/loops/block.h"
#include "src/data/table/loops/large.h"

namespace perigee::tables {
namespace {

constexpr int64_t kDayMs = 86'400'000;

// Days since 1970 of a date of the Gregorian calendar (Howard Hinnant's days_from_civil), years from 0 on.
int64_t days_from(uint32_t year, uint32_t month, uint32_t day) {
  const uint32_t y = year + 400 - (month <= 2);  // above 0
  const uint32_t era = y / 400, of_era = y - era * 400;
  const uint32_t of_year = (153 * (month + (month > 2 ? static_cast<uint32_t>(-3) : 9)) + 2) / 5 + day - 1;
  return static_cast<int64_t>(era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year) - 719468 - 146097;
}

uint32_t digit(const char* p) { return static_cast<uint32_t>(static_cast<uint8_t>(*p)) - '0'; }
uint32_t two(const char* p) { return digit(p) * 10 + digit(p + 1); }

// Eight bytes that are digits where `mask` has ones in a byte: no carry leaves a byte.
bool are_digits(uint64_t bits, uint64_t mask) {
  const uint64_t x = (bits ^ 0x3030303030303030) & mask;
  return ((x | (x + (0x0606060606060606 & mask))) & 0xf0f0f0f0f0f0f0f0 & mask) == 0;
}

}  // namespace

bool parse_usual_time(std::string_view text, int64_t& ms) {
  static constexpr uint8_t kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const char* p = text.data();
  if (text.size() != 19 && text.size() != 10) return false;
  bool good = p[4] == '-' && p[7] == '-';
  if constexpr (std::endian::native == std::endian::little) {
    good = good && are_digits(load_eight(p), 0x00ffff00ffffffff) && digit(p + 8) < 10 && digit(p + 9) < 10;
  } else {
    for (const int at : {0, 1, 2, 3, 5, 6, 8, 9}) good = good && digit(p + at) < 10;
  }
  if (!good) return false;
  const uint32_t year = two(p) * 100 + two(p + 2), month = two(p + 5), day = two(p + 8);
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  if (month - 1 > 11 || day == 0 || day > kDays[month - 1] + static_cast<uint32_t>(month == 2 && leap)) return false;
  int64_t of_day = 0;
  if (text.size() == 19) {
    const uint32_t hour = two(p + 11), minute = two(p + 14), second = two(p + 17);
    bool digits = true;
    if constexpr (std::endian::native == std::endian::little) digits = are_digits(load_eight(p + 11), 0xffff00ffff00ffff);
    else
      for (const int at : {11, 12, 14, 15, 17, 18}) digits &= digit(p + at) < 10;
    if (!digits || (p[10] != ' ' && p[10] != 'T') || p[13] != ':' || p[16] != ':' || hour > 23 || minute > 59 || second > 59) return false;
    of_day = int64_t{(hour * 60 + minute) * 60 + second} * 1000;
  }
  ms = days_from(year, month, day) * kDayMs + of_day;
  return true;
}

void parse_times(const Column& texts, bool (*other)(std::string_view, int64_t&), Column& out) {
  const auto n = static_cast<size_t>(texts.size());
  resize_large(out.whole, n);
  out.missing = texts.missing;
  uint64_t begin = 0;
  for (size_t r = 0; r < n; ++r) {
    const std::string_view text(texts.bytes.data() + begin, texts.ends[r] - begin);
    begin = texts.ends[r];
    int64_t ms = 0;
    if (!parse_usual_time(text, ms) && (texts.is_missing(static_cast<int64_t>(r)) || !other(text, ms))) {
      if (out.missing.empty()) out.missing.assign(n, 0);
      out.missing[r] = 1;
      ms = 0;
    }
    out.whole[r] = ms;
  }
}

namespace {

int64_t floor_div(int64_t value, int64_t by) { return value / by - (value % by < 0); }

// The date of a day since 1970 (Howard Hinnant's civil_from_days).
struct Date {
  int64_t year;
  uint32_t month, day;
};
Date date_of(int64_t days) {
  const int64_t z = days + 719468, era = floor_div(z, 146097);
  const auto doe = static_cast<uint32_t>(z - era * 146097);
  const uint32_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const uint32_t mp = (5 * doy + 2) / 153, month = mp < 10 ? mp + 3 : mp - 9;
  return {static_cast<int64_t>(yoe) + era * 400 + (month <= 2), month, doy - (153 * mp + 2) / 5 + 1};
}

template <class F>
void each_time(const Column& times, std::vector<int64_t>& out, F f) {
  const size_t n = times.whole.size();
  resize_large(out, n);
  for (size_t r = 0; r < n; ++r) out[r] = f(times.whole[r]);
}

}  // namespace

int64_t time_part(int64_t ms, TimePart part) {
  Column one(Type::time);
  one.whole = {ms};
  std::vector<int64_t> out;
  time_parts(one, part, out);
  return out[0];
}

void time_parts(const Column& times, TimePart part, std::vector<int64_t>& out) {
  const auto in_day = [](int64_t ms) { return ms - floor_div(ms, kDayMs) * kDayMs; };
  switch (part) {
    case TimePart::hour:
      return each_time(times, out, [=](int64_t ms) { return static_cast<int64_t>(static_cast<uint32_t>(in_day(ms)) / 3'600'000u); });
    case TimePart::minute:
      return each_time(times, out, [=](int64_t ms) { return static_cast<int64_t>(static_cast<uint32_t>(in_day(ms)) / 60'000u % 60); });
    case TimePart::second:
      return each_time(times, out, [=](int64_t ms) { return static_cast<int64_t>(static_cast<uint32_t>(in_day(ms)) / 1000u % 60); });
    case TimePart::millisecond:
      return each_time(times, out, [=](int64_t ms) { return static_cast<int64_t>(static_cast<uint32_t>(in_day(ms)) % 1000u); });
    case TimePart::weekday:  // 1970-01-01 was a Thursday
      return each_time(times, out, [](int64_t ms) {
        const int64_t days = floor_div(ms, kDayMs) + 3;
        return days - floor_div(days, 7) * 7 + 1;
      });
    case TimePart::year: return each_time(times, out, [](int64_t ms) { return date_of(floor_div(ms, kDayMs)).year; });
    case TimePart::month: return each_time(times, out, [](int64_t ms) { return int64_t{date_of(floor_div(ms, kDayMs)).month}; });
    case TimePart::day: return each_time(times, out, [](int64_t ms) { return int64_t{date_of(floor_div(ms, kDayMs)).day}; });
    case TimePart::yearday:
      return each_time(times, out, [](int64_t ms) {
        const int64_t days = floor_div(ms, kDayMs), year = date_of(days).year;
        const int64_t before = year - 1;  // whole years before this one
        return days - (before * 365 + floor_div(before, 4) - floor_div(before, 100) + floor_div(before, 400) - 719162) + 1;
      });
  }
}

}  // namespace perigee::tables
