#include "src/data/table/reading/xml_rows.h"

#include <algorithm>
#include <map>
#include <vector>

#include "src/core/error.h"
#include "src/data/table/columnar/xlsx/xml.h"
#include "src/data/table/reading/csv_rows.h"

namespace perigee::tables {
namespace {

constexpr size_t kDeepestXml = 64, kLongestXmlPath = 4096, kMostXmlNames = size_t{16} << 20;  // bytes of paths and of all names

// The document's tags, which must match. Elements outside of rows are passed over.
class XmlRows {
 public:
  XmlRows(std::string_view text, std::string part, const std::string& where) : text_(text), part_(std::move(part)), where_(where) {
    if (text.find("<!ENTITY") != text.npos) fail(text.find("<!ENTITY"), "the document has entities of its own, which are not read");
    if (part_.empty()) depth_of_rows_ = find_rows();
  }

  std::string csv() {
    each_row([](bool) {}, [&](const std::string& path, std::string_view) { column_of(path); });
    if (rows_ == 0)
      throw Error(ErrorKind::data, {.where = where_,
                                    .what = "the document has no rows",
                                    .got = part_.empty() ? "nothing in it" : "no element '" + part_.substr(0, 60) + "'",
                                    .expected = "elements that repeat; FILE#NAME chooses others"});
    std::string out;
    std::vector<std::string> cells(names_.size());
    for (size_t c = 0; c < names_.size(); ++c) add_field(names_[c], c, out);
    out += '\n';
    const size_t most = (size_t{16} << 20) + 8 * text_.size();
    each_row(
        [&](bool begins) {
          if (begins) {
            for (std::string& cell : cells) cell.clear();
            return;
          }
          for (size_t c = 0; c < cells.size(); ++c) add_field(cells[c], c, out);
          out += '\n';
          if (out.size() > most)
            fail(0, "the document has far more cells than one of this size would have: few of its rows have the same elements");
        },
        [&](const std::string& path, std::string_view value) {
          std::string& cell = cells[column_of(path)];
          if (!cell.empty()) cell += ',';
          cell += value;
        });
    return out;
  }

 private:
  struct Open {
    std::string_view name;
    size_t path = 0, text = 0;  // how long the path was before; where the text begins
    bool row = false, parent = false;
  };

  [[noreturn]] void fail(size_t at, const std::string& what, const std::string& got = "", const std::string& expected = "") const {
    const auto line = std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(at), '\n') + 1;
    throw Error(ErrorKind::data, {.where = where_ + ":" + std::to_string(line), .what = what, .got = got, .expected = expected});
  }

  size_t column_of(const std::string& path) {
    const auto [found, fresh] = numbers_.emplace(path, names_.size());
    if (fresh) names_.push_back(path), name_bytes_ += path.size();
    if (path.size() > kLongestXmlPath || name_bytes_ > kMostXmlNames)
      fail(0, "the document has far longer names of columns than a table has", "a path of " + std::to_string(path.size()) + " letters",
           "at most " + std::to_string(kLongestXmlPath));
    if (names_.size() > kMostFields) fail(0, "the document has too many columns", "", "at most " + std::to_string(kMostFields));
    return found->second;
  }

  void add_field(std::string_view field, size_t column, std::string& out) const {
    if (column > 0) out += ',';
    // One column alone that is empty would be a blank line.
    if (field.find_first_of(",\"\n\r") == field.npos && (!field.empty() || names_.size() > 1)) {
      out += field;
      return;
    }
    out += '"';
    for (const char c : field) out.append(c == '"' ? 2 : 1, c);
    out += '"';
  }

  // 1: those below the root; 0: the root.
  size_t find_rows() const {
    size_t at = 0, depth = 0, children = 0;
    xlsx::Tag tag;
    std::string_view name;
    bool same = true, inside = false;
    while (xlsx::next_tag(text_, at, tag)) {
      if (tag.closing) {
        depth -= depth > 0;
        continue;
      }
      if (depth == 1 && children++ == 0) name = tag.name;
      if (depth == 1) same &= tag.name == name;
      inside |= depth > 1 || (depth == 1 && tag.attributes.find('=') != tag.attributes.npos);
      depth += !tag.empty;
    }
    return same && inside && children > 0 ? 1 : 0;
  }

  template <class F>
  static void each_attribute(const xlsx::Tag& tag, F use) {
    std::string_view rest = tag.attributes;
    for (;;) {
      const size_t equals = rest.find('=');
      if (equals == rest.npos) return;
      const size_t first = rest.find_first_not_of(" \t\r\n"), last = rest.find_last_not_of(" \t\r\n", equals - (equals > 0));
      const size_t open = rest.find_first_of("\"'", equals), close = open == rest.npos ? rest.npos : rest.find(rest[open], open + 1);
      if (close == rest.npos) return;
      if (const std::string_view key = first < equals ? rest.substr(first, last - first + 1) : "";
          !key.empty() && !key.starts_with("xmlns"))
        use(key, rest.substr(open + 1, close - open - 1));
      rest.remove_prefix(close + 1);
    }
  }

  static std::string text_of(std::string_view raw) {
    std::string text;
    xlsx::append_xml_text(raw, text);
    const size_t first = text.find_first_not_of(" \t\r\n");
    return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
  }

  // row(true) and row(false) around the values of each row.
  template <class R, class V>
  void each_row(R row, V value) {
    std::vector<Open> open;
    std::string path;
    size_t at = 0, row_depth = 0;
    bool in_row = false, had_root = false;
    rows_ = 0;
    const auto close = [&](std::string_view raw) {
      const Open last = open.back();
      open.pop_back();
      if (in_row && !last.parent)
        if (const std::string text = text_of(raw); !text.empty()) value(last.row ? std::string(last.name) : path, text);
      path.resize(last.path);
      if (!open.empty()) open.back().parent = true;
      if (last.row) in_row = false, row(false);
    };
    for (xlsx::Tag tag; xlsx::next_tag(text_, at, tag);) {
      if (tag.closing) {
        if (open.empty() || open.back().name != tag.name)
          fail(tag.begin, "a tag closes what is not open", "</" + std::string(tag.name.substr(0, 40)) + ">",
               open.empty() ? "the end" : "</" + std::string(open.back().name.substr(0, 40)) + ">");
        close(text_.substr(open.back().text, tag.begin - open.back().text));
        continue;
      }
      if (open.empty() && had_root) fail(tag.begin, "the document has a second root", "<" + std::string(tag.name.substr(0, 40)) + ">");
      if (open.size() >= kDeepestXml) fail(tag.begin, "the elements are nested too deeply", "", "at most " + std::to_string(kDeepestXml));
      had_root = true;
      if (!open.empty()) open.back().parent = true;
      const bool is_row = !in_row && (part_.empty() ? open.size() == depth_of_rows_ : tag.name == part_);
      open.push_back({.name = tag.name, .path = path.size(), .text = tag.end, .row = is_row});
      if (is_row) in_row = true, row_depth = open.size(), ++rows_, row(true);
      if (in_row && open.size() > row_depth) (path += path.empty() ? "" : ".") += tag.name;
      if (in_row)
        each_attribute(tag, [&](std::string_view key, std::string_view raw) {
          const std::string text = text_of(raw);
          if (!text.empty()) value((path.empty() ? "" : path + ".") + std::string(key), text);
        });
      if (tag.empty) close("");
    }
    if (!open.empty()) fail(open.back().text, "an element does not end", "", "</" + std::string(open.back().name.substr(0, 40)) + ">");
  }

  std::string_view text_;
  std::string part_;
  const std::string& where_;
  size_t depth_of_rows_ = 0, rows_ = 0, name_bytes_ = 0;
  std::map<std::string, size_t, std::less<>> numbers_;
  std::vector<std::string> names_;
};

}  // namespace

std::string csv_of_xml(std::string_view text, const std::string& part, const std::string& where) {
  return XmlRows(text, part, where).csv();
}

}  // namespace perigee::tables
