#include "repl/editor/line_editor.h"

#include <algorithm>
#include <utility>

#include "repl/editor/text.h"

namespace perigee {
namespace {

constexpr size_t kMaxUndo = 200, kMaxKills = 16;

}  // namespace

const LineEditor::Binding LineEditor::kBindings[] = {
    {"C-a", &LineEditor::to_line_begin},
    {"<Home>", &LineEditor::to_line_begin},
    {"C-e", &LineEditor::to_line_end},
    {"<End>", &LineEditor::to_line_end},
    {"C-b", &LineEditor::left},
    {"<Left>", &LineEditor::left},
    {"C-f", &LineEditor::right},
    {"<Right>", &LineEditor::right},
    {"M-b", &LineEditor::word_left},
    {"C-<Left>", &LineEditor::word_left},
    {"M-f", &LineEditor::word_right},
    {"C-<Right>", &LineEditor::word_right},
    {"M-<Left>", &LineEditor::word_left},
    {"M-<Right>", &LineEditor::word_right},
    {"C-p", &LineEditor::up},
    {"<Up>", &LineEditor::up},
    {"C-n", &LineEditor::down},
    {"<Down>", &LineEditor::down},
    {"M-<", &LineEditor::to_begin},
    {"M->", &LineEditor::to_end},
    {"C-<Home>", &LineEditor::to_begin},
    {"C-<End>", &LineEditor::to_end},
    {"<PageUp>", &LineEditor::older},
    {"<PageDown>", &LineEditor::newer},
    {"<Enter>", &LineEditor::enter},
    {"M-<Enter>", &LineEditor::open_line},
    {"<Backspace>", &LineEditor::erase_left},
    {"<Delete>", &LineEditor::erase_right},
    {"C-d", &LineEditor::end_or_erase},
    {"C-k", &LineEditor::kill_line},
    {"C-u", &LineEditor::kill_to_begin},
    {"M-d", &LineEditor::kill_word},
    {"C-<Delete>", &LineEditor::kill_word},
    {"M-<Backspace>", &LineEditor::kill_word_left},
    {"C-w", &LineEditor::kill_blank_left},
    {"C-y", &LineEditor::yank},
    {"M-y", &LineEditor::yank_older},
    {"C-t", &LineEditor::transpose},
    {"C-_", &LineEditor::undo},
    {"C-l", &LineEditor::clear_screen},
    {"C-c", &LineEditor::clear_line},
    {"C-z", &LineEditor::suspend},
    {"C-r", &LineEditor::search_older},
    {"C-s", &LineEditor::search_newer},
    {"<Tab>", &LineEditor::complete},
};

LineEditor::LineEditor(Language& language, History& history, Options options)
    : language_(language), history_(history), options_(std::move(options)) {}

void LineEditor::begin() {
  active_ = true;
  recalled_ = history_.entries().size();
  output_ += painter_.begin();
}

Editor::Event LineEditor::next() {
  event_ = Event::more;
  while (active_ && event_ == Event::more) {
    const std::optional<Key> key = keys_.next();
    if (!key) break;
    handle(*key);
  }
  return event_;
}

void LineEditor::resize(int columns, int rows) { output_ += painter_.resize(columns, rows); }

std::string LineEditor::take_output() {
  if (active_) output_ += painter_.paint(view(false));
  return std::exchange(output_, "");
}

void LineEditor::handle(const Key& key) {
  if (search_.active && handle_in_search(key)) return;
  deed_ = Deed::other;
  list_.clear();
  if (key.name.empty()) {
    deed_ = Deed::type;
    if (last_ != Deed::type) remember();
    insert(key.text);
  } else if (key.name == "<Paste>") {
    remember();
    insert(key.text.ends_with('\n') ? std::string_view(key.text).substr(0, key.text.size() - 1) : key.text);
  } else {
    for (const Binding& binding : kBindings)
      if (key.name == binding.key) {
        (this->*binding.action)();
        break;
      }
  }
  last_ = deed_;
}

// Changes ---------------------------------------------------------------------------------------------------------------------

void LineEditor::remember() {
  recalled_ = history_.entries().size();
  if (!undo_.empty() && undo_.back().text == text_) return;
  undo_.push_back({text_, cursor_});
  if (undo_.size() > kMaxUndo) undo_.erase(undo_.begin());
}

void LineEditor::insert(std::string_view text) {
  if (text.size() > kMaxText - std::min(kMaxText, text_.size())) return;
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

void LineEditor::erase(size_t from, size_t to) {
  if (from >= to) return;
  remember();
  text_.erase(from, to - from);
  cursor_ = from;
}

void LineEditor::replace(std::string text, size_t cursor) {
  text_ = std::move(text);
  cursor_ = std::min(cursor, text_.size());
}

void LineEditor::open_line() {
  remember();
  insert("\n");
}

// A line that was indented for us and turns out to close a block moves back.
void LineEditor::settle_indentation() {
  const size_t begin = line_begin(text_, cursor_), word = text_.find_first_not_of(' ', begin);
  if (begin == 0 || word == std::string::npos || word > cursor_) return;
  const std::string_view text = text_;
  const size_t given = language_.indentation(text.substr(0, begin)), wanted = language_.indentation(text.substr(0, next_word(text, word)));
  if (word - begin != given || wanted >= given) return;
  text_.erase(begin, given - wanted);
  cursor_ -= given - wanted;
}

void LineEditor::enter() {
  settle_indentation();
  if (language_.finished(text_)) return accept();
  remember();
  insert("\n" + std::string(language_.indentation(std::string_view(text_).substr(0, cursor_)), ' '));
}

// The input stays where it is, and later output goes below it.
void LineEditor::leave(const char* mark) {
  output_ += painter_.paint(view(true));
  output_ += mark;
  output_ += painter_.leave();
}

void LineEditor::accept() {
  history_.add(text_);
  leave();
  line_ = std::exchange(text_, "");
  cursor_ = 0;
  undo_.clear();
  active_ = false;
  event_ = Event::line;
}

void LineEditor::erase_left() { erase(previous_character(text_, cursor_), cursor_); }
void LineEditor::erase_right() { erase(cursor_, next_character(text_, cursor_)); }

void LineEditor::end_or_erase() {
  if (!text_.empty()) return erase_right();
  leave();
  active_ = false;
  event_ = Event::end;
}

void LineEditor::kill(size_t from, size_t to, bool forward) {
  if (from >= to) return;
  deed_ = Deed::kill;
  const std::string killed = text_.substr(from, to - from);
  if (last_ == Deed::kill && !kills_.empty()) {
    kills_.back() = forward ? kills_.back() + killed : killed + kills_.back();
  } else {
    kills_.push_back(killed);
    if (kills_.size() > kMaxKills) kills_.erase(kills_.begin());
  }
  erase(from, to);
}

void LineEditor::kill_line() {
  const size_t end = line_end(text_, cursor_);
  kill(cursor_, end == cursor_ ? std::min(end + 1, text_.size()) : end, true);
}
void LineEditor::kill_to_begin() { kill(line_begin(text_, cursor_), cursor_, false); }
void LineEditor::kill_word() { kill(cursor_, next_word(text_, cursor_), true); }
void LineEditor::kill_word_left() { kill(previous_word(text_, cursor_), cursor_, false); }

void LineEditor::kill_blank_left() {
  const auto blank = [&](size_t at) { return text_[at] == ' ' || text_[at] == '\n'; };
  size_t from = cursor_;
  while (from > 0 && blank(from - 1)) --from;
  while (from > 0 && !blank(from - 1)) --from;
  kill(from, cursor_, false);
}

void LineEditor::yank() {
  if (kills_.empty()) return;
  deed_ = Deed::yank;
  remember();
  yanked_ = kills_.size() - 1;
  yank_begin_ = cursor_;
  insert(kills_[yanked_]);
}

void LineEditor::yank_older() {
  if (last_ != Deed::yank || kills_.empty()) return;
  deed_ = Deed::yank;
  erase(yank_begin_, cursor_);
  yanked_ = (yanked_ + kills_.size() - 1) % kills_.size();
  insert(kills_[yanked_]);
}

// The characters on both sides of the cursor change places; at a line's end, the last two.
void LineEditor::transpose() {
  size_t middle = cursor_ == line_end(text_, cursor_) ? previous_character(text_, cursor_) : cursor_;
  const size_t begin = line_begin(text_, cursor_);
  if (middle <= begin) return;
  remember();
  const size_t first = previous_character(text_, middle), last = next_character(text_, middle);
  const std::string swapped = text_.substr(middle, last - middle) + text_.substr(first, middle - first);
  text_.replace(first, last - first, swapped);
  cursor_ = last;
}

void LineEditor::undo() {
  if (undo_.empty()) return;
  State state = std::move(undo_.back());
  undo_.pop_back();
  replace(std::move(state.text), state.cursor);
}

// Moves -----------------------------------------------------------------------------------------------------------------------

void LineEditor::to_line_begin() { cursor_ = line_begin(text_, cursor_); }
void LineEditor::to_line_end() { cursor_ = line_end(text_, cursor_); }
void LineEditor::left() { cursor_ = previous_character(text_, cursor_); }
void LineEditor::right() { cursor_ = next_character(text_, cursor_); }
void LineEditor::word_left() { cursor_ = previous_word(text_, cursor_); }
void LineEditor::word_right() { cursor_ = next_word(text_, cursor_); }

// False when there is no such line.
bool LineEditor::vertical(int lines) {
  const size_t begin = line_begin(text_, cursor_), end = line_end(text_, cursor_);
  if (lines < 0 ? begin == 0 : end == text_.size()) return false;
  if (last_ != Deed::vertical) goal_column_ = text_columns(std::string_view(text_).substr(begin, cursor_ - begin));
  deed_ = Deed::vertical;
  cursor_ = at_column(text_, lines < 0 ? line_begin(text_, begin - 1) : end + 1, goal_column_);
  return true;
}

void LineEditor::up() {
  if (!vertical(-1)) older();
}

void LineEditor::down() {
  if (!vertical(1)) newer();
}

// The terminal ----------------------------------------------------------------------------------------------------------------

void LineEditor::clear_screen() { output_ += painter_.clear(); }

void LineEditor::clear_line() {
  leave("^C");
  text_.clear();
  cursor_ = 0;
  undo_.clear();
  recalled_ = history_.entries().size();
}

void LineEditor::suspend() {
  leave();
  active_ = false;
  event_ = Event::suspend;
}

}  // namespace perigee
