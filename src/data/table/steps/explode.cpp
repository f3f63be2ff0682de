// explode: a row for each element of a list, or of a text that is a list ("a,b,c"), with the other columns again.
#include "src/core/error.h"
#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

constexpr uint64_t kMostRepeated = uint64_t{1} << 32;  // bytes of texts and lists in the other columns

// Calls `use` for the parts of `text` between `by`.
template <class F>
void each_part(std::string_view text, const std::string& by, F use) {
  for (size_t at = 0;;) {
    const size_t end = text.find(by, at);
    use(text.substr(at, end - at));
    if (end == text.npos) return;
    at = end + by.size();
  }
}

// The elements of row `r`, appended to `out`; one that is missing where there are none.
void add_elements(const Column& column, int64_t r, const std::string& by, Column& out) {
  const auto row = static_cast<size_t>(r);
  if (column.is_missing(r)) return out.add_missing();
  if (column.type == Type::text) return each_part(column.text(r), by, [&](std::string_view part) { out.add_text(part); });
  const uint64_t begin = row == 0 ? 0 : column.ends[row - 1];
  if (begin == column.ends[row]) return out.add_missing();
  for (uint64_t i = begin; i < column.ends[row]; ++i) out.add_real(column.items[i]);
}

// The bytes of texts and lists that a row has in other columns than `c`.
uint64_t bytes_beside(const Frame& frame, size_t c, int64_t r) {
  const auto row = static_cast<size_t>(r);
  uint64_t bytes = 0;
  for (size_t i = 0; i < frame.columns.size(); ++i) {
    const std::vector<uint64_t>& ends = frame.columns[i].ends;
    if (i != c && row < ends.size()) bytes += (ends[row] - (row == 0 ? 0 : ends[row - 1])) * (frame.columns[i].type == Type::list ? 8 : 1);
  }
  return bytes;
}

std::unique_ptr<Step> open_explode(const Config& config, const StepContext& context) {
  const std::string by = config.string("by", ",");
  if (by.empty()) config.fail("by", "is empty, and then nothing is between two elements", "\"\"", "by = \",\"");
  return step_of(
      [name = config.string("explode"), by, where = context.where](Frame& frame) {
        const size_t c = columns_of(frame, {name}, where, [](Type t) { return t == Type::text || t == Type::list; }).at(0);
        const Column column = frame.columns[c];
        Column out(column.type == Type::text ? Type::text : Type::real);
        std::vector<int64_t> rows, sequences = {0};
        uint64_t repeated = 0;
        const std::vector<int64_t> bounds = frame.bounds();
        for (size_t s = 0; s + 1 < bounds.size(); ++s) {
          for (int64_t r = bounds[s]; r < bounds[s + 1]; ++r) {
            const uint64_t before = rows.size();
            add_elements(column, r, by, out);
            rows.resize(static_cast<size_t>(out.size()), r);
            repeated += (rows.size() - before) * bytes_beside(frame, c, r);
            if (repeated > kMostRepeated)
              throw Error(ErrorKind::resources, {.where = where,
                                                 .what = "the elements repeat too much of the other columns",
                                                 .got = "more than 4 GiB of texts and lists",
                                                 .hint = "leave columns out before: {\"drop\": [...]}"});
          }
          sequences.push_back(static_cast<int64_t>(rows.size()));
        }
        const bool had = !frame.sequences.empty();
        frame.take(rows);
        frame.columns[c] = std::move(out);
        frame.schema.columns[c] = {.name = name, .type = frame.columns[c].type};
        if (had) frame.sequences = std::move(sequences);
      },
      true);
}

constexpr Option kExplode[] = {{"explode", "name", nullptr, "the column: a list, or a text that is one"},
                               {"by", "string", ",", "what stands between two elements of a text"}};

}  // namespace

extern const StepDef step_explode;
const StepDef step_explode{"explode", "makes a row of each element of a list", {.options = kExplode}, open_explode, Rows::remakes};

}  // namespace perigee::tables
