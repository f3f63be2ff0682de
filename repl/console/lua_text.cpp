#include "repl/console/lua_text.h"

#include <algorithm>
#include <array>

namespace perigee {
namespace {

using Kind = LuaToken::Kind;

constexpr std::array<std::string_view, 22> kKeywords = {"and",      "break",  "do",   "else", "elseif", "end",  "false", "for",
                                                        "function", "goto",   "if",   "in",   "local",  "nil",  "not",   "or",
                                                        "repeat",   "return", "then", "true", "until",  "while"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class Scanner {
 public:
  explicit Scanner(std::string_view source) : source_(source) {}

  bool next(LuaToken* token) {
    while (at_ < source_.size() && is_space(source_[at_])) ++at_;
    if (at_ >= source_.size()) return false;
    *token = {.begin = at_};
    const char c = source_[at_];
    if (is_letter(c)) word(token);
    else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) number(token);
    else if (c == '"' || c == '\'') quoted(token, c);
    else if (c == '-' && peek(1) == '-') comment(token);
    else if (c == '[' && long_level() >= 0) long_text(token, Kind::string);
    else symbol();
    token->end = at_;
    return true;
  }

 private:
  char peek(size_t ahead) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }

  void word(LuaToken* token) {
    while (at_ < source_.size() && (is_letter(source_[at_]) || is_digit(source_[at_]))) ++at_;
    const std::string_view text = source_.substr(token->begin, at_ - token->begin);
    token->kind = std::find(kKeywords.begin(), kKeywords.end(), text) != kKeywords.end() ? Kind::keyword : Kind::name;
  }

  void number(LuaToken* token) {
    token->kind = Kind::number;
    const bool hex = source_[at_] == '0' && (peek(1) | 0x20) == 'x';
    for (; at_ < source_.size(); ++at_) {
      const char c = source_[at_];
      const bool exponent = at_ > token->begin && (source_[at_ - 1] | 0x20) == (hex ? 'p' : 'e');
      if (!(is_digit(c) || is_letter(c) || c == '.' || ((c == '+' || c == '-') && exponent))) break;
    }
  }

  void quoted(LuaToken* token, char quote) {
    token->kind = Kind::string;
    token->finished = false;
    for (++at_; at_ < source_.size() && source_[at_] != '\n'; ++at_) {
      if (source_[at_] == '\\' && at_ + 1 < source_.size()) ++at_;
      else if (source_[at_] == quote) {
        ++at_;
        token->finished = true;
        return;
      }
    }
  }

  // The level of a long bracket at the cursor, 2 of `[==[`; -1 when there is none.
  int long_level() const {
    size_t equals = 0;
    while (peek(1 + equals) == '=') ++equals;
    return peek(1 + equals) == '[' ? static_cast<int>(equals) : -1;
  }

  void long_text(LuaToken* token, Kind kind) {
    token->kind = kind;
    const std::string close = "]" + std::string(static_cast<size_t>(long_level()), '=') + "]";
    const size_t end = source_.find(close, at_ + close.size());
    token->finished = end != std::string_view::npos;
    at_ = token->finished ? end + close.size() : source_.size();
  }

  void comment(LuaToken* token) {
    at_ += 2;
    if (peek(0) == '[' && long_level() >= 0) return long_text(token, Kind::comment);
    token->kind = Kind::comment;
    while (at_ < source_.size() && source_[at_] != '\n') ++at_;
  }

  void symbol() {
    constexpr std::array<std::string_view, 7> kLong = {"...", "..", "==", "~=", "<=", ">=", "::"};
    for (const std::string_view each : kLong)
      if (source_.substr(at_, each.size()) == each) {
        at_ += each.size();
        return;
      }
    ++at_;
  }

  std::string_view source_;
  size_t at_ = 0;
};

// +1 for what opens a block, a table or a call, -1 for what closes one.
int opens(const LuaToken& token, std::string_view source) {
  const std::string_view text = token.text(source);
  if (token.kind == Kind::keyword) {
    if (text == "function" || text == "do" || text == "if" || text == "repeat") return 1;
    return text == "end" || text == "until" ? -1 : 0;
  }
  if (token.kind != Kind::symbol) return 0;
  if (text == "(" || text == "{" || text == "[") return 1;
  return text == ")" || text == "}" || text == "]" ? -1 : 0;
}

Colour colour_of(Kind kind, std::string_view text) {
  switch (kind) {
    case Kind::keyword: return text == "nil" || text == "true" || text == "false" ? Colour::number : Colour::keyword;
    case Kind::string: return Colour::string;
    case Kind::number: return Colour::number;
    case Kind::comment: return Colour::comment;
    default: return Colour::plain;
  }
}

}  // namespace

std::vector<LuaToken> lua_tokens(std::string_view source) {
  std::vector<LuaToken> tokens;
  Scanner scanner(source);
  for (LuaToken token; scanner.next(&token);) tokens.push_back(token);
  return tokens;
}

std::vector<Colour> lua_colours(std::string_view source) {
  std::vector<Colour> colours(source.size(), Colour::plain);
  for (const LuaToken& token : lua_tokens(source))
    std::fill(colours.begin() + static_cast<std::ptrdiff_t>(token.begin), colours.begin() + static_cast<std::ptrdiff_t>(token.end),
              colour_of(token.kind, token.text(source)));
  return colours;
}

size_t lua_indentation(std::string_view source) {
  int depth = 0;
  for (const LuaToken& token : lua_tokens(source)) {
    if (!token.finished && token.kind != Kind::symbol) return 0;  // inside a long string
    depth = std::max(0, depth + opens(token, source));
  }
  return std::min<size_t>(2 * static_cast<size_t>(depth), 40);
}

std::string without_outer_locals(std::string_view source) {
  std::vector<LuaToken> tokens = lua_tokens(source);
  std::erase_if(tokens, [](const LuaToken& token) { return token.kind == Kind::comment; });
  std::string result(source);
  size_t added = 0;
  int depth = 0;
  const auto text = [&](size_t i) { return i < tokens.size() ? tokens[i].text(source) : std::string_view(); };
  for (size_t i = 0; i < tokens.size(); ++i) {
    depth += opens(tokens[i], source);
    if (depth != 0 || tokens[i].kind != Kind::keyword || text(i) != "local") continue;
    if (i + 1 >= tokens.size() || (tokens[i + 1].kind != Kind::name && text(i + 1) != "function")) continue;
    result.replace(tokens[i].begin + added, 5, "     ");
    if (text(i + 1) == "function") continue;
    size_t last = i + 1;
    while (text(last + 1) == "," && last + 2 < tokens.size() && tokens[last + 2].kind == Kind::name) last += 2;
    if (text(last + 1) == "=") continue;
    constexpr std::string_view kNothing = " = nil";  // `local x` alone
    result.insert(tokens[last].end + added, kNothing);
    added += kNothing.size();
  }
  return result;
}

namespace {

// The names in front of token number `last`, which is a name, joined by dots and at the end perhaps a colon: a.b.c. Nothing for f().b.
std::vector<std::string> path_before(const std::vector<LuaToken>& tokens, std::string_view source, size_t last) {
  std::vector<std::string> path;
  for (size_t i = last;; i -= 2) {
    if (tokens[i].kind != Kind::name) return {};
    path.insert(path.begin(), std::string(tokens[i].text(source)));
    if (i == 0) return path;
    const std::string_view joint = tokens[i - 1].text(source);
    if (joint != "." && joint != ":") return path;
    if (i < 2) return {};
  }
}

// The table that is open at token number `last`: the function that it is given to, and its options so far. A table that is an option itself,
// as in pg.experiment { data = { batch = 64, has the option's name behind the function's.
bool find_option(const std::vector<LuaToken>& tokens, std::string_view source, size_t count, LuaContext* context) {
  int depth = 0;
  for (size_t i = count; i-- > 0;) {
    depth += opens(tokens[i], source);
    if (depth > 0) {  // what is open here
      if (tokens[i].text(source) != "{" || i == 0) return false;
      if (i >= 2 && tokens[i - 1].text(source) == "=" && tokens[i - 2].kind == Kind::name) {
        LuaContext outer;
        if (!find_option(tokens, source, i - 2, &outer)) return false;
        context->path = std::move(outer.path);
        context->path.emplace_back(tokens[i - 2].text(source));
        context->kind = LuaContext::Kind::option;
        return true;
      }
      size_t callee = i - 1;
      if (tokens[callee].text(source) == "(" && callee > 0) --callee;
      if (tokens[callee].kind != Kind::name) return false;
      context->path = path_before(tokens, source, callee);
      context->kind = LuaContext::Kind::option;
      return !context->path.empty();
    }
    if (depth == 0 && tokens[i].text(source) == "=" && i > 0 && tokens[i - 1].kind == Kind::name)
      context->used.emplace_back(tokens[i - 1].text(source));
  }
  return false;
}

// In front of the token number `at`, the bracket that is open there; the count of tokens when there is none.
size_t opening_before(const std::vector<LuaToken>& tokens, std::string_view source, size_t at) {
  int depth = 0;
  for (size_t i = at; i-- > 0;)
    if ((depth += opens(tokens[i], source)) > 0) return i;
  return tokens.size();
}

// Whether the string that is last is one of those of f("job.lua", { set = { "...", "..." } }), or of f(job, { set = "..." }).
bool find_setting(const std::vector<LuaToken>& tokens, std::string_view source, LuaContext* context) {
  const auto is = [&](size_t i, std::string_view text) { return i < tokens.size() && tokens[i].text(source) == text; };
  size_t key = tokens.size() - 2;  // the "=" of `set =`; what is smaller than nothing is no token
  if (!is(key, "=")) {
    key = opening_before(tokens, source, tokens.size() - 1) - 1;
    if (!is(key + 1, "{") || !is(key, "=")) return false;
  }
  if (!is(key - 1, "set")) return false;
  const size_t options = opening_before(tokens, source, key - 1), call = opening_before(tokens, source, options);
  if (!is(options, "{") || !is(options - 1, ",") || !is(call, "(") || call + 2 >= options || call == 0) return false;
  const LuaToken& job = tokens[options - 2];
  if (job.kind == Kind::name) context->path = path_before(tokens, source, options - 2);
  else if (job.kind == Kind::string && source[job.begin] != '[') context->script = source.substr(job.begin + 1, job.end - job.begin - 2);
  if (context->path.empty() && context->script.empty()) return false;
  context->kind = LuaContext::Kind::setting;
  return true;
}

}  // namespace

LuaContext lua_context(std::string_view source, size_t cursor) {
  source = source.substr(0, cursor);
  std::vector<LuaToken> tokens = lua_tokens(source);
  LuaContext context{.from = cursor};
  if (!tokens.empty()) {
    const LuaToken& last = tokens.back();
    if (last.kind == Kind::comment) {
      if (!last.finished || last.end == cursor) return context;
    }
    if (last.kind == Kind::string && !last.finished) {
      context.kind = LuaContext::Kind::file;
      const size_t quote = source[last.begin] == '[' ? source.find('[', last.begin + 1) : last.begin;
      context.from = quote + 1;
      std::erase_if(tokens, [](const LuaToken& token) { return token.kind == Kind::comment; });
      find_setting(tokens, source, &context);
      return context;
    }
  }
  std::erase_if(tokens, [](const LuaToken& token) { return token.kind == Kind::comment; });
  size_t count = tokens.size();
  const bool word =
      count > 0 && tokens[count - 1].end == cursor && (tokens[count - 1].kind == Kind::name || tokens[count - 1].kind == Kind::keyword);
  if (word) context.from = tokens[--count].begin;
  else if (count > 0 && tokens[count - 1].end == cursor && tokens[count - 1].kind == Kind::number) return context;
  const std::string_view before = count > 0 ? tokens[count - 1].text(source) : std::string_view();
  if (before == "." || before == ":") {
    context.method = before == ":";
    if (count < 2) return context;
    context.path = path_before(tokens, source, count - 2);
    if (!context.path.empty()) context.kind = LuaContext::Kind::name;
    return context;
  }
  context.kind = LuaContext::Kind::name;
  if (before == "{" || before == "," || before == ";") {
    LuaContext option = context;
    if (find_option(tokens, source, count, &option)) return option;
  }
  return context;
}

}  // namespace perigee
