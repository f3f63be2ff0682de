#include "src/data/table/columnar/xlsx/xlsx_file.h"

#include <charconv>
#include <cmath>
#include <set>

#include "src/core/error.h"
#include "src/data/table/columnar/untyped.h"
#include "src/data/table/columnar/xlsx/workbook.h"
#include "src/data/table/columnar/xlsx/xml.h"
#include "src/data/table/time_text.h"

namespace perigee::tables::xlsx {
namespace {

constexpr size_t kMostXlsxFileColumns = 16384;  // ECMA-376's own bound

struct SheetCell {
  size_t column = 0;
  Cell cell;
};

// The rows of a sheet's XML from `at` on.
class SheetReader {
 public:
  SheetReader(const Workbook& book, size_t at) : book_(book), at_(at) {}

  // The next row with a value; `begin`: where it stands. Texts live until the next call.
  bool next(std::vector<SheetCell>& cells, size_t& begin) {
    const std::string_view xml = book_.sheet();
    Tag tag;
    cells.clear();
    texts_.clear();
    while (next_tag(xml, at_, tag)) {
      if (tag.name == "row" && !tag.closing) begin = tag.begin, column_ = 0;
      else if (tag.name == "c" && !tag.closing) cell(tag, cells);
      else if (tag.name == "row" || (tag.name == "sheetData" && tag.closing)) {
        if (!cells.empty()) return finish(cells);
      }
    }
    if (!cells.empty()) fail("a row does not end", at_);
    return false;
  }

 private:
  [[noreturn]] void fail(const std::string& what, size_t at) const {
    throw Error(ErrorKind::data, {.where = book_.where() + ": sheet: character " + std::to_string(at + 1),
                                  .what = what,
                                  .hint = "save the workbook again, or save it as CSV"});
  }

  // Texts may have moved while the row grew.
  bool finish(std::vector<SheetCell>& cells) {
    size_t begin = 0, next = 0;
    for (SheetCell& entry : cells)
      if (entry.cell.kind == Cell::Kind::text && next < own_.size() && own_[next].first == &entry - cells.data()) {
        entry.cell.text = std::string_view(texts_).substr(begin, own_[next].second - begin);
        begin = own_[next++].second;
      }
    own_.clear();
    return true;
  }

  size_t place(const Tag& tag) {
    const std::string name = attribute(tag, "r");
    if (name.empty()) return column_++;
    size_t column = 0, i = 0;
    for (; i < name.size() && name[i] >= 'A' && name[i] <= 'Z' && column < kMostXlsxFileColumns; ++i)
      column = column * 26 + static_cast<size_t>(name[i] - 'A' + 1);
    if (i == 0 || column > kMostXlsxFileColumns) fail("a cell's name is none: '" + name.substr(0, 20) + "'", tag.begin);
    if (column - 1 < column_) fail("the cells of a row do not ascend at '" + name.substr(0, 20) + "'", tag.begin);
    column_ = column;
    return column - 1;
  }

  void cell(const Tag& open, std::vector<SheetCell>& cells) {
    SheetCell entry{.column = place(open)};
    if (entry.column >= kMostXlsxFileColumns) fail("a row has too many cells", open.begin);
    if (open.empty) return;
    const std::string_view xml = book_.sheet();
    const std::string type = attribute(open, "t"), style = attribute(open, "s");
    const size_t before = texts_.size();
    Tag tag;
    bool found = false, aside = false;
    size_t begin = 0;
    while (next_tag(xml, at_, tag) && !(tag.name == "c" && tag.closing)) {
      if (tag.name == "row") fail("a cell does not end", open.begin);
      if (tag.name == "rPh") aside = !tag.closing && !tag.empty;
      const bool here = tag.name == "v" || (tag.name == "t" && type == "inlineStr" && !aside);
      if (!here || tag.empty) continue;
      if (!tag.closing) begin = tag.end;
      else if (begin > 0) append_xml_text(xml.substr(begin, tag.begin - begin), texts_), found = true;
    }
    if (!found) return;
    const std::string_view text = std::string_view(texts_).substr(before);
    if (type == "s" || type == "inlineStr" || type == "str") {
      entry.cell = {.kind = Cell::Kind::text};
      if (type == "s") entry.cell.text = shared(text, open);
      else own_.emplace_back(static_cast<ptrdiff_t>(cells.size()), texts_.size());
      if (type == "s") texts_.resize(before);
    } else {
      entry.cell = value(type, style, text, open);
      texts_.resize(before);
    }
    if (entry.cell.kind != Cell::Kind::none) cells.push_back(entry);
  }

  std::string_view shared(std::string_view number, const Tag& tag) const {
    size_t index = 0;
    const auto result = std::from_chars(number.data(), number.data() + number.size(), index);
    if (result.ec != std::errc() || index >= book_.texts())
      fail("a cell has a text that the workbook lacks: '" + std::string(number.substr(0, 20)) + "'", tag.begin);
    return book_.text(index);
  }

  Cell value(const std::string& type, const std::string& style, std::string_view written, const Tag& tag) const {
    using enum Cell::Kind;
    // #N/A and the like, and formulas that no program has computed yet.
    if (type == "e" || written.empty()) return {};
    if (type == "b") return {.kind = boolean, .whole = written == "1" || written == "true"};
    if (type == "d") {
      int64_t ms = 0;
      if (!parse_iso_time(written, ms)) fail("a cell's date is none: '" + std::string(written.substr(0, 20)) + "'", tag.begin);
      return {.kind = time, .whole = ms};
    }
    double number = 0;
    const auto result = std::from_chars(written.data(), written.data() + written.size(), number);
    if (result.ec != std::errc() || result.ptr != written.data() + written.size())
      fail("a cell's number is none: '" + std::string(written.substr(0, 20)) + "'", tag.begin);
    size_t styled = 0;
    if (!style.empty()) std::from_chars(style.data(), style.data() + style.size(), styled);
    if (!style.empty() && book_.is_date(styled) && std::abs(number) < 1e8) {
      // Days since 1899-12-30; before March 1900 they are off by the day that the first spreadsheet invented.
      const double days = book_.since_1904() ? number - 24107 : number - 25569 + (number < 60 ? 1 : 0);
      return {.kind = time, .whole = std::llround(days * 86'400'000)};
    }
    if (number == std::floor(number) && std::abs(number) < 9e15) return {.kind = whole, .whole = static_cast<int64_t>(number)};
    return {.kind = real, .real = number};
  }

  const Workbook& book_;
  size_t at_, column_ = 0;
  std::string texts_;
  std::vector<std::pair<ptrdiff_t, size_t>> own_;  // cells whose text ends here in texts_
};

class XlsxFile : public ColumnarFile {
 public:
  explicit XlsxFile(const ColumnarInput& input) : owner_(input.owner), book_(input.name, input.content, input.part) { scan(); }

  const TableSchema& schema() const override { return schema_; }
  int64_t chunks() const override { return static_cast<int64_t>(chunks_.size()); }

  Frame read(int64_t chunk, std::span<const size_t> columns) const override {
    const auto& [begin, rows] = chunks_[static_cast<size_t>(chunk)];
    Frame frame{.rows = rows};
    std::vector<int64_t> place(kMostXlsxFileColumns, -1);
    for (const size_t c : columns) {
      place[places_[c]] = static_cast<int64_t>(frame.columns.size());
      frame.schema.columns.push_back(schema_.columns[c]);
      frame.columns.emplace_back(schema_.columns[c].type).reserve(rows);
    }
    SheetReader reader(book_, begin);
    std::vector<SheetCell> cells;
    size_t at = 0;
    for (int64_t r = 0; r < rows && reader.next(cells, at); ++r) {
      for (const SheetCell& entry : cells)
        if (const int64_t to = place[entry.column]; to >= 0) add_cell(entry.cell, frame.columns[static_cast<size_t>(to)]);
      for (Column& column : frame.columns)
        if (column.size() == r) column.add_missing();
    }
    return frame;
  }

 private:
  void scan() {
    std::vector<KindsSeen> kinds;
    std::vector<std::string> names;
    std::vector<size_t> begins;
    std::vector<SheetCell> cells;
    SheetReader reader(book_, 0);
    bool words = true;
    for (size_t at = 0, row = 0; reader.next(cells, at); ++row) {
      if (kinds.size() <= cells.back().column) kinds.resize(cells.back().column + 1), names.resize(kinds.size());
      begins.push_back(at);
      for (const SheetCell& entry : cells) {
        if (row > 0) kinds[entry.column].add(entry.cell.kind);
        else if (entry.cell.kind == Cell::Kind::text) names[entry.column] = entry.cell.text;
        else words = false;
      }
    }
    if (begins.empty())
      throw Error(ErrorKind::data, {.where = book_.where(), .what = "the sheet has no rows", .expected = "at least one row"});
    const bool header = words && begins.size() > 1;
    if (header) begins.erase(begins.begin());
    else {
      std::fill(names.begin(), names.end(), "");
      size_t at = 0;
      SheetReader first(book_, 0);
      first.next(cells, at);
      for (const SheetCell& entry : cells) kinds[entry.column].add(entry.cell.kind);
    }
    std::set<std::string> taken;
    for (size_t c = 0; c < kinds.size(); ++c) {
      if (names[c].empty() && kinds[c].type(Type::list) == Type::list) continue;  // nothing stands in it
      std::string name = names[c].empty() ? "c" + std::to_string(c) : names[c];
      while (!taken.insert(name).second) name += "_" + std::to_string(c);
      schema_.columns.push_back({.name = name, .type = kinds[c].type()});
      places_.push_back(c);
    }
    const auto most = static_cast<size_t>(chunk_rows(schema_.columns.size()));
    for (size_t r = 0; r < begins.size(); r += most)
      chunks_.emplace_back(begins[r], static_cast<int64_t>(std::min(most, begins.size() - r)));
  }

  std::shared_ptr<const void> owner_;
  Workbook book_;
  TableSchema schema_;
  std::vector<size_t> places_;  // in the sheet, of each column
  std::vector<std::pair<size_t, int64_t>> chunks_;
};

}  // namespace

std::unique_ptr<ColumnarFile> open_xlsx(const ColumnarInput& input) { return std::make_unique<XlsxFile>(input); }

}  // namespace perigee::tables::xlsx
