// Values of pages as a table's columns have them: times in milliseconds, decimals as doubles, halves, texts of identifiers.
#include <cstring>

#include "src/data/table/columnar/column_values.h"
#include "src/data/table/columnar/parquet/parquet_file.h"

namespace perigee::tables::parquet {
namespace {

constexpr int64_t kConvertDay = 86'400'000;

// Nanoseconds of the day, then the Julian day.
int64_t old_time_of(std::string_view bytes) {
  int64_t nanoseconds = 0;
  int32_t day = 0;
  std::memcpy(&nanoseconds, bytes.data(), 8);
  std::memcpy(&day, bytes.data() + 8, 4);
  return (int64_t{day} - 2'440'588) * kConvertDay + floor_div(nanoseconds, 1'000'000);
}

std::string identifier_of(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[static_cast<uint8_t>(bytes[i]) >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

void convert_wholes(const Leaf& leaf, Values& values, const Place& place) {
  for (int64_t& value : values.whole) switch (leaf.meaning) {
      case Meaning::date: value *= kConvertDay; break;
      case Meaning::microseconds: value = floor_div(value, 1000); break;
      case Meaning::nanoseconds: value = floor_div(value, 1'000'000); break;
      case Meaning::unsigned_integer:
        if (leaf.physical == Physical::int32) value = static_cast<uint32_t>(value);
        else if (value < 0)
          place.damaged("the page has an unsigned number beyond 2^63, which a column cannot have", "write it as text, or as float64");
        break;
      default: return;
    }
}

}  // namespace

void convert_values(const Leaf& leaf, Values& values, const Place& place) {
  if (leaf.meaning == Meaning::decimal) {
    for (const int64_t value : values.whole) values.real.push_back(decimal_value(value, leaf.scale));
    for (const std::string_view text : values.texts) {
      if (text.size() > 64) place.damaged("the page has a decimal of more than 64 bytes");
      values.real.push_back(decimal_value(text, leaf.scale));
    }
    return;
  }
  if (leaf.physical == Physical::int96) {
    for (const std::string_view text : values.texts) values.whole.push_back(old_time_of(text));
  } else if (leaf.meaning == Meaning::half) {
    for (const std::string_view text : values.texts) values.real.push_back(half_value(text));
  } else if (leaf.meaning == Meaning::uuid) {
    std::string all;
    for (const std::string_view text : values.texts) all += identifier_of(text);
    values.made = std::move(all);
    for (size_t i = 0; i < values.texts.size(); ++i) values.texts[i] = std::string_view(values.made).substr(36 * i, 36);
  } else {
    convert_wholes(leaf, values, place);
  }
}

}  // namespace perigee::tables::parquet
