#include "src/io/text.h"

#include <algorithm>
#include <cassert>

#include "src/core/utf8.h"

namespace perigee {
namespace {

constexpr size_t kMaxWordBytes = 256;
constexpr size_t kMaxDifferent = size_t{1} << 24;

enum class Kind { blank, letter, mark };

Kind kind_of(char32_t code) {
  if (code <= ' ' || (code >= 0x7F && code <= 0xA0)) return Kind::blank;
  if (code < 0x80)
    return (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') || (code >= 'a' && code <= 'z') ? Kind::letter : Kind::mark;
  if (code == 0x1680 || (code >= 0x2000 && code <= 0x200B) || (code >= 0x2028 && code <= 0x202F) || code == 0x205F || code == 0x3000 ||
      code == 0xFEFF)
    return Kind::blank;
  const bool latin_mark = code < 0xC0 && code != 0xAA && code != 0xB5 && code != 0xBA;
  const bool mark = latin_mark || code == 0xD7 || code == 0xF7 || (code >= 0x2010 && code <= 0x20CF) ||
                    (code >= 0x2190 && code <= 0x2BFF) || (code >= 0x3001 && code <= 0x3003) || (code >= 0x3008 && code <= 0x3020);
  return mark ? Kind::mark : Kind::letter;
}

bool is_apostrophe(char32_t code) { return code == '\'' || code == 0x2019; }

// The simple mappings of Unicode for the scripts that have two cases and are widely written.
char32_t lower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  if (c >= 0xC0 && c <= 0xDE) return c == 0xD7 ? c : c + 32;
  if (c == 0x178) return 0xFF;
  const bool even_upper = (c >= 0x100 && c <= 0x12F) || (c >= 0x132 && c <= 0x137) || (c >= 0x14A && c <= 0x177) ||
                          (c >= 0x460 && c <= 0x481) || (c >= 0x48A && c <= 0x4BF) || (c >= 0x4D0 && c <= 0x52F) ||
                          (c >= 0x1E00 && c <= 0x1E95) || (c >= 0x1EA0 && c <= 0x1EFF);
  if (even_upper) return c | 1;
  const bool odd_upper = (c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17E) || (c >= 0x4C1 && c <= 0x4CE);
  if (odd_upper) return c + (c & 1);
  if (c >= 0x391 && c <= 0x3AB) return c == 0x3A2 ? c : c + 32;
  if (c == 0x386) return 0x3AC;
  if (c >= 0x388 && c <= 0x38A) return c + 37;
  if (c == 0x38C) return 0x3CC;
  if (c == 0x38E || c == 0x38F) return c + 63;
  if (c >= 0x400 && c <= 0x40F) return c + 80;
  if (c >= 0x410 && c <= 0x42F) return c + 32;
  return c;
}

bool is_upper(std::string_view unit) {
  for (size_t i = 0, length = 0; i < unit.size(); i += length) {
    length = utf8_length(unit, i);
    const char32_t code = utf8_code(unit, i, length);
    if (lower(code) != code) return true;
  }
  return false;
}

void lower_into(std::string_view unit, std::string& lowered) {
  lowered.clear();
  for (size_t i = 0, length = 0; i < unit.size(); i += length) {
    length = utf8_length(unit, i);
    append_utf8(lower(utf8_code(unit, i, length)), lowered);
  }
}

// The number of code points, 0 when it is not UTF-8.
size_t characters(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0, length = 0; i < text.size(); i += length, ++count)
    if ((length = utf8_length(text, i)) == 0) return 0;
  return count;
}

}  // namespace

size_t UnitReader::length_at(size_t at) const {
  const size_t length = utf8_length(text_, at);
  if (length > 0) return length;
  const auto byte = static_cast<unsigned char>(text_[at]);
  constexpr const char* kDigits = "0123456789abcdef";
  throw Error(ErrorKind::data, {.where = place_of(at),
                                .what = "the text is not UTF-8",
                                .got = std::string("0x") + kDigits[byte >> 4] + kDigits[byte & 15],
                                .expected = "text in UTF-8",
                                .hint = "iconv -f LATIN1 -t UTF-8 converts text in Latin-1"});
}

// The end of the word that begins at begin_ with a letter.
size_t UnitReader::word_end() const {
  size_t at = begin_;
  while (at < text_.size() && at - begin_ < kMaxWordBytes) {
    const size_t length = length_at(at);
    const char32_t code = utf8_code(text_, at, length);
    size_t next = at + length;
    if (is_apostrophe(code)) {
      if (next == text_.size()) break;
      const size_t letter = length_at(next);
      if (kind_of(utf8_code(text_, next, letter)) != Kind::letter) break;
      next += letter;
    } else if (kind_of(code) != Kind::letter) {
      break;
    }
    if (next - begin_ > kMaxWordBytes) break;
    at = next;
  }
  return at;
}

bool UnitReader::find_word() {
  for (begin_ = end_; begin_ < text_.size(); begin_ = end_) {
    const size_t length = length_at(begin_);
    end_ = begin_ + length;
    const Kind kind = kind_of(utf8_code(text_, begin_, length));
    is_word_ = kind == Kind::letter;
    if (is_word_) end_ = word_end();
    if (kind != Kind::blank) return true;
  }
  return false;
}

bool UnitReader::next() {
  if (units_.words) {
    if (!find_word()) return false;
  } else {
    begin_ = end_;
    if (begin_ == text_.size()) return false;
    end_ = begin_ + length_at(begin_);
  }
  assert(end_ > begin_ && end_ <= text_.size());
  unit_ = text_.substr(begin_, end_ - begin_);
  if (units_.lowercase && is_upper(unit_)) {
    lower_into(unit_, lowered_);
    unit_ = lowered_;
  }
  return true;
}

void UnitCounts::add(UnitReader& reader) {
  while (reader.next()) {
    const auto found = counts_.find(reader.unit());
    if (found != counts_.end()) {
      ++found->second;
      continue;
    }
    if (counts_.size() == kMaxDifferent)
      throw Error(ErrorKind::resources, {.where = reader.place(),
                                         .what = "the text has too many different words",
                                         .expected = "at most " + std::to_string(kMaxDifferent)});
    counts_.emplace(reader.unit(), 1);
  }
}

Vocabulary::Vocabulary(const UnitCounts& counts, const VocabularyOptions& options) : units_(options.units), unknown_(options.unknown) {
  assert(options.max_size >= 2 && options.max_size <= kMaxSize);
  std::vector<std::pair<int64_t, std::string_view>> order;
  for (const auto& [unit, count] : counts.map())
    if (count >= options.min_count) order.emplace_back(-count, unit);
  const size_t most = static_cast<size_t>(options.max_size) - (unknown_ ? 1 : 0);
  std::sort(order.begin(), order.end());
  if (order.size() > most) order.resize(most);
  if (unknown_) names_.emplace_back(kUnknown);
  for (const auto& [count, unit] : order) names_.emplace_back(unit);
  number_names();
}

Vocabulary::Vocabulary(const Config& config)
    : units_{.words = config.choice("unit", "char", {"char", "word"}) == "word", .lowercase = config.boolean("lowercase", false)},
      unknown_(config.boolean("unknown", true)),
      names_(config.string_list("vocabulary")) {
  if (names_.empty()) config.fail("vocabulary", "has no units");
  if (unknown_) names_.insert(names_.begin(), kUnknown);
  if (size() > kMaxSize) config.fail("vocabulary", "is too large", std::to_string(size()), "at most " + std::to_string(kMaxSize));
  const std::string where = config.where();
  for (size_t i = unknown_ ? 1 : 0; i < names_.size(); ++i) {
    UnitReader reader(names_[i], units_, where);
    if (characters(names_[i]) == 0 || !reader.next() || reader.unit() != names_[i])
      config.fail("vocabulary", "has a unit that no text has", Json(names_[i]).dump(), units_.words ? "a word" : "one character");
  }
  number_names();
  if (std::count(ascii_.begin(), ascii_.end(), -1) + size() != static_cast<int64_t>(ascii_.size() + others_.size()))
    config.fail("vocabulary", "has a unit twice");
}

void Vocabulary::number_names() {
  ascii_.fill(-1);
  others_.reserve(names_.size());
  for (size_t i = 0; i < names_.size(); ++i) {
    const std::string& name = names_[i];
    if (name.size() == 1) ascii_[static_cast<unsigned char>(name[0]) & 0x7F] = static_cast<int32_t>(i);
    else others_.emplace(name, static_cast<int32_t>(i));
  }
}

int64_t Vocabulary::number(std::string_view unit) const {
  int32_t found = -1;
  if (unit.size() == 1) {
    found = ascii_[static_cast<unsigned char>(unit[0]) & 0x7F];
  } else if (const auto at = others_.find(unit); at != others_.end()) {
    found = at->second;
  }
  return found < 0 && unknown_ ? 0 : found;
}

Json Vocabulary::to_json() const {
  Json list = Json::array();
  for (size_t i = unknown_ ? 1 : 0; i < names_.size(); ++i) list.push(names_[i]);
  Json json = Json::object();
  json.set("unit", units_.words ? "word" : "char");
  json.set("lowercase", units_.lowercase);
  json.set("unknown", unknown_);
  json.set("vocabulary", std::move(list));
  return json;
}

}  // namespace perigee
