#include "src/data/table/columnar/text/sequences.h"

#include <algorithm>
#include <vector>

#include "src/core/error.h"
#include "src/data/table/columnar/text/line_stream.h"
#include "src/data/table/columnar/text/text_rows.h"
#include "src/data/table/reading/csv_rows.h"

namespace perigee::tables {
namespace {

constexpr size_t kLongestLineOfSequence = size_t{8} << 20, kMostTurnedCells = size_t{1} << 22;

class SequencesStream : public LineStream {
 public:
  SequencesStream(std::unique_ptr<ByteStream> inner, const Dialect& dialect, const std::string& where)
      : LineStream(std::move(inner), kLongestLineOfSequence, where),
        dialect_(dialect),
        rows_(dialect.sequences == "rows"),
        header_(rows_ && dialect.header.value_or(false)) {
    if (!dialect_.trim) dialect_.trim = true;
  }

 private:
  void add(std::string_view line, std::string& made) override {
    const std::string_view text = without_blanks(line);
    if (line_number() <= dialect_.skip) {
      made += '\n';  // which is passed by as it was
    } else if (text == without_blanks(dialect_.separator)) {
      end(made);
    } else if (!text.empty() && (dialect_.comment == 0 || text[0] != dialect_.comment)) {
      if (rows_) return add_row(line, made);
      add_line(line, made);
    }
    if (rows_ && line_number() > dialect_.skip) made += '\n';  // a row stands in the line where it stood
  }

  void end(std::string& made) override {
    for (size_t step = 0; step < longest_; ++step) {
      made += std::to_string(number_);
      for (const std::vector<std::string>& column : columns_) {
        made += dialect_.delimiter;
        if (step < column.size()) add_field(column[step], dialect_.delimiter, dialect_.quote, false, made);
        else if (!dialect_.missing.empty()) made += dialect_.missing.front();
      }
      made += '\n';
    }
    if (!columns_.empty() && first_ == 0) first_ = columns_.size();
    if (!columns_.empty() && columns_.size() != first_)
      throw Error(ErrorKind::data, {.where = place(),
                                    .what = "a sequence has not as many lines as the first one, and each is a column",
                                    .got = std::to_string(columns_.size()) + " lines before this one",
                                    .expected = std::to_string(first_),
                                    .hint = R"(sequences = "rows" or "joined" take any number)"});
    columns_.clear();
    longest_ = 0;
    inside_ = false;
  }

  void begin() {
    if (!inside_) ++number_;
    inside_ = true;
  }

  void add_row(std::string_view line, std::string& made) {
    if (!header_) begin();
    made += header_ ? kSequenceColumn : std::to_string(number_);
    made += dialect_.delimiter;
    made += line;
    made += '\n';
    header_ = false;
  }

  void add_line(std::string_view line, std::string& made) {
    begin();
    size_t at = 0;
    if (!next_row(line, dialect_, &at, &fields_))
      throw Error(ErrorKind::data, {.where = place(), .what = "the line has quotes that do not match"});
    if (fields_.size() > kMostFields)
      throw Error(
          ErrorKind::data,
          {.where = place(), .what = "the line of a sequence has too many fields", .expected = "at most " + std::to_string(kMostFields)});
    if (dialect_.sequences == "joined") {
      for (const std::string& field : fields_) {
        made += std::to_string(number_) + dialect_.delimiter;
        add_field(field, dialect_.delimiter, dialect_.quote, false, made);
        made += '\n';
      }
      return;
    }
    if (dialect_.sequences == "columns" && !columns_.empty() && fields_.size() != longest_)
      throw Error(ErrorKind::data, {.where = place(),
                                    .what = "the lines of a sequence have different lengths",
                                    .got = std::to_string(fields_.size()) + " fields",
                                    .expected = std::to_string(longest_),
                                    .hint = R"(sequences = "padded" takes what is missing at the end of a line for missing values)"});
    longest_ = std::max(longest_, fields_.size());
    if ((columns_.size() + 1) * longest_ > kMostTurnedCells)
      throw Error(ErrorKind::data, {.where = place(),
                                    .what = "a sequence is too large to have its lines as columns",
                                    .got = std::to_string(columns_.size() + 1) + " lines of up to " + std::to_string(longest_) + " fields",
                                    .expected = "at most " + std::to_string(kMostTurnedCells) + " cells",
                                    .hint = R"(sequences = "rows" has no such limit: a line for each step)"});
    columns_.push_back(std::move(fields_));
  }

  Dialect dialect_;
  bool rows_, header_, inside_ = false;
  int64_t number_ = 0;
  std::vector<std::vector<std::string>> columns_;  // the lines of a sequence that are turned at its end
  size_t longest_ = 0, first_ = 0;                 // of these lines; the lines of the first sequence
  std::vector<std::string> fields_;
};

}  // namespace

std::unique_ptr<ByteStream> stream_of_sequences(std::unique_ptr<ByteStream> stream, const Dialect& dialect, const std::string& where) {
  return std::make_unique<SequencesStream>(std::move(stream), dialect, where);
}

}  // namespace perigee::tables
