// The content that a terminal is to show, and the bytes that bring it there from its present content.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "repl/editor/editor.h"

namespace perigee {

// SGR parameters of a colour: "1;34"; empty for plain text.
const char* sgr(Colour colour);

// Rows of a terminal, filled from left to right; what does not fit goes to the next row.
class Canvas {
 public:
  Canvas(int columns, bool colour) : columns_(columns < 2 ? 2 : static_cast<size_t>(columns)), colour_(colour) {}
  // One line's text in one style; a character never stands in two rows.
  void put(std::string_view text, const char* style = "");
  void newline();
  void mark_cursor();  // the cursor stands where the next character would

  struct Row {
    std::string bytes;
    size_t width = 0;
    bool operator==(const Row&) const = default;
  };
  std::vector<Row> take_rows();
  size_t cursor_row = 0, cursor_column = 0;

 private:
  void set_style(const char* style);
  std::vector<Row> rows_ = std::vector<Row>(1);
  size_t columns_;
  bool colour_;
  const char* style_ = "";
};

class Painter {
 public:
  std::string resize(int columns, int rows);  // clears what was painted
  int columns() const { return columns_; }
  int height() const { return height_; }

  std::string paint(Canvas canvas);  // changes only the rows that differ
  std::string leave();               // the cursor goes below what was painted, which stays
  std::string begin();               // a fresh row, whatever was printed last
  std::string clear();               // an empty screen

 private:
  std::string move_to(size_t row, size_t column);

  std::vector<Canvas::Row> shown_;
  size_t row_ = 0;  // the cursor's, among `shown_`
  size_t top_ = 0;  // first row of the canvas that is shown: it may have more than the terminal
  int columns_ = 80, height_ = 24;
};

}  // namespace perigee
