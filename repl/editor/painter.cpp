#include "repl/editor/painter.h"

#include <algorithm>
#include <cstring>

#include "repl/editor/text.h"

namespace perigee {
namespace {

std::string painter_control(size_t count, char final) { return count == 0 ? "" : "\x1b[" + std::to_string(count) + final; }

}  // namespace

const char* sgr(Colour colour) {
  switch (colour) {
    case Colour::keyword: return "1;34";
    case Colour::string: return "32";
    case Colour::number: return "36";
    case Colour::comment: return "90";
    case Colour::special: return "35";
    default: return "";
  }
}

void Canvas::set_style(const char* style) {
  if (!colour_ || std::strcmp(style, style_) == 0) return;
  if (*style_) rows_.back().bytes += "\x1b[0m";
  if (*style) (rows_.back().bytes += "\x1b[") += std::string(style) + "m";
  style_ = style;
}

void Canvas::put(std::string_view text, const char* style) {
  for (size_t at = 0; at < text.size();) {
    const size_t next = next_character(text, at);
    const std::string_view character = text[at] == '\t' ? " " : text.substr(at, next - at);
    const size_t width = text_columns(character);
    if (rows_.back().width + width > columns_) newline();
    set_style(style);
    rows_.back().bytes += character;
    rows_.back().width += width;
    at = next;
  }
}

void Canvas::newline() {
  set_style("");
  rows_.emplace_back();
}

void Canvas::mark_cursor() {
  if (rows_.back().width >= columns_) newline();
  cursor_row = rows_.size() - 1;
  cursor_column = rows_.back().width;
}

std::vector<Canvas::Row> Canvas::take_rows() {
  set_style("");
  return std::move(rows_);
}

// A terminal that becomes narrower folds its rows, or cuts them: taken to fold, so that nothing old stays above.
std::string Painter::resize(int columns, int rows) {
  columns_ = std::max(columns, 2);
  height_ = std::max(rows, 1);
  size_t above = 0;
  for (size_t i = 0; i < row_ && i < shown_.size(); ++i)
    above += std::max<size_t>(1, (shown_[i].width + static_cast<size_t>(columns_) - 1) / static_cast<size_t>(columns_));
  std::string out = shown_.empty() ? "" : "\r" + painter_control(above, 'A') + "\x1b[J";
  shown_.clear();
  row_ = top_ = 0;
  return out;
}

// From the row `row_`; column 0 is reached first, so that a cursor that waits behind the last column does no harm.
std::string Painter::move_to(size_t row, size_t column) {
  std::string out = "\r";
  if (row < row_) out += painter_control(row_ - row, 'A');
  for (; row_ < row; ++row_) out += "\n";
  row_ = row;
  return out + painter_control(column, 'C');
}

std::string Painter::paint(Canvas canvas) {
  const size_t cursor_row = canvas.cursor_row, cursor_column = canvas.cursor_column, height = static_cast<size_t>(height_);
  std::vector<Canvas::Row> rows = canvas.take_rows();
  std::string out;
  top_ = std::min(top_, rows.size() > height ? rows.size() - height : 0);
  if (cursor_row < top_) top_ = cursor_row;
  if (cursor_row >= top_ + height) top_ = cursor_row - height + 1;
  rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(top_));
  if (rows.size() > height) rows.resize(height);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i < shown_.size() && rows[i] == shown_[i]) continue;
    out += move_to(i, 0) + "\x1b[K" + rows[i].bytes;
  }
  if (shown_.size() > rows.size()) out += move_to(rows.size(), 0) + "\x1b[J";
  shown_ = std::move(rows);
  return out + move_to(cursor_row - top_, cursor_column);
}

std::string Painter::leave() {
  std::string out = shown_.empty() ? "" : move_to(shown_.size() - 1, 0) + "\r\n";
  shown_.clear();
  row_ = top_ = 0;
  return out;
}

// A mark and as many blanks as fill a row: if the cursor was not in the first column, they end in the next row. Then they go.
std::string Painter::begin() {
  shown_.clear();
  row_ = top_ = 0;
  return "\x1b[7m%\x1b[0m" + std::string(static_cast<size_t>(columns_) - 1, ' ') + "\r\x1b[K";
}

std::string Painter::clear() {
  shown_.clear();
  row_ = top_ = 0;
  return "\x1b[H\x1b[2J";
}

}  // namespace perigee
