#include "src/data/table/loops/row_loops.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "src/data/table/loops/large.h"

namespace perigee::tables {
namespace {

constexpr size_t kRowLoopsBlock = 2048;  // rows that are worked on at once

// --- Conditions ----------------------------------------------------------------------------------------------------------------

template <class T, class F>
void compare_block(const T* values, size_t count, uint8_t* out, F f) {
  for (size_t i = 0; i < count; ++i) out[i] = f(static_cast<double>(values[i]));
}

template <class T>
void compare_numbers(const T* values, size_t count, char op, double with, uint8_t* out) {
  switch (op) {
    case '=': return compare_block(values, count, out, [=](double x) { return x == with; });
    case '!': return compare_block(values, count, out, [=](double x) { return x != with; });
    case '<': return compare_block(values, count, out, [=](double x) { return x < with; });
    case '>': return compare_block(values, count, out, [=](double x) { return x > with; });
    case '{': return compare_block(values, count, out, [=](double x) { return x <= with; });
    default: return compare_block(values, count, out, [=](double x) { return x >= with; });
  }
}

uint64_t first_eight(const char* p) {
  uint64_t bits = 0;
  std::memcpy(&bits, p, 8);
  return bits;
}

// Whether texts are equal to one of up to eight bytes: their length and one number of 64 bits.
void equal_short(const Column& column, size_t begin, size_t count, const std::string& with, bool equal, uint8_t* out) {
  const size_t size = with.size();
  const uint64_t mask = size == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * size)) - 1;
  uint64_t pattern = 0;
  std::memcpy(&pattern, with.data(), size);
  if constexpr (std::endian::native == std::endian::big) pattern >>= size == 0 ? 0 : 8 * (8 - size);
  const char* bytes = column.bytes.data();
  const size_t all = column.bytes.size();
  uint64_t from = begin == 0 ? 0 : column.ends[begin - 1];
  for (size_t i = 0; i < count; ++i) {
    const uint64_t end = column.ends[begin + i];
    bool same = false;
    if (from + 8 <= all) same = (end - from == size) & (((first_eight(bytes + from) ^ pattern) & mask) == 0);
    else same = std::string_view(bytes + from, end - from) == with;
    out[i] = same == equal;
    from = end;
  }
}

void compare_texts(const Column& column, size_t begin, size_t count, char op, const std::string& with, uint8_t* out) {
  if ((op == '=' || op == '!') && with.size() <= 8 && std::endian::native == std::endian::little)
    return equal_short(column, begin, count, with, op == '=', out);
  for (size_t i = 0; i < count; ++i) {
    const int order = column.text(static_cast<int64_t>(begin + i)).compare(with);
    out[i] = op == '='   ? order == 0
             : op == '!' ? order != 0
             : op == '<' ? order < 0
             : op == '>' ? order > 0
             : op == '{' ? order <= 0
                         : order >= 0;
  }
}

}  // namespace

void run_condition(std::span<const ConditionPart> parts, std::vector<uint8_t>& out) {
  std::array<std::array<uint8_t, kRowLoopsBlock>, kMostConditions> stack;
  for (size_t begin = 0; begin < out.size(); begin += kRowLoopsBlock) {
    const size_t count = std::min(kRowLoopsBlock, out.size() - begin);
    size_t depth = 0;
    for (const ConditionPart& part : parts) {
      uint8_t* top = stack[part.kind == ConditionPart::Kind::numbers || part.kind == ConditionPart::Kind::texts ? depth : depth - 1].data();
      switch (part.kind) {
        case ConditionPart::Kind::numbers:
          if (part.column->type == Type::real) compare_numbers(part.column->real.data() + begin, count, part.op, part.number, top);
          else compare_numbers(part.column->whole.data() + begin, count, part.op, part.number, top);
          ++depth;
          break;
        case ConditionPart::Kind::texts: compare_texts(*part.column, begin, count, part.op, part.text, top), ++depth; break;
        case ConditionPart::Kind::negation:
          for (size_t i = 0; i < count; ++i) top[i] ^= 1;
          break;
        default: {
          uint8_t* below = stack[depth - 2].data();
          if (part.kind == ConditionPart::Kind::both)
            for (size_t i = 0; i < count; ++i) below[i] &= top[i];
          else
            for (size_t i = 0; i < count; ++i) below[i] |= top[i];
          --depth;
        }
      }
    }
    std::memcpy(out.data() + begin, stack[0].data(), count);
  }
}

// Without a branch for each row: they are hard to foresee.
void rows_that_stay(const std::vector<uint8_t>& stays, int64_t first, int64_t end, std::vector<int64_t>& rows) {
  std::array<int64_t, kRowLoopsBlock> found;
  for (int64_t begin = first; begin < end; begin += static_cast<int64_t>(kRowLoopsBlock)) {
    const int64_t stop = std::min(end, begin + static_cast<int64_t>(kRowLoopsBlock));
    size_t count = 0;
    for (int64_t r = begin; r < stop; ++r) {
      found[count] = r;
      count += stays[static_cast<size_t>(r)] != 0;
    }
    rows.insert(rows.end(), found.begin(), found.begin() + static_cast<ptrdiff_t>(count));
  }
}

// --- Times ---------------------------------------------------------------------------------------------------------------------

namespace {

constexpr int64_t kRowLoopsDay = 86'400'000;

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
    good = good && are_digits(first_eight(p), 0x00ffff00ffffffff) && digit(p + 8) < 10 && digit(p + 9) < 10;
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
    if constexpr (std::endian::native == std::endian::little) digits = are_digits(first_eight(p + 11), 0xffff00ffff00ffff);
    else
      for (const int at : {11, 12, 14, 15, 17, 18}) digits &= digit(p + at) < 10;
    if (!digits || (p[10] != ' ' && p[10] != 'T') || p[13] != ':' || p[16] != ':' || hour > 23 || minute > 59 || second > 59) return false;
    of_day = int64_t{(hour * 60 + minute) * 60 + second} * 1000;
  }
  ms = days_from(year, month, day) * kRowLoopsDay + of_day;
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

int64_t row_loops_floor_div(int64_t value, int64_t by) { return value / by - (value % by < 0); }

// The date of a day since 1970 (Howard Hinnant's civil_from_days).
struct Date {
  int64_t year;
  uint32_t month, day;
};
Date date_of(int64_t days) {
  const int64_t z = days + 719468, era = row_loops_floor_div(z, 146097);
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
  const auto in_day = [](int64_t ms) { return ms - row_loops_floor_div(ms, kRowLoopsDay) * kRowLoopsDay; };
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
        const int64_t days = row_loops_floor_div(ms, kRowLoopsDay) + 3;
        return days - row_loops_floor_div(days, 7) * 7 + 1;
      });
    case TimePart::year: return each_time(times, out, [](int64_t ms) { return date_of(row_loops_floor_div(ms, kRowLoopsDay)).year; });
    case TimePart::month:
      return each_time(times, out, [](int64_t ms) { return int64_t{date_of(row_loops_floor_div(ms, kRowLoopsDay)).month}; });
    case TimePart::day:
      return each_time(times, out, [](int64_t ms) { return int64_t{date_of(row_loops_floor_div(ms, kRowLoopsDay)).day}; });
    case TimePart::yearday:
      return each_time(times, out, [](int64_t ms) {
        const int64_t days = row_loops_floor_div(ms, kRowLoopsDay), year = date_of(days).year;
        const int64_t before = year - 1;  // whole years before this one
        return days -
               (before * 365 + row_loops_floor_div(before, 4) - row_loops_floor_div(before, 100) + row_loops_floor_div(before, 400) -
                719162) +
               1;
      });
  }
}

// --- Dictionaries --------------------------------------------------------------------------------------------------------------

namespace {

constexpr uint64_t kMix = 0x9e3779b97f4a7c15;

// A text of less than eight bytes as a number; `there`: eight bytes may be read.
uint64_t short_text(const char* p, size_t size, bool there) {
  uint64_t bits = 0;
  if (there && std::endian::native == std::endian::little) return size == 0 ? 0 : first_eight(p) & ~uint64_t{0} >> (64 - 8 * size);
  std::memcpy(&bits, p, size);
  return bits;
}

// Eight bytes at a time, the last ones overlap those before. Of two short texts of one length the hashes are different.
uint64_t hash_text(std::string_view text, bool there) {
  uint64_t hash = text.size() * kMix;
  const auto join = [&](uint64_t bits) {
    hash = (hash ^ bits) * kMix;
    hash ^= hash >> 32;
  };
  if (text.size() < 8) {
    join(short_text(text.data(), text.size(), there));
    return hash;
  }
  for (size_t i = 0; i + 8 < text.size(); i += 8) join(first_eight(text.data() + i));
  join(first_eight(text.data() + text.size() - 8));
  return hash;
}

// A row's text, and whether eight bytes may be read where it begins.
struct RowLoopsPiece {
  std::string_view text;
  bool there;
};
RowLoopsPiece piece_of(const Column& column, size_t row) {
  const uint64_t begin = row == 0 ? 0 : column.ends[row - 1];
  return {{column.bytes.data() + begin, column.ends[row] - begin}, begin + 8 <= column.bytes.size()};
}

}  // namespace

TextTable::TextTable() : slots_(64) {}

std::string_view TextTable::text(size_t number) const {
  const uint64_t begin = number == 0 ? 0 : ends_[number - 1];
  return std::string_view(bytes_).substr(begin, ends_[number] - begin);
}

// Where the text is, or would be.
inline const TextTable::Slot& TextTable::slot_of(std::string_view wanted, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.number < 0) return slot;
    if (slot.hash != hash || slot.size != wanted.size()) continue;
    if (wanted.size() < 8 || text(static_cast<size_t>(slot.number)) == wanted) return slot;
  }
}

int64_t TextTable::find(std::string_view wanted, bool there) const { return slot_of(wanted, hash_text(wanted, there)).number; }

int64_t TextTable::add(std::string_view wanted, bool there) {
  const uint64_t hash = hash_text(wanted, there);
  const Slot& slot = slot_of(wanted, hash);
  return slot.number >= 0 ? slot.number : add_new(wanted, hash, slot);
}

[[gnu::noinline]] int64_t TextTable::add_new(std::string_view wanted, uint64_t hash, const Slot& slot) {
  const auto number = static_cast<int32_t>(ends_.size());
  slots_[static_cast<size_t>(&slot - slots_.data())] = {hash, static_cast<uint32_t>(wanted.size()), number};
  bytes_ += wanted;
  ends_.push_back(bytes_.size());
  if (ends_.size() * 2 > slots_.size()) grow();
  return number;
}

void TextTable::grow() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots_.size() * 4));
  for (const Slot& slot : old) {
    if (slot.number < 0) continue;
    size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].number >= 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

// Flat: a call for each row costs as much as what it does.
[[gnu::flatten]] bool add_texts(const Column& column, size_t most, TextTable& table, std::vector<int64_t>* out) {
  const auto n = static_cast<size_t>(column.size());
  if (out != nullptr) resize_large(*out, n);
  for (size_t r = 0; r < n; ++r) {
    int64_t number = -1;
    if (!column.is_missing(static_cast<int64_t>(r))) {
      const RowLoopsPiece piece = piece_of(column, r);
      number = table.add(piece.text, piece.there);
      if (table.size() > most) return false;
    }
    if (out != nullptr) (*out)[r] = number;
  }
  return true;
}

void renumber(std::vector<int64_t>& numbers, const std::vector<int64_t>& by) {
  for (int64_t& number : numbers) number = number < 0 ? number : by[static_cast<size_t>(number)];
}

[[gnu::flatten]] void number_texts(const Column& column, TextTable& table, std::vector<int64_t>& out, std::vector<int64_t>& first) {
  const auto n = static_cast<size_t>(column.size());
  resize_large(out, n);
  first.clear();
  for (size_t r = 0; r < n; ++r) {
    const RowLoopsPiece piece = piece_of(column, r);
    const int64_t number = out[r] = table.add(piece.text, piece.there);
    if (number == static_cast<int64_t>(first.size())) first.push_back(static_cast<int64_t>(r));
  }
}

[[gnu::flatten]] void find_texts(const Column& column, const TextTable& table, std::vector<int64_t>& out) {
  const auto n = static_cast<size_t>(column.size());
  resize_large(out, n);
  for (size_t r = 0; r < n; ++r) {
    const RowLoopsPiece piece = piece_of(column, r);
    out[r] = column.is_missing(static_cast<int64_t>(r)) ? -1 : table.find(piece.text, piece.there);
  }
}

// A block at a time, whose zeros are still in the cache when the ones come.
void one_hot(const std::vector<int64_t>& numbers, std::vector<std::vector<int64_t>>& out) {
  for (auto& column : out) reserve_large(column, numbers.size());
  for (size_t begin = 0; begin < numbers.size(); begin += kRowLoopsBlock) {
    const size_t end = std::min(numbers.size(), begin + kRowLoopsBlock);
    for (auto& column : out) column.resize(end);
    for (size_t r = begin; r < end; ++r)
      if (numbers[r] >= 0) out[static_cast<size_t>(numbers[r])][r] = 1;
  }
}

// --- Keys and groups -----------------------------------------------------------------------------------------------------------

bool small_range(const Column& column, int64_t& least, int64_t& most) {
  const bool whole =
      column.type == Type::integer || column.type == Type::boolean || column.type == Type::category || column.type == Type::time;
  if (!whole || column.whole.empty() || std::any_of(column.missing.begin(), column.missing.end(), [](uint8_t m) { return m != 0; }))
    return false;
  least = most = column.whole[0];
  for (const int64_t value : column.whole) least = std::min(least, value), most = std::max(most, value);
  return static_cast<uint64_t>(most) - static_cast<uint64_t>(least) <= std::max<uint64_t>(65536, 2 * column.whole.size());
}

void groups_of_range(const Column& column, int64_t least, int64_t most, std::vector<int64_t>& groups, std::vector<int64_t>& first) {
  std::vector<int32_t> numbers(static_cast<size_t>(most - least) + 1, -1);
  const size_t n = column.whole.size();
  resize_large(groups, n);
  first.clear();
  for (size_t r = 0; r < n; ++r) {
    int32_t& number = numbers[static_cast<size_t>(column.whole[r] - least)];
    if (number < 0) {
      number = static_cast<int32_t>(first.size());
      first.push_back(static_cast<int64_t>(r));
    }
    groups[r] = number;
  }
}

void count_groups(const std::vector<int64_t>& groups, std::vector<int64_t>& counts) {
  for (const int64_t group : groups) ++counts[static_cast<size_t>(group)];
}

void look_up(const Column& column, int64_t least, const std::vector<int64_t>& table, std::vector<int64_t>& out) {
  const size_t n = column.whole.size();
  resize_large(out, n);
  for (size_t r = 0; r < n; ++r) {
    const uint64_t at = static_cast<uint64_t>(column.whole[r]) - static_cast<uint64_t>(least);
    out[r] = at < table.size() ? table[at] : -1;
  }
}

namespace {

template <class T>
void add_sums_of(const T* values, const std::vector<uint8_t>& missing, const std::vector<int64_t>& groups, GroupMoments& out) {
  const size_t n = groups.size();
  const bool gaps = !missing.empty();
  for (size_t r = 0; r < n; ++r) {
    if (gaps && missing[r] != 0) continue;
    const auto g = static_cast<size_t>(groups[r]);
    ++out.count[g];
    out.mean[g] += static_cast<double>(values[r]);
  }
}

template <class T>
void add_distances_of(const T* values, const std::vector<uint8_t>& missing, const std::vector<int64_t>& groups, GroupMoments& out,
                      std::vector<double>& rest) {
  const size_t n = groups.size();
  const bool gaps = !missing.empty();
  for (size_t r = 0; r < n; ++r) {
    if (gaps && missing[r] != 0) continue;
    const auto g = static_cast<size_t>(groups[r]);
    const double distance = static_cast<double>(values[r]) - out.mean[g];
    out.squares[g] += distance * distance;
    rest[g] += distance;
  }
}

}  // namespace

void add_sums(const Column& column, const std::vector<int64_t>& groups, size_t count, GroupMoments& out) {
  out.count.resize(std::max(count, out.count.size()));
  out.mean.resize(out.count.size());
  if (column.type == Type::real) add_sums_of(column.real.data(), column.missing, groups, out);
  else add_sums_of(column.whole.data(), column.missing, groups, out);
}

void means_of_sums(size_t count, GroupMoments& out) {
  out.count.resize(std::max(count, out.count.size()));
  out.mean.resize(out.count.size());
  for (size_t g = 0; g < out.mean.size(); ++g) out.mean[g] /= static_cast<double>(std::max<int64_t>(out.count[g], 1));
}

void add_distances(const Column& column, const std::vector<int64_t>& groups, GroupMoments& out, std::vector<double>& rest) {
  if (column.type == Type::real) add_distances_of(column.real.data(), column.missing, groups, out, rest);
  else add_distances_of(column.whole.data(), column.missing, groups, out, rest);
}

// Chan, Golub, LeVeque: Algorithms for Computing the Sample Variance, 1983.
void correct_squares(GroupMoments& out, const std::vector<double>& rest) {
  for (size_t g = 0; g < rest.size(); ++g)
    if (out.count[g] > 0) out.squares[g] = std::max(0.0, out.squares[g] - rest[g] * rest[g] / static_cast<double>(out.count[g]));
}

namespace {

// Row by row for the first ones; then for a block of rows at once, first, second, ... values of each.
template <class T>
void add_windows(const T* values, size_t count, size_t window, double* out) {
  for (size_t r = 0; r < std::min(window - 1, count); ++r) {
    double sum = 0;
    for (size_t i = 0; i <= r; ++i) sum += static_cast<double>(values[i]);
    out[r] = sum;
  }
  for (size_t begin = window - 1; begin < count; begin += kRowLoopsBlock) {
    const size_t rows = std::min(kRowLoopsBlock, count - begin);
    double* sums = out + begin;
    std::fill(sums, sums + rows, 0.0);
    for (size_t i = 0; i < window; ++i) {
      const T* from = values + (begin - (window - 1) + i);
      for (size_t r = 0; r < rows; ++r) sums[r] += static_cast<double>(from[r]);
    }
  }
}

}  // namespace

void moving_sums(const Column& column, int64_t begin, int64_t end, int64_t window, double* out) {
  const auto first = static_cast<size_t>(begin), count = static_cast<size_t>(end - begin);
  if (column.type == Type::real) add_windows(column.real.data() + first, count, static_cast<size_t>(window), out);
  else add_windows(column.whole.data() + first, count, static_cast<size_t>(window), out);
}

namespace {

double lanes_of_sum(const double* values, size_t count) {
  std::array<double, 8> sums{};
  const size_t even = count / sums.size() * sums.size();
  for (size_t i = 0; i < even; i += sums.size())
    for (size_t l = 0; l < sums.size(); ++l) sums[l] += values[i + l];
  double sum = 0;
  for (const double each : sums) sum += each;
  for (size_t i = even; i < count; ++i) sum += values[i];
  return sum;
}

constexpr Measures kNoMeasures{.least = std::numeric_limits<double>::infinity(), .most = -std::numeric_limits<double>::infinity()};

void add_measures(std::span<const double> values, Measures& all) {
  constexpr size_t kLanes = 8;
  std::array<double, kRowLoopsBlock> kept;
  for (size_t begin = 0; begin < values.size(); begin += kRowLoopsBlock) {
    const size_t end = std::min(values.size(), begin + kRowLoopsBlock);
    const double* from = values.data() + begin;
    size_t n = end - begin;
    double sum = lanes_of_sum(from, n);
    if (!std::isfinite(sum)) {
      // Where one is not finite the others stand side by side: sums then need no condition.
      size_t finite = 0;
      for (size_t i = 0; i < n; ++i) {
        kept[finite] = from[i];
        finite += std::abs(from[i]) <= std::numeric_limits<double>::max();
      }
      from = kept.data();
      n = finite;
      sum = lanes_of_sum(from, n);
    }
    if (n == 0) continue;
    const auto count = static_cast<double>(n);
    const double mean = sum / count;
    std::array<double, kLanes> low, high, squares{};
    low.fill(from[0]);
    high.fill(from[0]);
    const size_t even = n / kLanes * kLanes;
    for (size_t i = 0; i < even; i += kLanes)
      for (size_t l = 0; l < kLanes; ++l) {
        const double x = from[i + l];
        squares[l] += (x - mean) * (x - mean);
        low[l] = x < low[l] ? x : low[l];
        high[l] = x > high[l] ? x : high[l];
      }
    double square = 0;
    for (size_t l = 0; l < kLanes; ++l)
      square += squares[l], all.least = std::min(all.least, low[l]), all.most = std::max(all.most, high[l]);
    for (size_t i = even; i < n; ++i) {
      square += (from[i] - mean) * (from[i] - mean);
      all.least = std::min(all.least, from[i]), all.most = std::max(all.most, from[i]);
    }
    // Two parts become one (Chan, Golub, LeVeque).
    const auto before = static_cast<double>(all.count);
    const double delta = mean - all.mean;
    all.count += static_cast<int64_t>(n);
    all.mean += delta * (count / (before + count));
    all.squares += square + delta * delta * (before * count / (before + count));
  }
}

}  // namespace

Measures measures_of(std::span<const double> values) {
  Measures all = kNoMeasures;
  add_measures(values, all);
  return all;
}

void MeasuredParts::add(std::span<const double> values) {
  if (!any_) all_ = kNoMeasures, any_ = true;
  if (!rest_.empty()) {
    const size_t more = std::min(values.size(), kRowLoopsBlock - rest_.size());
    rest_.insert(rest_.end(), values.begin(), values.begin() + static_cast<ptrdiff_t>(more));
    values = values.subspan(more);
    if (rest_.size() < kRowLoopsBlock) return;
    add_measures(rest_, all_);
    rest_.clear();
  }
  const size_t whole = values.size() / kRowLoopsBlock * kRowLoopsBlock;
  add_measures(values.first(whole), all_);
  rest_.assign(values.begin() + static_cast<ptrdiff_t>(whole), values.end());
}

Measures MeasuredParts::result() {
  if (!any_) all_ = kNoMeasures;
  add_measures(rest_, all_);
  rest_.clear();
  return all_;
}

}  // namespace perigee::tables
