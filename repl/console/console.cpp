#include "repl/console/console.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include "repl/console/session.h"
#include "repl/editor/graphics.h"
#include "repl/editor/history.h"
#include "repl/editor/line_editor.h"
#include "repl/editor/plain_editor.h"
#include "repl/editor/terminal.h"
#include "src/core/warning.h"
#include "src/io/http.h"

namespace perigee {
namespace {

constexpr const char *kPrompt = "pg> ", *kContinuation = "  > ";
constexpr size_t kMostWarnings = 100;
constexpr int kEscapeMs = 50;  // the rest of a key's sequence comes within this time

class Console {
 public:
  explicit Console(const ConsoleOptions& options)
      : terminal_(STDIN_FILENO, STDOUT_FILENO),
        session_({.folder = ".",
                  .interrupt = &Terminal::interrupted(),
                  .colour = terminal_.coloured(),
                  .columns = [this] { return terminal_.columns(); },
                  .scripts = true,
                  .wake = [this] { terminal_.call(); }}),
        options_(options),
        history_(terminal_.capable() ? History::default_path() : ""),
        plain_(session_, terminal_.interactive() ? kPrompt : "", terminal_.interactive() ? kContinuation : ""),
        line_(session_, history_, {.prompt = kPrompt, .continuation = kContinuation, .colour = terminal_.coloured()}),
        editor_(terminal_.capable() ? static_cast<Editor&>(line_) : plain_) {
    stop_downloads_by(&Terminal::interrupted());
    if (terminal_.interactive()) set_warning_handler([this](const std::string& text) { keep_warning(text); });
  }
  ~Console() {
    set_warning_handler({});
    stop_downloads_by(nullptr);
  }

  int run() {
    if (!options_.prelude.empty() && !session_.run(options_.prelude)) return fail();
    for (const std::string& expression : options_.expressions)
      if (!session_.run(expression)) return fail();
    if (!options_.script.empty() && !session_.run_file(options_.script) && !terminal_.interactive()) return fail();
    if (!options_.expressions.empty()) return finish(0);
    if (terminal_.interactive()) std::fputs("Perigee " PERIGEE_VERSION ". ?name shows help, :help the keys, Ctrl-D leaves.\n", stdout);
    while (!session_.quitting()) {
      switch (ask()) {
        case Editor::Event::line:
          if (!answer()) return fail();
          break;
        case Editor::Event::suspend: terminal_.suspend(); break;
        default: return interrupted_ ? fail() : finish(0);
      }
    }
    return finish(0);
  }

 private:
  int finish(int code) {
    terminal_.cooked();
    return std::fflush(stdout) == 0 ? code : 1;
  }

  int fail() { return finish(interrupted_ || session_.interrupted() ? 130 : 1); }

  // Warnings of runs in the background wait until the prompt can make room for them.
  void keep_warning(const std::string& text) {
    const std::lock_guard lock(warnings_mutex_);
    if (told_.size() < kMostWarnings && std::find(told_.begin(), told_.end(), text) == told_.end()) {
      warnings_.push_back(text);
      told_.push_back(text);
    }
    terminal_.call();
  }

  std::vector<std::string> take_warnings() {
    const std::lock_guard lock(warnings_mutex_);
    return std::exchange(warnings_, {});
  }

  // Runs have told something.
  void deliver() {
    const std::vector<std::string> warnings = take_warnings();
    if (const bool due = session_.deliver(); !due && warnings.empty()) return;
    terminal_.write(editor_.hide());
    terminal_.cooked();
    for (const std::string& text : warnings) std::fprintf(stderr, "warning: %s\n", text.c_str());
    session_.answer();
    begin();
  }

  // False when the program is to end.
  bool answer() {
    terminal_.cooked();
    const bool good = session_.run(editor_.line());
    if (!good && !terminal_.interactive() && !session_.interrupted())
      std::fprintf(stderr, "the input with this error begins in line %zu of standard input\n", plain_.line_number());
    return terminal_.interactive() || (good && !session_.interrupted());
  }

  void begin() {
    std::fflush(stdout);
    terminal_.raw();
    editor_.resize(terminal_.columns(), terminal_.rows());
    editor_.begin();
    editor_.feed(take_typed_meanwhile());
  }

  // Waits for the next event of the editor.
  Editor::Event ask() {
    begin();
    for (;;) {
      const Editor::Event event = editor_.next();
      terminal_.write(editor_.take_output());
      if (event != Editor::Event::more) return event;
      std::string bytes;
      switch (terminal_.wait(editor_.undecided() ? kEscapeMs : -1, &bytes)) {
        case Terminal::Wake::bytes: editor_.feed(bytes); break;
        case Terminal::Wake::late:
          if (editor_.undecided()) editor_.expire();
          break;
        case Terminal::Wake::resized: editor_.resize(terminal_.columns(), terminal_.rows()); break;
        case Terminal::Wake::continued: begin(); break;
        case Terminal::Wake::called: deliver(); break;
        case Terminal::Wake::interrupted:
          if (!terminal_.interactive()) {
            interrupted_ = true;
            return Editor::Event::end;
          }
          if (terminal_.capable()) {
            editor_.feed("\x03");  // what the key would have sent
            break;
          }
          plain_.clear();
          terminal_.write("\n");
          begin();
          break;
        case Terminal::Wake::closed:
          if (terminal_.capable()) return Editor::Event::end;
          plain_.finish();
          break;
      }
    }
  }

  Terminal terminal_;
  LuaSession session_;
  ConsoleOptions options_;
  History history_;
  PlainEditor plain_;
  LineEditor line_;
  Editor& editor_;
  bool interrupted_ = false;
  std::mutex warnings_mutex_;
  std::vector<std::string> warnings_, told_;  // told_: each is told once
};

}  // namespace

bool at_terminal() { return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1; }

bool input_is_given() {
  struct stat about {};
  return fstat(STDIN_FILENO, &about) == 0 && (S_ISREG(about.st_mode) || S_ISFIFO(about.st_mode));
}

int run_console(const ConsoleOptions& options) { return std::make_unique<Console>(options)->run(); }

}  // namespace perigee
