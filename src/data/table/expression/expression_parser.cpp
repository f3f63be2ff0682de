#include "src/data/table/expression/expression_parser.h"

#include <charconv>
#include <vector>

#include "src/core/error.h"

namespace perigee::tables {
namespace {

constexpr int kDeepestFormula = 100, kMostFormulaOperators = 1000;

}  // namespace

class ExpressionParser::Reading {
 public:
  using Node = Expression::Node;
  using Ptr = std::unique_ptr<Node>;
  Reading(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Ptr all() {
    Ptr node = either();
    if (peek() != 0) fail("something follows the end of the formula");
    return node;
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint = "") const {
    throw Error(ErrorKind::data, {.where = where_,
                                  .what = what + " at character " + std::to_string(at_ + 1),
                                  .got = "'" + std::string(text_.substr(0, 80)) + "'",
                                  .hint = hint});
  }

  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(std::string_view sign) {
    peek();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }
  static bool letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
  }
  static bool digit(char c) { return c >= '0' && c <= '9'; }
  std::string_view word_ahead() {
    peek();
    size_t end = at_;
    if (end < text_.size() && letter(text_[end]))
      while (end < text_.size() && (letter(text_[end]) || digit(text_[end]) || text_[end] == '.')) ++end;
    return text_.substr(at_, end - at_);
  }
  bool take_word(std::string_view word) {
    if (word_ahead() != word) return false;
    at_ += word.size();
    return true;
  }

  static Ptr make(Node::Kind kind, char op, Ptr a, Ptr b = nullptr) {
    Ptr node = std::make_unique<Node>();
    node->kind = kind;
    node->op = op;
    node->args.push_back(std::move(a));
    if (b) node->args.push_back(std::move(b));
    return node;
  }

  struct Depth {
    Reading& of;
    explicit Depth(Reading& parser) : of(parser) {
      if (++of.depth_ > kDeepestFormula) of.fail("the formula is nested too deeply");
    }
    ~Depth() { --of.depth_; }
  };

  // A chain of one operator is a list and no tower: what is deep costs stack.
  Ptr either() {
    const Depth depth(*this);
    Ptr node = both();
    while (take_word("or")) chain(node, Node::either, both());
    while (take_word("xor")) node = make(Node::compare, '!', std::move(node), both());
    return node;
  }
  Ptr both() {
    Ptr node = negation();
    while (take_word("and")) chain(node, Node::both, negation());
    return node;
  }
  static void chain(Ptr& node, Node::Kind kind, Ptr next) {
    if (node->kind != kind || node->op != 0) node = make(kind, 0, std::move(node));
    node->args.push_back(std::move(next));
  }
  Ptr negation() {
    const Depth depth(*this);
    return take_word("not") ? make(Node::negation, '!', negation()) : comparison();
  }

  Ptr comparison() {
    Ptr node = sum();
    static constexpr std::pair<std::string_view, char> kSigns[] = {{"==", '='}, {"!=", '!'}, {"<>", '!'}, {"~=", '!'}, {"<=", '{'},
                                                                   {">=", '}'}, {"=", '='},  {"<", '<'},  {">", '>'}};
    for (const auto& [sign, op] : kSigns)
      if (take(sign)) return make(Node::compare, op, std::move(node), sum());
    const size_t before = at_;
    const bool inverted = take_word("not");
    if (!take_word("in")) {
      at_ = before;
      return node;
    }
    Ptr list = make(Node::in, 0, std::move(node));
    if (!take("(")) fail("'in' wants a list", "write city in ('Rome', 'Oslo')");
    arguments(list->args);
    return inverted ? make(Node::negation, '!', std::move(list)) : std::move(list);
  }

  // Left to right, and each step holds the one before: bounded as what is nested is.
  Ptr sum() {
    Ptr node = product();
    for (;; ++operators_) {
      const char sign = peek();
      if (sign != '+' && sign != '-') return node;
      if (operators_ > kMostFormulaOperators) fail("the formula is too long");
      ++at_;
      node = make(Node::arithmetic, sign, std::move(node), product());
    }
  }
  Ptr product() {
    Ptr node = unary();
    for (;; ++operators_) {
      const char sign = peek();
      if (sign != '*' && sign != '/' && sign != '%') return node;
      if (operators_ > kMostFormulaOperators) fail("the formula is too long");
      ++at_;
      node = make(Node::arithmetic, sign, std::move(node), unary());
    }
  }
  Ptr unary() {
    const Depth depth(*this);
    if (take("-")) return make(Node::arithmetic, '-', integer(0), unary());
    Ptr node = primary();
    if (!take("^")) return node;
    Ptr power = std::make_unique<Node>();
    power->kind = Node::call;
    power->name = "pow";
    power->function = find_function("pow");
    power->args.push_back(std::move(node));
    power->args.push_back(unary());
    return power;
  }

  static Ptr integer(int64_t value) {
    Ptr node = std::make_unique<Node>();
    node->value = Column(Type::integer);
    node->value.add_whole(value);
    return node;
  }

  void arguments(std::vector<Ptr>& list) {
    if (take(")")) return;
    do {
      list.push_back(either());
      if (list.size() > 10'000) fail("the list is too long");
    } while (take(","));
    if (!take(")")) fail("a bracket is not closed");
  }

  Ptr number() {
    int64_t whole = 0;
    double real = 0;
    const char* const begin = text_.data() + at_;
    const char* const end = text_.data() + text_.size();
    const auto a = std::from_chars(begin, end, whole);
    const auto b = std::from_chars(begin, end, real);
    if (b.ec != std::errc()) fail("this number cannot be read");
    at_ += static_cast<size_t>(b.ptr - begin);
    if (a.ec == std::errc() && a.ptr == b.ptr) return integer(whole);
    Ptr node = std::make_unique<Node>();
    node->value = Column(Type::real);
    node->value.add_real(real);
    return node;
  }

  std::string quoted(char quote) {
    std::string text;
    for (++at_;; ++at_) {
      if (at_ >= text_.size()) fail("a quote is not closed");
      if (text_[at_] == quote) {
        if (at_ + 1 >= text_.size() || text_[at_ + 1] != quote) break;
        ++at_;  // doubled: itself
      }
      text += text_[at_];
    }
    ++at_;
    return text;
  }

  Ptr primary() {
    const char c = peek();
    if (take("(")) {
      Ptr node = either();
      if (!take(")")) fail("a bracket is not closed");
      return node;
    }
    if (digit(c) || c == '.') return number();
    Ptr node = std::make_unique<Node>();
    if (c == '\'' || c == '"') {
      node->value = Column(Type::text);
      node->value.add_text(quoted(c));
      return node;
    }
    if (c == '`') {
      node->kind = Node::column;
      node->name = quoted(c);
      return node;
    }
    node->name = std::string(word_ahead());
    if (node->name.empty())
      fail(c == 0 ? "the formula ends too early" : "this is no part of a formula",
           "texts stand in 'quotes', unusual column names in `backquotes`");
    at_ += node->name.size();
    if (node->name == "true" || node->name == "false") {
      node->value = Column(Type::boolean);
      node->value.add_whole(node->name == "true");
    } else if (node->name == "missing" && peek() != '(') {
      node->kind = Node::nothing;
    } else if (take("(")) {
      call(*node);
    } else {
      node->kind = Node::column;
    }
    return node;
  }

  void call(Node& node) {
    node.kind = Node::call;
    node.function = find_function(node.name);
    if (node.function == nullptr)
      throw Error(ErrorKind::data, {.where = where_,
                                    .what = "there is no such function",
                                    .got = "'" + node.name + "'",
                                    .hint = nearest_hint(node.name, function_names())});
    arguments(node.args);
    if (node.args.size() >= node.function->least && node.args.size() <= node.function->most) return;
    throw Error(ErrorKind::data, {.where = where_,
                                  .what = "the function has another number of arguments",
                                  .got = std::to_string(node.args.size()),
                                  .expected = node.name + node.function->doc});
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
  int depth_ = 0, operators_ = 0;
};

std::unique_ptr<Expression::Node> ExpressionParser::parse(std::string_view text, const std::string& where) {
  return Reading(text, where).all();
}

}  // namespace perigee::tables
