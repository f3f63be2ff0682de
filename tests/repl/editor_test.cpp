// The editor as a state machine: keys in, text and cursor out, without a terminal. What the screen shows is tested by the sessions.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "repl/console/lua_text.h"
#include "repl/editor/keys.h"
#include "repl/editor/line_editor.h"
#include "repl/editor/plain_editor.h"
#include "repl/editor/text.h"

namespace perigee {
namespace {

// Finished when brackets are closed; knows three names.
class Brackets : public Language {
 public:
  bool finished(const std::string& text) override {
    return std::count(text.begin(), text.end(), '(') <= std::count(text.begin(), text.end(), ')');
  }
  Completion complete(const std::string& text, size_t cursor) override {
    Completion result{.from = previous_word(text, cursor), .candidates = {}};
    for (const char* name : {"alpha", "alphabet", "beta"})
      if (std::string(name).starts_with(text.substr(result.from, cursor - result.from))) result.candidates.push_back({name, ""});
    return result;
  }
  std::vector<Colour> colours(std::string_view text) const override { return std::vector<Colour>(text.size(), Colour::plain); }
  size_t indentation(std::string_view text) const override {
    return 2 * static_cast<size_t>(
                   std::max<std::ptrdiff_t>(0, std::count(text.begin(), text.end(), '(') - std::count(text.begin(), text.end(), ')')));
  }
};

class Typed : public testing::Test {
 protected:
  Typed() : editor_(language_, history_, {}) { editor_.begin(); }
  // Text with "|" where the cursor stands.
  std::string after(const std::string& bytes) {
    editor_.feed(bytes);
    EXPECT_EQ(editor_.next(), Editor::Event::more);
    editor_.take_output();
    std::string text = editor_.text();
    return text.insert(editor_.cursor(), "|");
  }
  std::string entered(const std::string& bytes) {
    editor_.feed(bytes + "\r");
    EXPECT_EQ(editor_.next(), Editor::Event::line);
    editor_.take_output();
    editor_.begin();
    return editor_.line();
  }
  Brackets language_;
  History history_;
  LineEditor editor_;
};

TEST_F(Typed, MovesByCharactersWordsAndLines) {
  EXPECT_EQ(after("one two\x1b[D\x1b[D"), "one t|wo");
  EXPECT_EQ(after("\x01"), "|one two");
  EXPECT_EQ(after("\x1b"
                  "f"),
            "one| two");
  EXPECT_EQ(after("\x1b[1;5C"), "one two|");
  EXPECT_EQ(after("\x1b"
                  "b\x02"),
            "one| two");
  EXPECT_EQ(after("\x05"), "one two|");
}

TEST_F(Typed, AWideCharacterWithMarksIsOneStep) {
  EXPECT_EQ(after("a\xE6\x97\xA5"
                  "e\xCC\x81z"),
            "a\xE6\x97\xA5"
            "e\xCC\x81z|");
  EXPECT_EQ(after("\x02\x02"), "a\xE6\x97\xA5|e\xCC\x81z");
  EXPECT_EQ(after("\x7F"), "a|e\xCC\x81z");
  EXPECT_EQ(after("\x04"), "a|z");
}

TEST_F(Typed, KilledTextComesBackAndKillsInARowAreOne) {
  EXPECT_EQ(after("one two three\x17\x17"), "one |");
  EXPECT_EQ(after("\x19"), "one two three|");
  EXPECT_EQ(after("\x01\x0B"), "|");
  EXPECT_EQ(after("x\x19"), "xone two three|");
  EXPECT_EQ(after("\x1by"), "xtwo three|");
}

TEST_F(Typed, UndoTakesBackTypingAsOneStep) {
  EXPECT_EQ(after("abc\x02"
                  "def\x17"),
            "|c");
  EXPECT_EQ(after("\x1F"), "abdef|c");
  EXPECT_EQ(after("\x1F"), "ab|c");
  EXPECT_EQ(after("\x1F\x1F\x1F"), "|");
}

TEST_F(Typed, AnUnfinishedInputGoesOnInAnIndentedLine) {
  EXPECT_EQ(after("f(\r1,\r"), "f(\n  1,\n  |");
  EXPECT_EQ(entered(")"), "f(\n  1,\n)");  // what closes moves back
}

TEST_F(Typed, ArrowsGoThroughLinesThenThroughHistory) {
  entered("first");
  entered("(\r22\r)");
  EXPECT_EQ(after("\x1b[A"), "(\n  22\n)|");
  EXPECT_EQ(after("\x1b[A"), "(\n | 22\n)");
  EXPECT_EQ(after("\x1b[A\x1b[A"), "first|");
  EXPECT_EQ(after("\x1b[B\x1b[B\x1b[B\x1b[B"), "|");
}

TEST_F(Typed, HistoryKeepsToWhatBeginsAlike) {
  for (const char* line : {"apple", "banana", "apricot"}) entered(line);
  EXPECT_EQ(after("ap\x1b[A"), "apricot|");
  EXPECT_EQ(after("\x1b[A"), "apple|");
  EXPECT_EQ(after("\x1b[A"), "apple|");
  EXPECT_EQ(after("\x1b[B\x1b[B"), "ap|");
}

TEST_F(Typed, SearchFindsTheNewestAndCanBeLeft) {
  for (const char* line : {"apple", "banana", "grape"}) entered(line);
  EXPECT_EQ(after("x\x12"
                  "ap"),
            "gr|ape");
  EXPECT_EQ(after("\x12"), "|apple");
  EXPECT_EQ(after("\x13"), "gr|ape");
  EXPECT_EQ(after("\x07"), "x|");
  EXPECT_EQ(after("\x12nan"), "ba|nana");
  EXPECT_EQ(entered(""), "banana");
}

TEST_F(Typed, CompletionPutsInWhatAllHaveInCommon) {
  EXPECT_EQ(after("al\t"), "alpha|");
  EXPECT_EQ(after("b\t"), "alphabet|");
  EXPECT_EQ(after(" b\t"), "alphabet beta|");
  EXPECT_EQ(after(" zz\t"), "alphabet beta zz|");
}

TEST_F(Typed, PastedTextIsNeverRun) {
  EXPECT_EQ(after("\x1b[200~one\r\ntwo\tthree\x01\n\x1b[201~"), "one\ntwo\tthree|");
  EXPECT_EQ(entered("!"), "one\ntwo\tthree!");
}

TEST_F(Typed, ControlKeysEndOrClear) {
  EXPECT_EQ(after("abc\x03"), "|");
  EXPECT_EQ(after("abc\x02\x04"), "ab|");
  editor_.feed("\x15\x04");
  EXPECT_EQ(editor_.next(), Editor::Event::end);
  editor_.begin();
  editor_.feed(
      "abc\x1a"
      "def");
  EXPECT_EQ(editor_.next(), Editor::Event::suspend);
  editor_.begin();
  EXPECT_EQ(after(""), "abcdef|");
}

TEST_F(Typed, WhatIsTypedAheadWaits) {
  editor_.feed("one\rtwo\rthr");
  EXPECT_EQ(editor_.next(), Editor::Event::line);
  EXPECT_EQ(editor_.line(), "one");
  EXPECT_EQ(editor_.next(), Editor::Event::more);  // unasked
  editor_.begin();
  EXPECT_EQ(editor_.next(), Editor::Event::line);
  EXPECT_EQ(editor_.line(), "two");
  editor_.begin();
  EXPECT_EQ(after(""), "thr|");
}

TEST_F(Typed, SequencesMayComeInPieces) {
  EXPECT_EQ(after("ab\x1b"), "ab|");
  EXPECT_TRUE(editor_.undecided());
  EXPECT_EQ(after("["), "ab|");
  EXPECT_EQ(after("D"), "a|b");
  EXPECT_EQ(after("\xE6\x97"), "a|b");
  EXPECT_EQ(after("\xA5"), "a\xE6\x97\xA5|b");
  after("\x1b");
  editor_.expire();
  EXPECT_EQ(after("f"),
            "a\xE6\x97\xA5"
            "f|b");  // the Escape was a key of its own
}

TEST(Keys, NamesAndNonsense) {
  const auto names = [](const std::string& bytes) {
    KeyDecoder decoder;
    decoder.feed(bytes);
    std::string text;
    while (const auto key = decoder.next()) text += (text.empty() ? "" : " ") + key->name + key->text;
    return text;
  };
  EXPECT_EQ(names("\x1b[A\x1bOB\x1b[1;5D\x1b[3~\x1b[Z"), "<Up> <Down> C-<Left> <Delete> S-<Tab>");
  EXPECT_EQ(names("\x1b\x7F\x1b\r\x1b\x1b[A"), "M-<Backspace> M-<Enter> <Escape> <Up>");
  EXPECT_EQ(names("\xFFx\xC3("), "\xEF\xBF\xBD x \xEF\xBF\xBD (");
  EXPECT_EQ(names("\x1b[999999999999;7;8;9Qz"), "<Unknown> z");
}

TEST(Keys, AnswersThatComeLateAreNone) {
  KeyDecoder decoder;
  std::string text;
  for (const std::string part : {"\x1b_", "Gi=7141;", "OK\x1b", "\\\x1b[?62;4ca", "\x1b_b"}) {
    decoder.feed(part);
    while (const auto key = decoder.next()) text += (text.empty() ? "" : " ") + key->name + key->text;
  }
  EXPECT_EQ(text, "<Unknown> <Unknown> a M-_ b");
}

TEST(HistoryFile, SessionsAtOnceLoseNothing) {
  char name[] = "/tmp/perigee-history-XXXXXX";
  const std::filesystem::path folder = mkdtemp(name);
  const std::string path = folder / "deep" / "history";
  std::vector<std::thread> sessions;
  for (int session = 0; session < 4; ++session)
    sessions.emplace_back([&path, session] {
      History history(path);
      for (int i = 0; i < 100; ++i) history.add("entry " + std::to_string(session) + "\nof " + std::to_string(i));
    });
  for (std::thread& session : sessions) session.join();
  const History all(path);
  ASSERT_EQ(all.entries().size(), 400u);
  for (int session = 0; session < 4; ++session)
    for (int i = 0; i < 100; ++i) {
      const std::string entry = "entry " + std::to_string(session) + "\nof " + std::to_string(i);
      EXPECT_EQ(std::count(all.entries().begin(), all.entries().end(), entry), 1) << entry;
    }
  std::filesystem::remove_all(folder);
}

TEST(HistoryFile, LongFilesAreCutAndDamagedOnesRead) {
  char name[] = "/tmp/perigee-history-XXXXXX";
  const std::filesystem::path folder = mkdtemp(name);
  const std::string path = folder / "history";
  {
    std::ofstream file(path);
    for (size_t i = 0; i < 2 * History::kMaxEntries + 10; ++i) file << "entry " << i << "\\n\\\\\n";
    file << "\xFF\x01 damaged\nlast";  // a session that is writing
  }
  History history(path);
  ASSERT_EQ(history.entries().size(), History::kMaxEntries);
  EXPECT_EQ(history.entries().back(), "\xEF\xBF\xBD damaged");
  EXPECT_EQ(history.entries()[0], "entry " + std::to_string(History::kMaxEntries + 11) + "\n\\");
  EXPECT_EQ(History(path).entries(), history.entries());
  EXPECT_LT(std::filesystem::file_size(path), 20 * History::kMaxEntries);
  history.add(" secret");
  history.add("");
  history.add("again");
  history.add("again");
  EXPECT_EQ(history.entries().back(), "again");
  EXPECT_EQ(History(path).entries().size(), History::kMaxEntries);
  std::filesystem::remove_all(folder);
}

TEST(PlainEditor, JoinsLinesUntilTheyAreFinished) {
  Brackets language;
  PlainEditor editor(language, "", "");
  editor.feed("one\nf(\r\n2)\n(never");
  EXPECT_EQ(editor.next(), Editor::Event::line);
  EXPECT_EQ(editor.line(), "one");
  EXPECT_EQ(editor.next(), Editor::Event::line);
  EXPECT_EQ(editor.line(), "f(\n2)");
  EXPECT_EQ(editor.next(), Editor::Event::more);
  editor.finish();
  EXPECT_EQ(editor.next(), Editor::Event::line);
  EXPECT_EQ(editor.line(), "(never");
  EXPECT_EQ(editor.next(), Editor::Event::end);
}

// As a person sees it who types: a prompt from the start, another one for each further line, and nothing else.
TEST(PlainEditor, Prompts) {
  Brackets language;
  PlainEditor editor(language, "> ", ". ");
  EXPECT_EQ(editor.take_output(), "");
  editor.begin();
  EXPECT_EQ(editor.take_output(), "> ");
  editor.feed("f(\n");
  EXPECT_EQ(editor.next(), Editor::Event::more);
  EXPECT_EQ(editor.take_output(), ". ");
  editor.resize(7, 2);
  EXPECT_EQ(editor.take_output(), "");
  EXPECT_EQ(editor.hide(), "\n");
  editor.begin();  // after something else was printed: the input goes on
  EXPECT_EQ(editor.take_output(), ". ");
  editor.feed("\xE6\x97\xA5)\n");
  EXPECT_EQ(editor.next(), Editor::Event::line);
  EXPECT_EQ(editor.line(), "f(\n\xE6\x97\xA5)");
  EXPECT_EQ(editor.take_output(), "");
}

// The kernel drops what is typed beyond 4095 bytes: what is left of such a line is not run.
TEST(PlainEditor, LinesThatTheTerminalCutAreRefused) {
  Brackets language;
  PlainEditor typed(language, "> ", ". "), piped(language, "", "");
  const std::string whole(PlainEditor::kTerminalLine - 1, 'x'), cut(PlainEditor::kTerminalLine, 'x');
  typed.feed(cut + "\n" + whole + "\n");
  EXPECT_EQ(typed.next(), Editor::Event::line);
  EXPECT_EQ(typed.line(), whole);
  EXPECT_NE(typed.take_output().find("cuts lines at 4095 bytes"), std::string::npos);
  piped.feed(cut + "\n");
  EXPECT_EQ(piped.next(), Editor::Event::line);
  EXPECT_EQ(piped.line(), cut);
}

TEST(LuaText, OuterLocalsBecomeGlobals) {
  EXPECT_EQ(without_outer_locals("local x = 1"), "      x = 1");
  EXPECT_EQ(without_outer_locals("local x, y"), "      x, y = nil");
  EXPECT_EQ(without_outer_locals("local a local b = a"), "      a = nil       b = a");
  EXPECT_EQ(without_outer_locals("local function f() local x return x end"), "      function f() local x return x end");
  EXPECT_EQ(without_outer_locals("for i = 1, 2 do local x end local y = {}"), "for i = 1, 2 do local x end       y = {}");
  EXPECT_EQ(without_outer_locals("repeat local x until x"), "repeat local x until x");
  EXPECT_EQ(without_outer_locals("s = \"local x\" -- local y\nlocal"), "s = \"local x\" -- local y\nlocal");
}

TEST(LuaText, KnowsWhatIsTyped) {
  const auto context = [](const std::string& text) {
    const LuaContext found = lua_context(text, text.size());
    std::string shown = found.kind == LuaContext::Kind::none      ? "none"
                        : found.kind == LuaContext::Kind::name    ? "name"
                        : found.kind == LuaContext::Kind::file    ? "file"
                        : found.kind == LuaContext::Kind::setting ? "setting " + found.script
                                                                  : "option";
    for (const std::string& part : found.path) shown += " " + part;
    shown += found.method ? " :" : "";
    for (const std::string& part : found.used) shown += " -" + part;
    return shown + " '" + text.substr(found.from) + "'";
  };
  EXPECT_EQ(context(""), "name ''");
  EXPECT_EQ(context("x = pg.data.mn"), "name pg data 'mn'");
  EXPECT_EQ(context("f(a.b:c"), "name a b : 'c'");
  EXPECT_EQ(context("f().x"), "none 'x'");
  EXPECT_EQ(context("pg.conv2d { 20, kernel = 5, st"), "option pg conv2d -kernel 'st'");
  EXPECT_EQ(context("pg.conv2d({ padding = { 1, 2 }, "), "option pg conv2d -padding ''");
  EXPECT_EQ(context("pg.sequential { pg.conv2d { 3 }, pg.dense { bi"), "option pg dense 'bi'");
  EXPECT_EQ(context("pg.experiment { seed = 1, data = { batch = 64, sh"), "option pg experiment data -batch 'sh'");
  EXPECT_EQ(context("x = { y = { sh"), "name 'sh'");
  EXPECT_EQ(context("pg.dense { bias = tr"), "name 'tr'");
  EXPECT_EQ(context("{ a"), "name 'a'");
  EXPECT_EQ(context("pg.data.csv { \"data/ir"), "file 'data/ir'");
  EXPECT_EQ(context("x = [[ab"), "file 'ab'");
  EXPECT_EQ(context("pg.start('a.lua', { set = \"opt"), "setting a.lua 'opt'");
  EXPECT_EQ(context("pg.start(\"a.lua\", { threads = 1, set = { \"epochs=2\", 'data.b"), "setting a.lua 'data.b'");
  EXPECT_EQ(context("run = pg.start(jobs.first, { set = { 'x"), "setting  jobs first 'x'");
  EXPECT_EQ(context("pg.start('a.lua', { out = 'x"), "file 'x'");
  EXPECT_EQ(context("pg.start('a.lua', { set = f('x"), "file 'x'");
  EXPECT_EQ(context("set = 'x"), "file 'x'");
  EXPECT_EQ(context("{ set = { 'x"), "file 'x'");
  EXPECT_EQ(context("f({ set = 'x"), "file 'x'");
  EXPECT_EQ(context("-- pg."), "none ''");
  EXPECT_EQ(context("3"), "none ''");
}

}  // namespace
}  // namespace perigee
