#include "src/data/table/columnar/text/lines.h"

#include <algorithm>
#include <cstring>

#include "src/core/error.h"
#include "src/data/table/expression/regex.h"

namespace perigee::tables {
namespace {

constexpr size_t kBlockOfLines = size_t{1} << 18, kLongestLine = size_t{1} << 20;

class LinesStream : public ByteStream {
 public:
  LinesStream(std::unique_ptr<ByteStream> inner, const std::string& pattern, int64_t skip, const std::string& where)
      : inner_(std::move(inner)), pattern_(pattern, where + ": lines"), skip_(skip), where_(where) {}

  size_t read(char* out, size_t size) override {
    size_t got = 0;
    while (got < size) {
      if (at_ == made_.size() && !more()) break;
      const size_t count = std::min(size - got, made_.size() - at_);
      std::memcpy(out + got, made_.data() + at_, count);
      got += count, at_ += count;
    }
    return got;
  }

 private:
  // The next whole lines, as CSV. False: there are none.
  bool more() {
    made_.clear();
    at_ = 0;
    while (made_.empty() && !ended_) {
      const size_t before = text_.size();
      text_.resize(before + kBlockOfLines);
      const size_t got = inner_->read(text_.data() + before, kBlockOfLines);
      text_.resize(before + got);
      ended_ = got < kBlockOfLines;
      size_t begin = 0;
      for (size_t end; (end = text_.find('\n', begin)) != text_.npos; begin = end + 1)
        add(std::string_view(text_).substr(begin, end - begin));
      if (ended_ && begin < text_.size()) add(std::string_view(text_).substr(begin)), begin = text_.size();
      text_.erase(0, begin);
      if (text_.size() > kLongestLine)
        throw Error(ErrorKind::data, {.where = where_ + ":" + std::to_string(line_ + 1),
                                      .what = "a line does not end",
                                      .got = std::to_string(text_.size()) + " bytes",
                                      .expected = "lines of at most 1 MiB"});
    }
    return !made_.empty();
  }

  void add(std::string_view line) {
    ++line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line_ == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
    if (line_ > skip_ && line.find_first_not_of(" \t") != line.npos) {
      if (!pattern_.groups_of(line, groups_))
        throw Error(ErrorKind::data, {.where = where_ + ":" + std::to_string(line_),
                                      .what = "the line does not match the pattern 'lines'",
                                      .got = "'" + std::string(line.substr(0, 60)) + "'",
                                      .hint = "'skip' of the schema passes lines at the begin by; | takes lines of several kinds"});
      for (size_t g = 0; g < groups_.size(); ++g) add_field(g, groups_[g]);
    }
    made_ += '\n';
  }

  void add_field(size_t number, std::string_view field) {
    if (number > 0) made_ += ',';
    // One group alone that is empty would be a blank line.
    const bool quoted = field.find_first_of(",\"") != field.npos || (field.empty() && groups_.size() == 1);
    if (!quoted) {
      made_ += field;
      return;
    }
    made_ += '"';
    for (const char c : field) made_.append(c == '"' ? 2 : 1, c);
    made_ += '"';
  }

  std::unique_ptr<ByteStream> inner_;
  Regex pattern_;
  int64_t skip_, line_ = 0;
  std::string where_, text_, made_;
  size_t at_ = 0;
  bool ended_ = false;
  std::vector<std::string_view> groups_;
};

}  // namespace

std::vector<std::string> names_of_groups(const std::string& pattern, const std::string& where) {
  std::vector<std::string> names = Regex(pattern, where + ": lines").group_names();
  if (names.empty())
    throw Error(ErrorKind::data, {.where = where + ": lines",
                                  .what = "the pattern has no groups, and each is a column",
                                  .got = "'" + pattern.substr(0, 60) + "'",
                                  .expected = R"~(such as "(?<host>\S+) (?<status>\d+)")~"});
  for (size_t g = 0; g < names.size(); ++g)
    if (names[g].empty()) names[g] = "c" + std::to_string(g);
  return names;
}

std::unique_ptr<ByteStream> stream_of_lines(std::unique_ptr<ByteStream> stream, const std::string& pattern, int64_t skip,
                                            const std::string& where) {
  return std::make_unique<LinesStream>(std::move(stream), pattern, skip, where);
}

}  // namespace perigee::tables
