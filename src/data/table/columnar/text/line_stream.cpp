#include "src/data/table/columnar/text/line_stream.h"

#include <algorithm>
#include <cstring>

#include "src/core/error.h"

namespace perigee::tables {
namespace {

constexpr size_t kBlockOfLines = size_t{1} << 18;

}  // namespace

void add_field(std::string_view field, char delimiter, char quote, bool quoted, std::string& made) {
  if (quote == 0 || (!quoted && field.find(delimiter) == field.npos && field.find(quote) == field.npos)) {
    made += field;
    return;
  }
  made += quote;
  for (const char c : field) made.append(c == quote ? 2 : 1, c);
  made += quote;
}

LineStream::LineStream(std::unique_ptr<ByteStream> inner, size_t longest, std::string where)
    : inner_(std::move(inner)), longest_(longest), where_(std::move(where)) {}

size_t LineStream::read(char* out, size_t size) {
  size_t got = 0;
  while (got < size) {
    if (at_ == made_.size() && !more()) break;
    const size_t count = std::min(size - got, made_.size() - at_);
    std::memcpy(out + got, made_.data() + at_, count);
    got += count, at_ += count;
  }
  return got;
}

// The next whole lines. False: there are none.
bool LineStream::more() {
  made_.clear();
  at_ = 0;
  while (made_.empty() && !ended_) {
    const size_t before = text_.size();
    text_.resize(before + kBlockOfLines);
    const size_t got = inner_->read(text_.data() + before, kBlockOfLines);
    text_.resize(before + got);
    ended_ = got < kBlockOfLines;
    size_t begin = 0;
    for (size_t line_end; (line_end = text_.find('\n', begin)) != text_.npos; begin = line_end + 1)
      next(std::string_view(text_).substr(begin, line_end - begin));
    if (ended_ && begin < text_.size()) next(std::string_view(text_).substr(begin)), begin = text_.size();
    text_.erase(0, begin);
    if (text_.size() > longest_)
      throw Error(ErrorKind::data, {.where = where_ + ":" + std::to_string(line_ + 1),
                                    .what = "a line does not end",
                                    .got = std::to_string(text_.size()) + " bytes",
                                    .expected = "lines of at most " + std::to_string(longest_ >> 20) + " MiB"});
    if (ended_) end(made_);
  }
  return !made_.empty();
}

void LineStream::next(std::string_view line) {
  ++line_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line_ == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  add(line, made_);
}

}  // namespace perigee::tables
