// Text as a sequence of units, characters or words, and the vocabulary that numbers them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/core/config.h"

namespace perigee {

// A character is a code point. A word is a run of letters and digits with the apostrophes between them ("don't"), at most 256 bytes of
// it at a time; any other visible character stands for itself, and blanks only separate.
struct TextUnits {
  bool words = false;
  bool lowercase = false;  // letters of the Latin, Greek and Cyrillic scripts

  bool operator==(const TextUnits&) const = default;
};

// Hands out a text unit by unit.
class UnitReader {
 public:
  // `offset` is where `text` begins in the file `where`. Both must outlive the reader.
  UnitReader(std::string_view text, TextUnits units, const std::string& where, uint64_t offset = 0)
      : text_(text), units_(units), where_(where), offset_(offset) {}
  // False at the end. Error(data) naming the byte for what is not UTF-8.
  bool next();
  std::string_view unit() const { return unit_; }         // valid until the next call of next()
  bool is_word() const { return is_word_; }               // of units that are words: letters or digits, no mark
  std::string place() const { return place_of(begin_); }  // "input.txt: byte 12"

 private:
  std::string place_of(size_t at) const { return where_ + ": byte " + std::to_string(offset_ + at); }
  size_t length_at(size_t at) const;
  bool find_word();
  size_t word_end() const;

  std::string_view text_, unit_;
  TextUnits units_;
  const std::string& where_;
  uint64_t offset_;
  size_t begin_ = 0, end_ = 0;  // of the unit in text_
  bool is_word_ = false;
  std::string lowered_;
};

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// How often each unit occurs.
class UnitCounts {
 public:
  // Error(resources) when there are more than 2^24 different ones.
  void add(UnitReader& reader);
  const std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>>& map() const { return counts_; }

 private:
  std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>> counts_;
};

struct VocabularyOptions {
  TextUnits units;
  bool unknown = true;  // number 0 stands for every unit that has no number of its own
  int64_t min_count = 1;
  int64_t max_size = 1 << 16;  // the unknown included
};

// Units and their numbers, the most frequent first, equally frequent ones in the order of their bytes. Immutable.
class Vocabulary {
 public:
  static constexpr int64_t kMaxSize = 1 << 20;
  static constexpr const char* kUnknown = "<unknown>";

  Vocabulary(const UnitCounts& counts, const VocabularyOptions& options);
  Vocabulary(Vocabulary&&) = default;
  Vocabulary(const Vocabulary&) = delete;  // its numbers are found by views of its names
  // From the output of to_json(). Error for anything else: a unit twice, one that no text of this kind has, more than kMaxSize.
  explicit Vocabulary(const Config& config);
  Json to_json() const;  // {"unit": "char", "lowercase": false, "unknown": true, "vocabulary": ["e", "t", ...]}

  int64_t size() const { return static_cast<int64_t>(names_.size()); }
  const TextUnits& units() const { return units_; }
  const std::vector<std::string>& names() const { return names_; }
  // That of the unknown for a unit without a number; -1 when there is no unknown.
  int64_t number(std::string_view unit) const;
  int64_t unknown() const { return unknown_ ? 0 : -1; }  // the number of the unknown; -1: there is none

 private:
  void number_names();

  TextUnits units_;
  bool unknown_;
  std::vector<std::string> names_;
  std::array<int32_t, 128> ascii_;  // of units of one byte: what most of a text is made of
  std::unordered_map<std::string_view, int32_t> others_;
};

}  // namespace perigee
