#include "src/data/table/loops/conditions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "src/data/table/loops/block.h"

namespace perigee::tables {
namespace {

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
    if (from + 8 <= all) same = (end - from == size) & (((load_eight(bytes + from) ^ pattern) & mask) == 0);
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
  std::array<std::array<uint8_t, kBlockRows>, kMostConditions> stack;
  for (size_t begin = 0; begin < out.size(); begin += kBlockRows) {
    const size_t count = std::min(kBlockRows, out.size() - begin);
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
  std::array<int64_t, kBlockRows> found;
  for (int64_t begin = first; begin < end; begin += static_cast<int64_t>(kBlockRows)) {
    const int64_t stop = std::min(end, begin + static_cast<int64_t>(kBlockRows));
    size_t count = 0;
    for (int64_t r = begin; r < stop; ++r) {
      found[count] = r;
      count += stays[static_cast<size_t>(r)] != 0;
    }
    rows.insert(rows.end(), found.begin(), found.begin() + static_cast<ptrdiff_t>(count));
  }
}

}  // namespace perigee::tables
