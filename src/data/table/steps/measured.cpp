// Steps that measure columns of the training data: normalize, impute.
#include <algorithm>
#include <cmath>
#include <map>

#include "src/core/error.h"
#include "src/data/table/loops/gather.h"
#include "src/data/table/loops/measures.h"
#include "src/data/table/spill/stored_values.h"
#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

struct Measured {
  double mean = 0, stdev = 1, min = 0, max = 1, median = 0;
};

constexpr const char* kMeasuredNames[] = {"mean", "stdev", "min", "max", "median"};

double& member(Measured& m, size_t i) { return i == 0 ? m.mean : i == 1 ? m.stdev : i == 2 ? m.min : i == 3 ? m.max : m.median; }

// The median costs more than the rest, and only `median` needs it.
Measured measured_measure(const Column& column, bool median) {
  Measured m;
  std::vector<double> values;
  const bool plain = column.type == Type::real && column.missing.empty();
  if (!plain || median)
    for (int64_t r = 0; r < column.size(); ++r)
      if (const double x = column.number(r); std::isfinite(x)) values.push_back(x);
  const Measures found = measures_of(plain ? column.real : values);
  if (found.count == 0) return m;
  m.mean = found.mean;
  m.stdev = found.count > 1 ? std::sqrt(found.squares / static_cast<double>(found.count - 1)) : 0;
  m.min = found.least;
  m.max = found.most;
  if (!median) return m;
  const auto half = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  m.median = values.size() % 2 ? *half : (*std::max_element(values.begin(), half) + *half) / 2;
  return m;
}

Measured measured_stored(const ChunkStore& table, size_t column, bool median, const TableRoom& room) {
  Measured m;
  MeasuredParts parts;
  const bool plain = table.schema().columns[column].type == Type::real && !table.has_gaps(column);
  each_stored(table, column, [&](const Column& chunk) {
    if (plain) return parts.add(chunk.real);
    std::vector<double> values;
    for (int64_t r = 0; r < chunk.size(); ++r)
      if (const double x = chunk.number(r); std::isfinite(x)) values.push_back(x);
    parts.add(values);
  });
  const Measures found = parts.result();
  if (found.count == 0) return m;
  m.mean = found.mean;
  m.stdev = found.count > 1 ? std::sqrt(found.squares / static_cast<double>(found.count - 1)) : 0;
  m.min = found.least;
  m.max = found.most;
  if (!median) return m;
  const std::vector<double> middle = sorted_values_at(table, column, room, [](int64_t count) {
    return count % 2 ? std::vector<int64_t>{count / 2} : std::vector<int64_t>{count / 2 - 1, count / 2};
  });
  m.median = middle.size() == 1 ? middle[0] : (middle[0] + middle[1]) / 2;
  return m;
}

class MeasuredStep : public Step {
 public:
  MeasuredStep(const Config& config, const StepContext& context, const char* key)
      : names_(config.string_list(key)), where_(context.where) {}
  bool is_fitted() const override { return fitted_; }
  Json state() const override {
    Json json = Json::object();
    for (const auto& [name, kept] : of_) {
      Measured copy = kept;
      Json each = Json::object();
      for (size_t i = 0; i < 5; ++i) each.set(kMeasuredNames[i], member(copy, i));
      if (const auto text = text_.find(name); text != text_.end()) each.set("mode", text->second);
      json.set(name, std::move(each));
    }
    return json;
  }
  void set_state(const Config& state) override {
    for (const auto& [name, each] : state.json().as_object()) {
      const Config values = state.element(each, name);
      Measured& m = of_[name];
      for (size_t i = 0; i < 5; ++i) member(m, i) = values.number(kMeasuredNames[i], 0);
      if (values.has("mode")) text_[name] = values.string("mode");
    }
    fitted_ = true;
  }

 protected:
  const Measured& measured(const std::string& name) const {
    const auto found = of_.find(name);
    if (found != of_.end()) return found->second;
    throw Error(ErrorKind::data, {.where = where_, .what = "the column '" + name + "' was not measured on the training data"});
  }

  std::vector<std::string> names_;
  std::string where_;
  bool fitted_ = false;
  std::map<std::string, Measured> of_;
  std::map<std::string, std::string> text_;  // the most frequent value
};

class Normalize : public MeasuredStep {
 public:
  Normalize(const Config& config, const StepContext& context)
      : MeasuredStep(config, context, "normalize"),
        by_(config.string("by", "standard")),
        low_(config.number("low", 0)),
        high_(config.number("high", 1)),
        scale_(config.number("scale", 1)) {
    bool given = false;
    for (size_t i = 0; i < 4; ++i)
      if (config.has(kMeasuredNames[i])) member(given_, i) = config.number(kMeasuredNames[i]), given = true;
    fitted_ = given;
    all_given_ = given;
  }

  void fit(const Frame& frame) override {
    for (const size_t c : columns_of(frame, names_, where_, is_numeric))
      of_[frame.schema.columns[c].name] = measured_measure(frame.columns[c], false);
    fitted_ = true;
  }
  bool fit_stored(const ChunkStore& table, const TableRoom& room) override {
    for (const size_t c : columns_of(empty_frame(table.schema()), names_, where_, is_numeric))
      of_[table.schema().columns[c].name] = measured_stored(table, c, false, room);
    return fitted_ = true;
  }
  Json state() const override { return all_given_ ? Json() : MeasuredStep::state(); }

  void apply(Frame& frame) const override {
    for (const size_t c : columns_of(frame, names_, where_, is_numeric)) {
      const Measured m = all_given_ ? given_ : measured(frame.schema.columns[c].name);
      Column out(Type::real);
      // Constant columns become 0 and no NaN.
      const double range = m.max > m.min ? m.max - m.min : 1, stdev = m.stdev > 0 ? m.stdev : 1;
      const bool simple = by_ == "standard" || by_ == "mean";
      if (simple) {
        // Where it lies: new memory would cost more than the computation.
        if (frame.columns[c].type == Type::real)
          out = std::move(frame.columns[c]), scale_and_move(m.mean, by_ == "mean" ? 1 : stdev, out.real);
        else
          scale_and_move(frame.columns[c], m.mean, by_ == "mean" ? 1 : stdev, out.real), out.missing = std::move(frame.columns[c].missing);
      }
      if (!simple) out.reserve(frame.rows);
      for (int64_t r = 0; !simple && r < frame.rows; ++r) {
        if (frame.columns[c].is_missing(r)) {
          out.add_missing();
          continue;
        }
        const double x = frame.columns[c].number(r);
        if (by_ == "range") out.add_real(low_ + (x - m.min) / range * (high_ - low_));
        else out.add_real(scale_ * std::log2((x - m.min) / (m.mean > m.min ? m.mean - m.min : 1) + 1));
      }
      frame.columns[c] = std::move(out);
      frame.schema.columns[c] = {.name = frame.schema.columns[c].name, .type = Type::real};
    }
  }

 private:
  std::string by_;
  double low_, high_, scale_;
  Measured given_;
  bool all_given_ = false;
};

class Impute : public MeasuredStep {
 public:
  Impute(const Config& config, const StepContext& context) : MeasuredStep(config, context, "impute"), by_(config.string("by", "mean")) {
    if (const Json* value = config.raw("value"); value != nullptr && !value->is_null()) {
      by_ = "value";
      value_ = value->is_string() ? value->as_string() : value->dump();
    }
    fitted_ = by_ == "value" || by_ == "previous";
  }
  bool by_rows() const override { return by_ != "previous"; }
  bool by_sequences() const override { return true; }

  void fit(const Frame& frame) override {
    for (const size_t c : columns_of(frame, names_, where_)) {
      const ColumnSpec& spec = frame.schema.columns[c];
      if (!by_text(spec)) {
        of_[spec.name] = measured_measure(frame.columns[c], by_ == "median");
        continue;
      }
      std::map<std::string, int64_t> counts;
      for (int64_t r = 0; r < frame.rows; ++r)
        if (!frame.columns[c].is_missing(r)) ++counts[cell_text(frame.columns[c], spec, r)];
      int64_t most = 0;
      std::string mode;
      for (const auto& [text, count] : counts)
        if (count > most) most = count, mode = text;
      of_[spec.name] = {};
      text_[spec.name] = mode;
    }
    fitted_ = true;
  }
  bool fit_stored(const ChunkStore& table, const TableRoom& room) override {
    for (const size_t c : columns_of(empty_frame(table.schema()), names_, where_)) {
      const ColumnSpec& spec = table.schema().columns[c];
      if (by_text(spec)) of_[spec.name] = {}, text_[spec.name] = most_frequent(table, c, room);
      else of_[spec.name] = measured_stored(table, c, by_ == "median", room);
    }
    return fitted_ = true;
  }
  Json state() const override { return of_.empty() ? Json() : MeasuredStep::state(); }

  void apply(Frame& frame) const override {
    for (const size_t c : columns_of(frame, names_, where_)) {
      Column& column = frame.columns[c];
      ColumnSpec& spec = frame.schema.columns[c];
      if (by_ != "previous") {
        Column one = filling(spec);
        // The mean of integers is a real number.
        if (one.type != column.type && spec.type != Type::text) {
          Column real(Type::real);
          for (int64_t r = 0; r < frame.rows; ++r)
            if (column.is_missing(r)) real.add_missing();
            else real.add_real(column.number(r));
          column = std::move(real);
          spec = {.name = spec.name, .type = Type::real};
        }
        if (!column.missing.empty()) fill(column, [&](Column& out, int64_t) { out.add_from(one, 0); });
        continue;
      }
      if (column.missing.empty()) continue;
      const std::vector<int64_t> bounds = frame.bounds();
      fill(column, [&](Column& out, int64_t r) {
        const bool first = std::find(bounds.begin(), bounds.end(), r) != bounds.end();
        if (first) out.add_missing();
        else {
          const Column copy = out.rows({r - 1});  // what was filled in before counts
          out.add_from(copy, 0);
        }
      });
    }
  }

 private:
  // Whether the most frequent text fills it in. Error(data) where that was not asked for, and nothing else would do.
  bool by_text(const ColumnSpec& spec) const {
    if (by_ != "mode" && is_numeric(spec.type)) return false;
    if (by_ != "mode" && (names_.size() != 1 || names_[0] != "*"))
      throw Error(ErrorKind::data, {.where = where_,
                                    .what = "the column '" + spec.name + "' has no " + by_,
                                    .got = type_text(spec.type),
                                    .expected = "a number",
                                    .hint = "by = \"mode\" takes the most frequent value"});
    return true;
  }

  template <class F>
  static void fill(Column& column, F&& value) {
    Column out(column.type);
    for (int64_t r = 0; r < column.size(); ++r)
      if (column.is_missing(r)) value(out, r);
      else out.add_from(column, r);
    if (std::find(out.missing.begin(), out.missing.end(), 1) == out.missing.end()) out.missing.clear();
    column = std::move(out);
  }

  Column filling(const ColumnSpec& spec) const {
    const auto mode = text_.find(spec.name);
    const bool text = by_ == "value" || mode != text_.end();
    if (!text) {
      const double x = by_ == "median" ? measured(spec.name).median : measured(spec.name).mean;
      Column one(spec.type == Type::integer && x == std::floor(x) ? Type::integer : Type::real);
      if (one.type == Type::integer) one.add_whole(static_cast<int64_t>(x));
      else one.add_real(x);
      return one;
    }
    Column one(spec.type);
    const std::string& value = by_ == "value" ? value_ : mode->second;
    if (add_parsed(spec, value, one)) return one;
    if (by_ != "value") return one.add_missing(), one;
    if (spec.type == Type::integer) {
      Column real(Type::real);
      if (add_parsed({.type = Type::real}, value, real)) return real;
    }
    throw Error(ErrorKind::data, {.where = where_,
                                  .what = "the value does not fit the column '" + spec.name + "'",
                                  .got = "'" + value.substr(0, 40) + "'",
                                  .expected = std::string("a ") + type_text(spec.type)});
  }

  std::string by_, value_;
};

std::unique_ptr<Step> open_normalize(const Config& config, const StepContext& context) {
  return std::make_unique<Normalize>(config, context);
}
std::unique_ptr<Step> open_impute(const Config& config, const StepContext& context) { return std::make_unique<Impute>(config, context); }

constexpr Option kNormalize[] = {{"normalize", "list of names", nullptr, "columns of numbers; \"*\": all"},
                                 {"by",
                                  "name",
                                  "standard",
                                  "(x - mean) / stdev; to low .. high; x - mean; scale * log2((x - min) / (mean - min) + 1)",
                                  {},
                                  {"standard", "range", "mean", "log2"}},
                                 {"low", "number", "0", "of range"},
                                 {"high", "number", "1", "of range"},
                                 {"scale", "number", "1", "of log2"},
                                 {"mean", "number", "measured", "of all columns named"},
                                 {"stdev", "number", "measured", "of a sample (n - 1)"},
                                 {"min", "number", "measured", ""},
                                 {"max", "number", "measured", ""}};
constexpr Option kImpute[] = {
    {"impute", "list of names", nullptr, "columns whose missing values are filled in; \"*\": all"},
    {"by", "name", "mean", "of the training data, or the value before", {}, {"mean", "median", "mode", "previous"}},
    {"value", "any", "none", "fills in this one"}};

}  // namespace

extern const StepDef step_normalize, step_impute;
const StepDef step_normalize{"normalize", "shifts and scales numbers", {.options = kNormalize}, open_normalize};
const StepDef step_impute{"impute", "fills in what is missing", {.options = kImpute}, open_impute};

}  // namespace perigee::tables
