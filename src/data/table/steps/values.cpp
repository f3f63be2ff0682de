// Steps on what values mean: map, category, text, index, one_hot, pivot, list, bucket.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "src/core/error.h"
#include "src/data/table/loops/texts.h"
#include "src/data/table/spill/stored_values.h"
#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

constexpr size_t kMostValuesCategories = 100'000, kMostOneHot = 10'000;

std::string shown_text(std::string_view text) { return "'" + std::string(text.substr(0, 40)) + "'"; }

std::vector<std::string> string_list(const Json* json) {
  std::vector<std::string> list;
  if (json != nullptr && json->is_array())
    for (const Json& each : json->as_array())
      if (each.is_string()) list.push_back(each.as_string());
  return list;
}

Json values_json_of(const std::vector<std::string>& list) {
  Json json = Json::array();
  for (const std::string& each : list) json.push(each);
  return json;
}

std::string row_text(const std::string& where, int64_t row) { return where + ": row " + std::to_string(row + 1); }

std::unique_ptr<Step> open_map(const Config& config, const StepContext& context) {
  std::map<std::string, std::string, std::less<>> values;
  const Json* object = config.raw("values");
  if (object != nullptr && object->is_object())
    for (const auto& [from, to] : object->as_object())
      if (to.is_string()) values.emplace(from, to.as_string());
  const bool other = config.has("other");
  return step_of(
      [names = config.string_list("map"), values, keep = config.string_list("keep"), other, to = config.string("other", ""),
       where = context.where](Frame& frame) {
        for (const size_t c : columns_of(frame, names, where, [](Type t) { return t == Type::text || t == Type::category; })) {
          Column out(Type::text);
          for (int64_t r = 0; r < frame.rows; ++r) {
            if (frame.columns[c].is_missing(r)) {
              out.add_missing();
              continue;
            }
            const std::string text = cell_text(frame.columns[c], frame.schema.columns[c], r);
            const auto found = values.find(text);
            if (found != values.end()) out.add_text(found->second);
            else out.add_text(other && std::find(keep.begin(), keep.end(), text) == keep.end() ? to : text);
          }
          frame.columns[c] = std::move(out);
          frame.schema.columns[c] = {.name = frame.schema.columns[c].name, .type = Type::text};
        }
      },
      true);
}

// --- Categories ----------------------------------------------------------------------------------------------------------------

// To category, index or one-hot: all need the categories, which are given, the schema's, or those that the training data have.
class Categorise : public Step {
 public:
  enum class To { category, index, one_hot };
  Categorise(const Config& config, const StepContext& context, const char* key, To to)
      : names_(config.string_list(key)),
        where_(context.where),
        to_(to),
        given_(config.string_list("categories")),
        other_(config.string("other", "missing")) {
    if (to != To::one_hot) return;
    keep_ = config.boolean("keep", false);
    if (config.has("min") != config.has("max")) config.fail("min", "and max go together");
    if (!config.has("min")) return;
    const int64_t least = config.integer("min"), most = config.integer("max");
    if (most < least || most - least >= static_cast<int64_t>(kMostOneHot)) config.fail("max", "makes no range", std::to_string(most));
    for (int64_t i = least; i <= most; ++i) given_.push_back(std::to_string(i));
  }

  bool is_fitted() const override { return fitted_ || !given_.empty(); }

  void fit(const Frame& frame) override { fit(frame, nullptr); }
  bool fit_stored(const ChunkStore& table, const TableRoom&) override {
    for (const size_t c : columns_of(empty_frame(table.schema()), names_, where_, fits)) {
      const ColumnSpec& spec = table.schema().columns[c];
      TextTable texts;
      std::set<int64_t> values;
      if (spec.type == Type::category) found_[spec.name] = spec.categories;
      else {
        each_stored(table, c, [&](const Column& column) { add_values(column, spec, texts, values, nullptr); });
        list_values(spec, texts, values);
      }
    }
    return fitted_ = true;
  }
  void fit_and_apply(Frame& frame) override {
    Numbers numbers;
    fit(frame, &numbers);
    apply(frame, &numbers);
  }

  Json state() const override {
    if (!fitted_) return {};
    Json json = Json::object();
    for (const auto& [name, list] : found_) json.set(name, values_json_of(list));
    return json;
  }
  void set_state(const Config& state) override {
    for (const auto& [name, list] : state.json().as_object()) found_[name] = string_list(&list);
    fitted_ = true;
  }

  void apply(Frame& frame) const override { apply(frame, nullptr); }

 private:
  using Numbers = std::map<std::string, std::vector<int64_t>>;  // of the rows of columns by their names

  // The numbers of texts go to `numbers`: to look for each text again would cost as much as this.
  void fit(const Frame& frame, Numbers* numbers) {
    for (const size_t c : columns_of(frame, names_, where_, fits)) {
      const ColumnSpec& spec = frame.schema.columns[c];
      if (spec.type == Type::category) {
        found_[spec.name] = spec.categories;
        continue;
      }
      TextTable texts;
      std::set<int64_t> values;
      std::vector<int64_t>* const rows = numbers != nullptr && spec.type == Type::text ? &(*numbers)[spec.name] : nullptr;
      add_values(frame.columns[c], spec, texts, values, rows);
      const std::vector<std::string>& list = list_values(spec, texts, values);
      if (rows != nullptr) {
        std::vector<int64_t> places;
        for (size_t t = 0; t < texts.size(); ++t)
          places.push_back(std::lower_bound(list.begin(), list.end(), texts.text(t)) - list.begin());
        renumber(*rows, places);
      }
    }
    fitted_ = true;
  }

  // Adds what a column has. Error(data) for too much.
  void add_values(const Column& column, const ColumnSpec& spec, TextTable& texts, std::set<int64_t>& values,
                  std::vector<int64_t>* rows) const {
    bool few = spec.type != Type::text || add_texts(column, kMostValuesCategories, texts, rows);
    for (int64_t r = 0; spec.type != Type::text && few && r < column.size(); ++r) {
      if (!column.is_missing(r)) values.insert(column.whole[static_cast<size_t>(r)]);
      few = values.size() <= kMostValuesCategories;
    }
    if (!few)
      throw Error(ErrorKind::data, {.where = where_,
                                    .what = "the column '" + spec.name + "' has too many different values for categories",
                                    .expected = "at most " + std::to_string(kMostValuesCategories),
                                    .hint = "hash(x, n) makes n of them"});
  }
  const std::vector<std::string>& list_values(const ColumnSpec& spec, const TextTable& texts, const std::set<int64_t>& values) {
    auto& list = found_[spec.name];
    list.clear();
    for (size_t t = 0; t < texts.size(); ++t) list.emplace_back(texts.text(t));
    std::sort(list.begin(), list.end());
    for (const int64_t value : values) list.push_back(spec.type == Type::boolean ? (value ? "true" : "false") : std::to_string(value));
    return list;
  }

  void apply(Frame& frame, Numbers* known) const {
    std::vector<std::string> names;  // columns move where one becomes several
    for (const size_t column : columns_of(frame, names_, where_, fits)) names.push_back(frame.schema.columns[column].name);
    for (const std::string& name : names) {
      auto mine = known != nullptr ? known->extract(name) : Numbers::node_type();  // once: a column may be named twice
      apply_to(frame, frame.schema.at(name, where_), name, mine ? &mine.mapped() : nullptr);
    }
  }

  static bool fits(Type type) { return type == Type::text || type == Type::category || type == Type::integer || type == Type::boolean; }

  const std::vector<std::string>& categories_of(const std::string& name) const {
    const auto found = found_.find(name);
    if (given_.empty() && (found == found_.end() || found->second.empty()))
      throw Error(ErrorKind::data,
                  {.where = where_, .what = "the column '" + name + "' has no categories", .hint = "give them: categories = {...}"});
    return given_.empty() ? found->second : given_;
  }

  // The number of each row's category, -1 for none.
  std::vector<int64_t> numbers(const Column& column, const ColumnSpec& spec, const std::vector<std::string>& categories) const {
    std::map<std::string, int64_t, std::less<>> number_of;
    for (size_t i = 0; i < categories.size(); ++i) number_of.emplace(categories[i], static_cast<int64_t>(i));
    const auto find = [&](std::string_view text, int64_t row) {
      const auto found = number_of.find(text);
      if (found == number_of.end() && other_ == "error")
        throw Error(ErrorKind::data, {.where = row_text(where_, row),
                                      .what = "the value is none of the categories of '" + spec.name + "'",
                                      .got = shown_text(text),
                                      .hint = "other = \"missing\" makes such values missing"});
      return found == number_of.end() ? -1 : found->second;
    };
    if (spec.type == Type::text) {
      TextTable known;
      std::vector<int64_t> own;  // of each text of the table: the first category that has it
      for (size_t i = 0; i < categories.size(); ++i)
        if (known.add(categories[i]) == static_cast<int64_t>(own.size())) own.push_back(static_cast<int64_t>(i));
      std::vector<int64_t> found;
      find_texts(column, known, found);
      if (other_ == "error")
        for (int64_t r = 0; r < column.size(); ++r)
          if (found[static_cast<size_t>(r)] < 0 && !column.is_missing(r)) find(column.text(r), r);
      if (own.size() < categories.size())
        for (int64_t& number : found) number = number < 0 ? number : own[static_cast<size_t>(number)];
      return found;
    }
    std::vector<int64_t> out(static_cast<size_t>(column.size()), -1);
    std::vector<int64_t> of_old;  // of a category's numbers
    if (spec.type == Type::category) of_old.assign(spec.categories.size(), -2);
    for (int64_t r = 0; r < column.size(); ++r) {
      if (column.is_missing(r)) continue;
      const auto row = static_cast<size_t>(r);
      if (spec.type == Type::category) {
        int64_t& known = of_old[static_cast<size_t>(column.whole[row])];
        if (known == -2) known = find(spec.categories[static_cast<size_t>(column.whole[row])], r);
        out[row] = known;
      } else {
        out[row] = find(cell_text(column, spec, r), r);
      }
    }
    return out;
  }

  // `known`: the numbers of the rows, if they are known already.
  void apply_to(Frame& frame, size_t c, const std::string& name, std::vector<int64_t>* known) const {
    // A category keeps its own list unless another one is given or was measured.
    const bool own = given_.empty() && !found_.contains(name) && frame.schema.columns[c].type == Type::category;
    const std::vector<std::string> categories = own ? frame.schema.columns[c].categories : categories_of(name);
    Column& column = frame.columns[c];
    // Numbers of the same list are there already.
    const bool same = column.type == Type::category && column.missing.empty() && categories == frame.schema.columns[c].categories && !keep_;
    std::vector<int64_t> number = known != nullptr ? std::move(*known)
                                  : same           ? std::move(column.whole)
                                                   : numbers(column, frame.schema.columns[c], categories);
    if (to_ != To::one_hot) {
      Column out(to_ == To::category ? Type::category : Type::integer);
      if (std::any_of(number.begin(), number.end(), [](int64_t each) { return each < 0; })) {
        for (const int64_t each : number)
          if (each < 0) out.add_missing();
          else out.add_whole(each);
      } else {
        out.whole = std::move(number);
      }
      frame.columns[c] = std::move(out);
      frame.schema.columns[c] = {.name = name, .type = frame.columns[c].type};
      if (to_ == To::category) frame.schema.columns[c].categories = categories;
      return;
    }
    if (categories.size() > kMostOneHot)
      throw Error(ErrorKind::data, {.where = where_,
                                    .what = "the column '" + name + "' has too many categories",
                                    .got = std::to_string(categories.size()),
                                    .expected = "at most " + std::to_string(kMostOneHot)});
    auto at = static_cast<int64_t>(c);
    if (keep_) ++at;
    else frame.remove(c);
    std::vector<std::vector<int64_t>> hot(categories.size());
    tables::one_hot(number, hot);
    for (size_t i = 0; i < categories.size(); ++i) {
      Column ones(Type::integer);
      ones.whole = std::move(hot[i]);
      frame.add({.name = name + "[" + categories[i] + "]", .type = Type::integer}, std::move(ones), at++);
    }
  }

  std::vector<std::string> names_;
  std::string where_;
  To to_;
  std::vector<std::string> given_;
  std::string other_;
  bool keep_ = false, fitted_ = false;
  std::map<std::string, std::vector<std::string>> found_;
};

std::unique_ptr<Step> open_category(const Config& c, const StepContext& x) {
  return std::make_unique<Categorise>(c, x, "category", Categorise::To::category);
}
std::unique_ptr<Step> open_index(const Config& c, const StepContext& x) {
  return std::make_unique<Categorise>(c, x, "index", Categorise::To::index);
}
std::unique_ptr<Step> open_one_hot(const Config& c, const StepContext& x) {
  return std::make_unique<Categorise>(c, x, "one_hot", Categorise::To::one_hot);
}

// Integers that stand for names: number i is the i-th.
std::unique_ptr<Step> open_named(const Config& config, const StepContext& context) {
  return step_of(
      [names = config.string_list("named"), categories = config.string_list("categories"), where = context.where](Frame& frame) {
        for (const size_t c : columns_of(frame, names, where, [](Type t) { return t == Type::integer || t == Type::boolean; })) {
          Column& column = frame.columns[c];
          for (int64_t r = 0; r < frame.rows; ++r) {
            const int64_t value = column.whole[static_cast<size_t>(r)];
            if (!column.is_missing(r) && (value < 0 || value >= static_cast<int64_t>(categories.size())))
              throw Error(ErrorKind::data, {.where = row_text(where, r),
                                            .what = "the number stands for no category",
                                            .got = std::to_string(value),
                                            .expected = "0 to " + std::to_string(static_cast<int64_t>(categories.size()) - 1)});
          }
          column.type = Type::category;
          frame.schema.columns[c] = {.name = frame.schema.columns[c].name, .type = Type::category, .categories = categories};
        }
      },
      true);
}

// key, value -> key[a], key[b], ... with the value in that of the row's key and 0 in the others.
std::unique_ptr<Step> open_pivot(const Config& config, const StepContext& context) {
  return step_of(
      [key = config.string("pivot"), value = config.string("value"), where = context.where](Frame& frame) {
        const size_t k = frame.schema.at(key, where), v = frame.schema.at(value, where);
        if (frame.columns[k].type != Type::category || !is_numeric(frame.columns[v].type))
          throw Error(ErrorKind::data, {.where = where,
                                        .what = "the columns do not fit",
                                        .got = std::string(type_text(frame.columns[k].type)) + " and " + type_text(frame.columns[v].type),
                                        .expected = "a category and a number",
                                        .hint = "a step {\"category\": \"" + key + "\"} before it makes one"});
        const Column keys = frame.columns[k], values = frame.columns[v];
        const std::vector<std::string> categories = frame.schema.columns[k].categories;
        frame.remove(std::max(k, v));
        frame.remove(std::min(k, v));
        auto at = static_cast<int64_t>(k < v ? k : k - 1);
        for (size_t i = 0; i < categories.size(); ++i) {
          Column out(values.type);
          for (int64_t r = 0; r < frame.rows; ++r) {
            const bool here = !keys.is_missing(r) && keys.whole[static_cast<size_t>(r)] == static_cast<int64_t>(i);
            if (here) out.add_from(values, r);
            else if (out.type == Type::real) out.add_real(0);
            else out.add_whole(0);
          }
          frame.add({.name = key + "[" + categories[i] + "]", .type = values.type}, std::move(out), at++);
        }
      },
      true);
}

// --- Lists in a text -----------------------------------------------------------------------------------------------------------

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
              throw Error(ErrorKind::data,
                          {.where = row_text(where, r), .what = "the list has a word that is none of 'words'", .got = shown_text(part)});
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

// --- Buckets -------------------------------------------------------------------------------------------------------------------

class Bucket : public Step {
 public:
  Bucket(const Config& config, const StepContext& context)
      : names_(config.string_list("bucket")),
        where_(context.where),
        count_(config.integer_in("count", 2, 1000, 10)),
        by_quantiles_(config.string("by", "quantiles") == "quantiles") {
    if (const Json* edges = config.raw("edges"); edges != nullptr && edges->is_array())
      for (const Json& each : edges->as_array()) given_.push_back(each.as_number());
    if (!std::is_sorted(given_.begin(), given_.end(), std::less_equal<>())) config.fail("edges", "must ascend");
  }
  bool is_fitted() const override { return fitted_ || !given_.empty(); }

  void fit(const Frame& frame) override {
    for (const size_t c : columns_of(frame, names_, where_, is_numeric)) {
      std::vector<double> values;
      for (int64_t r = 0; r < frame.rows; ++r)
        if (const double x = frame.columns[c].number(r); std::isfinite(x)) values.push_back(x);
      std::sort(values.begin(), values.end());
      std::vector<double> chosen;
      for (const int64_t place : places(static_cast<int64_t>(values.size()))) chosen.push_back(values[static_cast<size_t>(place)]);
      set_edges(frame.schema.columns[c].name, chosen);
    }
    fitted_ = true;
  }
  bool fit_stored(const ChunkStore& table, const TableRoom& room) override {
    for (const size_t c : columns_of(empty_frame(table.schema()), names_, where_, is_numeric))
      set_edges(table.schema().columns[c].name, sorted_values_at(table, c, room, [this](int64_t count) { return places(count); }));
    return fitted_ = true;
  }
  Json state() const override {
    if (!fitted_) return {};
    Json json = Json::object();
    for (const auto& [name, edges] : found_) {
      Json list = Json::array();
      for (const double edge : edges) list.push(edge);
      json.set(name, std::move(list));
    }
    return json;
  }
  void set_state(const Config& state) override {
    for (const auto& [name, list] : state.json().as_object()) {
      auto& edges = found_[name];
      if (list.is_array())
        for (const Json& each : list.as_array())
          if (each.is_number()) edges.push_back(each.as_number());
    }
    fitted_ = true;
  }

  void apply(Frame& frame) const override {
    for (const size_t c : columns_of(frame, names_, where_, is_numeric)) {
      const std::string name = frame.schema.columns[c].name;
      const auto found = found_.find(name);
      const std::vector<double>& edges = given_.empty() && found != found_.end() ? found->second : given_;
      Column out(Type::category);
      for (int64_t r = 0; r < frame.rows; ++r) {
        const double x = frame.columns[c].number(r);
        if (std::isnan(x)) out.add_missing();
        else out.add_whole(std::upper_bound(edges.begin(), edges.end(), x) - edges.begin());
      }
      ColumnSpec spec{.name = name, .type = Type::category};
      for (size_t i = 0; i <= edges.size(); ++i)
        spec.categories.push_back(i == 0 ? (edges.empty() ? "all" : "< " + text(edges[0])) : ">= " + text(edges[i - 1]));
      frame.columns[c] = std::move(out);
      frame.schema.columns[c] = std::move(spec);
    }
  }

 private:
  // The places among the sorted values that edges come from: the quantiles, or the least and the greatest.
  std::vector<int64_t> places(int64_t count) const {
    std::vector<int64_t> list;
    if (count == 0) return list;
    if (!by_quantiles_) return {0, count - 1};
    for (int64_t i = 1; i < count_; ++i)
      list.push_back(static_cast<int64_t>(static_cast<double>(i) / static_cast<double>(count_) * static_cast<double>(count)));
    return list;
  }
  void set_edges(const std::string& name, const std::vector<double>& values) {
    auto& edges = found_[name];
    for (int64_t i = 1; i < count_ && !values.empty(); ++i) {
      const double edge = by_quantiles_
                              ? values[static_cast<size_t>(i - 1)]
                              : values.front() + static_cast<double>(i) / static_cast<double>(count_) * (values.back() - values.front());
      if (edges.empty() || edge > edges.back()) edges.push_back(edge);
    }
  }

  static std::string text(double x) {
    char digits[32];
    return std::string(digits, std::to_chars(digits, digits + sizeof digits, x).ptr);
  }

  std::vector<std::string> names_;
  std::string where_;
  int64_t count_;
  bool by_quantiles_, fitted_ = false;
  std::vector<double> given_;
  std::map<std::string, std::vector<double>> found_;
};

std::unique_ptr<Step> open_bucket(const Config& config, const StepContext& context) { return std::make_unique<Bucket>(config, context); }

#define CATEGORIES \
  { "categories", "list of names", "those of the schema or of the training data", "what values there are" }
#define OTHER                                                                                              \
  {                                                                                                        \
    "other", "name", "missing", "what becomes of a value that is none of them", {}, { "missing", "error" } \
  }
constexpr Option kMap[] = {{"map", "list of names", nullptr, "columns of texts"},
                           {"values", "{name: text, ...}", "{}", "old texts to new ones"},
                           {"other", "string", "as it is", "what all other texts become"},
                           {"keep", "list of names", "[]", "texts that 'other' leaves alone"}};
constexpr Option kCategory[] = {{"category", "list of names", nullptr, "columns of texts or integers"}, CATEGORIES, OTHER};
constexpr Option kIndex[] = {
    {"index", "list of names", nullptr, "the columns, which become the numbers of their categories"}, CATEGORIES, OTHER};
constexpr Option kOneHot[] = {{"one_hot", "list of names", nullptr, "the columns, each of which becomes NAME[CATEGORY] of 0 and 1"},
                              CATEGORIES,
                              OTHER,
                              {"min", "integer", "none", "of a column of integers: the first one"},
                              {"max", "integer", "none", "the last one"},
                              {"keep", "boolean", "false", "the column itself stays too"}};
constexpr Option kNamed[] = {{"named", "list of names", nullptr, "columns of integers, which number the categories"},
                             {"categories", "list of names", nullptr, "the names of 0, 1, ..."}};
constexpr Option kPivot[] = {{"pivot", "name", nullptr, "the category"}, {"value", "name", nullptr, "the column of numbers"}};
constexpr Option kList[] = {
    {"list", "name", nullptr, "a column of texts such as \"a,b,c\""},
    {"words", "list of names", nullptr, "what may stand in it"},
    {"by", "string", ",", "what stands between two words; empty: each byte is one"},
    {"as", "name", "flags", "a boolean for each word, a list of counts, or a list of numbers", {}, {"flags", "counts", "indices"}},
    {"new", "name", "the column's", "the name of the result"},
    {"unknown", "name", "ignore", "what becomes of other words", {}, {"ignore", "error"}}};
constexpr Option kBucket[] = {{"bucket", "list of names", nullptr, "columns of numbers"},
                              {"edges", "list of numbers", "measured", "where buckets begin, ascending"},
                              {"count", "integer", "10", "of the buckets that are measured", {2, 1000}},
                              {"by", "name", "quantiles", "equally many rows in each, or equal widths", {}, {"quantiles", "width"}}};
#undef CATEGORIES
#undef OTHER

}  // namespace

extern const StepDef step_map, step_category, step_index, step_one_hot, step_named, step_pivot, step_list, step_bucket;
const StepDef step_map{"map", "replaces whole texts", {.options = kMap}, open_map};
const StepDef step_category{"category", "makes texts or integers categories", {.options = kCategory}, open_category};
const StepDef step_index{"index", "makes categories their numbers", {.options = kIndex}, open_index};
const StepDef step_one_hot{"one_hot", "makes each category a column of 0 and 1", {.options = kOneHot}, open_one_hot};
const StepDef step_named{"named", "makes integers the categories that they number", {.options = kNamed}, open_named};
const StepDef step_pivot{"pivot", "spreads a column over columns by a category", {.options = kPivot}, open_pivot};
const StepDef step_list{"list", "reads a list in a text", {.options = kList}, open_list};
const StepDef step_bucket{"bucket", "makes numbers categories by ranges", {.options = kBucket}, open_bucket};

}  // namespace perigee::tables
