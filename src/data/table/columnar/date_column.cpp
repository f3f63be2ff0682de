#include "src/data/table/columnar/date_column.h"

#include "src/data/table/time_text.h"

namespace perigee {
namespace {

bool read_date(std::string_view cell, const std::string& format, int64_t& ms) {
  return format.empty() ? tables::parse_iso_time(cell, ms) : tables::parse_time(cell, format, ms);
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
  const int64_t year = tables::parts_of(ms).year;
  const auto begin = static_cast<double>(tables::ms_of_date(year, 1, 1)), end = static_cast<double>(tables::ms_of_date(year + 1, 1, 1));
  return static_cast<double>(year) + (static_cast<double>(ms) - begin) / (end - begin);
}

std::string example_of_date(const std::string& format) {
  std::string text;
  tables::append_time(tables::ms_of_date(2023, 5, 9), format, text);
  return text;
}

}  // namespace perigee
