#include "src/data/table/columnar/text/lines.h"

#include "src/core/error.h"
#include "src/data/table/columnar/text/line_stream.h"
#include "src/data/table/expression/regex.h"

namespace perigee::tables {
namespace {

constexpr size_t kLongestLine = size_t{1} << 20;

class LinesStream : public LineStream {
 public:
  LinesStream(std::unique_ptr<ByteStream> inner, const std::string& pattern, int64_t skip, const std::string& where)
      : LineStream(std::move(inner), kLongestLine, where), pattern_(pattern, where + ": lines"), skip_(skip) {}

 private:
  void add(std::string_view line, std::string& made) override {
    if (line_number() > skip_ && line.find_first_not_of(" \t") != line.npos) {
      if (!pattern_.groups_of(line, groups_))
        throw Error(ErrorKind::data, {.where = place(),
                                      .what = "the line does not match the pattern 'lines'",
                                      .got = "'" + std::string(line.substr(0, 60)) + "'",
                                      .hint = "'skip' of the schema passes lines at the begin by; | takes lines of several kinds"});
      for (size_t g = 0; g < groups_.size(); ++g) {
        if (g > 0) made += ',';
        // One group alone that is empty would be a blank line.
        add_field(groups_[g], ',', '"', groups_[g].empty() && groups_.size() == 1, made);
      }
    }
    made += '\n';
  }

  Regex pattern_;
  int64_t skip_;
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
