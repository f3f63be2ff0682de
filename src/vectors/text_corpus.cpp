#include "src/vectors/text_corpus.h"

#include <algorithm>
#include <array>

#include "src/core/error.h"
#include "src/io/archive/tar.h"
#include "src/io/archive/zip.h"
#include "src/io/codec/compress.h"
#include "src/io/confined.h"
#include "src/io/text.h"

namespace perigee {
namespace {

constexpr uint64_t kMaxTextCorpusBytes = uint64_t{1} << 42;
constexpr size_t kMaxDocuments = size_t{1} << 24;
constexpr int kMaxDepth = 16;
constexpr size_t kLeastPart = size_t{8} << 10, kLargestPart = size_t{256} << 10, kWantedParts = 256;

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) { return name.ends_with(ending); });
}

std::string_view without_packing(std::string_view name) {
  for (const std::string_view packed : {".gz", ".xz"})
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  return name;
}

bool is_text_name(std::string_view name) { return ends_with_any(without_packing(name), {".txt", ".text", ".cor"}); }
bool is_archive(std::string_view name) { return ends_with_any(name, {".zip", ".tgz"}) || without_packing(name).ends_with(".tar"); }

// 0: a blank or a mark; else the letter or digit, as a small letter in the second half.
struct Letters {
  std::array<char, 256> as_is{}, small{};
  constexpr Letters() {
    for (int c = 0; c < 128; ++c) {
      const bool upper = c >= 'A' && c <= 'Z', letter = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
      as_is[static_cast<size_t>(c)] = static_cast<char>(letter ? c : 0);
      small[static_cast<size_t>(c)] = static_cast<char>(upper ? c + 32 : letter ? c : 0);
    }
  }
};
constexpr Letters kLetters;

bool text_corpus_is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_ascii(std::string_view text) {
  unsigned char all = 0;
  for (const char c : text) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

}  // namespace

TextCorpus::TextCorpus(const std::vector<std::string>& paths, WordForm form) : form_(form) {
  for (const std::string& path : paths) add_path(path, 0);
  cut();
}

TextCorpus::TextCorpus(std::string_view text, const std::string& where, WordForm form) : form_(form) {
  add_text(where, text);
  cut();
}

void TextCorpus::add_text(std::string where, std::string_view text, std::shared_ptr<const FileContent> file) {
  if (documents_.size() == kMaxDocuments)
    throw Error(ErrorKind::resources,
                {.where = where, .what = "there are too many files", .expected = "at most " + std::to_string(kMaxDocuments)});
  bytes_ += text.size();
  documents_.push_back({std::move(where), text, std::move(file)});
}

void TextCorpus::add_archive(const std::string& path) {
  const auto file = std::make_shared<const FileContent>(FileContent::map(path, kMaxTextCorpusBytes - bytes_));
  const FileContent& content = *file;
  const size_t before = documents_.size();
  if (path.ends_with(".zip")) {
    for (const ZipEntry& entry : zip_entries(content.bytes(), path)) {
      if (!is_text_name(entry.name)) continue;
      const auto bytes = std::make_shared<const Bytes>(zip_content(content.bytes(), entry, path + ": " + entry.name));
      add_text(path + ": " + entry.name, as_text(*bytes));
      owners_.push_back(bytes);
    }
  } else {
    for (const TarEntry& entry : tar_entries(content.bytes(), path))
      if (is_text_name(entry.name)) add_text(path + ": " + entry.name, as_text(entry.content), file);
  }
  if (documents_.size() == before)
    throw Error(ErrorKind::data, {.where = path, .what = "the archive has no texts", .expected = "files whose names end in .txt or .text"});
}

void TextCorpus::add_path(const std::string& path, int depth) {
  if (folder_exists(path)) {
    const size_t before = documents_.size();
    for (const FolderEntry& entry : list_folder(path)) {
      if (entry.name.starts_with('.')) continue;
      const bool deeper = entry.folder && depth < kMaxDepth;
      if (deeper || (entry.file && (is_text_name(entry.name) || is_archive(entry.name)))) add_path(path + "/" + entry.name, depth + 1);
    }
    if (depth == 0 && documents_.size() == before)
      throw Error(ErrorKind::data,
                  {.where = path, .what = "the folder has no texts", .expected = "files whose names end in .txt or .text"});
    return;
  }
  expect_there(path);
  if (is_archive(path)) return add_archive(path);
  const auto file = std::make_shared<const FileContent>(FileContent::map(path, kMaxTextCorpusBytes - bytes_));
  add_text(path, as_text(file->bytes()), file);
}

// At the ends of lines, or at blanks where a line is longer than a part; how does not depend on the number of threads.
void TextCorpus::cut() {
  if (bytes_ == 0) throw Error(ErrorKind::data, {.where = documents_.empty() ? "" : documents_[0].where, .what = "there is no text"});
  const size_t wanted = std::clamp(static_cast<size_t>(bytes_ / kWantedParts), kLeastPart, kLargestPart);
  for (size_t document = 0; document < documents_.size(); ++document) {
    const std::string_view text = documents_[document].text;
    for (size_t begin = 0; begin < text.size();) {
      size_t end = std::min(begin + wanted, text.size());
      if (end < text.size()) {
        const size_t line = text.rfind('\n', end - 1);
        if (line != std::string_view::npos && line >= begin) end = line + 1;
        else
          while (end < text.size() && !text_corpus_is_blank(text[end])) ++end;
      }
      parts_.push_back({document, begin, end});
      begin = end;
    }
  }
}

void TextCorpus::leave(int64_t part) const {
  const std::string_view text = part_text(part);
  const auto& file = documents_[parts_[static_cast<size_t>(part)].document].file;
  if (file) file->forget(as_bytes(text));
}

std::vector<std::string> TextCorpus::names() const {
  std::vector<std::string> names;
  for (const Document& document : documents_) names.push_back(document.where);
  return names;
}

SentenceReader::SentenceReader(const TextCorpus& corpus, int64_t part)
    : corpus_(corpus),
      document_(corpus.documents_[corpus.parts_[static_cast<size_t>(part)].document]),
      at_(corpus.parts_[static_cast<size_t>(part)].begin),
      end_(corpus.parts_[static_cast<size_t>(part)].end) {}

bool SentenceReader::next(std::vector<std::string_view>& words) {
  words.clear();
  while (used_ == pending_.size()) {
    if (at_ >= end_) return false;
    pending_.clear();
    used_ = 0;
    const size_t begin = at_, newline = std::min(document_.text.find('\n', begin), end_);
    const std::string_view line = document_.text.substr(begin, newline - begin);
    at_ = newline + 1;
    if (corpus_.form_.blanks) blank_words(line, pending_);
    else if (is_ascii(line)) plain_words(line, pending_);
    else unicode_words(line, begin, pending_);
  }
  const size_t count = std::min(kLongest, pending_.size() - used_);
  words.assign(pending_.begin() + static_cast<std::ptrdiff_t>(used_), pending_.begin() + static_cast<std::ptrdiff_t>(used_ + count));
  used_ += count;
  return true;
}

void SentenceReader::blank_words(std::string_view line, std::vector<std::string_view>& words) {
  for (size_t at = 0; at < line.size();) {
    while (at < line.size() && text_corpus_is_blank(line[at])) ++at;
    const size_t begin = at;
    while (at < line.size() && !text_corpus_is_blank(line[at])) ++at;
    if (at > begin) words.push_back(line.substr(begin, at - begin));
  }
}

// The same as unicode_words(), for ASCII.
void SentenceReader::plain_words(std::string_view line, std::vector<std::string_view>& words) {
  constexpr size_t kMaxWordBytes = 256;
  const std::array<char, 256>& letters = corpus_.form_.lowercase ? kLetters.small : kLetters.as_is;
  const auto letter = [&](size_t at) { return letters[static_cast<unsigned char>(line[at])]; };
  lowered_.resize(line.size());
  for (size_t at = 0; at < line.size();) {
    while (at < line.size() && letter(at) == 0) ++at;
    const size_t begin = at;
    for (; at < line.size() && at - begin < kMaxWordBytes; ++at) {
      char c = letter(at);
      const bool joins =
          c == 0 && line[at] == '\'' && at > begin && at + 1 < line.size() && letter(at + 1) != 0 && at + 2 - begin <= kMaxWordBytes;
      if (joins) c = '\'';
      if (c == 0) break;
      lowered_[at] = c;
    }
    if (at > begin) words.push_back(std::string_view(lowered_).substr(begin, at - begin));
  }
}

void SentenceReader::unicode_words(std::string_view line, size_t offset, std::vector<std::string_view>& words) {
  UnitReader reader(line, {.words = true, .lowercase = corpus_.form_.lowercase}, document_.where, offset);
  std::vector<size_t> ends;
  lowered_.clear();
  while (reader.next()) {
    if (!reader.is_word()) continue;
    lowered_.append(reader.unit());
    ends.push_back(lowered_.size());
  }
  size_t begin = 0;
  for (const size_t end : ends) {
    words.push_back(std::string_view(lowered_).substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace perigee
