#include "src/vectors/files/vector_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/io/archive/zip.h"
#include "src/io/base64.h"
#include "src/io/codec/compress.h"
#include "src/io/parts_file.h"
#include "src/vectors/files/fasttext_file.h"
#include "src/vectors/files/keyed_vectors.h"
#include "src/vectors/files/pickle.h"

namespace perigee {
namespace {

constexpr uint64_t kMaxVectorFileBytes = uint64_t{1} << 40;
constexpr uint64_t kMaxVectorFileNumbers = 1 << 16;  // of a vector
constexpr size_t kLongestName = 4096;

struct VectorFileHead {
  uint64_t rows = 0, numbers = 0;
  size_t bytes = 0;  // with the newline; 0: the file has no head
};

[[noreturn]] void fail_vector_file(const std::string& where, std::string what, std::string got = "", std::string expected = "") {
  throw Error(ErrorKind::data, {.where = where, .what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
}

std::string at_line(const std::string& where, uint64_t line) { return where + ":" + std::to_string(line); }

std::string_view line_at(std::string_view text, size_t at) { return text.substr(at, std::min(text.find('\n', at), text.size()) - at); }

std::string_view trimmed(std::string_view line) {
  while (!line.empty() && (line.back() == ' ' || line.back() == '\r' || line.back() == '\t')) line.remove_suffix(1);
  return line;
}

bool vector_file_is_blank(char c) { return c == ' ' || c == '\t'; }

// "2747 10", and in Deeplearning4j's also a third number.
VectorFileHead head_of(std::string_view text) {
  const std::string_view first = line_at(text, 0), line = trimmed(first);
  VectorFileHead head;
  const char* at = line.data();
  const char* const end = at + line.size();
  for (uint64_t* number : {&head.rows, &head.numbers}) {
    while (at < end && vector_file_is_blank(*at)) ++at;
    const auto [next, error] = std::from_chars(at, end, *number);
    if (error != std::errc() || next == at || (next < end && !vector_file_is_blank(*next))) return {};
    at = next;
  }
  while (at < end && (vector_file_is_blank(*at) || (*at >= '0' && *at <= '9'))) ++at;
  if (at != end || (std::count_if(line.begin(), line.end(), vector_file_is_blank) > 2)) return {};
  head.bytes = std::min(first.size() + 1, text.size());
  return head;
}

// The last field of the line goes; empty: there is none.
std::string_view take_last(std::string_view& line) {
  line = trimmed(line);
  const size_t blank = line.find_last_of(" \t");
  const std::string_view field = blank == std::string_view::npos ? line : line.substr(blank + 1);
  line = blank == std::string_view::npos ? std::string_view() : line.substr(0, blank);
  return field;
}

bool number_of(std::string_view field, float& value) {
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  return !field.empty() && error == std::errc() && end == field.data() + field.size() && std::isfinite(value);
}

// The vectors of a file as they come; a name that comes again is left out.
class Collected {
 public:
  Collected(uint64_t rows, uint64_t numbers) : rows_(static_cast<int64_t>(rows), static_cast<int64_t>(numbers)) {}
  float* next() { return rows_.row(names_.size()); }
  void take(std::string_view name, int64_t count = 0) {
    if (names_.find(name) >= 0) ++again_;
    else names_.add(name, count);
  }
  WordVectors finish(const std::string& where) {
    if (again_ > 0) warn(where + ": " + std::to_string(again_) + " vectors are left out, because their names were there before");
    if (names_.size() == 0) fail_vector_file(where, "the file has no vectors");
    const int64_t count = names_.size();
    return WordVectors(std::move(names_), rows_.slice(0, count));
  }

 private:
  ElementTable names_;
  VectorRows rows_;
  uint64_t again_ = 0;
};

void check_numbers(uint64_t numbers, const std::string& where) {
  if (numbers == 0 || numbers > kMaxVectorFileNumbers)
    fail_vector_file(where, "a vector has another number of numbers than can be", std::to_string(numbers),
                     "1 to " + std::to_string(kMaxVectorFileNumbers));
}

// Names of Deeplearning4j's files are written in base 64.
std::string decoded_name(std::string_view name, const std::string& where) {
  if (!name.starts_with("B64:")) return std::string(name);
  return from_base64(name.substr(4), where);
}

uint64_t lines_from(std::string_view text, size_t at) {
  const uint64_t newlines = static_cast<uint64_t>(std::count(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), '\n'));
  return newlines + (text.size() > at && text.back() != '\n' ? 1 : 0);
}

WordVectors parse_text(std::string_view text, const VectorFileHead& head, const std::string& where) {
  uint64_t numbers = head.numbers;
  if (head.bytes == 0) {  // the first field is a name, whatever it is
    std::string_view line = trimmed(line_at(text, 0));
    float value = 0;
    for (std::string_view rest = line; number_of(take_last(rest), value) && !trimmed(rest).empty(); line = rest) ++numbers;
  }
  check_numbers(numbers, where);
  const uint64_t lines = lines_from(text, head.bytes);
  if (lines > text.size() / (2 * numbers) + 1 || (head.bytes > 0 && head.rows > lines))
    fail_vector_file(where, "the file is cut short", std::to_string(lines) + " lines",
                     std::to_string(head.bytes > 0 ? head.rows : lines) + " vectors of " + std::to_string(numbers) + " numbers");
  Collected found(head.bytes > 0 ? head.rows : lines, numbers);
  size_t at = head.bytes;
  for (uint64_t row = 0, number = head.bytes > 0 ? 2 : 1; at < text.size() && (head.bytes == 0 || row < head.rows); ++number) {
    std::string_view line = line_at(text, at);
    at += line.size() + 1;
    if (trimmed(line).empty()) continue;
    float* const values = found.next();
    for (uint64_t i = numbers; i-- > 0;)
      if (const std::string_view field = take_last(line); !number_of(field, values[i]))
        fail_vector_file(at_line(where, number), "a vector has a number that is none, or too few",
                         "'" + std::string(field.substr(0, 40)) + "'", std::to_string(numbers) + " numbers behind the name");
    while (!line.empty() && vector_file_is_blank(line.front())) line.remove_prefix(1);
    line = trimmed(line);
    if (line.empty() || line.size() > kLongestName)
      fail_vector_file(at_line(where, number), "a vector has no name", "", "a name and " + std::to_string(numbers) + " numbers");
    found.take(decoded_name(line, where));
    ++row;
  }
  return found.finish(where);
}

WordVectors parse_binary(std::string_view text, const VectorFileHead& head, const std::string& where) {
  check_numbers(head.numbers, where);
  const uint64_t row_bytes = head.numbers * sizeof(float), rest = text.size() - head.bytes;
  if (head.rows > rest / (row_bytes + 1))
    fail_vector_file(where, "the file is cut short", std::to_string(text.size()) + " bytes",
                     std::to_string(head.rows) + " vectors of " + std::to_string(head.numbers) + " numbers");
  Collected found(head.rows, head.numbers);
  size_t at = head.bytes;
  for (uint64_t row = 0; row < head.rows; ++row) {
    while (at < text.size() && text[at] == '\n') ++at;
    const size_t space = text.substr(at, kLongestName).find(' ');
    const std::string place = where + ": byte " + std::to_string(at);
    if (space == std::string_view::npos || space == 0) fail_vector_file(place, "a vector has no name");
    const std::string_view name = text.substr(at, space);
    at += space + 1;
    if (text.size() - at < row_bytes)
      fail_vector_file(place, "the file is cut short", std::to_string(row) + " vectors", std::to_string(head.rows));
    float* const values = found.next();
    std::memcpy(values, text.data() + at, row_bytes);
    for (uint64_t i = 0; i < head.numbers; ++i)
      if (!std::isfinite(values[i])) fail_vector_file(place, "a vector has a number that is not finite");
    at += row_bytes;
    found.take(name);
  }
  return found.finish(where);
}

// Whether the line behind the head is a name and numbers in figures.
bool is_text(std::string_view text, const VectorFileHead& head) {
  std::string_view line = line_at(text, head.bytes);
  float value = 0;
  for (uint64_t i = 0; i < head.numbers; ++i)
    if (!number_of(take_last(line), value)) return false;
  return !line.empty();
}

// How often the words came, by "B64:... count documents" on each line.
WordVectors with_counts(const WordVectors& vectors, std::string_view lines, const std::string& where) {
  std::vector<int64_t> counts(static_cast<size_t>(vectors.size()));
  for (size_t at = 0; at < lines.size();) {
    std::string_view line = line_at(lines, at);
    at += line.size() + 1;
    take_last(line);
    float count = 0;
    if (!number_of(take_last(line), count) || count < 0) continue;
    const int32_t number = vectors.names().find(decoded_name(line, where));
    if (number >= 0) counts[static_cast<size_t>(number)] = static_cast<int64_t>(std::min(count, 9e15f));
  }
  ElementTable names;
  for (int64_t i = 0; i < vectors.size(); ++i) names.add(vectors.names().name(i), counts[static_cast<size_t>(i)]);
  return WordVectors(std::move(names), vectors.rows());
}

WordVectors parse_archive(std::span<const std::byte> bytes, const std::string& where) {
  const std::vector<ZipEntry> entries = zip_entries(bytes, where);
  const auto named = [&](std::string_view name) {
    return std::find_if(entries.begin(), entries.end(), [&](const ZipEntry& e) { return e.name == name; });
  };
  const auto rows = named("syn0.txt");
  if (rows == entries.end() && entries.size() != 1)
    fail_vector_file(where, "the archive has no vectors", std::to_string(entries.size()) + " files",
                     "syn0.txt of Deeplearning4j, or one file alone");
  const ZipEntry& entry = rows == entries.end() ? entries[0] : *rows;
  const Bytes content = zip_content(bytes, entry, where);
  if (as_text(content).starts_with("PK")) fail_vector_file(where, "the archive has an archive in it", "", "a file of vectors");
  WordVectors vectors = parse_vectors(content, where + ": " + entry.name);
  if (const auto counts = named("frequencies.txt"); rows != entries.end() && counts != entries.end())
    return with_counts(vectors, as_text(zip_content(bytes, *counts, where)), where + ": frequencies.txt");
  return vectors;
}

void append_number(float value, std::string& text) {
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  text.append(digits, end);
}

}  // namespace

WordVectors parse_vectors(std::span<const std::byte> bytes, const std::string& where) {
  const std::string_view text = as_text(bytes);
  if (text.starts_with(std::string_view("PK\x03\x04", 4))) return parse_archive(bytes, where);
  if (is_fasttext(bytes)) return parse_fasttext(bytes, where);
  if (is_pickle(bytes)) return parse_keyed_vectors(bytes, where);
  const VectorFileHead head = head_of(text);
  if (head.bytes == 0 || is_text(text, head)) return parse_text(text, head, where);
  return parse_binary(text, head, where);
}

WordVectors read_vectors(const std::string& path) {
  expect_there(path);
  return parse_vectors(FileContent::open(path, kMaxVectorFileBytes).bytes(), path);
}

VectorFormat vector_format(const std::string& path) {
  if (path.ends_with(".bin")) return VectorFormat::binary;
  if (path.ends_with(".txt") || path.ends_with(".vec")) return VectorFormat::text;
  if (path.ends_with(".kv")) return VectorFormat::keyed;
  throw Error(ErrorKind::usage, {.where = path,
                                 .what = "the name does not say how vectors are written",
                                 .expected = ".bin (word2vec's binary), .txt or .vec (its text), .kv (gensim's)",
                                 .hint = "give the format: \"binary\", \"text\", \"glove\" or \"keyed\""});
}

namespace {

// "name 0.1 0.2 ...", or the name and the bytes of the numbers.
void append_vector(const WordVectors& vectors, int64_t row, VectorFormat format, std::string& text) {
  const float* values = vectors.rows().row(row);
  std::string name(vectors.names().name(row));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ' ' || c == '\n'; }, '_');  // both end a name in these formats
  text.append(name);
  if (format == VectorFormat::binary) {
    text.push_back(' ');
    text.append(reinterpret_cast<const char*>(values), static_cast<size_t>(vectors.numbers()) * sizeof(float));
  } else {
    for (int64_t i = 0; i < vectors.numbers(); ++i) {
      text.push_back(' ');
      append_number(values[i], text);
    }
  }
  text.push_back('\n');
}

}  // namespace

void write_vectors(const std::string& path, const WordVectors& vectors, VectorFormat format) {
  if (format == VectorFormat::keyed) return write_keyed_vectors(path, vectors);
  constexpr size_t kPart = size_t{1} << 20;
  int64_t row = 0;
  write_file_in_parts(path, [&](std::string& part) {
    if (row == 0 && format != VectorFormat::glove) part = std::to_string(vectors.size()) + " " + std::to_string(vectors.numbers()) + "\n";
    while (row < vectors.size() && part.size() < kPart) append_vector(vectors, row++, format, part);
    return row < vectors.size();
  });
}

}  // namespace perigee
