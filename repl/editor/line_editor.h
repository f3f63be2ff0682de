// The prompt of a terminal that understands ANSI's control sequences: Emacs' keys, several lines, history, search, completion, colour.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "repl/editor/editor.h"
#include "repl/editor/history.h"
#include "repl/editor/keys.h"
#include "repl/editor/painter.h"

namespace perigee {

class LineEditor : public Editor {
 public:
  struct Options {
    std::string prompt = "> ";
    std::string continuation = "  ";  // in front of further lines; as wide as the prompt
    bool colour = true;
  };
  static constexpr size_t kMaxText = size_t{1} << 20;

  // All of them outlive the editor.
  LineEditor(Language& language, History& history, Options options);

  void begin() override;  // also after Event::suspend, or when something else wrote on the terminal: what was typed stays
  void feed(std::string_view bytes) override { keys_.feed(bytes); }
  Event next() override;
  const std::string& line() const override { return line_; }
  bool undecided() const override { return keys_.undecided(); }
  void expire() override { keys_.expire(); }
  void resize(int columns, int rows) override;
  std::string take_output() override;
  std::string hide() override { return painter_.resize(painter_.columns(), painter_.height()); }

  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }

 private:
  using Action = void (LineEditor::*)();
  struct Binding {
    const char* key;
    Action action;
  };
  static const Binding kBindings[];

  // line_editor.cpp: what keys do
  void handle(const Key& key);
  void remember();  // for undo, before a change
  void insert(std::string_view text);
  void erase(size_t from, size_t to);
  void replace(std::string text, size_t cursor);
  void to_line_begin();
  void to_line_end();
  void to_begin() { cursor_ = 0; }
  void to_end() { cursor_ = text_.size(); }
  void left();
  void right();
  void word_left();
  void word_right();
  void up();
  void down();
  bool vertical(int lines);
  void enter();
  void settle_indentation();
  void open_line();
  void erase_left();
  void erase_right();
  void kill(size_t from, size_t to, bool forward);
  void kill_line();
  void kill_to_begin();
  void kill_word();
  void kill_word_left();
  void kill_blank_left();
  void yank();
  void yank_older();
  void transpose();
  void undo();
  void clear_screen();
  void clear_line();
  void end_or_erase();
  void suspend();
  void accept();
  void leave(const char* mark = "");

  // line_history.cpp
  void older();
  void newer();
  void recall(int direction);
  void search_older() { search(-1); }
  void search_newer() { search(1); }
  void search(int direction);
  bool handle_in_search(const Key& key);
  void find(size_t from, int direction);
  void end_search(bool keep);

  // line_view.cpp
  void complete();
  void put_list(Canvas& canvas) const;
  Canvas view(bool finished) const;
  void put_text(Canvas& canvas, bool with_cursor) const;

  struct State {
    std::string text;
    size_t cursor;
  };
  struct Search {
    bool active = false, failed = false;
    std::string query;
    size_t at = 0;  // entry of the history
    State before;
  };

  Language& language_;
  History& history_;
  Options options_;
  KeyDecoder keys_;
  Painter painter_;
  std::string output_;

  std::string text_, line_;
  size_t cursor_ = 0;
  size_t goal_column_ = 0;
  Event event_ = Event::more;
  bool active_ = false;  // between begin() and the event that ends the input

  // The deeds of the last key and of this one; some actions go on where the last one ended.
  enum class Deed : uint8_t { other, type, kill, yank, vertical } last_ = Deed::other, deed_ = Deed::other;
  std::vector<State> undo_;
  std::vector<std::string> kills_;      // newest last
  size_t yanked_ = 0, yank_begin_ = 0;  // which of them stands where
  size_t recalled_ = 0;                 // entry of the history that is shown; its size: the draft
  std::string draft_;
  Search search_;
  std::vector<Candidate> list_;
};

}  // namespace perigee
