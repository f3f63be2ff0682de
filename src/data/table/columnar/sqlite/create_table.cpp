#include "src/data/table/columnar/sqlite/create_table.h"

#include <algorithm>
#include <cctype>

#include "src/core/error.h"

namespace perigee::tables::sqlite {
namespace {

constexpr size_t kMostCreateTableColumns = 32767;  // SQLite's own bound

struct Token {
  enum class Kind : uint8_t { end, word, name, text, symbol };
  Kind kind = Kind::end;
  std::string text = {};   // without quotes; words in capitals are in `upper`
  std::string upper = {};  // of a word alone: quoted names are no keywords
  std::string_view raw = {};
};

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '.' || (c & 0x80) != 0; }

class Tokens {
 public:
  Tokens(std::string_view sql, const std::string& where) : sql_(sql), where_(where) { next(); }

  const Token& now() const { return token_; }
  bool is(std::string_view word) const {
    return token_.kind != Token::Kind::end && (token_.kind == Token::Kind::symbol ? token_.text : token_.upper) == word;
  }
  bool take(std::string_view word) {
    if (!is(word)) return false;
    next();
    return true;
  }
  [[noreturn]] void damaged() const {
    throw Error(ErrorKind::data, {.where = where_,
                                  .what = "the database's CREATE TABLE cannot be read",
                                  .got = "'" + std::string(token_.raw.substr(0, 40)) + "' at character " + std::to_string(begin_ + 1)});
  }
  void next() {
    blanks();
    begin_ = at_;
    token_ = {};
    if (at_ >= sql_.size()) return;
    const char c = sql_[at_];
    if (c == '"' || c == '`' || c == '\'') quoted(c, c == '\'' ? Token::Kind::text : Token::Kind::name);
    else if (c == '[') quoted(']', Token::Kind::name);
    else if (in_word(c)) {
      while (at_ < sql_.size() && in_word(sql_[at_])) ++at_;
      token_ = {.kind = Token::Kind::word, .text = std::string(sql_.substr(begin_, at_ - begin_))};
      token_.upper = token_.text;
      for (char& letter : token_.upper) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    } else {
      ++at_;
      token_ = {.kind = Token::Kind::symbol, .text = std::string(1, c)};
    }
    token_.raw = sql_.substr(begin_, at_ - begin_);
  }
  // From an opening bracket to what follows its closing one.
  void skip_brackets() {
    int depth = 0;
    do {
      if (is("(")) ++depth;
      else if (is(")")) --depth;
      else if (token_.kind == Token::Kind::end) damaged();
      next();
    } while (depth > 0);
  }

 private:
  void blanks() {
    for (;;) {
      while (at_ < sql_.size() && std::isspace(static_cast<unsigned char>(sql_[at_])) != 0) ++at_;
      size_t end = 0;
      if (sql_.substr(at_).starts_with("--")) end = sql_.find('\n', at_);
      else if (sql_.substr(at_).starts_with("/*")) end = sql_.find("*/", at_ + 2);
      else return;
      at_ = end == sql_.npos ? sql_.size() : end + (sql_[end] == '\n' ? 1 : 2);
    }
  }
  void quoted(char close, Token::Kind kind) {
    token_.kind = kind;
    for (++at_; at_ < sql_.size(); ++at_) {
      if (sql_[at_] == close) {
        if (close == ']' || at_ + 1 >= sql_.size() || sql_[at_ + 1] != close) break;
        ++at_;  // doubled
      }
      token_.text += sql_[at_];
    }
    if (at_ >= sql_.size()) damaged();
    ++at_;
  }

  std::string_view sql_;
  const std::string& where_;
  size_t at_ = 0, begin_ = 0;
  Token token_;
};

bool begins_constraint(const Tokens& tokens) {
  static constexpr std::string_view kWords[] = {"CONSTRAINT", "PRIMARY", "NOT",        "NULL",      "UNIQUE", "CHECK",
                                                "DEFAULT",    "COLLATE", "REFERENCES", "GENERATED", "AS",     "FOREIGN"};
  return std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view word) { return tokens.is(word); });
}

bool at_end(const Tokens& tokens) { return tokens.is(",") || tokens.is(")"); }

// A literal, maybe signed or in brackets; what is more than that has no value here.
std::string literal(Tokens& tokens) {
  std::string text;
  const bool brackets = tokens.take("(");
  while (tokens.is("-") || tokens.is("+")) text += tokens.now().text, tokens.next();
  text += tokens.now().raw;
  tokens.next();
  if (brackets && !tokens.take(")")) {
    while (!tokens.is(")")) {
      if (tokens.now().kind == Token::Kind::end) tokens.damaged();
      if (tokens.is("(")) tokens.skip_brackets();
      else tokens.next();
    }
    tokens.next();
    return "(an expression)";
  }
  return text;
}

DeclaredColumn create_table_column(Tokens& tokens, const std::string& where, bool& key) {
  DeclaredColumn declared{.name = tokens.now().text};
  if (tokens.now().kind == Token::Kind::symbol || tokens.now().kind == Token::Kind::end) tokens.damaged();
  tokens.next();
  while (!at_end(tokens) && !begins_constraint(tokens)) {
    if (tokens.now().kind == Token::Kind::end) tokens.damaged();
    if (tokens.is("(")) {
      tokens.skip_brackets();
      continue;
    }
    std::string word = tokens.now().text;
    for (char& letter : word) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    declared.type += (declared.type.empty() ? "" : " ") + word;
    tokens.next();
  }
  while (!at_end(tokens)) {
    if (tokens.now().kind == Token::Kind::end) tokens.damaged();
    if (tokens.is("GENERATED") || tokens.is("AS"))
      throw Error(ErrorKind::data,
                  {.where = where,
                   .what = "the column '" + declared.name.substr(0, 60) + "' is computed by the database, and is not in its file",
                   .hint = "CREATE TABLE copy AS SELECT * FROM ... writes it down"});
    if (tokens.take("PRIMARY")) {
      key = declared.primary = true;
      tokens.take("KEY");
      declared.descending = tokens.take("DESC");
    } else if (tokens.take("DEFAULT")) {
      declared.otherwise = literal(tokens);
    } else if (tokens.is("(")) {
      tokens.skip_brackets();
    } else {
      tokens.next();
    }
  }
  return declared;
}

// PRIMARY KEY (a, b), UNIQUE (...), CHECK (...), FOREIGN KEY ...
void table_constraint(Tokens& tokens, std::vector<std::string>& key) {
  while (!at_end(tokens)) {
    if (tokens.now().kind == Token::Kind::end) tokens.damaged();
    if (tokens.take("PRIMARY")) {
      tokens.take("KEY");
      if (!tokens.take("(")) tokens.damaged();
      for (;;) {
        key.push_back(tokens.now().text);
        while (!at_end(tokens)) {
          if (tokens.now().kind == Token::Kind::end) tokens.damaged();
          tokens.next();
        }
        if (!tokens.take(",")) break;
      }
      if (!tokens.take(")")) tokens.damaged();
    } else if (tokens.is("(")) {
      tokens.skip_brackets();
    } else {
      tokens.next();
    }
  }
}

bool same_name(const std::string& a, const std::string& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

DeclaredTable create_table(std::string_view sql, const std::string& where) {
  Tokens tokens(sql, where);
  while (!tokens.is("(")) {
    if (tokens.now().kind == Token::Kind::end || tokens.is("VIRTUAL")) tokens.damaged();
    tokens.next();
  }
  tokens.next();
  DeclaredTable table;
  std::vector<std::string> key;
  for (;;) {
    const bool constraint = tokens.now().kind == Token::Kind::word && begins_constraint(tokens);
    bool primary = false;
    if (constraint) table_constraint(tokens, key);
    else table.columns.push_back(create_table_column(tokens, where, primary));
    if (primary) key.push_back(table.columns.back().name);
    if (table.columns.size() > kMostCreateTableColumns) tokens.damaged();
    if (!tokens.take(",")) break;
  }
  if (!tokens.take(")")) tokens.damaged();
  while (tokens.now().kind != Token::Kind::end) {
    if (tokens.take("WITHOUT")) table.without_rowid = true;
    else tokens.next();
  }
  for (const std::string& name : key)
    for (size_t c = 0; c < table.columns.size(); ++c)
      if (same_name(table.columns[c].name, name) && std::find(table.key.begin(), table.key.end(), c) == table.key.end())
        table.key.push_back(c);
  if (!table.without_rowid && table.key.size() == 1) {
    const DeclaredColumn& only = table.columns[table.key[0]];
    if (only.type == "INTEGER" && !only.descending) table.rowid = static_cast<int64_t>(table.key[0]);
  }
  return table;
}

}  // namespace perigee::tables::sqlite
