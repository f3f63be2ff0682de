#include "repl/editor/plain_editor.h"

#include <utility>

namespace perigee {

PlainEditor::PlainEditor(Language& language, std::string prompt, std::string continuation)
    : language_(language), prompt_(std::move(prompt)), continuation_(std::move(continuation)) {}

void PlainEditor::begin() { output_ += text_.empty() ? prompt_ : continuation_; }

std::string PlainEditor::take_output() { return std::exchange(output_, ""); }

void PlainEditor::clear() {
  text_.clear();
  bytes_.clear();
}

Editor::Event PlainEditor::next() {
  for (;;) {
    const size_t newline = bytes_.find('\n');
    if (newline == std::string::npos && !finished_) return Event::more;
    if (newline == std::string::npos && bytes_.empty() && text_.empty()) return Event::end;
    const bool last = newline == std::string::npos;
    if (!prompt_.empty() && !last && newline >= kTerminalLine) {
      bytes_.erase(0, newline + 1);
      text_.clear();
      output_ += "error: this terminal cuts lines at 4095 bytes, and this one was; put it into a file and :load that\n" + prompt_;
      continue;
    }
    ++seen_;
    if (text_.empty()) first_ = seen_;
    else text_ += '\n';
    text_.append(bytes_, 0, last ? bytes_.size() : newline);
    if (text_.ends_with('\r')) text_.pop_back();
    bytes_.erase(0, last ? bytes_.size() : newline + 1);
    if (last || text_.size() > kMaxText || language_.finished(text_)) break;
    output_ += continuation_;
  }
  line_ = std::exchange(text_, "");
  return Event::line;
}

}  // namespace perigee
