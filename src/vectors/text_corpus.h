// Texts as sentences of words, read from files as they are needed: a line is a sentence. Files are plain text, also compressed (.gz, .xz), tar and
// ZIP archives of .txt files, and folders of all these. The text is cut into parts, which threads read side by side.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/io/codec/compress.h"

namespace perigee {

struct WordForm {
  bool blanks = false;  // a word is what stands between blanks; else a run of letters and digits (TextUnits), and marks are left out
  bool lowercase = true;

  bool operator==(const WordForm&) const = default;
};

class TextCorpus {
 public:
  // Error(data) for what is not there or has no text.
  TextCorpus(const std::vector<std::string>& paths, WordForm form);
  // A text in memory, which must outlive this.
  TextCorpus(std::string_view text, const std::string& where, WordForm form);

  const WordForm& form() const { return form_; }
  uint64_t bytes() const { return bytes_; }
  int64_t parts() const { return static_cast<int64_t>(parts_.size()); }
  std::vector<std::string> names() const;  // of the documents: each file, or each entry of an archive
  // The bytes of a part as they stand in its file, and the document that it belongs to.
  std::string_view part_text(int64_t part) const {
    const Part& at = parts_[static_cast<size_t>(part)];
    return documents_[at.document].text.substr(at.begin, at.end - at.begin);
  }
  // The part is not read for a while: its pages need not stay in memory.
  void leave(int64_t part) const;
  int64_t document(int64_t part) const { return static_cast<int64_t>(parts_[static_cast<size_t>(part)].document); }

 private:
  friend class SentenceReader;
  struct Document {
    std::string where;
    std::string_view text;
    std::shared_ptr<const FileContent> file = nullptr;  // that the text lies in as it is
  };
  struct Part {
    size_t document;
    size_t begin, end;
  };
  void add_path(const std::string& path, int depth);
  void add_archive(const std::string& path);
  void add_text(std::string where, std::string_view text, std::shared_ptr<const FileContent> file = nullptr);
  void cut();

  WordForm form_;
  std::vector<Document> documents_;
  std::vector<Part> parts_;
  std::vector<std::shared_ptr<const void>> owners_;
  uint64_t bytes_ = 0;
};

// The sentences of one part.
class SentenceReader {
 public:
  SentenceReader(const TextCorpus& corpus, int64_t part);
  // A sentence of at most kLongest words, which hold until the next call. False at the end. Error(data) naming the byte for what is not UTF-8.
  bool next(std::vector<std::string_view>& words);

  static constexpr size_t kLongest = 10000;

 private:
  void blank_words(std::string_view line, std::vector<std::string_view>& words);
  void plain_words(std::string_view line, std::vector<std::string_view>& words);
  void unicode_words(std::string_view line, size_t offset, std::vector<std::string_view>& words);

  const TextCorpus& corpus_;
  const TextCorpus::Document& document_;
  size_t at_, end_;
  std::string lowered_;
  std::vector<std::string_view> pending_;
  size_t used_ = 0;
};

}  // namespace perigee
