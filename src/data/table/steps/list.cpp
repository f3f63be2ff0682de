// list: reads lists of words that stand in texts.
#include <map>
#include <string_view>

#include "src/core/error.h"
#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

std::vector<std::string_view> split(std::string_view text, std::string_view by) {
  std::vector<std::string_view> parts;
  if (text.empty()) return parts;
  for (size_t at = 0;;) {
    const size_t end = by.empty() ? at + 1 : text.find(by, at);
    parts.push_back(text.substr(at, end - at));
    if (end == text.npos || (by.empty() && end >= text.size())) return parts;
    at = end + by.size();
  }
}

std::unique_ptr<Step> open_list(const Config& config, const StepContext& context) {
  std::map<std::string, int64_t, std::less<>> number_of;
  const std::vector<std::string> words = config.string_list("words");
  for (size_t i = 0; i < words.size(); ++i) number_of.emplace(words[i], static_cast<int64_t>(i));
  return step_of(
      [name = config.string("list"), new_name = config.string("new", ""), by = config.string("by", ","), as = config.string("as", "flags"),
       unknown = config.string("unknown", "ignore"), words, number_of, where = context.where](Frame& frame) {
        const size_t c = columns_of(frame, {name}, where, [](Type t) { return t == Type::text; }).at(0);
        const Column texts = frame.columns[c];
        std::vector<Column> flags(as == "flags" ? words.size() : 0, Column(Type::boolean));
        Column lists(Type::list);
        for (int64_t r = 0; r < frame.rows; ++r) {
          std::vector<int64_t> counts(words.size());
          std::vector<double> indices;
          for (const std::string_view part : texts.is_missing(r) ? std::vector<std::string_view>{} : split(texts.text(r), by)) {
            const auto found = number_of.find(part);
            if (found == number_of.end() && unknown == "error")
              throw Error(ErrorKind::data, {.where = where + ": row " + std::to_string(r + 1),
                                            .what = "the list has a word that is none of 'words'",
                                            .got = "'" + std::string(part.substr(0, 40)) + "'"});
            if (found == number_of.end()) continue;
            ++counts[static_cast<size_t>(found->second)];
            indices.push_back(static_cast<double>(found->second));
          }
          for (size_t i = 0; i < flags.size(); ++i) flags[i].add_whole(counts[i] > 0);
          if (as == "counts") lists.items.insert(lists.items.end(), counts.begin(), counts.end());
          if (as == "indices") lists.items.insert(lists.items.end(), indices.begin(), indices.end());
          lists.ends.push_back(lists.items.size());
        }
        frame.remove(c);
        const std::string to = new_name.empty() ? name : new_name;
        if (as != "flags") return frame.add({.name = to, .type = Type::list}, std::move(lists), static_cast<int64_t>(c));
        for (size_t i = 0; i < flags.size(); ++i)
          frame.add({.name = to + "[" + words[i] + "]", .type = Type::boolean}, std::move(flags[i]), static_cast<int64_t>(c + i));
      },
      true);
}

constexpr Option kList[] = {
    {"list", "name", nullptr, "a column of texts such as \"a,b,c\""},
    {"words", "list of names", nullptr, "what may stand in it"},
    {"by", "string", ",", "what stands between two words; empty: each byte is one"},
    {"as", "name", "flags", "a boolean for each word, a list of counts, or a list of numbers", {}, {"flags", "counts", "indices"}},
    {"new", "name", "the column's", "the name of the result"},
    {"unknown", "name", "ignore", "what becomes of other words", {}, {"ignore", "error"}}};

}  // namespace

extern const StepDef step_list;
const StepDef step_list{"list", "reads a list in a text", {.options = kList}, open_list};

}  // namespace perigee::tables
