// Inputs from a pipe, or from a terminal that can do nothing: whole lines, joined until they are finished. Nothing is drawn but prompts.
#pragma once

#include <string>

#include "repl/editor/editor.h"

namespace perigee {

class PlainEditor : public Editor {
 public:
  static constexpr size_t kMaxText = size_t{64} << 20;  // what is longer is given as it is
  static constexpr size_t kTerminalLine = 4095;         // longer lines of a terminal lose their ends in the kernel

  // The prompts of a terminal; none for a pipe.
  PlainEditor(Language& language, std::string prompt, std::string continuation);

  void begin() override;
  void feed(std::string_view bytes) override { bytes_.append(bytes); }
  Event next() override;
  const std::string& line() const override { return line_; }
  bool undecided() const override { return false; }
  void expire() override {}
  void resize(int, int) override {}
  std::string take_output() override;
  std::string hide() override { return prompt_.empty() ? "" : "\n"; }  // what is printed then begins in a row of its own

  void finish() { finished_ = true; }            // nothing more will be fed
  void clear();                                  // forgets what was typed
  size_t line_number() const { return first_; }  // from 1: where line() begins in all that was fed

 private:
  Language& language_;
  std::string prompt_, continuation_, output_, bytes_, text_, line_;
  size_t seen_ = 0, first_ = 0;  // lines
  bool finished_ = false;
};

}  // namespace perigee
