#include "src/io/lines.h"

#include <utility>

#include "src/core/error.h"

namespace perigee {

std::optional<std::string_view> LineReader::next() {
  constexpr size_t kPiece = size_t{1} << 16;
  size_t searched = begin_;
  for (;;) {
    if (const size_t end = bytes_.find('\n', searched); end != std::string::npos) {
      const std::string_view line = std::string_view(bytes_).substr(begin_, end - begin_);
      begin_ = searched = end + 1;
      if (std::exchange(leaves_out_, false)) continue;
      return line;
    }
    bytes_.erase(0, std::exchange(begin_, 0));
    if (bytes_.size() > kLongest) bytes_.clear(), leaves_out_ = true;
    searched = bytes_.size();
    if (!file_.is_open()) file_.open(path_, std::ios::binary);
    file_.clear();  // the end of the file may have moved
    bytes_.resize(searched + kPiece);
    file_.read(bytes_.data() + searched, static_cast<std::streamsize>(kPiece));
    bytes_.resize(searched + static_cast<size_t>(file_.gcount()));
    if (bytes_.size() == searched) return {};
  }
}

Json json_on_line(std::string_view line) {
  try {
    return Json::parse(line, "line");
  } catch (const Error&) {
    return {};
  }
}

}  // namespace perigee
