// Pieces of HTML. Every text from outside goes through escaped(): names, paths, values of the job.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace perigee {

// For content and for attributes in double quotes. Characters that HTML does not allow, and bytes that are no UTF-8, become U+FFFD.
std::string escaped(std::string_view text);
// Its first `most` characters with an ellipsis, then escaped.
std::string shortened(std::string_view text, size_t most);

// A table with a caption and headers that know what they head. Cells are HTML; the first of a row heads it.
class HtmlTable {
 public:
  struct Column {
    std::string head;     // HTML
    bool number = false;  // set to the right
  };
  struct Cell {
    std::string html, style;
    Cell(std::string content, std::string class_of = "") : html(std::move(content)), style(std::move(class_of)) {}
    Cell(const char* content) : html(content) {}
  };
  HtmlTable(std::string caption, std::vector<Column> columns, const std::string& style = "");
  void row(const std::vector<Cell>& cells, const std::string& style = "");
  bool empty() const { return rows_ == 0; }
  // In a box that scrolls sideways where the page is narrow.
  std::string html() const;

 private:
  std::string caption_, text_;
  std::vector<Column> columns_;
  size_t rows_ = 0;
};

// Where a table shows `most` of `all` of its kind: which file has the others.
std::string left_out_note(size_t all, size_t most, const std::string& kind, const std::string& file);

// Names and values; values are HTML. Those that are empty are left out.
std::string facts_html(const std::vector<std::pair<std::string, std::string>>& facts, const std::string& style = "facts");

// Numbers for people. Those that are not finite are a dash.
std::string grouped_number(double value);                        // "60,000"
std::string plain_number(double value);                          // "0.04677", "58,514", "1.2e-05"
std::string percent(double share, int digits = 2);               // "98.54 %"
std::string seconds_text(double seconds);                        // "4.3 s", "3 min 20 s"
std::string bytes_number(double bytes);                          // "2.6 MiB"
std::string figure_text(const std::string& name, double value);  // percent for an accuracy

}  // namespace perigee
