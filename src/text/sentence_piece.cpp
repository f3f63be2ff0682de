// Reads models of SentencePiece: a protobuf message (sentencepiece_model.proto), of which this needs a few fields.
#include <algorithm>
#include <cstring>
#include <limits>

#include "src/core/utf8.h"
#include "src/text/charsmap.h"
#include "src/text/tokenizer.h"

namespace perigee {
namespace {

constexpr std::string_view kMark = "\xE2\x96\x81";
enum Kind : uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUser = 4, kUnused = 5, kByte = 6 };

// The fields of a protobuf message, one after the other.
class Message {
 public:
  Message(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  bool next() {
    if (at_ >= bytes_.size()) return false;
    const uint64_t key = varint();
    field = key >> 3;
    value = 0;
    bytes = {};
    switch (key & 7) {
      case 0: value = varint(); break;
      case 1: bytes = take(8); break;
      case 2: bytes = take(varint()); break;
      case 5: bytes = take(4); break;
      default: damaged();
    }
    return true;
  }

  float number() const {
    float result = 0;
    if (bytes.size() != sizeof result) damaged();
    std::memcpy(&result, bytes.data(), sizeof result);
    return result;
  }
  const std::string& where() const { return where_; }

  uint64_t field = 0, value = 0;
  std::string_view bytes;

 private:
  [[noreturn]] void damaged() const {
    throw Error(ErrorKind::data, {.where = where_,
                                  .what = "this is neither a tokenizer.json nor a model of SentencePiece, or is damaged",
                                  .got = "byte " + std::to_string(at_) + " of " + std::to_string(bytes_.size()) + " of a message"});
  }
  uint64_t varint() {
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ >= bytes_.size()) damaged();
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      result |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return result;
    }
    damaged();
  }
  std::string_view take(uint64_t size) {
    if (size > bytes_.size() - at_) damaged();
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }

  std::string_view bytes_;
  std::string where_;
  size_t at_ = 0;
};

struct SpmFile {
  std::vector<std::pair<std::string, int64_t>> pieces;
  std::vector<float> scores;
  std::vector<uint64_t> kinds;
  uint64_t model = 1;  // unigram, BPE, word, char
  bool byte_fallback = false, dummy_prefix = true, remove_blanks = true, escape = true, suffix = false;
  std::string unknown_surface = " \xE2\x81\x87 ";
  CharacterMap table;
};

void read_piece(Message message, SpmFile& file) {
  std::string text;
  float score = 0;
  uint64_t kind = kNormal;
  while (message.next()) {
    if (message.field == 1) text = message.bytes;
    if (message.field == 2) score = message.number();
    if (message.field == 3) kind = message.value;
  }
  if (static_cast<int64_t>(file.pieces.size()) >= TokenTable::kMaxTokens)
    throw Error(ErrorKind::data, {.where = message.where(),
                                  .what = "the model has too many pieces",
                                  .expected = "at most " + std::to_string(TokenTable::kMaxTokens)});
  file.pieces.emplace_back(std::move(text), static_cast<int64_t>(file.pieces.size()));
  file.scores.push_back(score);
  file.kinds.push_back(kind);
}

SpmFile read_file(std::string_view bytes, const std::string& where) {
  SpmFile file;
  for (Message message(bytes, where); message.next();) {
    if (message.field == 1) read_piece(Message(message.bytes, where), file);
    if (message.field == 2)
      for (Message trainer(message.bytes, where); trainer.next();) {
        if (trainer.field == 3) file.model = trainer.value;
        if (trainer.field == 24) file.suffix = trainer.value != 0;
        if (trainer.field == 35) file.byte_fallback = trainer.value != 0;
        if (trainer.field == 44) file.unknown_surface = trainer.bytes;
      }
    if (message.field == 3)
      for (Message normalizer(message.bytes, where); normalizer.next();) {
        if (normalizer.field == 2 && !normalizer.bytes.empty()) file.table = CharacterMap(normalizer.bytes, where);
        if (normalizer.field == 3) file.dummy_prefix = normalizer.value != 0;
        if (normalizer.field == 4) file.remove_blanks = normalizer.value != 0;
        if (normalizer.field == 5) file.escape = normalizer.value != 0;
      }
  }
  if (file.pieces.empty()) throw Error(ErrorKind::data, {.where = where, .what = "the model has no pieces"});
  return file;
}

// SentencePiece's own way to make a text plain: the table's longest match, blanks joined and marked.
class Plain {
 public:
  Plain(const std::shared_ptr<const SpmFile>& held, bool beginning) : held_(held), file_(*held), beginning_(beginning) {
    const SpmFile& file = file_;
    for (size_t i = 0; i < file.pieces.size(); ++i)
      if (file.kinds[i] == kUser && !file.pieces[i].first.empty()) user_.push_back(file.pieces[i].first);
    std::sort(user_.begin(), user_.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  }

  void operator()(Aligned& text) const {
    const std::string content = text.text();
    std::vector<TextSpan> origins;  // of each byte of `plain`
    std::string plain;
    size_t at = 0;
    const auto put = [&](std::string_view piece, size_t from, size_t to) {
      plain += piece;
      origins.resize(plain.size(), {static_cast<uint32_t>(from), static_cast<uint32_t>(to)});
    };
    const std::string_view blank = file_.escape ? kMark : std::string_view(" ");
    bool after_blank = beginning_ && file_.remove_blanks;
    while (after_blank && at < content.size()) {
      const auto [bytes, becomes] = prefix(std::string_view(content).substr(at));
      if (becomes != " ") break;
      at += bytes;
    }
    if (at >= content.size()) return text.transform({});
    if (beginning_ && file_.dummy_prefix && !file_.suffix) put(blank, at, at);
    while (at < content.size()) {
      auto [bytes, becomes] = prefix(std::string_view(content).substr(at));
      while (after_blank && becomes.starts_with(' ')) becomes.remove_prefix(1);
      for (const char c : becomes)
        if (c == ' ') put(blank, at, at + bytes);
        else put({&c, 1}, at, at + bytes);
      if (!becomes.empty()) after_blank = becomes.ends_with(' ');
      if (!file_.remove_blanks) after_blank = false;
      at += bytes;
    }
    while (file_.remove_blanks && plain.ends_with(blank)) plain.resize(plain.size() - blank.size());
    origins.resize(plain.size());
    if (file_.dummy_prefix && file_.suffix) put(blank, content.size(), content.size());
    text.become(std::move(plain), origins);
  }

 private:
  CharacterMap::Found prefix(std::string_view text) const {
    for (const std::string& symbol : user_)
      if (text.starts_with(symbol)) return {symbol.size(), text.substr(0, symbol.size())};
    if (const CharacterMap::Found found = file_.table.longest(text); found.bytes > 0) return found;
    const size_t length = std::max<size_t>(1, utf8_length(text, 0));
    return {length, text.substr(0, length)};
  }

  std::shared_ptr<const SpmFile> held_;
  const SpmFile& file_;
  bool beginning_;
  std::vector<std::string> user_;
};

void decode_pieces(const SpmFile& file, const TokenTable& table, std::vector<std::string>& tokens) {
  std::string text, bytes;
  bool blank_gone = false;
  const auto flush = [&] {
    text += readable(bytes, true);
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    const auto id = static_cast<size_t>(table.id(token));
    if (file.kinds[id] == kByte && byte_of_token(token) >= 0) {
      bytes += static_cast<char>(byte_of_token(token));
      continue;
    }
    flush();
    if (file.kinds[id] == kControl) continue;
    if (file.kinds[id] == kUnknown) {
      text += file.unknown_surface;
      continue;
    }
    std::string_view rest = token;
    if (text.empty() && !blank_gone && (file.dummy_prefix || file.remove_blanks) && !file.suffix && rest.starts_with(kMark)) {
      rest.remove_prefix(kMark.size());
      blank_gone = !file.remove_blanks;
    }
    while (!rest.empty()) {
      const size_t mark = std::min(rest.size(), rest.find(kMark));
      text += rest.substr(0, mark);
      if (mark < rest.size()) text += ' ';
      rest.remove_prefix(std::min(rest.size(), mark + kMark.size()));
    }
  }
  flush();
  tokens = {std::move(text)};
}

// Whole words, each with the mark before it. Unknown ones in a row are one.
class MarkedWordModel : public SubwordModel {
 public:
  MarkedWordModel(const TokenTable& table, int32_t unknown) : table_(table), unknown_(unknown) {}

  void cut(std::string_view text, std::vector<WordToken>& tokens) const override {
    for (size_t from = 0, to; from < text.size(); from = to) {
      to = std::min(text.size(), text.find(kMark, from + 1));
      const int32_t id = table_.id(text.substr(from, to - from));
      const TextSpan span{static_cast<uint32_t>(from), static_cast<uint32_t>(to)};
      if (id >= 0 && id != unknown_) tokens.push_back({id, span});
      else if (!tokens.empty() && tokens.back().id == unknown_ && tokens.back().span.to == span.from) tokens.back().span.to = span.to;
      else tokens.push_back({unknown_, span});
    }
  }

 private:
  const TokenTable& table_;
  int32_t unknown_;
};

SubwordModelPtr make_model(const SpmFile& file, const TokenTable& table, int32_t unknown, const std::string& where) {
  constexpr float kNever = std::numeric_limits<float>::infinity();
  std::vector<float> scores = file.scores;
  std::vector<int32_t> user;
  float least = std::numeric_limits<float>::max(), most = std::numeric_limits<float>::lowest();
  for (size_t i = 0; i < scores.size(); ++i) {
    if (file.kinds[i] == kUser) user.push_back(static_cast<int32_t>(i));
    if (file.kinds[i] == kNormal) least = std::min(least, scores[i]), most = std::max(most, scores[i]);
    else scores[i] = kNever;
  }
  if (file.model == 2 || file.model == 4)  // of characters: the vocabulary has no pair that could join
    return scored_pair_model(table, scores, user, {.unknown = unknown, .byte_fallback = file.byte_fallback});
  if (file.model == 3) return std::make_unique<MarkedWordModel>(table, unknown);
  if (file.model != 1)
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "a model of this type cannot be read",
                                  .got = "model_type " + std::to_string(file.model),
                                  .expected = "1 (unigram), 2 (BPE), 3 (words) or 4 (characters)"});
  std::vector<double> wide(scores.begin(), scores.end());
  for (const int32_t id : user) {
    const auto at = static_cast<size_t>(id);
    wide[at] = static_cast<double>(static_cast<float>(file.pieces[at].first.size()) * most) - 0.1;
  }
  return unigram_model(table, wide,
                       {.unknown = unknown,
                        .byte_fallback = file.byte_fallback,
                        .single_precision = true,
                        .unknown_score = static_cast<double>(least - 10.0f)});
}

}  // namespace

std::unique_ptr<TokenizerParts> read_sentence_piece(std::string_view bytes, const std::string& where) {
  const auto file = std::make_shared<SpmFile>(read_file(bytes, where));
  auto parts = std::make_unique<TokenizerParts>();
  parts->table.assign(file->pieces, where);
  const auto unknown = std::find(file->kinds.begin(), file->kinds.end(), static_cast<uint64_t>(kUnknown));
  if (unknown == file->kinds.end()) throw Error(ErrorKind::data, {.where = where, .what = "the model has no piece for the unknown"});
  parts->model = make_model(*file, parts->table, static_cast<int32_t>(unknown - file->kinds.begin()), where);
  parts->normalizer = {{Plain(file, true), NormalizerStep::Reach::beginning}, {Plain(file, false), NormalizerStep::Reach::rest}};
  bool plain_ascii = !file->suffix && file->escape;  // else what follows a space may belong to what is before it
  for (char c = '!'; c < 0x7F; ++c) plain_ascii = plain_ascii && file->table.longest({&c, 1}).bytes == 0;
  parts->pre_tokenizer.cut = plain_ascii ? TextCut::markers : TextCut::none;
  parts->decoder = {[file, &table = parts->table](std::vector<std::string>& tokens) { decode_pieces(*file, table, tokens); }};
  return parts;
}

}  // namespace perigee
