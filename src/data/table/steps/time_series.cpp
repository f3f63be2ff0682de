// Steps on rows in time: resample, lags, seasonal, slide, smooth.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>

#include "src/core/error.h"
#include "src/data/table/columnar/column_values.h"
#include "src/data/table/spill/neighbours.h"
#include "src/data/table/steps.h"
#include "src/data/table/steps/aggregate.h"
#include "src/data/table/time_text.h"

namespace perigee::tables {
namespace {

constexpr int64_t kMostTimeSeriesRows = 100'000'000;

const Column& time_column(const Frame& frame, const std::string& name, const std::string& where) {
  return frame.columns[columns_of(frame, {name}, where, [](Type t) { return t == Type::time || t == Type::integer; }).at(0)];
}

[[noreturn]] void too_many(const std::string& where, const char* hint) {
  throw Error(ErrorKind::resources,
              {.where = where, .what = "the step makes too many rows", .expected = "at most 100 million", .hint = hint});
}

// --- resample ------------------------------------------------------------------------------------------------------------------

class Resample : public Step {
 public:
  Resample(const Config& config, const StepContext& context)
      : time_(config.string("resample")),
        mask_(config.string("mask", "")),
        fill_(config.string("fill", "missing")),
        where_(context.where),
        every_(span_ms(config.string("every"), context.where)),
        shift_(config.has("shift") ? span_ms(config.string("shift"), context.where) : 0) {
    if (every_ < 1) config.fail("every", "must be longer", config.string("every"), "1 ms or more");
    const std::vector<std::string> known(std::begin(kAggregates), std::end(kAggregates));
    default_ = config.choice("op", "mean", known);
    const Json* ops = config.raw("ops");
    if (ops == nullptr || ops->is_null()) return;
    for (const auto& [column, op] : ops->as_object()) {
      if (!op.is_string() || std::find(known.begin(), known.end(), op.as_string()) == known.end())
        config.fail("ops", "names no aggregate for '" + column + "'", shown(op), "an aggregate as of group: mean, last, ...");
      ops_[column] = op.as_string();
    }
  }

  bool by_rows() const override { return false; }
  bool by_sequences() const override { return true; }

  void apply(Frame& frame) const override {
    for (const auto& [column, op] : ops_) frame.schema.at(column, where_);
    const Grid grid = make_grid(frame);
    const bool had = !frame.sequences.empty();
    Frame out{.rows = static_cast<int64_t>(grid.begins.size())};
    std::vector<uint8_t> there(grid.begins.size());
    for (const int64_t group : grid.groups) there[static_cast<size_t>(group)] = 1;
    for (size_t c = 0; c < frame.columns.size(); ++c) {
      const ColumnSpec& spec = frame.schema.columns[c];
      if (spec.name == time_) {
        Column times(spec.type);
        times.whole = grid.begins;
        out.add(spec, std::move(times));
      } else {
        add_column(out, spec, frame.columns[c].rows(grid.rows), grid, there);
      }
    }
    if (!mask_.empty()) {
      Column column(Type::integer);
      column.whole.assign(there.begin(), there.end());
      out.add({.name = mask_, .type = Type::integer}, std::move(column));
    }
    if (had) out.sequences = grid.bounds;
    frame = std::move(out);
  }

 private:
  // Rows of the old table in the order of their spans, the span of each, and the spans' begins.
  struct Grid {
    std::vector<int64_t> rows, groups, begins, bounds = {0};
  };

  Grid make_grid(const Frame& frame) const {
    const Column& time = time_column(frame, time_, where_);
    const std::vector<int64_t> bounds = frame.bounds();
    Grid grid;
    for (size_t s = 0; s + 1 < bounds.size(); ++s) {
      std::vector<int64_t> rows;
      for (int64_t r = bounds[s]; r < bounds[s + 1]; ++r)
        if (!time.is_missing(r)) rows.push_back(r);
      std::stable_sort(rows.begin(), rows.end(),
                       [&](int64_t a, int64_t b) { return time.whole[static_cast<size_t>(a)] < time.whole[static_cast<size_t>(b)]; });
      const auto span_of = [&](int64_t row) { return floor_div(time.whole[static_cast<size_t>(row)] - shift_, every_); };
      if (!rows.empty()) {
        const int64_t first = span_of(rows.front()), count = span_of(rows.back()) - first + 1;
        const auto before = static_cast<int64_t>(grid.begins.size());
        if (count > kMostTimeSeriesRows - before) too_many(where_, "a longer 'every', or a time that is far from all others taken out");
        for (int64_t i = 0; i < count; ++i) grid.begins.push_back((first + i) * every_ + shift_);
        for (const int64_t row : rows) grid.rows.push_back(row), grid.groups.push_back(before + span_of(row) - first);
      }
      grid.bounds.push_back(static_cast<int64_t>(grid.begins.size()));
    }
    return grid;
  }

  void add_column(Frame& out, ColumnSpec spec, const Column& sorted, const Grid& grid, const std::vector<uint8_t>& there) const {
    const auto found = ops_.find(spec.name);
    const bool numbers = is_numeric(spec.type);
    const std::string name = found != ops_.end() ? found->second : numbers ? default_ : "last";
    const auto op = static_cast<Aggregate>(std::find(std::begin(kAggregates), std::end(kAggregates), name) - std::begin(kAggregates));
    Column column = aggregate(op, sorted, spec, grid.groups, static_cast<int64_t>(grid.begins.size()), where_);
    if (column.type != spec.type) spec = {.name = spec.name, .type = column.type};
    // A key, or whatever else is no number, stays as it was.
    if (!numbers && found == ops_.end()) fill_previous(column, grid, there);
    else if (fill_ == "previous") fill_previous(column, grid, there);
    else if (fill_ == "linear" && is_numeric(column.type)) column = filled_linear(column, grid, there), spec.type = Type::real;
    out.add(std::move(spec), std::move(column));
  }

  static void fill_previous(Column& column, const Grid& grid, const std::vector<uint8_t>& there) {
    std::vector<int64_t> from(there.size());
    for (size_t s = 0; s + 1 < grid.bounds.size(); ++s) {
      int64_t last = -1;
      for (int64_t r = grid.bounds[s]; r < grid.bounds[s + 1]; ++r) {
        if (there[static_cast<size_t>(r)] && !column.is_missing(r)) last = r;
        from[static_cast<size_t>(r)] = there[static_cast<size_t>(r)] ? r : last;
      }
    }
    column = column.rows(from);
  }

  // Between the neighbours that are there; not beyond the last one.
  static Column filled_linear(const Column& column, const Grid& grid, const std::vector<uint8_t>& there) {
    Column out(Type::real);
    for (size_t s = 0; s + 1 < grid.bounds.size(); ++s) {
      int64_t before = -1, after = grid.bounds[s];
      for (int64_t r = grid.bounds[s]; r < grid.bounds[s + 1]; ++r) {
        const bool is = !column.is_missing(r) && there[static_cast<size_t>(r)];
        if (is) before = r;
        if (is) {
          out.add_real(column.number(r));
          continue;
        }
        for (after = std::max(after, r); after < grid.bounds[s + 1] && (column.is_missing(after) || !there[static_cast<size_t>(after)]);
             ++after) {}
        if (before < 0 || after == grid.bounds[s + 1]) out.add_missing();
        else
          out.add_real(column.number(before) + (column.number(after) - column.number(before)) * static_cast<double>(r - before) /
                                                   static_cast<double>(after - before));
      }
    }
    return out;
  }

  std::string time_, mask_, fill_, default_, where_;
  int64_t every_, shift_;
  std::map<std::string, std::string> ops_;
};

std::unique_ptr<Step> open_resample(const Config& config, const StepContext& context) {
  return std::make_unique<Resample>(config, context);
}

// --- lags ----------------------------------------------------------------------------------------------------------------------

void add_lags(Frame& frame, const std::vector<std::string>& names, const std::vector<int64_t>& by, const std::string& where) {
  const std::vector<int64_t> bounds = frame.bounds();
  for (const size_t c : columns_of(frame, names, where))
    for (const int64_t lag : by) {
      std::vector<int64_t> from(static_cast<size_t>(frame.rows));
      for (size_t s = 0; s + 1 < bounds.size(); ++s)
        for (int64_t r = bounds[s]; r < bounds[s + 1]; ++r)
          from[static_cast<size_t>(r)] = r - lag >= bounds[s] && r - lag < bounds[s + 1] ? r - lag : -1;
      ColumnSpec spec = frame.schema.columns[c];
      spec.name += lag > 0 ? "(t-" + std::to_string(lag) + ")" : "(t+" + std::to_string(-lag) + ")";
      spec.required = false;
      frame.add(std::move(spec), frame.columns[c].rows(from));
    }
}

// Rows off the begin and the end of each sequence; one that has no more goes.
void trim_rows(Frame& frame, const std::vector<int64_t>& bounds, int64_t first, int64_t last) {
  const bool had = !frame.sequences.empty();
  std::vector<int64_t> rows, sequences = {0};
  for (size_t s = 0; s + 1 < bounds.size(); ++s) {
    for (int64_t r = bounds[s] + first; r < bounds[s + 1] - last; ++r) rows.push_back(r);
    if (static_cast<int64_t>(rows.size()) > sequences.back()) sequences.push_back(static_cast<int64_t>(rows.size()));
  }
  frame.take(rows);
  if (had) frame.sequences = std::move(sequences);
}

std::unique_ptr<Step> open_lags(const Config& config, const StepContext& context) {
  const Json* one = config.raw("by");
  const std::vector<int64_t> by = one != nullptr && one->is_int() ? std::vector{one->as_int()} : config.integer_list("by");
  if (by.empty() || by.size() > 4096) config.fail("by", "must name rows", "", "{1, 2, 12}: before; {-1}: after");
  for (const int64_t each : by)
    if (each == 0 || each < -(1 << 30) || each > 1 << 30)
      config.fail("by", "is out of range", std::to_string(each), "rows before (1 or more) or after (-1 or less)");
  const int64_t first = std::max<int64_t>(*std::max_element(by.begin(), by.end()), 0),
                last = std::max<int64_t>(-*std::min_element(by.begin(), by.end()), 0);
  const bool trim = config.string("edge", "missing") == "trim";
  const auto add = [names = config.string_list("lags"), by, where = context.where](Frame& frame) { add_lags(frame, names, by, where); };
  return step_by_sequences(
      [add, trim, first, last](Frame& frame) {
        const std::vector<int64_t> bounds = frame.bounds();
        add(frame);
        if (trim) trim_rows(frame, bounds, first, last);
      },
      [add, trim, first, last](const TableRoom&, const UseFrame& next) {
        return spilled_neighbours({.before = first, .after = last, .trim = trim}, add, next);
      });
}

// --- seasonal ------------------------------------------------------------------------------------------------------------------

// Days since 1970 at which the year of `ms` began, and how many it has.
std::pair<double, double> year_of(int64_t ms) {
  const int64_t day = floor_div(ms, 86'400'000);
  // Hinnant's days_from_civil, backwards.
  const int64_t z = day + 719468, era = floor_div(z, 146097);
  const int64_t doe = z - era * 146097, yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), year = yoe + era * 400 + (doy >= 306 ? 1 : 0);
  return {static_cast<double>(ms_of_date(year, 1, 1)), static_cast<double>(ms_of_date(year + 1, 1, 1) - ms_of_date(year, 1, 1))};
}

std::unique_ptr<Step> open_seasonal(const Config& config, const StepContext& context) {
  std::vector<std::pair<std::string, int64_t>> periods;  // 0: a year, which has 365 days or 366
  for (const std::string& period : config.string_list("period"))
    periods.emplace_back(period, period == "year"   ? 0
                                 : period == "week" ? 7 * 86'400'000LL
                                 : period == "day"  ? 86'400'000LL
                                                    : span_ms(period, context.where));
  if (periods.empty()) config.fail("period", "is missing", "", "\"year\", \"week\", \"day\", \"12 hours\"");
  for (const auto& [name, span] : periods)
    if (span < 0 || (span == 0 && name != "year")) config.fail("period", "must be longer than nothing", name);
  return step_of(
      [name = config.string("seasonal"), periods, harmonics = config.integer_in("harmonics", 1, 64, 1),
       where = context.where](Frame& frame) {
        const Column time = time_column(frame, name, where);
        for (const auto& [period, span] : periods)
          for (int64_t k = 1; k <= harmonics; ++k) {
            Column sine(Type::real), cosine(Type::real);
            for (int64_t r = 0; r < frame.rows; ++r) {
              if (time.is_missing(r)) {
                sine.add_missing(), cosine.add_missing();
                continue;
              }
              const int64_t now = time.whole[static_cast<size_t>(r)];
              double part = 0;
              if (span > 0) {
                // Weeks begin on Mondays; 1970-01-05 was one.
                part = static_cast<double>(now - (period == "week" ? 4 * 86'400'000LL : 0) -
                                           floor_div(now - (period == "week" ? 4 * 86'400'000LL : 0), span) * span) /
                       static_cast<double>(span);
              } else {
                const auto [begin, length] = year_of(now);
                part = (static_cast<double>(now) - begin) / length;
              }
              sine.add_real(std::sin(2 * std::numbers::pi * static_cast<double>(k) * part));
              cosine.add_real(std::cos(2 * std::numbers::pi * static_cast<double>(k) * part));
            }
            const std::string suffix = "(" + period + (harmonics > 1 ? "," + std::to_string(k) : "") + ")";
            frame.add({.name = "sin" + suffix, .type = Type::real}, std::move(sine));
            frame.add({.name = "cos" + suffix, .type = Type::real}, std::move(cosine));
          }
      },
      true);
}

// --- slide ---------------------------------------------------------------------------------------------------------------------

std::unique_ptr<Step> open_slide(const Config& config, const StepContext& context) {
  return step_by_sequences([length = config.integer_in("slide", 1, 1 << 24), every = config.integer_in("every", 1, 1 << 24, 1),
                            partial = config.boolean("partial", false), where = context.where](Frame& frame) {
    const std::vector<int64_t> bounds = frame.bounds();
    const auto each = [&](const auto& use) {
      for (size_t s = 0; s + 1 < bounds.size(); ++s)
        for (int64_t begin = bounds[s]; begin < bounds[s + 1]; begin += every) {
          const int64_t end = std::min(begin + length, bounds[s + 1]);
          if (end - begin < length && !partial) break;
          use(begin, end);
        }
    };
    int64_t count = 0;  // before there is memory for them
    each([&](int64_t begin, int64_t end) {
      if (count += end - begin; count > kMostTimeSeriesRows) too_many(where, "a larger 'every', or shorter windows");
    });
    std::vector<int64_t> rows, sequences = {0};
    rows.reserve(static_cast<size_t>(count));
    each([&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) rows.push_back(r);
      sequences.push_back(static_cast<int64_t>(rows.size()));
    });
    frame.take(rows);
    frame.sequences = std::move(sequences);
  });
}

// --- smooth --------------------------------------------------------------------------------------------------------------------

// The mean of the rows so far, of which each weighs 1 - alpha of the next one; a row without a value has that of the row before, whose weight
// goes on falling.
Column smoothed(const Column& column, const std::vector<int64_t>& bounds, double alpha) {
  Column out(Type::real);
  for (size_t s = 0; s + 1 < bounds.size(); ++s) {
    double sum = 0, weight = 0;
    for (int64_t r = bounds[s]; r < bounds[s + 1]; ++r) {
      sum *= 1 - alpha, weight *= 1 - alpha;
      if (!column.is_missing(r)) sum += column.number(r), weight += 1;
      if (weight > 0) out.add_real(sum / weight);
      else out.add_missing();
    }
  }
  return out;
}

std::unique_ptr<Step> open_smooth(const Config& config, const StepContext& context) {
  if (config.has("span") == config.has("alpha")) config.fail("alpha", "or 'span' is needed, and not both", "", "alpha = 0.3, or span = 10");
  const double alpha = config.has("alpha") ? config.number("alpha") : 2 / (config.number("span") + 1);
  if (!(alpha > 0 && alpha <= 1))
    config.fail(config.has("alpha") ? "alpha" : "span", "gives the newest row no share", std::to_string(alpha),
                "above 0 and at most 1; a span of 1 or more");
  return step_by_sequences(
      [names = config.string_list("smooth"), alpha, make_new = config.boolean("new", false), where = context.where](Frame& frame) {
        const std::vector<int64_t> bounds = frame.bounds();
        std::vector<std::string> columns;  // they move where new ones come
        for (const size_t c : columns_of(frame, names, where, is_numeric)) columns.push_back(frame.schema.columns[c].name);
        for (const std::string& name : columns) {
          const size_t c = frame.schema.at(name, where);
          Column out = smoothed(frame.columns[c], bounds, alpha);
          if (make_new) {
            frame.add({.name = "smooth(" + name + ")", .type = Type::real}, std::move(out), static_cast<int64_t>(c) + 1);
            continue;
          }
          frame.columns[c] = std::move(out);
          frame.schema.columns[c] = {.name = name, .type = Type::real};
        }
      });
}

constexpr Option kResample[] = {{"resample", "name", nullptr, "the column of times"},
                                {"every", "string", nullptr, "the span of a row: \"1 hour\""},
                                {"shift", "string", "0", "of all begins"},
                                {"op", "name", "mean", "an aggregate as of group, of columns of numbers; of others the last value"},
                                {"ops", "{name: text, ...}", "none", "other aggregates, by column"},
                                {"fill", "name", "missing", "numbers of a span without rows", {}, {"missing", "previous", "linear"}},
                                {"mask", "name", "none", "a new column: 1 where the span has rows, else 0"}};
constexpr Option kLags[] = {{"lags", "list of names", nullptr, "the columns"},
                            {"by", "integer or list of integers", nullptr, "rows before, or after where it is negative: {1, 12}, {-1}"},
                            {"edge", "name", "missing", "rows that lack one: stay, or go", {}, {"missing", "trim"}}};
constexpr Option kSeasonal[] = {{"seasonal", "name", nullptr, "the column of times"},
                                {"period", "list of names", nullptr, "\"year\", \"week\", \"day\", \"12 hours\""},
                                {"harmonics", "integer", "1", "waves in a period: 1, ..., so many", {1, 64}}};
constexpr Option kSlide[] = {{"slide", "integer", nullptr, "rows of a window", {1, 1 << 24}},
                             {"every", "integer", "1", "rows from one begin to the next", {1, 1 << 24}},
                             {"partial", "boolean", "false", "shorter windows at the end count"}};
constexpr Option kSmooth[] = {{"smooth", "list of names", nullptr, "columns of numbers; \"*\": all"},
                              {"alpha", "number", "2 / (span + 1)", "the share of the newest row, above 0"},
                              {"span", "number", "none", "about so many rows count"},
                              {"new", "boolean", "false", "a column beside each: smooth(x)"}};

}  // namespace

extern const StepDef step_resample, step_lags, step_seasonal, step_slide, step_smooth;
const StepDef step_resample{
    "resample", "a row for each span of time, also for those without rows", {.options = kResample}, open_resample, Rows::remakes};
const StepDef step_lags{"lags", "columns of rows before or after: name(t-1), name(t+1)", {.options = kLags}, open_lags};
const StepDef step_seasonal{"seasonal", "sine and cosine of where in a period a time is", {.options = kSeasonal}, open_seasonal};
const StepDef step_slide{"slide", "windows of rows, each a sequence, moved along the rows", {.options = kSlide}, open_slide, Rows::remakes};
const StepDef step_smooth{"smooth", "exponentially weighted means of the rows so far", {.options = kSmooth}, open_smooth};

}  // namespace perigee::tables
