#include "src/text/tokenizer.h"

#include <algorithm>
#include <cstring>

#include "src/core/utf8.h"

namespace perigee {
namespace {

constexpr size_t kMaxText = size_t{1} << 30;
constexpr std::string_view kMarker = "\xE2\x96\x81";

bool blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

char32_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return next_character(text, at);
}

// How many blanks a byte-level token begins and ends with.
std::pair<uint32_t, uint32_t> blanks_around(std::string_view token) {
  uint32_t leading = 0, trailing = 0;
  bool inside = false;
  for (size_t i = 0; i < token.size();) {
    const char32_t code = next_character(token, i);
    if (code == 0x120 || is_white(code)) {
      if (!inside) ++leading;
      ++trailing;
    } else {
      inside = true;
      trailing = 0;
    }
  }
  return {leading, trailing};
}

}  // namespace

void check_text(std::string_view text, const std::string& where, uint64_t offset) {
  if (text.size() > kMaxText)
    throw Error(ErrorKind::resources, {.where = where,
                                       .what = "the text is too large for a tokenizer",
                                       .got = std::to_string(text.size()) + " bytes",
                                       .expected = "at most " + std::to_string(kMaxText)});
  for (size_t i = 0; i < text.size();) {
    uint64_t word = 0;
    if (i + 8 <= text.size()) std::memcpy(&word, text.data() + i, 8);
    if (i + 8 <= text.size() && (word & 0x8080808080808080u) == 0) {
      i += 8;
      continue;
    }
    const size_t length = utf8_length(text, i);
    if (length == 0) throw Error(ErrorKind::data, {.where = where + ": byte " + std::to_string(offset + i), .what = "this is not UTF-8"});
    i += length;
  }
}

std::shared_ptr<const Tokenizer> Tokenizer::read(std::string_view file, const std::string& where) {
  const size_t begin = file.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  const bool json = begin != file.npos && file[begin] == '{';
  return std::make_shared<const Tokenizer>(json ? read_tokenizer_json(file.substr(begin), where) : read_sentence_piece(file, where));
}

Tokenizer::Tokenizer(std::unique_ptr<TokenizerParts> parts) : parts_(std::move(parts)), raw_first_(256), normalized_first_(256) {
  size_ = parts_->table.size();
  for (const AddedToken& token : parts_->added) {
    size_ = std::max<int64_t>(size_, token.id + 1);
    added_ids_.insert(token.id);
    std::string content = token.content;
    if (token.normalized) {
      Aligned text(content, 0);
      for (const NormalizerStep& step : parts_->normalizer) step.apply(text);
      content = text.text();
    }
    if (content.empty()) continue;
    (token.normalized ? normalized_first_ : raw_first_)[static_cast<unsigned char>(content[0])] = true;
    (token.normalized ? normalized_ : raw_).emplace_back(content, &token);
  }
  const auto longer = [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); };
  std::stable_sort(raw_.begin(), raw_.end(), longer);
  std::stable_sort(normalized_.begin(), normalized_.end(), longer);
  cut_ = safe_cut();
}

Tokenizer::~Tokenizer() = default;

// Parts of a text may be looked at alone only if nothing in the file depends on what is around them.
TextCut Tokenizer::safe_cut() const {
  TextCut cut = parts_->pre_tokenizer.cut;
  using Reach = NormalizerStep::Reach;
  for (const NormalizerStep& step : parts_->normalizer) {
    if (step.reach == Reach::blanks && parts_->pre_tokenizer.steps.empty()) cut = TextCut::markers;
    if (step.reach == Reach::all || (step.reach == Reach::blanks && cut != TextCut::markers)) return TextCut::none;
    // A text that is put in front makes a word of its own where the text begins with blanks, which this cut drops.
    if (step.reach == Reach::beginning && cut == TextCut::blanks) return TextCut::none;
  }
  for (const auto& [content, token] : normalized_)
    if (token->strip_left || token->strip_right || std::any_of(content.begin(), content.end(), blank) ||
        content.find(kMarker) != content.npos)
      return TextCut::none;
  if (cut != TextCut::markers) return cut;
  // No token may reach from one word into the next, and the marker must be one.
  if (parts_->table.id(kMarker) < 0) return TextCut::none;
  for (int64_t id = 0; id < parts_->table.size(); ++id) {
    const std::string* token = parts_->table.token(id);
    if (token == nullptr) continue;
    size_t from = 0;
    while (std::string_view(*token).substr(from).starts_with(kMarker)) from += kMarker.size();
    if (token->find(kMarker, from) != token->npos) return TextCut::none;
  }
  return cut;
}

// The end of the part that begins at `from`.
size_t Tokenizer::part_end(std::string_view text, size_t from) const {
  size_t at = from;
  const size_t size = text.size();
  if (cut_ == TextCut::none) return size;
  if (cut_ == TextCut::blanks) {
    while (at < size && text[at] != ' ' && text[at] != '\n' && text[at] != '\t' && text[at] != '\r') ++at;
    return at;
  }
  if (cut_ == TextCut::spaces) return std::min(size, text.find(' ', from + 1));
  const auto other_blank = [&](size_t where) {
    return where < size && static_cast<unsigned char>(text[where]) >= 0x80 && is_white(next_character(text, where));
  };
  if (cut_ == TextCut::gpt2 && blank(text[at])) {
    size_t end = at;
    while (end < size && blank(text[end])) ++end;
    if (end == size) return size;
    if (!other_blank(end)) {
      if (end - at > 1) return end - 1;
      if (text[at] != ' ') return end;
    }
    at = end;
  }
  if (cut_ == TextCut::markers)
    while (at < size && text[at] == ' ') ++at;
  for (; at < size; ++at) {
    if (cut_ == TextCut::gpt2 ? !blank(text[at]) : text[at] != ' ') continue;
    if (at == from) continue;
    const bool ascii = static_cast<unsigned char>(text[at - 1]) < 0x80;
    const char32_t before = ascii ? static_cast<char32_t>(text[at - 1]) : last_character(text.substr(0, at));
    size_t end = at;
    while (end < size && blank(text[end])) ++end;
    bool good = !is_white(before) && !other_blank(end);
    if (cut_ == TextCut::single) good = good && end == at + 1 && end < size;
    if (cut_ == TextCut::markers)
      good =
          ascii ? before > ' ' && before != 0x7F : before != 0x2581 && (is_letter(before) || is_punctuation(before) || is_numeric(before));
    if (good) return at;
    at = std::max(at, end - 1);
  }
  return size;
}

void Tokenizer::cut_words(Aligned text, bool beginning, std::vector<WordToken>& tokens) const {
  std::vector<Aligned> words;
  words.push_back(std::move(text));
  for (const auto& step : parts_->pre_tokenizer.steps) {
    step(words, beginning);
    std::erase_if(words, [](const Aligned& word) { return word.empty(); });
  }
  std::vector<WordToken> found;
  for (const Aligned& word : words) {
    if (word.empty()) continue;
    found.clear();
    parts_->model->cut(word.text(), found);
    for (const WordToken& token : found) tokens.push_back({token.id, word.origin(token.span.from, token.span.to)});
  }
}

// The first added token in `text` from `from` on; blanks before `done` belong to another.
bool Tokenizer::find_added(std::string_view text, bool normalized, size_t from, size_t done, const AddedToken*& token,
                           TextSpan& span) const {
  const auto& list = normalized ? normalized_ : raw_;
  const auto& first = normalized ? normalized_first_ : raw_first_;
  if (list.empty()) return false;
  const auto word_at = [&](size_t at) { return at < text.size() && is_word(next_character(text, at)); };
  const auto blank_at = [&](size_t& at) {
    size_t next = at;
    return at < text.size() && is_white(next_character(text, next)) ? (at = next, true) : false;
  };
  for (size_t at = from; at < text.size(); ++at) {
    if (!first[static_cast<unsigned char>(text[at])]) continue;
    for (const auto& [content, added] : list) {
      if (text.compare(at, content.size(), content) != 0) continue;
      size_t begin = at, end = at + content.size();
      if (added->single_word && ((begin > 0 && is_word(last_character(text.substr(0, begin)))) || word_at(end))) {
        at = end - 1;
        break;
      }
      while (added->strip_left && begin > done && is_white(last_character(text.substr(0, begin)))) {
        --begin;
        while (begin > done && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
      }
      while (added->strip_right && blank_at(end)) {}
      token = added;
      span = {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
      return true;
    }
  }
  return false;
}

std::vector<WordToken> Tokenizer::cut(std::string_view part, uint32_t offset, bool beginning) const {
  std::vector<WordToken> tokens;
  Aligned text(part, offset);
  for (const NormalizerStep& step : parts_->normalizer)
    if ((step.reach != NormalizerStep::Reach::beginning || beginning) && (step.reach != NormalizerStep::Reach::rest || !beginning))
      step.apply(text);
  const AddedToken* added = nullptr;
  TextSpan span;
  size_t done = 0;
  while (find_added(text.text(), true, done, done, added, span)) {
    if (done < span.from) cut_words(text.slice(done, span.from), beginning || done > 0, tokens);
    tokens.push_back({added->id, text.origin(span.from, span.to)});
    done = span.to;
  }
  if (done == 0) cut_words(std::move(text), beginning, tokens);
  else if (done < text.text().size()) cut_words(text.slice(done, text.text().size()), true, tokens);
  return tokens;
}

void Tokenizer::encode(std::string_view text, const std::string& where, bool special_tokens, TokenEncoding& encoding, TokenCache* cache,
                       uint64_t offset) const {
  check_text(text, where, offset);
  encoding.ids.clear();
  encoding.places.clear();
  const auto put = [&](const WordToken& token, uint32_t shift) {
    encoding.ids.push_back(token.id);
    encoding.places.push_back({token.span.from + shift, token.span.to + shift});
  };
  const auto segment = [&](size_t from, size_t to) {
    for (size_t at = from; at < to;) {
      const size_t length = part_end(text.substr(at, to - at), 0);
      if (length > 0) {
        const std::string_view part = text.substr(at, length);
        const unsigned kind = at > from ? 0 : at > 0 ? 1 : 2;
        const auto shift = static_cast<uint32_t>(at);
        const TokenCache::Found known = cache != nullptr ? cache->find(part, kind) : TokenCache::Found{nullptr, 0};
        if (known.tokens != nullptr) {
          for (size_t i = 0; i < known.count; ++i) put(known.tokens[i], shift);
        } else {
          const std::vector<WordToken> tokens = cut(part, shift, kind > 0);
          for (const WordToken& token : tokens) put(token, 0);
          if (cache != nullptr && cut_ != TextCut::none) cache->add(part, kind, tokens, shift);
        }
      }
      at += cut_ == TextCut::blanks ? length + 1 : length;
    }
  };
  const AddedToken* added = nullptr;
  TextSpan span;
  size_t done = 0;
  while (find_added(text, false, done, done, added, span)) {
    segment(done, span.from);
    put({added->id, span}, 0);
    done = span.to;
  }
  segment(done, text.size());
  finish(text, special_tokens, encoding);
}

// Takes the blanks that tokens begin and end with out of their places. A blank that was put before the text has the place of the text's first
// character, so places move by characters.
void Tokenizer::trim_places(std::string_view text, TokenEncoding& encoding) const {
  const auto inside = [&](uint32_t at) { return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; };
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    TextSpan& place = encoding.places[i];
    const int32_t id = encoding.ids[i];
    const bool added = added_ids_.contains(id);  // as it stands in the text, with the blanks that it takes
    const std::string* name = parts_->table.token(id);
    auto [leading, trailing] = added             ? blanks_around(text.substr(place.from, place.to - place.from))
                               : name != nullptr ? blanks_around(*name)
                                                 : std::pair<uint32_t, uint32_t>();
    if (leading == 1 && parts_->trim_keeps_one && (i == 0 || place.from == 0)) leading = 0;
    for (; leading > 0 && place.from < place.to; --leading) do
        ++place.from;
      while (inside(place.from));
    if (place.to < trailing) continue;
    for (; trailing > 0 && place.to > place.from; --trailing) do
        --place.to;
      while (inside(place.to));
  }
}

// The work of post-processors, truncation and padding.
void Tokenizer::finish(std::string_view text, bool special_tokens, TokenEncoding& encoding) const {
  const TokenizerParts& parts = *parts_;
  auto& ids = encoding.ids;
  auto& places = encoding.places;
  const size_t around = special_tokens ? parts.before.size() + parts.after.size() : 0;
  if (const auto limit = static_cast<size_t>(std::max<int64_t>(0, parts.max_length - static_cast<int64_t>(around)));
      parts.max_length > 0 && ids.size() > limit) {
    const auto extra = static_cast<std::ptrdiff_t>(ids.size() - limit);
    if (parts.truncate_left) ids.erase(ids.begin(), ids.begin() + extra), places.erase(places.begin(), places.begin() + extra);
    else ids.resize(limit), places.resize(limit);
  }
  if (parts.trim) trim_places(text, encoding);
  if (special_tokens) {
    ids.insert(ids.begin(), parts.before.begin(), parts.before.end());
    ids.insert(ids.end(), parts.after.begin(), parts.after.end());
    places.insert(places.begin(), parts.before.size(), TextSpan{});
    places.resize(ids.size());
  }
  auto length = std::max<size_t>(ids.size(), static_cast<size_t>(parts.pad_length));
  if (parts.pad_multiple > 0)
    length = (length + static_cast<size_t>(parts.pad_multiple) - 1) / static_cast<size_t>(parts.pad_multiple) *
             static_cast<size_t>(parts.pad_multiple);
  if (length > ids.size()) {
    const size_t missing = length - ids.size();
    ids.insert(parts.pad_left ? ids.begin() : ids.end(), missing, parts.pad_id);
    places.insert(parts.pad_left ? places.begin() : places.end(), missing, TextSpan{});
  }
}

const std::string* Tokenizer::token(int64_t id) const {
  for (const AddedToken& added : parts_->added)
    if (added.id == id) return &added.content;
  return parts_->table.token(id);
}

int64_t Tokenizer::id(std::string_view token) const {
  for (const AddedToken& added : parts_->added)
    if (added.content == token) return added.id;
  return parts_->table.id(token);
}

bool Tokenizer::is_special(int64_t id) const {
  return std::any_of(parts_->added.begin(), parts_->added.end(), [&](const AddedToken& added) { return added.id == id && added.special; });
}

std::string Tokenizer::decode(std::span<const int64_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  for (const int64_t id : ids) {
    const std::string* text = token(id);
    if (text != nullptr && !(skip_special_tokens && is_special(id))) tokens.push_back(*text);
  }
  for (const auto& step : parts_->decoder) step(tokens);
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

std::string Tokenizer::piece(int64_t id, bool first) const {
  const std::string* const name = token(id);
  if (name == nullptr || is_special(id)) return "";
  if (const int byte = byte_of_token(*name); byte >= 0) return {static_cast<char>(byte)};
  if (parts_->byte_level) {
    std::string bytes;
    for (size_t i = 0; i < name->size();)
      if (const int byte = character_byte(next_character(*name, i)); byte >= 0) bytes += static_cast<char>(byte);
      else return *name;
    return bytes;
  }
  // After another token, by what it adds to the same one.
  const int64_t twice[] = {id, id};
  std::string alone = decode({twice, 1});
  if (first) return alone;
  std::string both = decode(twice);
  return both.starts_with(alone) ? both.substr(alone.size()) : alone;
}

}  // namespace perigee
