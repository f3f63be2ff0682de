// LineEditor: what its input looks like, and completion.
#include <algorithm>
#include <utility>

#include "repl/editor/line_editor.h"
#include "repl/editor/text.h"

namespace perigee {
namespace {

constexpr const char *kPromptStyle = "1;32", *kContinuationStyle = "32", *kNoteStyle = "90", *kFailedStyle = "31";
constexpr size_t kMostListRows = 12, kGap = 2;

// As many characters as fit.
std::string_view cut_line_view(std::string_view text, size_t columns) {
  return text_columns(text) <= columns ? text : text.substr(0, at_column(text, 0, columns));
}

void put_padded(Canvas& canvas, std::string_view text, size_t columns) {
  canvas.put(text);
  canvas.put(std::string(columns - std::min(columns, text_columns(text)), ' '));
}

size_t common_length(std::string_view a, std::string_view b) {
  size_t length = static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  while (length > 0 && length < a.size() && (static_cast<unsigned char>(a[length]) & 0xC0) == 0x80) --length;  // whole characters
  return length;
}

}  // namespace

void LineEditor::put_text(Canvas& canvas, bool with_cursor) const {
  const std::vector<Colour> colours = options_.colour ? language_.colours(text_) : std::vector<Colour>();
  for (size_t at = 0;;) {
    if (with_cursor && at == cursor_) canvas.mark_cursor();
    if (at >= text_.size()) return;
    if (text_[at] == '\n') {
      canvas.newline();
      canvas.put(options_.continuation, kContinuationStyle);
      ++at;
      continue;
    }
    const size_t next = next_character(text_, at);
    canvas.put(std::string_view(text_).substr(at, next - at), at < colours.size() ? sgr(colours[at]) : "");
    at = next;
  }
}

// `finished`: as it stays above the answer.
Canvas LineEditor::view(bool finished) const {
  Canvas canvas(painter_.columns(), options_.colour);
  if (search_.active && !finished)
    canvas.put((search_.failed ? "nothing has '" : "search '") + search_.query + "': ", search_.failed ? kFailedStyle : kPromptStyle);
  else canvas.put(options_.prompt, kPromptStyle);
  put_text(canvas, !finished);
  if (finished) canvas.mark_cursor();
  else if (!list_.empty()) put_list(canvas);
  return canvas;
}

void LineEditor::put_list(Canvas& canvas) const {
  const size_t columns = static_cast<size_t>(painter_.columns());
  size_t widest = 0;
  bool notes = false;
  for (const Candidate& each : list_) {
    widest = std::max(widest, text_columns(each.text));
    notes |= !each.note.empty();
  }
  widest = std::min(widest, columns - 1);
  const size_t rows_left = static_cast<size_t>(std::max(2, painter_.height() - 2)), most_rows = std::min(kMostListRows, rows_left);
  const size_t across = notes ? 1 : std::max<size_t>(1, (columns + kGap - 1) / (widest + kGap));
  size_t rows = (list_.size() + across - 1) / across;
  const bool all = rows <= most_rows;
  if (!all) rows = most_rows - 1;
  for (size_t row = 0; row < rows; ++row) {
    canvas.newline();
    for (size_t column = 0; column < across; ++column) {
      const size_t at = all ? column * rows + row : row * across + column;
      if (at >= list_.size()) break;
      const bool last = column + 1 == across;
      put_padded(canvas, cut_line_view(list_[at].text, columns - 1), last && !notes ? 0 : widest + kGap);
      if (notes && columns > widest + kGap + 1) canvas.put(cut_line_view(list_[at].note, columns - widest - kGap - 1), kNoteStyle);
    }
  }
  if (all) return;
  canvas.newline();
  canvas.put("and " + std::to_string(list_.size() - rows * across) + " more", kNoteStyle);
}

// Inserts the common beginning of all candidates, and lists them if there are several.
void LineEditor::complete() {
  const size_t begin = line_begin(text_, cursor_);
  if (begin > 0 && text_.find_first_not_of(' ', begin) >= cursor_) {  // in a further line's indentation
    remember();
    return insert("  ");
  }
  Completion completion = language_.complete(text_, cursor_);
  if (completion.candidates.empty() || completion.from > cursor_) return;
  size_t common = completion.candidates[0].text.size();
  for (const Candidate& each : completion.candidates) common = std::min(common, common_length(completion.candidates[0].text, each.text));
  const std::string typed = text_.substr(completion.from, cursor_ - completion.from);
  const std::string known = completion.candidates[0].text.substr(0, common);
  if (known.size() > typed.size() || (completion.candidates.size() == 1 && known != typed)) {
    erase(completion.from, cursor_);
    insert(known);
  }
  if (completion.candidates.size() > 1) list_ = std::move(completion.candidates);
}

}  // namespace perigee
