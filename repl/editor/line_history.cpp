// LineEditor: what was typed before, by arrows and by search.
#include <utility>

#include "repl/editor/line_editor.h"
#include "repl/editor/text.h"

namespace perigee {

void LineEditor::older() { recall(-1); }
void LineEditor::newer() { recall(1); }

// Entries that begin with what was typed; behind the newest one is what was typed.
void LineEditor::recall(int direction) {
  const std::vector<std::string>& entries = history_.entries();
  if (recalled_ >= entries.size()) {
    if (direction > 0) return;
    draft_ = text_;
    recalled_ = entries.size();
  }
  for (size_t at = recalled_; direction < 0 ? at > 0 : at < entries.size();) {
    at = direction < 0 ? at - 1 : at + 1;
    const bool draft = at == entries.size();
    if (!draft && (!entries[at].starts_with(draft_) || entries[at] == text_)) continue;
    recalled_ = at;
    replace(draft ? draft_ : entries[at], kMaxText);
    return;
  }
}

void LineEditor::search(int direction) {
  const size_t newest = history_.entries().size();
  if (!search_.active) {
    search_ = {.active = true, .query = "", .at = newest, .before = {text_, cursor_}};
    return;
  }
  if (direction < 0 ? search_.at > 0 : search_.at < newest) find(direction < 0 ? search_.at - 1 : search_.at + 1, direction);
  else search_.failed = true;
}

// The nearest entry from `from` on that contains the query.
void LineEditor::find(size_t from, int direction) {
  const std::vector<std::string>& entries = history_.entries();
  search_.failed = !search_.query.empty();
  if (search_.query.empty()) return;
  for (size_t at = from; at < entries.size(); at = direction < 0 ? at - 1 : at + 1) {  // below 0 is above the size
    const size_t found = entries[at].find(search_.query);
    if (found == std::string::npos || (entries[at] == text_ && at != search_.at && at != from)) continue;
    search_.at = at;
    search_.failed = false;
    replace(entries[at], found);
    return;
  }
}

bool LineEditor::handle_in_search(const Key& key) {
  const size_t newest = history_.entries().size();
  if (key.name.empty()) {
    search_.query += key.text;
    find(search_.at < newest ? search_.at : newest - 1, -1);
  } else if (key.name == "<Backspace>") {
    search_.query.erase(previous_character(search_.query, search_.query.size()));
    find(newest - 1, -1);
  } else if (key.name == "C-r") {
    search(-1);
  } else if (key.name == "C-s") {
    search(1);
  } else if (key.name == "C-g" || key.name == "C-c") {
    end_search(false);
  } else {
    end_search(true);
    return false;
  }
  return true;
}

void LineEditor::end_search(bool keep) {
  search_.active = false;
  if (!keep) return replace(std::move(search_.before.text), search_.before.cursor);
  if (text_ == search_.before.text) return;
  undo_.push_back(std::move(search_.before));
  recalled_ = search_.at;
  draft_.clear();
}

}  // namespace perigee
