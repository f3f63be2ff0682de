#include "src/job/lua_table.h"

#include <cctype>
#include <string>
#include <utility>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr int kMostLevels = 64;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<Json> whole() {
    std::optional<Json> value = table(0);
    skip();
    return at_ == text_.size() ? std::move(value) : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool accept(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::optional<Json> table(int level) {
    if (level > kMostLevels || !accept('{')) return {};
    Json object = Json::object(), list = Json::array();
    while (!accept('}')) {
      const std::optional<std::string> name = key();
      std::optional<Json> item = value(level);
      if (!item) return {};
      if (name) object.set(*name, std::move(*item));
      else list.push(std::move(*item));
      if (!accept(',') && !accept(';') && (at_ >= text_.size() || text_[at_] != '}')) return {};
    }
    if (!object.as_object().empty() && !list.as_array().empty()) return {};
    return list.as_array().empty() ? std::move(object) : std::move(list);
  }

  // `name =` or `["name"] =`; otherwise nothing, and a value stands there.
  std::optional<std::string> key() {
    skip();
    const size_t begin = at_;
    std::optional<std::string> name;
    if (accept('[')) {
      name = quoted();
      if (!accept(']')) name.reset();
    } else if (std::string word = read_word(); !word.empty() && !std::isdigit(static_cast<unsigned char>(word[0]))) {
      name = std::move(word);
    }
    if (name && accept('=') && (at_ >= text_.size() || text_[at_] != '=')) return name;
    at_ = begin;
    return {};
  }

  std::optional<Json> value(int level) {
    skip();
    if (at_ >= text_.size()) return {};
    const char c = text_[at_];
    if (c == '{') return table(level + 1);
    if (c == '"' || c == '\'') {
      std::optional<std::string> text = quoted();
      return text ? std::optional<Json>(Json(std::move(*text))) : std::nullopt;
    }
    const std::string word = read_word();
    if (word == "true" || word == "false") return Json(word == "true");
    if (word == "nil") return Json();
    return number(word);
  }

  static std::optional<Json> number(const std::string& word) try {
    Json read = Json::parse(word.starts_with('.') ? "0" + word : word, "value");
    return read.is_number() ? std::optional<Json>(std::move(read)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }

  // Letters, digits and what stands in numbers.
  std::string read_word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || std::string_view("_.+-").find(text_[at_]) != std::string_view::npos))
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  // Without escapes, which no option needs.
  std::optional<std::string> quoted() {
    skip();
    if (at_ >= text_.size() || (text_[at_] != '"' && text_[at_] != '\'')) return {};
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return {};
    std::string content(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return content.find('\\') == std::string::npos ? std::optional<std::string>(std::move(content)) : std::nullopt;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<Json> read_lua_table(std::string_view text) { return Reader(text).whole(); }

}  // namespace perigee
