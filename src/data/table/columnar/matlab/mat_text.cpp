// MATLAB's text matrices (save -ascii): a row of numbers on each line, blanks, commas or semicolons between them, % before a comment.
#include <charconv>
#include <cstring>

#include "src/data/table/columnar/matlab/mat_elements.h"
#include "src/data/table/columnar/text/text_rows.h"

namespace perigee::tables::matlab {
namespace {

constexpr uint32_t kReal64 = 9;

bool stands_between(char c) { return c == ' ' || c == '\t' || c == ',' || c == ';'; }

}  // namespace

Content read_text_matrix(const ColumnarInput& input) {
  Array array{.name = "x", .kind = Array::Kind::numbers, .real = true, .stored = kReal64};
  std::vector<double> values;
  LineReader lines(as_text(input.content));
  for (Line line; lines.next(line);) {
    const std::string_view text = line.text.substr(0, line.text.find('%'));
    int64_t count = 0;
    for (size_t at = 0; at < text.size();) {
      if (stands_between(text[at])) {
        ++at;
        continue;
      }
      size_t end = at;
      while (end < text.size() && !stands_between(text[end])) ++end;
      std::string_view word = text.substr(at, end - at);
      if (word.starts_with('+')) word.remove_prefix(1);
      double value = 0;
      const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      if (error != std::errc() || stop != word.data() + word.size())
        line.fail(input.name, text.data() + at, "a matrix of MATLAB has numbers alone", word,
                  "a number; or the file is of another version of MATLAB");
      values.push_back(value);
      ++count;
      at = end;
    }
    if (count == 0) continue;
    if (array.rows++ == 0) array.columns = count;
    else if (count != array.columns)
      line.fail(input.name, text.data(), "the row has another number of columns than the first", std::to_string(count),
                std::to_string(array.columns));
  }
  Content content;
  Bytes& bytes = content.unpacked.emplace_back(values.size() * sizeof(double));
  for (int64_t c = 0, i = 0; c < array.columns; ++c)
    for (int64_t r = 0; r < array.rows; ++r, ++i)
      std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(double), &values[static_cast<size_t>(r * array.columns + c)],
                  sizeof(double));
  array.values = bytes;
  content.arrays.push_back(std::move(array));
  return content;
}

}  // namespace perigee::tables::matlab
