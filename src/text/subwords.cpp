#include "src/text/subwords.h"

#include <algorithm>
#include <cmath>

#include "src/core/utf8.h"

namespace perigee {

void TokenTable::assign(std::vector<std::pair<std::string, int64_t>> tokens, const std::string& where) {
  const auto limit = std::min<int64_t>(kMaxTokens, static_cast<int64_t>(tokens.size()) * 8 + (1 << 16));
  int64_t last = -1;
  for (const auto& [token, id] : tokens) {
    if (id < 0 || id >= limit)
      throw Error(ErrorKind::data, {.where = where,
                                    .what = "a token's number is out of range",
                                    .got = Json(token.substr(0, 80)).dump() + " = " + std::to_string(id),
                                    .expected = "0 to " + std::to_string(limit - 1)});
    last = std::max(last, id);
  }
  tokens_.resize(static_cast<size_t>(last + 1));
  used_.resize(tokens_.size());
  for (auto& [token, id] : tokens) {
    const auto at = static_cast<size_t>(id);
    if (used_[at]) continue;
    used_[at] = true;
    longest_ = std::max(longest_, token.size());
    tokens_[at] = std::move(token);
  }
  ids_.reserve(tokens.size());
  for (size_t i = 0; i < tokens_.size(); ++i)
    if (used_[i]) ids_.emplace(tokens_[i], static_cast<int32_t>(i));
}

int32_t TokenTable::id(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

const std::string* TokenTable::token(int64_t id) const {
  return id >= 0 && id < size() && used_[static_cast<size_t>(id)] ? &tokens_[static_cast<size_t>(id)] : nullptr;
}

int32_t TokenTable::byte(unsigned char byte) const {
  constexpr char kDigits[] = "0123456789ABCDEF";
  const char name[] = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
  return id({name, sizeof name});
}

namespace {

TextSpan span_of(size_t from, size_t to) { return {static_cast<uint32_t>(from), static_cast<uint32_t>(to)}; }

class WordModel : public SubwordModel {
 public:
  WordModel(const TokenTable& table, int32_t unknown) : table_(table), unknown_(unknown) {}
  void cut(std::string_view word, std::vector<WordToken>& tokens) const override {
    int32_t id = table_.id(word);
    if (id < 0) id = unknown_;
    if (id >= 0) tokens.push_back({id, span_of(0, word.size())});
  }

 private:
  const TokenTable& table_;
  int32_t unknown_;
};

class WordPieceModel : public SubwordModel {
 public:
  WordPieceModel(const TokenTable& table, int32_t unknown, std::string prefix, int64_t limit)
      : table_(table), unknown_(unknown), prefix_(std::move(prefix)), limit_(static_cast<size_t>(limit)) {}

  void cut(std::string_view word, std::vector<WordToken>& tokens) const override {
    const size_t before = tokens.size();
    if (utf8_width(word) <= limit_ && pieces(word, tokens)) return;
    tokens.resize(before);
    if (unknown_ >= 0) tokens.push_back({unknown_, span_of(0, word.size())});
  }

 private:
  bool pieces(std::string_view word, std::vector<WordToken>& tokens) const {
    std::string key;
    for (size_t from = 0; from < word.size();) {
      const std::string_view prefix = from > 0 ? std::string_view(prefix_) : std::string_view();
      key.assign(prefix).append(word.substr(from, std::min(word.size() - from, table_.longest())));
      size_t to = from + key.size() - prefix.size();
      int32_t id = -1;
      for (; to > from; --to) {
        if (to < word.size() && (static_cast<unsigned char>(word[to]) & 0xC0) == 0x80) continue;
        id = table_.id(std::string_view(key).substr(0, prefix.size() + to - from));
        if (id >= 0) break;
      }
      if (id < 0) return false;
      tokens.push_back({id, span_of(from, to)});
      from = to;
    }
    return true;
  }

  const TokenTable& table_;
  int32_t unknown_;
  std::string prefix_;
  size_t limit_;
};

// The tokens in the order of their bytes, so that those that begin like a text are found by narrowing a range.
class SortedTokens {
 public:
  void assign(const TokenTable& table, const std::vector<bool>& wanted) {
    for (int64_t id = 0; id < table.size(); ++id)
      if (const std::string* token = table.token(id); token != nullptr && !token->empty() && wanted[static_cast<size_t>(id)])
        sorted_.push_back({*token, static_cast<int32_t>(id)});
    std::sort(sorted_.begin(), sorted_.end());
    for (size_t i = sorted_.size(); i-- > 0;) first_[static_cast<unsigned char>(sorted_[i].first[0])].from = static_cast<uint32_t>(i);
    for (size_t i = 0; i < sorted_.size(); ++i) first_[static_cast<unsigned char>(sorted_[i].first[0])].to = static_cast<uint32_t>(i + 1);
  }

  // Calls found(id, bytes) for each token that `text` begins with, the shortest first.
  template <class Found>
  void prefixes(std::string_view text, const Found& found) const {
    if (text.empty()) return;
    auto [low, high] = first_[static_cast<unsigned char>(text[0])];
    for (size_t length = 1; low < high; ++length) {
      if (sorted_[low].first.size() == length) {
        found(sorted_[low].second, length);
        ++low;
      }
      if (length == text.size()) return;
      const auto next = static_cast<unsigned char>(text[length]);
      const auto byte = [&](uint32_t at) { return static_cast<unsigned char>(sorted_[at].first[length]); };
      uint32_t from = low, to = high;
      while (from < to) {
        const uint32_t middle = (from + to) / 2;
        if (byte(middle) < next) from = middle + 1;
        else to = middle;
      }
      low = from;
      for (to = high; from < to;) {
        const uint32_t middle = (from + to) / 2;
        if (byte(middle) <= next) from = middle + 1;
        else to = middle;
      }
      high = from;
    }
  }

 private:
  std::vector<std::pair<std::string_view, int32_t>> sorted_;
  TextSpan first_[256];  // of each first byte
};

// Appends "<0x..>" for each byte; false when one of them is missing.
bool bytes_of(const TokenTable& table, std::string_view text, size_t offset, bool each, std::vector<WordToken>& tokens) {
  const size_t before = tokens.size();
  for (size_t i = 0; i < text.size(); ++i) {
    const int32_t id = table.byte(static_cast<unsigned char>(text[i]));
    if (id < 0) return tokens.resize(before), false;
    tokens.push_back({id, each ? span_of(offset + i, offset + i + 1) : span_of(offset, offset + text.size())});
  }
  return true;
}

// Two ids and the rank and id of what they become: a table without deletions.
class MergeTable {
 public:
  struct Entry {
    uint64_t key = 0;  // 0: free
    uint32_t rank = 0;
    int32_t joined = -1;
  };

  explicit MergeTable(const std::vector<PairMerge>& merges) {
    size_t size = 16;
    while (size < merges.size() * 2) size *= 2;
    entries_.resize(size);
    for (size_t i = 0; i < merges.size(); ++i) {
      Entry& entry = place(key_of(merges[i].left, merges[i].right));
      entry = {key_of(merges[i].left, merges[i].right), static_cast<uint32_t>(i), merges[i].joined};  // the last one counts
    }
  }
  const Entry* find(int32_t left, int32_t right) const {
    const Entry& entry = const_cast<MergeTable*>(this)->place(key_of(left, right));
    return entry.key != 0 ? &entry : nullptr;
  }

 private:
  static uint64_t key_of(int32_t left, int32_t right) { return (static_cast<uint64_t>(left) + 1) << 32 | static_cast<uint32_t>(right); }
  Entry& place(uint64_t key) {
    size_t at = static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 20) & (entries_.size() - 1);
    while (entries_[at].key != 0 && entries_[at].key != key) at = (at + 1) & (entries_.size() - 1);
    return entries_[at];
  }
  std::vector<Entry> entries_;
};

struct Symbol {
  int32_t id;
  uint32_t from, to;
  int32_t before, after;  // neighbours; -1: none
};

struct SubwordsCandidate {
  uint32_t rank;
  int32_t left;
  int32_t joined;
  uint32_t to;  // where the pair ends: another length says that it is out of date
  bool operator<(const SubwordsCandidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
};

class PairModel : public SubwordModel {
 public:
  PairModel(const TokenTable& table, PairOptions options) : table_(table), options_(std::move(options)) {}

  void cut(std::string_view word, std::vector<WordToken>& tokens) const override {
    if (options_.whole_words)
      if (const int32_t id = table_.id(word); id >= 0) return tokens.push_back({id, span_of(0, word.size())});
    std::vector<Symbol> symbols = characters(word);
    merge(word, symbols);
    for (int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[static_cast<size_t>(i)].after) {
      const Symbol& symbol = symbols[static_cast<size_t>(i)];
      finish(word, symbol, tokens);
    }
  }

 protected:
  virtual std::vector<Symbol> characters(std::string_view word) const = 0;
  // The rank of the pair and what it becomes; false: nothing.
  virtual bool pair(std::string_view word, const Symbol& left, const Symbol& right, SubwordsCandidate& candidate) const = 0;
  virtual void finish(std::string_view /*word*/, const Symbol& symbol, std::vector<WordToken>& tokens) const {
    tokens.push_back({symbol.id, {symbol.from, symbol.to}});
  }

  static void append(std::vector<Symbol>& symbols, int32_t id, size_t from, size_t to) {
    const auto at = static_cast<int32_t>(symbols.size());
    if (at > 0) symbols.back().after = at;
    symbols.push_back({id, static_cast<uint32_t>(from), static_cast<uint32_t>(to), at - 1, -1});
  }

  void merge(std::string_view word, std::vector<Symbol>& symbols) const {
    std::vector<SubwordsCandidate> heap;
    const auto offer = [&](int32_t left) {
      if (left < 0 || symbols[static_cast<size_t>(left)].after < 0) return;
      const Symbol &first = symbols[static_cast<size_t>(left)], &second = symbols[static_cast<size_t>(first.after)];
      SubwordsCandidate candidate{.rank = 0, .left = left, .joined = -1, .to = second.to};
      if (!pair(word, first, second, candidate)) return;
      heap.push_back(candidate);
      std::push_heap(heap.begin(), heap.end());
    };
    for (size_t i = 0; i + 1 < symbols.size(); ++i) offer(static_cast<int32_t>(i));
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end());
      const SubwordsCandidate best = heap.back();
      heap.pop_back();
      Symbol& left = symbols[static_cast<size_t>(best.left)];
      if (left.to == left.from || left.after < 0) continue;  // it has been joined to another
      Symbol& right = symbols[static_cast<size_t>(left.after)];
      SubwordsCandidate again = best;
      if (right.to != best.to || !pair(word, left, right, again) || again.joined != best.joined) continue;
      left.id = best.joined;
      left.to = right.to;
      left.after = right.after;
      right.from = right.to;
      if (left.after >= 0) symbols[static_cast<size_t>(left.after)].before = best.left;
      offer(left.before);
      offer(best.left);
    }
  }

  const TokenTable& table_;
  PairOptions options_;
};

class RankedPairModel : public PairModel {
 public:
  RankedPairModel(const TokenTable& table, const std::vector<PairMerge>& merges, PairOptions options)
      : PairModel(table, std::move(options)), merges_(merges) {}

 protected:
  bool pair(std::string_view, const Symbol& left, const Symbol& right, SubwordsCandidate& candidate) const override {
    const MergeTable::Entry* const found = merges_.find(left.id, right.id);
    if (found == nullptr) return false;
    candidate.rank = found->rank, candidate.joined = found->joined;
    return true;
  }

  std::vector<Symbol> characters(std::string_view word) const override {
    std::vector<Symbol> symbols;
    std::vector<WordToken> bytes;
    std::string name;
    size_t unknown_from = 0, unknown_to = 0;  // not yet added
    const auto flush = [&] {
      if (unknown_to > unknown_from) append(symbols, options_.unknown, unknown_from, unknown_to);
      unknown_from = unknown_to = 0;
    };
    for (size_t i = 0; i < word.size();) {
      const size_t from = i;
      next_character(word, i);
      name.assign(from > 0 ? options_.prefix : "").append(word.substr(from, i - from));
      if (i == word.size()) name += options_.suffix;
      if (const int32_t id = table_.id(name); id >= 0) {
        flush();
        append(symbols, id, from, i);
        continue;
      }
      bytes.clear();
      if (options_.byte_fallback && bytes_of(table_, name, from, true, bytes)) {
        for (const WordToken& byte : bytes) append(symbols, byte.id, byte.span.from, byte.span.to);
        continue;
      }
      if (options_.unknown < 0) continue;
      if (!options_.fuse_unknown) flush();
      if (unknown_to == unknown_from) unknown_from = from;
      unknown_to = i;
    }
    flush();
    return symbols;
  }

 private:
  MergeTable merges_;
};

class ScoredPairModel : public PairModel {
 public:
  ScoredPairModel(const TokenTable& table, const std::vector<float>& scores, const std::vector<int32_t>& whole, PairOptions options)
      : PairModel(table, std::move(options)), ranks_(scores.size(), kNone) {
    std::vector<int32_t> order;
    for (size_t i = 0; i < scores.size(); ++i)
      if (std::isfinite(scores[i])) order.push_back(static_cast<int32_t>(i));
    const auto score = [&](int32_t id) { return scores[static_cast<size_t>(id)]; };
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return score(a) != score(b) ? score(a) > score(b) : a < b; });
    for (size_t i = 0; i < order.size(); ++i)
      ranks_[static_cast<size_t>(order[i])] =
          i > 0 && score(order[i]) == score(order[i - 1]) ? ranks_[static_cast<size_t>(order[i - 1])] : static_cast<uint32_t>(i);
    if (whole.empty()) return;
    std::vector<bool> wanted(scores.size());
    for (const int32_t id : whole) wanted[static_cast<size_t>(id)] = true;
    whole_.assign(table, wanted);
  }

 protected:
  bool pair(std::string_view word, const Symbol& left, const Symbol& right, SubwordsCandidate& candidate) const override {
    if (left.id == kWhole || right.id == kWhole) return false;
    candidate.joined = table_.id(word.substr(left.from, right.to - left.from));
    if (candidate.joined < 0 || ranks_[static_cast<size_t>(candidate.joined)] == kNone) return false;
    candidate.rank = ranks_[static_cast<size_t>(candidate.joined)];
    return true;
  }

  std::vector<Symbol> characters(std::string_view word) const override {
    std::vector<Symbol> symbols;
    for (size_t i = 0; i < word.size();) {
      size_t whole = 0;
      whole_.prefixes(word.substr(i), [&](int32_t, size_t length) { whole = length; });
      const size_t from = i;
      if (whole > 0) i += whole;
      else next_character(word, i);
      append(symbols, whole > 0 ? kWhole : 0, from, i);
    }
    return symbols;
  }

  void finish(std::string_view word, const Symbol& symbol, std::vector<WordToken>& tokens) const override {
    const std::string_view text = word.substr(symbol.from, symbol.to - symbol.from);
    if (const int32_t id = table_.id(text); id >= 0 && (symbol.id == kWhole || ranks_[static_cast<size_t>(id)] != kNone))
      return tokens.push_back({id, {symbol.from, symbol.to}});
    if (options_.byte_fallback && bytes_of(table_, text, symbol.from, false, tokens)) return;
    if (options_.unknown < 0) return;
    if (!tokens.empty() && tokens.back().id == options_.unknown && tokens.back().span.to == symbol.from) tokens.back().span.to = symbol.to;
    else tokens.push_back({options_.unknown, {symbol.from, symbol.to}});
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr int32_t kWhole = -2;
  std::vector<uint32_t> ranks_;
  SortedTokens whole_;
};

class UnigramModel : public SubwordModel {
 public:
  UnigramModel(const TokenTable& table, const std::vector<double>& scores, UnigramOptions options)
      : table_(table), scores_(scores), options_(options) {
    std::vector<bool> wanted(scores.size());
    for (size_t i = 0; i < scores.size(); ++i) wanted[i] = std::isfinite(scores[i]);
    sorted_.assign(table, wanted);
  }

  void cut(std::string_view word, std::vector<WordToken>& tokens) const override {
    std::vector<Best> best(word.size() + 1);
    best[0].from = 0;
    for (size_t at = 0; at < word.size();) {
      const double so_far = best[at].score;
      size_t end = at;
      next_character(word, end);
      bool single = false;
      const auto offer = [&](int32_t id, size_t to, double score) {
        // SentencePiece adds in single precision, except what is not of it: scores of the user's own symbols.
        const bool narrow = options_.single_precision && score == static_cast<double>(static_cast<float>(score));
        const double sum = narrow ? static_cast<double>(static_cast<float>(score) + static_cast<float>(so_far)) : score + so_far;
        Best& target = best[to];
        if (target.from != kNowhere && !(sum > target.score)) return;
        target = {id, static_cast<uint32_t>(at), options_.single_precision ? static_cast<double>(static_cast<float>(sum)) : sum};
      };
      sorted_.prefixes(word.substr(at), [&](int32_t id, size_t length) {
        offer(id, at + length, scores_[static_cast<size_t>(id)]);
        single = single || at + length == end;
      });
      if (!single) offer(options_.unknown, end, options_.unknown_score);
      at = end;
    }
    collect(word, best, tokens);
  }

 private:
  static constexpr uint32_t kNowhere = ~uint32_t{0};
  struct Best {
    int32_t id = -1;
    uint32_t from = kNowhere;
    double score = 0;
  };

  void collect(std::string_view word, const std::vector<Best>& best, std::vector<WordToken>& tokens) const {
    std::vector<WordToken> reversed;
    for (size_t end = word.size(); end > 0; end = best[end].from) {
      const Best& node = best[end];
      if (node.id == options_.unknown && !reversed.empty() && reversed.back().id == options_.unknown) reversed.back().span.from = node.from;
      else reversed.push_back({node.id, {node.from, static_cast<uint32_t>(end)}});
    }
    for (size_t i = reversed.size(); i-- > 0;) {
      const WordToken& token = reversed[i];
      const std::string_view text = word.substr(token.span.from, token.span.to - token.span.from);
      if (token.id == options_.unknown && options_.byte_fallback && bytes_of(table_, text, token.span.from, false, tokens)) continue;
      if (token.id >= 0) tokens.push_back(token);
    }
  }

  const TokenTable& table_;
  std::vector<double> scores_;
  UnigramOptions options_;
  SortedTokens sorted_;
};

}  // namespace

SubwordModelPtr word_model(const TokenTable& table, int32_t unknown) { return std::make_unique<WordModel>(table, unknown); }
SubwordModelPtr word_piece_model(const TokenTable& table, int32_t unknown, std::string prefix, int64_t limit) {
  return std::make_unique<WordPieceModel>(table, unknown, std::move(prefix), limit);
}
SubwordModelPtr pair_model(const TokenTable& table, const std::vector<PairMerge>& merges, PairOptions options) {
  return std::make_unique<RankedPairModel>(table, merges, std::move(options));
}
SubwordModelPtr scored_pair_model(const TokenTable& table, const std::vector<float>& scores, const std::vector<int32_t>& whole,
                                  PairOptions options) {
  return std::make_unique<ScoredPairModel>(table, scores, whole, std::move(options));
}
SubwordModelPtr unigram_model(const TokenTable& table, const std::vector<double>& scores, UnigramOptions options) {
  return std::make_unique<UnigramModel>(table, scores, options);
}

}  // namespace perigee
