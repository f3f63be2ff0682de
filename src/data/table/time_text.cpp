#include "src/data/table/time_text.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <vector>

#include "src/core/error.h"
#include "src/io/file.h"

namespace perigee::tables {
namespace {

constexpr int64_t kTimeTextDay = 86'400'000;
constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec", kDays = "MonTueWedThuFriSatSun";
constexpr const char* kLongMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                       "July",    "August",   "September", "October", "November", "December"};

int64_t days_of(int64_t y, int m, int d) {  // Hinnant, days_from_civil
  y -= m <= 2;
  const int64_t era = (y >= 0 ? y : y - 399) / 400;
  const int64_t yoe = y - era * 400, doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
  return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

int days_in(int64_t year, int month) {
  constexpr int kDaysOf[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return kDaysOf[month - 1] + (month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
}

// `least` to `most` digits at the front of `text`.
bool take_time_text_digits(std::string_view& text, int least, int most, int64_t& value) {
  int count = 0;
  value = 0;
  while (count < most && static_cast<size_t>(count) < text.size() && text[static_cast<size_t>(count)] >= '0' &&
         text[static_cast<size_t>(count)] <= '9')
    value = value * 10 + (text[static_cast<size_t>(count++)] - '0');
  text.remove_prefix(static_cast<size_t>(count));
  return count >= least;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// ".123456" as milliseconds: what is finer is cut off.
bool take_fraction(std::string_view& text, int64_t& ms) {
  ms = 0;
  int count = 0;
  for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1), ++count)
    if (count < 3) ms = ms * 10 + (text[0] - '0');
  for (int i = count; i < 3; ++i) ms *= 10;
  return count > 0;
}

// "Z", "+01:00", "-0130", "+01".
bool take_offset(std::string_view& text, int64_t& offset_ms) {
  if (take(text, 'Z')) return offset_ms = 0, true;
  const bool minus = text.starts_with('-');
  if (!minus && !text.starts_with('+')) return false;
  text.remove_prefix(1);
  int64_t hours = 0, minutes = 0;
  if (!take_time_text_digits(text, 2, 2, hours)) return false;
  const bool colon = take(text, ':');
  if ((colon || (!text.empty() && text[0] >= '0' && text[0] <= '9')) && !take_time_text_digits(text, 2, 2, minutes)) return false;
  offset_ms = (hours * 60 + minutes) * 60'000 * (minus ? -1 : 1);
  return hours < 24 && minutes < 60;
}

struct Read {
  int64_t year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0, ms = 0, offset = 0, yearday = 0, epoch = 0;
  bool afternoon = false, half = false, of_epoch = false;

  bool make(int64_t& out) const {
    if (of_epoch) return out = epoch * 1000 + ms, true;
    const int64_t h = half ? hour % 12 + (afternoon ? 12 : 0) : hour;
    if (month < 1 || month > 12 || day < 1 || day > days_in(year, static_cast<int>(month)) || h > 24 || minute > 59 || second > 60 ||
        (h == 24 && (minute > 0 || second > 0)) || (half && (hour < 1 || hour > 12)) || yearday > 366)
      return false;
    const int64_t days = yearday > 0 ? days_of(year, 1, 1) + yearday - 1 : days_of(year, static_cast<int>(month), static_cast<int>(day));
    out = days * kTimeTextDay + (h * 3600 + minute * 60 + std::min<int64_t>(second, 59)) * 1000 + (second == 60 ? 999 : ms) - offset;
    return true;
  }
};

bool take_month(std::string_view& text, int64_t& month) {
  for (int m = 0; m < 12; ++m) {
    const std::string_view name = kLongMonths[m];
    const auto same = [&](size_t count) {
      return text.size() >= count && std::equal(name.begin(), name.begin() + static_cast<ptrdiff_t>(count), text.begin(),
                                                [](char a, char b) { return (a | 32) == (b | 32); });
    };
    const size_t count = same(name.size()) ? name.size() : same(3) ? 3 : 0;
    if (count == 0) continue;
    text.remove_prefix(count);
    month = m + 1;
    return true;
  }
  return false;
}

void pad(int64_t value, int width, std::string& out) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value < 0 ? -value : value).ptr;
  if (value < 0) out += '-';
  for (auto count = end - digits; count < width; ++count) out += '0';
  out.append(digits, end);
}

uint32_t big32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// A zone of the tz database (RFC 8536): when its offset changes, and to what.
struct Zone {
  std::vector<int64_t> at_s;
  std::vector<int64_t> offset_s;  // one more: that before the first change
};

Zone read_zone(const std::string& name, const std::string& where) {
  const auto fail = [&]() -> Zone {
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "there is no such time zone",
                                  .got = "'" + name.substr(0, 60) + "'",
                                  .expected = "UTC, an offset such as +01:00, or a name such as Europe/Rome"});
  };
  const std::string path = "/usr/share/zoneinfo/" + name;
  if (name.empty() || name[0] == '/' || name.find("..") != name.npos || !file_exists(path)) return fail();
  const Bytes file = read_file(path, 1 << 20);
  std::string_view bytes = as_text(file);
  if (bytes.size() < 44 || !bytes.starts_with("TZif")) return fail();
  const auto size_of = [](std::string_view b, size_t wide) -> size_t {
    return 44 + size_t{big32(b, 32)} * (wide + 1) + size_t{big32(b, 36)} * 6 + big32(b, 40) + size_t{big32(b, 28)} * (wide + 4) +
           big32(b, 24) + big32(b, 20);
  };
  size_t wide = 4;
  if (bytes[4] >= '2') {
    const size_t first = size_of(bytes, 4);
    if (first + 44 > bytes.size()) return fail();
    bytes.remove_prefix(first);
    wide = 8;
  }
  const size_t times = big32(bytes, 32), types = big32(bytes, 36);
  if (types == 0 || times > 4096 || types > 256 || size_of(bytes, wide) > bytes.size()) return fail();
  const size_t numbers = 44 + times * wide, table = numbers + times;
  const auto offset = [&](size_t type) { return static_cast<int64_t>(static_cast<int32_t>(big32(bytes, table + type * 6))); };
  Zone zone{.offset_s = {offset(0)}};
  for (size_t i = 0; i < times; ++i) {
    const size_t at = 44 + i * wide, type = static_cast<unsigned char>(bytes[numbers + i]);
    if (type >= types) return fail();
    zone.at_s.push_back(wide == 8 ? static_cast<int64_t>(uint64_t{big32(bytes, at)} << 32 | big32(bytes, at + 4))
                                  : static_cast<int64_t>(static_cast<int32_t>(big32(bytes, at))));
    zone.offset_s.push_back(offset(type));
  }
  return zone;
}

}  // namespace

int64_t ms_of_date(int64_t year, int month, int day) { return days_of(year, month, day) * kTimeTextDay; }

bool parse_iso_time(std::string_view text, int64_t& ms) {
  Read read;
  const bool before = text.starts_with('-');
  if (before) text.remove_prefix(1);
  if (!take_time_text_digits(text, 4, 4, read.year) || !take(text, '-') || !take_time_text_digits(text, 2, 2, read.month) ||
      !take(text, '-') || !take_time_text_digits(text, 2, 2, read.day))
    return false;
  if (before) read.year = -read.year;
  if (text.empty()) return read.make(ms);
  if (!take(text, 'T') && !take(text, ' ')) return false;
  if (!take_time_text_digits(text, 2, 2, read.hour) || !take(text, ':') || !take_time_text_digits(text, 2, 2, read.minute)) return false;
  if (take(text, ':') && !take_time_text_digits(text, 2, 2, read.second)) return false;
  if ((take(text, '.') || take(text, ',')) && !take_fraction(text, read.ms)) return false;
  if (!text.empty() && !take_offset(text, read.offset)) return false;
  return text.empty() && read.make(ms);
}

bool parse_time(std::string_view text, std::string_view format, int64_t& ms) {
  Read read;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      if (!take(text, format[i])) return false;
      continue;
    }
    bool good = true;
    switch (format[++i]) {
      case 'Y': good = take_time_text_digits(text, 4, 4, read.year); break;
      case 'y':
        good = take_time_text_digits(text, 2, 2, read.year);
        read.year += read.year < 69 ? 2000 : 1900;  // as POSIX has it
        break;
      case 'm': good = take_time_text_digits(text, 1, 2, read.month); break;
      case 'b':
      case 'B': good = take_month(text, read.month); break;
      case 'e': take(text, ' '); [[fallthrough]];
      case 'd': good = take_time_text_digits(text, 1, 2, read.day); break;
      case 'j': good = take_time_text_digits(text, 1, 3, read.yearday) && read.yearday > 0; break;
      case 'I': read.half = true; [[fallthrough]];
      case 'H': good = take_time_text_digits(text, 1, 2, read.hour); break;
      case 'M': good = take_time_text_digits(text, 1, 2, read.minute); break;
      case 'S': good = take_time_text_digits(text, 1, 2, read.second); break;
      case 'f': good = take_fraction(text, read.ms); break;
      case 's':
        read.of_epoch = true;
        good = take_time_text_digits(text, 1, 12, read.epoch);
        break;
      case 'z': good = take_offset(text, read.offset); break;
      case 'p':
        good = text.size() >= 2 && (text[1] | 32) == 'm' && ((text[0] | 32) == 'a' || (text[0] | 32) == 'p');
        if (good) read.afternoon = (text[0] | 32) == 'p', text.remove_prefix(2);
        break;
      case '%': good = take(text, '%'); break;
      default: good = false;
    }
    if (!good) return false;
  }
  return text.empty() && read.make(ms);
}

TimeParts parts_of(int64_t ms) {
  int64_t days = ms / kTimeTextDay, rest = ms % kTimeTextDay;
  if (rest < 0) rest += kTimeTextDay, --days;
  TimeParts parts;
  parts.hour = static_cast<int>(rest / 3'600'000);
  parts.minute = static_cast<int>(rest / 60'000 % 60);
  parts.second = static_cast<int>(rest / 1000 % 60);
  parts.millisecond = static_cast<int>(rest % 1000);
  parts.weekday = static_cast<int>(((days + 3) % 7 + 7) % 7) + 1;
  const int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, doe = z - era * 146097;  // Hinnant, civil_from_days
  const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100),
                mp = (5 * doy + 2) / 153;
  parts.day = static_cast<int>(doy - (153 * mp + 2) / 5 + 1);
  parts.month = static_cast<int>(mp < 10 ? mp + 3 : mp - 9);
  parts.year = yoe + era * 400 + (parts.month <= 2);
  parts.yearday = static_cast<int>(days - days_of(parts.year, 1, 1)) + 1;
  return parts;
}

void append_time(int64_t ms, std::string_view format, std::string& out) {
  const TimeParts parts = parts_of(ms);
  if (format.empty()) format = ms % kTimeTextDay == 0 ? "%Y-%m-%d" : ms % 1000 == 0 ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%dT%H:%M:%S.%f";
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const auto month = static_cast<size_t>(parts.month - 1), day = static_cast<size_t>(parts.weekday - 1);
    switch (format[++i]) {
      case 'Y': pad(parts.year, 4, out); break;
      case 'y': pad((parts.year % 100 + 100) % 100, 2, out); break;
      case 'm': pad(parts.month, 2, out); break;
      case 'b': out += kMonths.substr(month * 3, 3); break;
      case 'B': out += kLongMonths[month]; break;
      case 'd':
      case 'e': pad(parts.day, 2, out); break;
      case 'j': pad(parts.yearday, 3, out); break;
      case 'H': pad(parts.hour, 2, out); break;
      case 'I': pad((parts.hour + 11) % 12 + 1, 2, out); break;
      case 'p': out += parts.hour < 12 ? "AM" : "PM"; break;
      case 'M': pad(parts.minute, 2, out); break;
      case 'S': pad(parts.second, 2, out); break;
      case 'f': pad(parts.millisecond, 3, out); break;
      case 's': pad(ms / 1000, 1, out); break;
      case 'z': out += "+0000"; break;
      case 'a': out += kDays.substr(day * 3, 3); break;
      case 'u': pad(parts.weekday, 1, out); break;
      default: out += format[i];
    }
  }
}

int64_t span_ms(std::string_view text, const std::string& where) {
  double value = 0;
  const auto number = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit = text.substr(static_cast<size_t>(number.ptr - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.size() > 2 && unit.ends_with('s')) unit.remove_suffix(1);
  static constexpr std::pair<std::string_view, double> kUnits[] = {{"", 1},         {"ms", 1},     {"millisecond", 1}, {"s", 1e3},
                                                                   {"second", 1e3}, {"min", 6e4},  {"minute", 6e4},    {"h", 3.6e6},
                                                                   {"hour", 3.6e6}, {"d", 8.64e7}, {"day", 8.64e7},    {"week", 6.048e8}};
  if (number.ec == std::errc() && std::abs(value) < 1e9)
    for (const auto& [name, ms] : kUnits)
      if (unit == name) return static_cast<int64_t>(value * ms);
  throw Error(ErrorKind::data, {.where = where,
                                .what = "this is no span of time",
                                .got = "'" + std::string(text.substr(0, 40)) + "'",
                                .expected = "a number and a unit, such as \"90 minutes\", \"2 hours\", \"1 day\", \"500 ms\""});
}

int64_t zone_offset_ms(const std::string& name, int64_t ms, const std::string& where) {
  if (name.empty() || name == "UTC" || name == "Z") return 0;
  std::string_view text = name;
  int64_t offset = 0;
  if (take_offset(text, offset) && text.empty()) return offset;
  static std::mutex mutex;
  static std::map<std::string, Zone> zones;
  const std::lock_guard lock(mutex);
  auto found = zones.find(name);
  if (found == zones.end()) found = zones.emplace(name, read_zone(name, where)).first;
  const Zone& zone = found->second;
  const auto next = std::upper_bound(zone.at_s.begin(), zone.at_s.end(), (ms >= 0 ? ms : ms - 999) / 1000);
  return zone.offset_s[static_cast<size_t>(next - zone.at_s.begin())] * 1000;
}

namespace {

bool read_date(std::string_view cell, const std::string& format, int64_t& ms) {
  return format.empty() ? parse_iso_time(cell, ms) : parse_time(cell, format, ms);
}

}  // namespace

bool DateFormats::take(std::string_view cell) {
  int64_t ignored = 0;
  std::erase_if(left_, [&](const std::string& format) { return !read_date(cell, format, ignored); });
  return !left_.empty();
}

std::optional<double> year_of_date(std::string_view cell, const std::string& format) {
  int64_t ms = 0;
  if (!read_date(cell, format, ms)) return std::nullopt;
  const int64_t year = parts_of(ms).year;
  const auto begin = static_cast<double>(ms_of_date(year, 1, 1)), end = static_cast<double>(ms_of_date(year + 1, 1, 1));
  return static_cast<double>(year) + (static_cast<double>(ms) - begin) / (end - begin);
}

std::string example_of_date(const std::string& format) {
  std::string text;
  append_time(ms_of_date(2023, 5, 9), format, text);
  return text;
}

}  // namespace perigee::tables
