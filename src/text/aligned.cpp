#include "src/text/aligned.h"

#include <algorithm>

#include "src/core/utf8.h"

namespace perigee {

char32_t next_character(std::string_view text, size_t& at) {
  const size_t length = std::max<size_t>(1, utf8_length(text, at));
  const char32_t code = utf8_code(text, at, length);
  at += length;
  return code;
}

Aligned::Aligned(std::string_view text, uint32_t offset) : text_(text), spans_(text.size()) {
  for (size_t i = 0; i < text.size();) {
    const size_t from = i;
    next_character(text, i);
    for (size_t k = from; k < i; ++k) spans_[k] = {offset + static_cast<uint32_t>(from), offset + static_cast<uint32_t>(i)};
  }
}

TextSpan Aligned::origin(size_t from, size_t to) const {
  if (from >= to || to > spans_.size()) return {};
  return {spans_[from].from, spans_[to - 1].to};
}

Aligned Aligned::slice(size_t from, size_t to) const {
  Aligned part;
  part.text_ = text_.substr(from, to - from);
  part.spans_.assign(spans_.begin() + static_cast<std::ptrdiff_t>(from), spans_.begin() + static_cast<std::ptrdiff_t>(to));
  return part;
}

void Aligned::transform(const std::vector<Change>& changes, size_t removed) {
  std::string text;
  std::vector<TextSpan> spans;
  text.reserve(text_.size());
  spans.reserve(spans_.size());
  size_t at = 0;
  const auto pass = [&](size_t characters) {
    for (; characters > 0 && at < text_.size(); --characters) next_character(text_, at);
  };
  pass(removed);
  for (const Change& change : changes) {
    TextSpan span{};
    if (change.change > 0) {
      if (at > 0) span = spans_[at - 1];
    } else if (at < spans_.size()) {
      span = spans_[at];
    }
    if (change.change <= 0) pass(1 + static_cast<size_t>(-change.change));
    append_utf8(change.code, text);
    spans.resize(text.size(), span);
  }
  text_ = std::move(text);
  spans_ = std::move(spans);
}

void Aligned::keep(const std::function<bool(char32_t)>& wanted) {
  std::vector<Change> changes;
  size_t at_start = 0;
  for (size_t i = 0; i < text_.size();) {
    const char32_t code = next_character(text_, i);
    if (wanted(code)) changes.push_back({code, 0});
    else if (changes.empty()) ++at_start;
    else --changes.back().change;
  }
  transform(changes, at_start);
}

void Aligned::map(const std::function<void(char32_t, std::vector<Change>&)>& change) {
  std::vector<Change> changes;
  for (size_t i = 0; i < text_.size();) change(next_character(text_, i), changes);
  transform(changes);
}

void Aligned::replace(const std::vector<TextSpan>& matches, std::string_view with) {
  if (matches.empty()) return;
  std::string text;
  std::vector<TextSpan> spans;
  size_t done = 0;
  const auto copy = [&](size_t to) {
    text.append(text_, done, to - done);
    spans.insert(spans.end(), spans_.begin() + static_cast<std::ptrdiff_t>(done), spans_.begin() + static_cast<std::ptrdiff_t>(to));
  };
  for (const TextSpan& match : matches) {
    copy(match.from);
    text += with;
    spans.resize(text.size(), match.to > 0 ? spans_[match.to - 1] : TextSpan{});
    done = match.to;
  }
  copy(text_.size());
  text_ = std::move(text);
  spans_ = std::move(spans);
}

void Aligned::become(std::string text, const std::vector<TextSpan>& origins) {
  std::vector<TextSpan> spans(text.size());
  const uint32_t end = spans_.empty() ? 0 : spans_.back().to;
  for (size_t i = 0; i < spans.size(); ++i) {
    const auto place = [&](uint32_t at) { return at < spans_.size() ? spans_[at].from : end; };
    spans[i] = {place(origins[i].from), place(origins[i].to)};
  }
  text_ = std::move(text);
  spans_ = std::move(spans);
}

void Aligned::prepend(std::string_view before) {
  if (text_.empty()) return;
  text_.insert(0, before);
  spans_.insert(spans_.begin(), before.size(), spans_[0]);
}

}  // namespace perigee
