#include "src/data/table/columnar/matlab/mat_elements.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "src/core/error.h"
#include "src/core/utf8.h"
#include "src/io/codec/compress.h"

namespace perigee::tables::matlab {
namespace {

// Types of stored values ("MAT-File Format", MathWorks): the number of the type, and its bytes.
enum Stored : uint32_t {
  int8 = 1,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  single,
  real64 = 9,
  int64 = 12,
  uint64,
  matrix,
  compressed,
  utf8,
  utf16,
  utf32
};
constexpr size_t kHeader = 128, kMostArrays = 65536, kLongestName = 4096;
constexpr int kMostCells = 3;  // cells in structures in ...

size_t width_of(uint32_t stored) {
  switch (stored) {
    case int8:
    case uint8:
    case utf8: return 1;
    case int16:
    case uint16:
    case utf16: return 2;
    case int32:
    case uint32:
    case single:
    case utf32: return 4;
    case real64:
    case int64:
    case uint64: return 8;
    default: return 0;
  }
}

template <class T>
T loaded(const std::byte* p, bool swapped) {
  std::byte bytes[sizeof(T)];
  std::memcpy(bytes, p, sizeof(T));
  if (swapped) std::reverse(bytes, bytes + sizeof(T));
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// A number that no integer can be becomes 0.
template <class T>
T converted(double x) {
  if constexpr (std::is_floating_point_v<T>) return x;
  else return x > -9e18 && x < 9e18 ? static_cast<T>(static_cast<int64_t>(x)) : 0;
}

template <class T>
T value_at(const Array& array, bool swapped, int64_t at) {
  const std::byte* p = array.values.data() + static_cast<size_t>(at) * width_of(array.stored);
  switch (array.stored) {
    case int8: return static_cast<T>(loaded<int8_t>(p, swapped));
    case uint8: return static_cast<T>(loaded<uint8_t>(p, swapped));
    case int16: return static_cast<T>(loaded<int16_t>(p, swapped));
    case uint16: return static_cast<T>(loaded<uint16_t>(p, swapped));
    case int32: return static_cast<T>(loaded<int32_t>(p, swapped));
    case uint32: return static_cast<T>(loaded<uint32_t>(p, swapped));
    case single: return converted<T>(loaded<float>(p, swapped));
    case int64: return static_cast<T>(loaded<int64_t>(p, swapped));
    case uint64: return static_cast<T>(loaded<uint64_t>(p, swapped));
    default: return converted<T>(loaded<double>(p, swapped));
  }
}

struct Element {
  uint32_t type = 0;
  std::span<const std::byte> data;
};

class Elements {
 public:
  Elements(const std::string& name, bool swapped, std::span<const std::byte> bytes, bool packed)
      : name_(name), swapped_(swapped), bytes_(bytes), packed_(packed) {}

  bool more() const { return at_ + 8 <= bytes_.size(); }
  // A tag of eight bytes, or of four with up to four bytes of data behind it.
  Element next(bool padded = true) {
    if (!more()) fail("the file ends within an array");
    const auto first = loaded<uint32_t>(bytes_.data() + at_, swapped_);
    if (first >> 16 != 0) {
      const size_t size = first >> 16;
      if (size > 4) fail("a small element has more than four bytes");
      const Element element{first & 0xffff, bytes_.subspan(at_ + 4, size)};
      at_ += 8;
      return element;
    }
    const size_t size = loaded<uint32_t>(bytes_.data() + at_ + 4, swapped_);
    if (size > bytes_.size() - at_ - 8) fail("an element is longer than what it stands in");
    const Element element{first, bytes_.subspan(at_ + 8, size)};
    at_ = std::min(bytes_.size(), at_ + 8 + (padded ? (size + 7) / 8 * 8 : size));
    return element;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::data, {.where = name_ + (packed_ ? ": decompressed bytes" : ""),
                                  .what = what,
                                  .got = "offset " + std::to_string(at_ + (packed_ ? 0 : kHeader)),
                                  .expected = "a whole MATLAB file of version 5"});
  }

 private:
  const std::string& name_;
  bool swapped_;
  std::span<const std::byte> bytes_;
  bool packed_;
  size_t at_ = 0;
};

// Damaged bytes stand for themselves.
std::vector<uint32_t> codes_of_utf8(std::string_view text) {
  std::vector<uint32_t> codes;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    codes.push_back(length > 0 ? static_cast<uint32_t>(utf8_code(text, at, length)) : static_cast<uint8_t>(text[at]));
    at += std::max<size_t>(length, 1);
  }
  return codes;
}

std::string text_of(const Element& element) { return std::string(as_text(element.data)); }

class Reader {
 public:
  explicit Reader(const ColumnarInput& input) : input_(input) {
    const auto mark = as_text(input.content.subspan(126, 2));
    out_.swapped = mark == (std::endian::native == std::endian::little ? "MI" : "IM");
    left_ = (uint64_t{16} << 20) + 32 * uint64_t{input.content.size()};
  }

  Content run() {
    Elements elements(input_.name, out_.swapped, input_.content.subspan(kHeader), false);
    while (elements.more()) {
      if (out_.arrays.size() > kMostArrays) elements.fail("the file has too many arrays");
      const Element element = elements.next(false);
      if (element.type == matrix) {
        add(element.data, "", false);
      } else if (element.type == compressed) {
        out_.unpacked.push_back(inflate_zlib(element.data, input_.name, left_));
        left_ -= out_.unpacked.back().size();
        Elements inside(input_.name, out_.swapped, out_.unpacked.back(), true);
        if (const Element array = inside.next(); array.type == matrix) add(array.data, "", true);
      } else {
        elements.fail("an element is no array");
      }
    }
    return std::move(out_);
  }

 private:
  // A matrix: flags, sizes, name, values.
  void add(std::span<const std::byte> bytes, const std::string& prefix, bool packed, int depth = 0) {
    Elements parts(input_.name, out_.swapped, bytes, packed);
    const Element flags = parts.next();
    if (flags.data.size() < 8) return;  // MATLAB's own data on objects
    const auto word = loaded<uint32_t>(flags.data.data(), out_.swapped);
    const uint32_t kind = word & 0xff;
    if (kind > 15) return;
    Array array{.logical = (word & 0x200) != 0};
    const Element sizes = parts.next();
    set_sizes(array, sizes, parts);
    const std::string name = text_of(parts.next());
    array.name = prefix.empty() ? name : name.empty() ? prefix : prefix + "." + name;
    if (array.name.size() > kLongestName) parts.fail("an array has a name of more than " + std::to_string(kLongestName) + " letters");
    if (out_.arrays.size() > kMostArrays) parts.fail("the file has too many arrays");
    take(sizeof(Array) + array.name.size(), parts);
    if (kind == 2 && array.rows == 1 && array.columns == 1) return add_fields(parts, array.name, packed, depth);
    if (kind == 1) add_cells(array, parts, packed);
    else if (kind == 4) add_letters(array, parts);
    else if (kind == 2 || kind == 3) array.refusal = "a list of structures or objects";
    else if ((word & 0x800) != 0) array.refusal = "complex numbers";
    else if (kind == 5) add_sparse(array, parts);
    else add_numbers(array, parts, kind <= 7);
    out_.arrays.push_back(std::move(array));
  }

  void take(uint64_t bytes, const Elements& parts) {
    if (bytes > left_) parts.fail("names and texts are far larger than those of such a file");
    left_ -= bytes;
  }

  void set_sizes(Array& array, const Element& sizes, const Elements& parts) const {
    const size_t count = sizes.data.size() / 4;
    if (count < 2 || count > 64) parts.fail("an array has no size");
    array.rows = 1, array.columns = 1;
    for (size_t d = 0; d < count; ++d) {
      Array one{.stored = int32, .values = sizes.data};
      const auto size = value_at<int64_t>(one, out_.swapped, static_cast<int64_t>(d));
      int64_t& side = d == 0 ? array.rows : array.columns;
      if (size < 0 || __builtin_mul_overflow(side, size, &side)) parts.fail("an array has an impossible size");
    }
  }

  void add_numbers(Array& array, Elements& parts, bool real) const {
    const Element values = parts.next();
    const size_t width = width_of(values.type);
    int64_t count = 0;
    if (width == 0 || __builtin_mul_overflow(array.rows, array.columns, &count) ||
        values.data.size() / width != static_cast<uint64_t>(count))
      parts.fail("an array has not as many values as its size says");
    array.kind = Array::Kind::numbers;
    array.real = real || values.type == single || values.type == real64;
    array.stored = values.type;
    array.values = values.data;
    if (array.stored == uint64)  // what no integer here can be is read as a real number
      for (int64_t i = 0; i < count && !array.real; ++i) array.real = value_at<uint64_t>(array, out_.swapped, i) > uint64_t{INT64_MAX};
  }

  // The rows of its numbers, where those of each column begin, and the numbers. It becomes a full one.
  void add_sparse(Array& array, Elements& parts) {
    const Element rows = parts.next(), begins = parts.next(), values = parts.next();
    const size_t width = width_of(values.type);
    for (const Element& places : {rows, begins})
      if (places.type != int32 && places.type != uint32) parts.fail("a sparse array has places that are no integers of 32 bits");
    const Array at{.stored = int32, .values = rows.data}, from{.stored = int32, .values = begins.data};
    const Array numbers{.stored = values.type, .values = values.data};
    const auto count = static_cast<int64_t>(width == 0 ? 0 : std::min(values.data.size() / width, rows.data.size() / 4));
    int64_t bytes = 0;
    if (width == 0 || array.columns >= static_cast<int64_t>(begins.data.size() / 4)) parts.fail("a sparse array has no places");
    if (__builtin_mul_overflow(array.rows, array.columns, &bytes) || __builtin_mul_overflow(bytes, 8, &bytes) ||
        static_cast<uint64_t>(bytes) > left_)
      return void(array.refusal = "a sparse matrix that is far larger than its file");
    take(static_cast<uint64_t>(bytes), parts);
    std::vector<double> full(static_cast<size_t>(bytes / 8));
    for (int64_t c = 0; c < array.columns; ++c) {
      const auto first = value_at<int64_t>(from, out_.swapped, c), end = value_at<int64_t>(from, out_.swapped, c + 1);
      if (first < 0 || first > end || end > count) parts.fail("a sparse array has impossible places");
      int64_t before = -1;  // rows of a column ascend
      for (int64_t i = first; i < end; ++i) {
        const auto row = value_at<int64_t>(at, out_.swapped, i);
        if (row <= std::exchange(before, row) || row >= array.rows) parts.fail("a sparse array has impossible places");
        full[static_cast<size_t>(c * array.rows + row)] = value_at<double>(numbers, out_.swapped, i);
      }
    }
    keep(array, full);
  }

  // As doubles of this machine, in the order of bytes that the file has.
  void keep(Array& array, const std::vector<double>& values) {
    Bytes& bytes = out_.unpacked.emplace_back(values.size() * 8);
    for (size_t i = 0; i < values.size(); ++i) {
      std::memcpy(bytes.data() + 8 * i, &values[i], 8);
      if (out_.swapped) std::reverse(bytes.data() + 8 * i, bytes.data() + 8 * i + 8);
    }
    array.kind = Array::Kind::numbers, array.real = true, array.stored = real64, array.values = bytes;
  }

  // Letters in rows, which blanks fill up.
  void add_letters(Array& array, Elements& parts) {
    array.kind = Array::Kind::texts;
    if (array.rows == 0) return;
    const Element letters = parts.next();
    const size_t width = width_of(letters.type), count = width == 0 ? 0 : letters.data.size() / width;
    if (width == 0 || width == 8 || letters.type == single || (array.rows > 1 && count / static_cast<size_t>(array.rows) == 0))
      parts.fail("an array of letters has none");
    const uint64_t for_codes = sizeof(uint32_t) * uint64_t{count};
    take(for_codes, parts);
    if (static_cast<uint64_t>(array.rows) > left_ / sizeof(std::string)) parts.fail("an array of letters has far too many rows");
    take(static_cast<uint64_t>(array.rows) * sizeof(std::string) + count, parts);
    std::vector<uint32_t> codes;  // column by column
    codes.reserve(count);
    if (letters.type == utf8) {
      codes = codes_of_utf8(as_text(letters.data));
    } else {
      const Array units{.stored = letters.type == utf16   ? uint32_t{uint16}
                                  : letters.type == utf32 ? uint32_t{uint32}
                                                          : letters.type,
                        .values = letters.data};
      for (size_t i = 0; i < count; ++i)
        codes.push_back(static_cast<uint32_t>(value_at<int64_t>(units, out_.swapped, static_cast<int64_t>(i))));
    }
    const auto rows = static_cast<size_t>(array.rows), columns = codes.size() / rows;
    for (size_t r = 0; r < rows; ++r) {
      std::string text;
      for (size_t c = 0; c < columns; ++c) append_utf8(codes[c * rows + r] < 0x110000 ? codes[c * rows + r] : 0xfffd, text);
      text.erase(text.find_last_not_of(' ') + 1);
      array.texts.push_back(std::move(text));
    }
    array.columns = 1;
    left_ += for_codes;
  }

  // A list of texts is a column of them.
  void add_cells(Array& array, Elements& parts, bool packed) {
    if (array.rows != 1 && array.columns != 1) return void(array.refusal = "cells that are no list");
    array.kind = Array::Kind::texts;
    for (int64_t i = 0; i < array.rows * array.columns; ++i) {
      const Element cell = parts.next();
      if (cell.type != matrix) parts.fail("a cell is no array");
      take(sizeof(std::string), parts);
      if (cell.data.empty()) {  // never set
        array.texts.emplace_back();
        continue;
      }
      Elements inside(input_.name, out_.swapped, cell.data, packed);
      const Element flags = inside.next();
      const uint32_t kind = flags.data.size() < 8 ? 0 : loaded<uint32_t>(flags.data.data(), out_.swapped) & 0xff;
      Array letters;
      if (kind == 4) {
        set_sizes(letters, inside.next(), inside);
        inside.next();
        add_letters(letters, inside);
      }
      if (kind != 4 || letters.texts.size() > 1) {
        array.kind = Array::Kind::other;
        array.refusal = "cells that are no texts";
        return;
      }
      array.texts.push_back(letters.texts.empty() ? "" : std::move(letters.texts[0]));
    }
    array.rows = static_cast<int64_t>(array.texts.size());
    array.columns = 1;
  }

  // The fields of one structure are arrays with a longer name.
  void add_fields(Elements& parts, const std::string& name, bool packed, int depth) {
    const Element length = parts.next(), names = parts.next();
    if (length.data.size() < 4) parts.fail("a structure has no names");
    const auto size = static_cast<size_t>(loaded<int32_t>(length.data.data(), out_.swapped));
    if (size == 0 || size > 4096) parts.fail("a structure has no names");
    if (depth >= kMostCells) return;
    for (size_t at = 0; at + size <= names.data.size(); at += size) {
      const std::string_view field = as_text(names.data.subspan(at, size));
      const Element value = parts.next();
      if (!value.data.empty()) add(value.data, name + "." + std::string(field.substr(0, field.find('\0'))), packed, depth + 1);
    }
  }

  const ColumnarInput& input_;
  Content out_;
  uint64_t left_ = 0;  // bytes that may still be taken, by what is unpacked, by names and by texts
};

}  // namespace

// Version 4: before each array stand five numbers - its type, its sizes, whether it has imaginary parts, the length of its name.
Content read_content_4(const ColumnarInput& input) {
  constexpr uint32_t kStored[] = {real64, single, int32, int16, uint16, uint8};
  Content out;
  out.swapped = loaded<uint32_t>(input.content.data(), false) > 5000;
  uint64_t left = (uint64_t{16} << 20) + 32 * uint64_t{input.content.size()};
  for (size_t at = 0; at < input.content.size();) {
    const auto fail = [&](const char* what) {
      throw Error(
          ErrorKind::data,
          {.where = input.name, .what = what, .got = "offset " + std::to_string(at), .expected = "a whole MATLAB file of version 4"});
    };
    if (input.content.size() - at < 20) fail("the file ends within an array");
    uint32_t head[5];
    for (size_t i = 0; i < 5; ++i) head[i] = loaded<uint32_t>(input.content.data() + at + 4 * i, out.swapped);
    const uint32_t stored = head[0] / 10 % 10, kind = head[0] % 10;
    if (head[0] / 1000 > 1 || head[0] / 100 % 10 != 0 || stored > 5 || kind > 2) fail("an array has an unknown type");
    const uint64_t width = width_of(kStored[stored]), values = uint64_t{head[1]} * head[2], rest = input.content.size() - at - 20;
    if (head[4] > kLongestName || head[4] > rest || head[1] > INT32_MAX || head[2] > INT32_MAX) fail("an array has an impossible size");
    if (values > (rest - head[4]) / (width * (head[3] != 0 ? 2 : 1))) fail("the file ends within an array");
    const std::string_view name = as_text(input.content.subspan(at + 20, head[4]));
    Array array{.name = std::string(name.substr(0, name.find('\0'))), .rows = head[1], .columns = head[2]};
    array.stored = kStored[stored], array.real = stored < 2;
    array.values = input.content.subspan(at + 20 + head[4], values * width);
    if (head[3] != 0) array.refusal = "complex numbers";
    else if (kind == 2) array.refusal = "a sparse matrix of version 4: full(x) makes it a full one";
    else array.kind = kind == 1 ? Array::Kind::texts : Array::Kind::numbers;
    if (array.kind == Array::Kind::texts) {
      if (head[1] > left / sizeof(std::string) || values > left / 4) fail("an array of letters has far too many rows");
      left -= head[1] * sizeof(std::string) + values;
      for (uint64_t r = 0; r < head[1]; ++r) {
        std::string& text = array.texts.emplace_back();
        for (uint64_t c = 0; c < head[2]; ++c) {
          const auto code = value_at<int64_t>(array, out.swapped, static_cast<int64_t>(c * head[1] + r));
          append_utf8(code >= 0 && code < 0x110000 ? static_cast<uint32_t>(code) : 0xfffd, text);
        }
        text.erase(text.find_last_not_of(' ') + 1);
      }
      array.columns = 1;
    }
    at += 20 + head[4] + values * width * (head[3] != 0 ? 2 : 1);
    if (out.arrays.size() > kMostArrays || sizeof(Array) + name.size() > left) fail("the file has too many arrays");
    left -= sizeof(Array) + name.size();
    out.arrays.push_back(std::move(array));
  }
  return out;
}

double number_at(const Array& array, bool swapped, int64_t at) { return value_at<double>(array, swapped, at); }
int64_t whole_at(const Array& array, bool swapped, int64_t at) { return value_at<int64_t>(array, swapped, at); }

Content read_content(const ColumnarInput& input) { return Reader(input).run(); }

}  // namespace perigee::tables::matlab
