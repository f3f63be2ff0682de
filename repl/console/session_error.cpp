// LuaSession: what went wrong, with the line, a caret and a hint.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "repl/console/lua_text.h"
#include "repl/console/session.h"
#include "repl/editor/painter.h"
#include "repl/editor/text.h"
#include "src/core/error.h"
#include "src/io/file.h"

namespace perigee {
namespace {

constexpr uint64_t kLargestSessionErrorScript = uint64_t{64} << 20;
constexpr size_t kLongestLine = 400;

std::string_view line_number(std::string_view text, size_t number) {
  for (; number > 1; --number) {
    const size_t newline = text.find('\n');
    if (newline == std::string_view::npos) return {};
    text.remove_prefix(newline + 1);
  }
  return text.substr(0, text.find('\n'));
}

// The words in quotes, in order.
std::vector<std::string_view> quoted_words(std::string_view message) {
  std::vector<std::string_view> words;
  for (size_t begin = message.find('\''); begin != std::string_view::npos;) {
    const size_t end = message.find('\'', begin + 1);
    if (end == std::string_view::npos) break;
    if (end > begin + 1) words.push_back(message.substr(begin + 1, end - begin - 1));
    begin = message.find('\'', end + 1);
  }
  return words;
}

struct Mark {
  size_t begin = 0, end = 0;
};

// Whether a name that `next` follows can be what is wrong: what could not be indexed stands in front of a dot.
bool is_used(std::string_view message, std::string_view next) {
  if (next.empty()) next = " ";
  if (message.find("attempt to index") != std::string_view::npos) return std::string_view(".:[").find(next[0]) != std::string_view::npos;
  if (message.find("attempt to call") != std::string_view::npos) return std::string_view("({\"'[").find(next[0]) != std::string_view::npos;
  return true;
}

// The token of the line that the message speaks of; the line's first one when it names none.
Mark find_mark(std::string_view line, std::string_view message) {
  std::vector<std::string_view> words = quoted_words(message);
  const size_t near = message.find("near '");
  if (near != std::string_view::npos && !words.empty()) {
    if (words.back() == "<eof>") return {line.size(), line.size() + 1};
    words.assign(1, words.back());
  }
  const std::vector<LuaToken> tokens = lua_tokens(line);
  for (const bool used : {true, false})
    for (const std::string_view word : words)
      for (size_t i = 0; i < tokens.size(); ++i) {
        const LuaToken& token = tokens[i];
        const std::string_view text = token.text(line);
        const bool inside = token.kind == LuaToken::Kind::string && text.size() > 2 && text.substr(1, text.size() - 2) == word;
        if (!(text == word || inside)) continue;
        if (!used || is_used(message, i + 1 < tokens.size() ? tokens[i + 1].text(line) : "")) return {token.begin, token.end};
      }
  if (tokens.empty()) return {};
  return {tokens.front().begin, tokens.front().kind == LuaToken::Kind::name ? tokens.front().end : tokens.front().begin + 1};
}

// Not "in3", which says nothing to a person.
bool in_file(std::string_view where) {
  return !(where.starts_with("in") && where.find_first_not_of("0123456789:", 2) == std::string_view::npos);
}

std::string_view line_with(std::string_view text, std::string_view message) {
  const std::vector<std::string_view> words = quoted_words(message);
  for (std::string_view rest = text; !words.empty() && !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    if (line.find(words[0]) != std::string_view::npos) return line;
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  return text.substr(0, text.find('\n'));
}

}  // namespace

// The source line of "in3:2" or "models/lenet.lua:7"; empty when it is not known. "in3" is what Lua says after a tail call: then it is the
// line that has what the message names.
std::string LuaSession::line_of(const std::string& where, std::string_view message) {
  const size_t colon = std::min(where.rfind(':'), where.size());
  const std::string name = where.substr(0, colon);
  const size_t number = colon < where.size() ? std::strtoul(where.c_str() + colon + 1, nullptr, 10) : 0;
  if (name.size() > 2 && name.starts_with("in") && name.find_first_not_of("0123456789", 2) == std::string::npos) {
    const size_t input = std::strtoul(name.c_str() + 2, nullptr, 10);
    if (input < 1 || input > inputs_.size()) return "";
    const std::string_view text = inputs_[input - 1];
    return std::string(number > 0 ? line_number(text, number) : line_with(text, message));
  }
  if (number == 0) return "";
  if (!file_exists(name)) return "";
  try {
    return std::string(line_number(as_text(read_file(name, kLargestSessionErrorScript)), number));
  } catch (const Error&) {
    return "";
  }
}

// Lua knows only that something is nil; a name that is nearly the same is often what was meant.
std::string LuaSession::hint_for(const std::string& message, std::string_view line) {
  if (message.find("(a nil value)") == std::string::npos || message.find(" local '") != std::string::npos) return "";
  const std::vector<std::string_view> words = quoted_words(message);
  if (words.empty()) return "";
  for (const LuaToken& token : lua_tokens(line)) {
    if (token.text(line) != words[0]) continue;
    const LuaContext context = lua_context(line, token.end);
    std::vector<std::string> known;
    for (const Candidate& candidate : names("name", context.path, "", context.method, {})) known.push_back(candidate.text);
    return nearest_hint(words[0], known);
  }
  return "";
}

// Whether two positions are the same: Lua cuts the front of long names, "...folder/lenet.lua:7".
bool LuaSession::same_place(const std::string& where, const std::string& frame) {
  return where == frame || (where.starts_with("...") && frame.ends_with(std::string_view(where).substr(3)));
}

// The line in which it happened, with a caret, and a hint.
std::string LuaSession::quoted(const std::string& where, const std::string& line, const std::string& what) {
  const auto [begin, end] = find_mark(line, what);
  const bool here =
      (where + ":").starts_with("in" + std::to_string(inputs_.size()) + ":") && inputs_.back().find('\n') == std::string::npos;
  const std::string margin = here ? "  " : "  " + where + " | ";
  std::string text = margin + line + "\n" + std::string(text_columns(margin) + text_columns(std::string_view(line).substr(0, begin)), ' ');
  const size_t width = end > line.size() ? 1 : text_columns(std::string_view(line).substr(begin, end - begin));
  text += style("1;33") + std::string(std::max<size_t>(1, width), '^') + style("0") + "\n";
  std::string hint;
  try {
    hint = hint_for(what, line);
  } catch (const Error&) {}  // no memory for a hint
  return hint.empty() ? text : text + hint + "\n";
}

// Lines that led to `where`, each function's calls of itself once.
std::string LuaSession::callers(const std::string& where, std::vector<std::string> frames) {
  const auto innermost = std::find_if(frames.begin(), frames.end(), [&](const std::string& frame) { return same_place(where, frame); });
  if (innermost != frames.end()) frames.erase(frames.begin(), innermost + 1);
  frames.erase(std::unique(frames.begin(), frames.end()), frames.end());
  std::string text;
  for (const std::string& frame : frames) {
    const std::string line = line_of(frame, "");
    if (!line.empty() && frame != where) text += "  " + frame + " | " + line.substr(0, kLongestLine) + "\n";
  }
  return text.empty() ? "" : "called from\n" + text;
}

void LuaSession::show_error(const Error& error) {
  const Error::Parts& parts = error.parts();
  if (parts.what == "interrupted") {
    std::fputs("interrupted\n", stderr);
    return;
  }
  const std::vector<std::string> frames = lua_.frames();
  std::string where = parts.where;
  const bool placed = std::any_of(frames.begin(), frames.end(), [&](const std::string& frame) {
    if (!same_place(where, frame)) return false;
    where = frame;
    return true;
  });
  // "stack overflow" has no place of its own, and ours says nothing to a person.
  const bool ours = where.starts_with("perigee.");
  if (!placed && (ours || parts.what.starts_with("stack overflow") || (!frames.empty() && frames[0].starts_with(where + ":"))))
    where = frames.empty() ? "in" + std::to_string(inputs_.size()) : frames[0];
  const std::string line = in_lua_ || where.find(':') != std::string::npos ? line_of(where, parts.what).substr(0, kLongestLine) : "";
  const Error shown(error.kind(), {line.empty() && in_file(where) ? where : "", parts.what, parts.got, parts.expected, parts.hint});
  std::string text = style("1;31") + "error: " + style("0") + shown.what() + "\n";
  if (!line.empty()) text += quoted(where, line, parts.what) + callers(where, frames);
  if (error.kind() == ErrorKind::resources) text += "what globals hold stays; `name = nil` and `_ = nil` let it go\n";
  std::fputs(text.c_str(), stderr);
}

}  // namespace perigee
