// Steps on categories: category, index, one_hot, named, pivot.
#include <algorithm>
#include <map>
#include <set>

#include "src/core/error.h"
#include "src/data/table/loops/texts.h"
#include "src/data/table/spill/stored_values.h"
#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

constexpr size_t kMostCategories = 100'000, kMostOneHot = 10'000;

std::vector<std::string> string_list(const Json* json) {
  std::vector<std::string> list;
  if (json != nullptr && json->is_array())
    for (const Json& each : json->as_array())
      if (each.is_string()) list.push_back(each.as_string());
  return list;
}

Json names_json(const std::vector<std::string>& list) {
  Json json = Json::array();
  for (const std::string& each : list) json.push(each);
  return json;
}

std::string category_row(const std::string& where, int64_t row) { return where + ": row " + std::to_string(row + 1); }

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
    for (const auto& [name, list] : found_) json.set(name, names_json(list));
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
    bool few = spec.type != Type::text || add_texts(column, kMostCategories, texts, rows);
    for (int64_t r = 0; spec.type != Type::text && few && r < column.size(); ++r) {
      if (!column.is_missing(r)) values.insert(column.whole[static_cast<size_t>(r)]);
      few = values.size() <= kMostCategories;
    }
    if (!few)
      throw Error(ErrorKind::data, {.where = where_,
                                    .what = "the column '" + spec.name + "' has too many different values for categories",
                                    .expected = "at most " + std::to_string(kMostCategories),
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
        throw Error(ErrorKind::data, {.where = category_row(where_, row),
                                      .what = "the value is none of the categories of '" + spec.name + "'",
                                      .got = "'" + std::string(text.substr(0, 40)) + "'",
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
              throw Error(ErrorKind::data, {.where = category_row(where, r),
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

#define CATEGORIES \
  { "categories", "list of names", "those of the schema or of the training data", "what values there are" }
#define OTHER                                                                                              \
  {                                                                                                        \
    "other", "name", "missing", "what becomes of a value that is none of them", {}, { "missing", "error" } \
  }
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
#undef CATEGORIES
#undef OTHER

}  // namespace

extern const StepDef step_category, step_index, step_one_hot, step_named, step_pivot;
const StepDef step_category{"category", "makes texts or integers categories", {.options = kCategory}, open_category};
const StepDef step_index{"index", "makes categories their numbers", {.options = kIndex}, open_index};
const StepDef step_one_hot{"one_hot", "makes each category a column of 0 and 1", {.options = kOneHot}, open_one_hot};
const StepDef step_named{"named", "makes integers the categories that they number", {.options = kNamed}, open_named};
const StepDef step_pivot{"pivot", "spreads a column over columns by a category", {.options = kPivot}, open_pivot};

}  // namespace perigee::tables
