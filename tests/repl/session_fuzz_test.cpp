// Lines that no user would type, run at the prompt: what the sessions and the documentation type, cut, mixed and mistaken. Whatever they
// are, the session goes on; under the sanitizers nothing is read or written that should not be. libFuzzer cannot do it: the kernels are not
// built by clang.
//
// Files, processes and what can break memory by design (ffi, jit, bytecode) are taken away first; an input has 200 ms, then it is
// interrupted as by Ctrl-C. PERIGEE_FUZZ_SECONDS=600 seeks with new seeds for so long.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "repl/console/lua_text.h"
#include "repl/console/session.h"
#include "src/core/sanitizers.h"

#if defined(PERIGEE_ASAN)
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=512:allocator_may_return_null=1"; }
#endif

namespace perigee {
namespace {

namespace fs = std::filesystem;
using Random = std::mt19937_64;

constexpr int kInputs = 9000, kInputsOfASession = 60;
constexpr auto kPatience = std::chrono::milliseconds(200);

// Sets the flag of Ctrl-C when an input takes too long.
class Watchdog {
 public:
  explicit Watchdog(std::atomic<bool>& flag) : flag_(flag), thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void begin() { set(std::chrono::steady_clock::now() + kPatience); }
  void end() {
    set(std::chrono::steady_clock::time_point::max());
    flag_ = false;
  }

 private:
  void set(std::chrono::steady_clock::time_point deadline) {
    const std::lock_guard lock(mutex_);
    deadline_ = deadline;
    changed_.notify_all();
  }
  void watch() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      if (deadline_ == std::chrono::steady_clock::time_point::max()) {
        changed_.wait(lock);
      } else if (changed_.wait_until(lock, deadline_) == std::cv_status::timeout) {
        flag_ = true;
        deadline_ = std::chrono::steady_clock::now() + kPatience;
      }
    }
  }

  std::atomic<bool>& flag_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  bool over_ = false;
  std::thread thread_;
};

// The input of the sessions' files and of the documentation, without keys, commands of a shell and what ends the program.
std::vector<std::string> typed_lines() {
  std::vector<std::string> lines;
  const auto add = [&](std::string text) {
    for (size_t key = 0; (key = text.find('<', key)) != std::string::npos && text.find('>', key) != std::string::npos;)
      text.replace(key, text.find('>', key) - key + 1, "\n");
    for (std::istringstream parts(text); std::getline(parts, text);)
      if (text.size() > 2 && text.size() < 300 && text.find('!') == std::string::npos) lines.push_back(text);
  };
  std::vector<fs::path> files = {fs::path(PERIGEE_ROOT) / "repl" / "README.md", fs::path(PERIGEE_ROOT) / "lua" / "README.md"};
  for (const auto& entry : fs::directory_iterator(fs::path(PERIGEE_ROOT) / "tests" / "repl"))
    if (entry.path().extension() == ".session") files.push_back(entry.path());
  for (const auto& entry : fs::directory_iterator(fs::path(PERIGEE_ROOT) / "tests" / "lua"))
    if (entry.path().string().ends_with("_test.lua")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::ifstream text(file);
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with("type ")) add(line.substr(5));
      else if (line.starts_with("pg> ") || line.starts_with("|pg> ")) add(line.substr(line.find("pg> ") + 4));
      else if (file.extension() == ".lua" && line.starts_with("  ")) add(line.substr(2));
    }
  }
  return lines;
}

class Mutator {
 public:
  Mutator(std::vector<std::string> lines, uint64_t seed) : lines_(std::move(lines)), random_(seed) {}

  size_t below(size_t count) { return count == 0 ? 0 : random_() % count; }

  std::string next() {
    std::string text = lines_[below(lines_.size())];
    for (size_t changes = below(4); changes > 0; --changes) change(text);
    if (below(4) == 0) text += " " + lines_[below(lines_.size())];
    return text.substr(0, 400);
  }

 private:
  void change(std::string& text) {
    static const std::vector<std::string> kPieces = {"0",
                                                     "-1",
                                                     "0/0",
                                                     "1/0",
                                                     "2^53",
                                                     "-2^63",
                                                     "nil",
                                                     "{}",
                                                     "true",
                                                     "''",
                                                     "pg.zeros(2, 3)",
                                                     "pg.null",
                                                     "function() end",
                                                     "...",
                                                     "x",
                                                     "_",
                                                     "(",
                                                     ")",
                                                     "{",
                                                     "}",
                                                     "[",
                                                     "]",
                                                     "..",
                                                     ".",
                                                     ":",
                                                     "=",
                                                     "end",
                                                     "return",
                                                     "pg.",
                                                     "error",
                                                     "\"",
                                                     "[[",
                                                     "--",
                                                     "\n",
                                                     "?",
                                                     ":time ",
                                                     "tostring",
                                                     "setmetatable({}, { __index = error })",
                                                     "\xE6\x97\xA5"};
    const std::vector<LuaToken> tokens = lua_tokens(text);
    if (tokens.empty()) return;
    const LuaToken token = tokens[below(tokens.size())], other = tokens[below(tokens.size())];
    switch (below(6)) {
      case 0: text.erase(token.begin, token.end - token.begin); break;
      case 1: text.replace(token.begin, token.end - token.begin, kPieces[below(kPieces.size())]); break;
      case 2: text.insert(token.begin, kPieces[below(kPieces.size())] + " "); break;
      case 3: text.replace(token.begin, token.end - token.begin, std::string(other.text(text))); break;
      case 4: text[below(text.size())] = static_cast<char>(random_()); break;
      default: text.resize(below(text.size())); break;
    }
  }

  std::vector<std::string> lines_;
  Random random_;
};

// Memory that a mistyped shape asks for must not take the machine's; the stack is the program's (repl/command_line.cpp).
void bound_memory() {
  rlimit stack = {};
  getrlimit(RLIMIT_STACK, &stack);
  stack.rlim_cur = std::min(stack.rlim_max, rlim_t{96} << 20);
  setrlimit(RLIMIT_STACK, &stack);
#if !defined(PERIGEE_ASAN)
  const rlimit limit{rlim_t{6} << 30, rlim_t{6} << 30};
  setrlimit(RLIMIT_AS, &limit);
#endif
}

constexpr const char* kTakeAway =
    "pg.jit, pg.start, pg.save, pg.load = nil; os = { clock = os.clock, time = os.time }; io = nil; debug = nil; package.loadlib = nil; "
    "package.loaded.ffi, package.preload.ffi, ffi = nil; jit = nil; dofile, loadfile = nil; collectgarbage = nil; getfenv, setfenv = nil; "
    "local real = require; require = function(name) if name:find '^perigee' then return real(name) end error(name, 0) end";

// An input, and what the editor asks while it is typed.
void play(LuaSession& session, Watchdog& watchdog, Mutator& mutator, const std::string& input) {
  std::fprintf(stderr, "input: %s\n", input.c_str());
  watchdog.begin();
  const size_t cursor = mutator.below(input.size() + 1);
  const Completion completion = session.complete(input, cursor);
  EXPECT_LE(completion.from, cursor);
  EXPECT_EQ(session.colours(input).size(), input.size());
  session.indentation(input);
  session.finished(input);
  const size_t first = input.find_first_not_of(" \t\n\r");
  const bool command = first != std::string::npos && (input[first] == ':' || input[first] == '!');
  if (!command || input.compare(first, 6, ":time ") == 0) session.run(input);
  session.deliver();
  watchdog.end();
}

void fuzz(uint64_t seed, int inputs) {
  static std::atomic<bool> interrupt{false};
  const std::vector<std::string> lines = typed_lines();
  ASSERT_GT(lines.size(), 300u);
  Mutator mutator(lines, seed);
  Watchdog watchdog(interrupt);
  for (int i = 0; i < inputs; i += kInputsOfASession) {
    LuaSession session({.folder = "/nowhere", .interrupt = &interrupt, .memory_bytes = size_t{256} << 20});
    ASSERT_TRUE(session.run(kTakeAway));
    for (int k = 0; k < kInputsOfASession; ++k) play(session, watchdog, mutator, mutator.next());
  }
}

TEST(SessionFuzz, NoInputEndsTheSession) {
  bound_memory();
  const fs::path folder = fs::temp_directory_path() / ("perigee-fuzz-" + std::to_string(getpid()));
  fs::create_directories(folder);
  fs::current_path(folder);
  const char* seconds = std::getenv("PERIGEE_FUZZ_SECONDS");
  if (!seconds) {
    fuzz(1, kInputs);
  } else {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(seconds));
    while (std::chrono::steady_clock::now() < end) fuzz(std::random_device()(), kInputs);
  }
  fs::current_path("/");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace perigee
