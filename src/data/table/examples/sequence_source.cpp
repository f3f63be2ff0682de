#include "src/data/table/examples/sequence_source.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "src/core/error.h"
#include "src/data/arrays.h"
#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

constexpr size_t kMostSequenceSourceCategories = 1000, kFewSequenceSourceIntegers = 50;
constexpr int64_t kMostSequenceSourceElements = int64_t{1} << 34;

// How a column becomes numbers.
struct SequenceSourceMeaning {
  std::string name;
  std::vector<std::string> categories;  // sorted; empty: it is a number
  double mean = 0;                      // for what is missing
  size_t column = 0;
  int64_t width() const { return categories.empty() ? 1 : static_cast<int64_t>(categories.size()); }
};

Json names_json(const std::vector<std::string>& names) {
  Json list = Json::array();
  for (const std::string& name : names) list.push(name);
  return list;
}

// Says which field is the length of which.
class SequenceSource : public DataSource {
 public:
  explicit SequenceSource(SourcePtr inner) : inner_(std::move(inner)), fields_(inner_->fields()) {
    for (Field& field : fields_)
      if (field.role == FieldRole::length) field.of = "x";
  }
  int64_t size() const override { return inner_->size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override { inner_->read(key, slots); }
  void expect(std::span<const ReadKey> keys) const override { inner_->expect(keys); }
  SourceTraits traits() const override { return inner_->traits(); }

 private:
  SourcePtr inner_;
  std::vector<Field> fields_;
};

class SequenceReader {
 public:
  SequenceReader(const Config& config, const Frame& frame, const std::string& where, TableUse use)
      : config_(config), frame_(frame), where_(where), use_(use), bounds_(frame.bounds()), policy_(config.string("missing", "error")) {
    const Json* fitted = config.has("fitted") ? config.raw("fitted")->find("sequences") : nullptr;
    if (fitted != nullptr) take_fitted(*fitted);
    else fit();
    choose();
  }

  SourcePtr make() const {
    const auto count = static_cast<int64_t>(chosen_.size());
    int64_t width = 0, elements = 0;
    for (const SequenceSourceMeaning& meaning : features_) width += meaning.width();
    if (__builtin_mul_overflow(width * steps_, count, &elements) || elements > kMostSequenceSourceElements)
      throw Error(ErrorKind::resources,
                  {.where = where_,
                   .what = "the sequences are too large",
                   .got = std::to_string(count) + " of " + std::to_string(width) + " x " + std::to_string(steps_) + " numbers",
                   .hint = R"(a step {"slide": N} or {"length": N} makes shorter ones)"});
    Tensor x(Dtype::f32, {count, width, steps_}), n(Dtype::i64, {count}), row(Dtype::i64, {count});
    std::fill_n(x.data<float>(), x.elements(), 0.f);
    for (int64_t i = 0; i < count; ++i) {
      const auto [begin, end] = chosen_[static_cast<size_t>(i)];
      float* out = x.data<float>() + i * width * steps_;
      for (const SequenceSourceMeaning& meaning : features_) write_feature(meaning, begin, end, out), out += meaning.width() * steps_;
      n.data<int64_t>()[i] = end - begin;
      row.data<int64_t>()[i] = frame_.numbers.empty() ? i : frame_.numbers[static_cast<size_t>(end - 1)] - 1;
    }
    std::vector<NamedArray> arrays;
    arrays.push_back({.name = "x", .values = std::move(x), .where = where_});
    if (lengths_) arrays.push_back({.name = "n", .values = std::move(n), .where = where_, .role = FieldRole::length});
    if (use_ == TableUse::examples && !targets_.empty()) arrays.push_back(target_array());
    if (use_ == TableUse::records) arrays.push_back({.name = kRowField, .values = std::move(row), .where = where_});
    return std::make_shared<SequenceSource>(arrays_source("sequences " + where_, std::move(arrays), fitted()));
  }

 private:
  std::string place(const SequenceSourceMeaning& meaning, int64_t row) const {
    const int64_t number = frame_.numbers.empty() ? row + 1 : frame_.numbers[static_cast<size_t>(row)];
    return where_ + ": row " + std::to_string(number) + ": column '" + meaning.name + "'";
  }

  // --- The schema of the training part -----------------------------------------------------------------------------------------------

  size_t column_of(const Json& json, const char* key) const {
    if (json.is_string()) return frame_.schema.at(json.as_string(), config_.where() + ": " + key);
    const auto count = static_cast<int64_t>(frame_.columns.size());
    const int64_t number = json.is_int() ? json.as_int() : INT64_MIN, column = number < 0 && number >= -count ? number + count : number;
    if (column < 0 || column >= count)
      config_.fail(key, "is no column", shown(json),
                   "a name, or a number from " + std::to_string(-count) + " to " + std::to_string(count - 1));
    return static_cast<size_t>(column);
  }

  std::vector<size_t> columns_named(const char* key) const {
    std::vector<size_t> columns;
    const Json* list = config_.raw(key);
    if (list == nullptr || list->is_null()) return columns;
    if (!list->is_array()) return {column_of(*list, key)};
    for (const Json& each : list->as_array()) columns.push_back(column_of(each, key));
    return columns;
  }

  std::vector<size_t> target_columns() const {
    const Json* target = config_.raw("target");
    if (config_.has("targets")) return columns_named("targets");
    if (target != nullptr && target->is_bool() && !target->as_bool()) return {};
    if (target == nullptr || target->is_null()) return {frame_.columns.size() - 1};
    return {column_of(*target, "target")};
  }

  std::vector<std::string> categories_of(size_t c) const {
    std::set<std::string> found;
    for (int64_t r = 0; r < frame_.rows; ++r)
      if (!frame_.columns[c].is_missing(r)) {
        found.insert(cell_text(frame_.columns[c], frame_.schema.columns[c], r));
        if (found.size() > kMostSequenceSourceCategories)
          throw Error(ErrorKind::data, {.where = where_ + ": column '" + frame_.schema.columns[c].name + "'",
                                        .what = "the column has too many different texts",
                                        .expected = "at most 1000",
                                        .hint = "leave it out: drop"});
      }
    return {found.begin(), found.end()};
  }

  bool is_class(size_t c) const {
    const Type type = frame_.schema.columns[c].type;
    const std::string task = config_.string("task", "auto");
    if (task != "auto") return task == "classify";
    if (type == Type::text || type == Type::category || type == Type::boolean) return true;
    if (type != Type::integer) return false;
    std::set<int64_t> values;
    for (int64_t r = 0; r < frame_.rows && values.size() <= kFewSequenceSourceIntegers; ++r)
      if (!frame_.columns[c].is_missing(r)) values.insert(frame_.columns[c].whole[static_cast<size_t>(r)]);
    return values.size() <= kFewSequenceSourceIntegers;
  }

  void fit() {
    const std::vector<size_t> targets = target_columns(), dropped = columns_named("drop");
    std::vector<size_t> chosen = columns_named("features");
    const auto among = [](const std::vector<size_t>& list, size_t c) { return std::find(list.begin(), list.end(), c) != list.end(); };
    if (!config_.has("features"))
      for (size_t c = 0; c < frame_.columns.size(); ++c)
        if (frame_.columns[c].type != Type::time && !among(targets, c) && !among(dropped, c)) chosen.push_back(c);
    if (chosen.empty()) config_.fail("features", "leaves no column to learn from");
    for (const size_t c : chosen) features_.push_back(feature_of(c));
    for (const size_t c : targets) {
      targets_.push_back({.name = frame_.schema.columns[c].name, .column = c});
      if (targets.size() == 1 && is_class(c)) targets_[0].categories = categories_of(c);
      else if (!is_numeric(frame_.columns[c].type))
        throw Error(ErrorKind::data, {.where = where_ + ": column '" + targets_.back().name + "'",
                                      .what = "the target is no number",
                                      .got = type_text(frame_.columns[c].type)});
    }
    each_step_ = config_.string("target_steps", "last") == "each";
    if (each_step_ && targets_.size() > 1) config_.fail("target_steps", "takes one target", std::to_string(targets_.size()) + " targets");
    for (size_t s = 0; s + 1 < bounds_.size(); ++s) {
      const int64_t length = bounds_[s + 1] - bounds_[s];
      lengths_ |= steps_ > 0 && length != steps_;
      steps_ = std::max(steps_, length);
    }
  }

  SequenceSourceMeaning feature_of(size_t c) const {
    const Column& column = frame_.columns[c];
    SequenceSourceMeaning meaning{.name = frame_.schema.columns[c].name, .column = c};
    if (column.type == Type::list || column.type == Type::time)
      throw Error(ErrorKind::data, {.where = where_ + ": column '" + meaning.name + "'",
                                    .what = "the column is no feature of a step",
                                    .got = type_text(column.type),
                                    .hint = "leave it out, or derive numbers of it"});
    if (!is_numeric(column.type)) {
      meaning.categories = categories_of(c);
      if (meaning.categories.empty()) meaning.categories = {""};
      return meaning;
    }
    int64_t count = 0;
    for (int64_t r = 0; r < frame_.rows; ++r)
      if (!column.is_missing(r) && std::isfinite(column.number(r))) meaning.mean += column.number(r), ++count;
    if (count > 0) meaning.mean /= static_cast<double>(count);
    return meaning;
  }

  Json fitted() const {
    const auto list = [](const std::vector<SequenceSourceMeaning>& meanings) {
      Json json = Json::array();
      for (const SequenceSourceMeaning& each : meanings)
        json.push(Json(Json::Object{{"name", each.name}, {"categories", names_json(each.categories)}, {"mean", each.mean}}));
      return json;
    };
    return Json(Json::Object{{"sequences", Json(Json::Object{{"features", list(features_)},
                                                             {"targets", list(targets_)},
                                                             {"steps", steps_},
                                                             {"lengths", lengths_},
                                                             {"each", each_step_}})}});
  }

  std::vector<SequenceSourceMeaning> meanings_of(const Config& config, const char* key, bool needed) const {
    const Json* list = config.raw(key);
    std::vector<SequenceSourceMeaning> meanings;
    if (list == nullptr || !list->is_array()) config.fail(key, "must be a list");
    for (const Json& each : list->as_array()) {
      const Config one = config.element(each, key);
      SequenceSourceMeaning meaning{.name = one.string("name"), .categories = one.string_list("categories"), .mean = one.number("mean")};
      if (needed || frame_.schema.find(meaning.name) >= 0) meaning.column = frame_.schema.at(meaning.name, where_);
      meanings.push_back(std::move(meaning));
    }
    return meanings;
  }

  void take_fitted(const Json& json) {
    const Config fitted(json, config_.where() + ": fitted: sequences", ErrorKind::data);
    features_ = meanings_of(fitted, "features", true);
    targets_ = meanings_of(fitted, "targets", use_ == TableUse::examples);
    steps_ = fitted.integer_in("steps", 1, int64_t{1} << 32);
    lengths_ = fitted.boolean("lengths");
    each_step_ = fitted.boolean("each");
  }

  // --- Sequences and their numbers -----------------------------------------------------------------------------------------------

  // All but those whose target is not known.
  void choose() {
    for (size_t s = 0; s + 1 < bounds_.size(); ++s) {
      const int64_t begin = bounds_[s], end = bounds_[s + 1];
      if (begin == end) continue;
      bool known = true;
      for (const SequenceSourceMeaning& target : targets_)
        if (use_ == TableUse::examples && !each_step_) known &= !frame_.columns[target.column].is_missing(end - 1);
      if (!known) continue;
      if (end - begin > steps_ || (!lengths_ && end - begin != steps_))
        throw Error(ErrorKind::data, {.where = where_,
                                      .what = "a sequence has another length than those of the training data",
                                      .got = std::to_string(end - begin) + " rows",
                                      .expected = (lengths_ ? "at most " : "") + std::to_string(steps_),
                                      .hint = R"(a step {"length": )" + std::to_string(steps_) + R"(} cuts what is longer)"});
      chosen_.emplace_back(begin, end);
    }
    if (chosen_.empty()) throw Error(ErrorKind::data, {.where = where_, .what = "the steps leave no sequence that can be used"});
  }

  double number(const SequenceSourceMeaning& meaning, int64_t row) const {
    const Column& column = frame_.columns[meaning.column];
    if (!column.is_missing(row) && std::isfinite(column.number(row))) return column.number(row);
    if (policy_ == "mean") return meaning.mean;
    throw Error(ErrorKind::data, {.where = place(meaning, row),
                                  .what = "there is no value",
                                  .hint = R"(missing = "mean", or a step: {{impute = "*"}}, {{resample = ..., fill = "linear"}})"});
  }

  int64_t category(const SequenceSourceMeaning& meaning, int64_t row) const {
    const std::string text = cell_text(frame_.columns[meaning.column], frame_.schema.columns[meaning.column], row);
    const auto found = std::lower_bound(meaning.categories.begin(), meaning.categories.end(), text);
    return found != meaning.categories.end() && *found == text ? found - meaning.categories.begin() : -1;
  }

  void write_feature(const SequenceSourceMeaning& meaning, int64_t begin, int64_t end, float* out) const {
    for (int64_t r = begin; r < end; ++r) {
      if (meaning.categories.empty()) out[r - begin] = static_cast<float>(number(meaning, r));
      else if (const int64_t k = category(meaning, r); k >= 0) out[k * steps_ + r - begin] = 1;
    }
  }

  int64_t label(const SequenceSourceMeaning& target, int64_t row) const {
    if (frame_.columns[target.column].is_missing(row)) return -1;
    const int64_t k = category(target, row);
    if (k < 0)
      throw Error(
          ErrorKind::data,
          {.where = place(target, row),
           .what = "the class is none of the training data",
           .got = "'" + cell_text(frame_.columns[target.column], frame_.schema.columns[target.column], row) + "'",
           .hint = nearest_hint(cell_text(frame_.columns[target.column], frame_.schema.columns[target.column], row), target.categories)});
    return k;
  }

  NamedArray target_array() const {
    const auto count = static_cast<int64_t>(chosen_.size()), each = each_step_ ? steps_ : 1, many = static_cast<int64_t>(targets_.size());
    const SequenceSourceMeaning& first = targets_[0];
    NamedArray array{.name = "y", .where = where_};
    if (!first.categories.empty()) {
      array.class_names = first.categories;
      array.classes = static_cast<int64_t>(first.categories.size());
      array.label = !each_step_;
      array.values = each_step_ ? Tensor(Dtype::i64, {count, steps_}) : Tensor(Dtype::i64, {count});
      std::fill_n(array.values.data<int64_t>(), count * each, int64_t{-1});
      for (int64_t i = 0; i < count; ++i) {
        const auto [begin, end] = chosen_[static_cast<size_t>(i)];
        for (int64_t r = each_step_ ? begin : end - 1; r < end; ++r)
          array.values.data<int64_t>()[i * each + (each_step_ ? r - begin : 0)] = label(first, r);
      }
      return array;
    }
    array.values = each_step_ ? Tensor(Dtype::f32, {count, 1, steps_}) : Tensor(Dtype::f32, {count, many});
    std::fill_n(array.values.data<float>(), array.values.elements(), 0.f);
    for (int64_t i = 0; i < count; ++i) {
      const auto [begin, end] = chosen_[static_cast<size_t>(i)];
      for (int64_t r = begin; each_step_ && r < end; ++r)
        array.values.data<float>()[i * steps_ + r - begin] = static_cast<float>(number(first, r));
      for (int64_t k = 0; !each_step_ && k < many; ++k)
        array.values.data<float>()[i * many + k] = static_cast<float>(number(targets_[static_cast<size_t>(k)], end - 1));
    }
    return array;
  }

  const Config& config_;
  const Frame& frame_;
  std::string where_;
  TableUse use_;
  std::vector<int64_t> bounds_;
  std::string policy_;
  std::vector<SequenceSourceMeaning> features_, targets_;
  int64_t steps_ = 0;
  bool lengths_ = false, each_step_ = false;
  std::vector<std::pair<int64_t, int64_t>> chosen_;
};

}  // namespace

SourcePtr sequence_source(const Config& config, const Frame& frame, const std::string& where, TableUse use) {
  return SequenceReader(config, frame, where, use).make();
}

}  // namespace perigee::tables
