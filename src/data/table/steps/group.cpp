// group: one row for each key (and, where the table has sequences, for each sequence), each other column by an aggregate.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "src/core/error.h"
#include "src/data/table/aggregate.h"
#include "src/data/table/steps.h"
#include "src/data/table/steps/row_loops.h"

namespace perigee::tables {
namespace {

constexpr double kGroupNaN = std::numeric_limits<double>::quiet_NaN();

bool group_of_texts(Aggregate op) { return op == Aggregate::append || op == Aggregate::prepend; }
bool keeps_type(Aggregate op) { return op == Aggregate::first || op == Aggregate::last || op == Aggregate::min || op == Aggregate::max; }

}  // namespace

const char* aggregate_text(Aggregate op) { return kAggregates[static_cast<size_t>(op)]; }

Type aggregate_type(Aggregate op, Type of) {
  if (op == Aggregate::count || op == Aggregate::rows || op == Aggregate::distinct) return Type::integer;
  if (group_of_texts(op)) return Type::text;
  if (op == Aggregate::first || op == Aggregate::last) return of;
  if (op == Aggregate::min || op == Aggregate::max) return of == Type::boolean ? Type::integer : of;
  if ((op == Aggregate::sum || op == Aggregate::product || op == Aggregate::range) &&
      (of == Type::integer || of == Type::boolean || of == Type::time))
    return Type::integer;
  return Type::real;
}

namespace {

// The row of each group that an aggregate chooses: the first, the last, the least, the greatest.
Column chosen_rows(Aggregate op, const Column& column, const std::vector<int64_t>& groups, size_t count) {
  std::vector<int64_t> chosen(count, -1);
  const bool whole =
      column.type == Type::category || column.type == Type::integer || column.type == Type::time || column.type == Type::boolean;
  for (int64_t r = 0; r < column.size(); ++r) {
    int64_t& best = chosen[static_cast<size_t>(groups[static_cast<size_t>(r)])];
    if (column.is_missing(r)) continue;
    if (best < 0 || op == Aggregate::last) {
      best = r;
    } else if (op != Aggregate::first) {
      const auto row = static_cast<size_t>(r), old = static_cast<size_t>(best);
      const bool less = column.type == Type::text ? column.text(r) < column.text(best)
                        : whole                   ? column.whole[row] < column.whole[old]
                                                  : column.real[row] < column.real[old];
      const bool equal = column.type != Type::text && column.number(r) == column.number(best);
      if (op == Aggregate::min ? less : !less && !equal) best = r;
    }
  }
  Column out(aggregate_type(op, column.type));
  for (const int64_t r : chosen) out.add_from(column, r);
  return out;
}

Column joined_texts(Aggregate op, const Column& column, const ColumnSpec& spec, const std::vector<int64_t>& groups, size_t count) {
  std::vector<std::string> texts(count);
  for (int64_t r = 0; r < column.size(); ++r) {
    std::string& text = texts[static_cast<size_t>(groups[static_cast<size_t>(r)])];
    if (op == Aggregate::append) append_cell(column, spec, r, text);
    else text = cell_text(column, spec, r) + text;
  }
  Column out(Type::text);
  for (const std::string& text : texts) out.add_text(text);
  return out;
}

Column group_counts(Aggregate op, const Column& column, const ColumnSpec& spec, const std::vector<int64_t>& groups, size_t count) {
  std::vector<int64_t> seen(count);
  if (op == Aggregate::rows || (op == Aggregate::count && column.missing.empty())) {
    count_groups(groups, seen);
    Column out(Type::integer);
    out.whole = std::move(seen);
    return out;
  }
  std::unordered_set<uint64_t> known;  // hashes of 64 bits: of group and value
  for (int64_t r = 0; r < column.size(); ++r) {
    const auto g = static_cast<uint64_t>(groups[static_cast<size_t>(r)]);
    if (column.is_missing(r)) continue;
    if (op == Aggregate::distinct && !known.insert(cell_hash(column, spec, r) ^ (g * 0x9e3779b97f4a7c15)).second) continue;
    ++seen[g];
  }
  Column out(Type::integer);
  for (const int64_t each : seen) out.add_whole(each);
  return out;
}

// Sums, products, ranges, medians and moments of the groups of one column.
class GroupNumbers {
 public:
  GroupNumbers(Aggregate op, bool exact, size_t count)
      : op_(op),
        exact_(exact),
        seen_(count),
        whole_(count, op == Aggregate::product),
        mean_(count, op == Aggregate::product ? 1.0 : 0.0),
        squares_(count),
        low_(op == Aggregate::range ? count : 0, HUGE_VAL),
        high_(low_.size(), -HUGE_VAL),
        kept_(op == Aggregate::median ? count : 0) {}

  bool overflow() const { return overflow_; }

  void take(size_t g, double x, int64_t whole) {
    ++seen_[g];
    switch (op_) {
      case Aggregate::sum:
        if (exact_) overflow_ |= __builtin_add_overflow(whole_[g], whole, &whole_[g]);
        else mean_[g] += x;
        break;
      case Aggregate::product:
        if (exact_) overflow_ |= __builtin_mul_overflow(whole_[g], whole, &whole_[g]);
        else mean_[g] *= x;
        break;
      case Aggregate::range:
        low_[g] = std::min(low_[g], x);
        high_[g] = std::max(high_[g], x);
        break;
      case Aggregate::median: kept_[g].push_back(x); break;
      default: {  // Welford
        const double delta = x - mean_[g];
        mean_[g] += delta / static_cast<double>(seen_[g]);
        squares_[g] += delta * (x - mean_[g]);
      }
    }
  }

  // The moments of a column, where they are known already.
  void set(GroupMoments moments) {
    seen_ = std::move(moments.count);
    mean_ = std::move(moments.mean);
    if (!moments.squares.empty()) squares_ = std::move(moments.squares);
  }

  void put(size_t g, Column& out) {
    const auto n = static_cast<double>(seen_[g]);
    if (seen_[g] == 0) return out.add_missing();
    if (op_ == Aggregate::sum || op_ == Aggregate::product) return exact_ ? out.add_whole(whole_[g]) : out.add_real(mean_[g]);
    if (op_ == Aggregate::range) return exact_ ? out.add_whole(static_cast<int64_t>(high_[g] - low_[g])) : out.add_real(high_[g] - low_[g]);
    if (op_ == Aggregate::mean) return out.add_real(mean_[g]);
    if (op_ == Aggregate::median) {
      std::sort(kept_[g].begin(), kept_[g].end());
      const size_t half = kept_[g].size() / 2;
      return out.add_real(kept_[g].size() % 2 ? kept_[g][half] : (kept_[g][half - 1] + kept_[g][half]) / 2);
    }
    const bool population = op_ == Aggregate::population_stdev || op_ == Aggregate::population_variance;
    const double variance = population ? squares_[g] / n : n > 1 ? squares_[g] / (n - 1) : kGroupNaN;
    if (std::isnan(variance)) return out.add_missing();
    out.add_real(op_ == Aggregate::stdev || op_ == Aggregate::population_stdev ? std::sqrt(variance) : variance);
  }

 private:
  Aggregate op_;
  bool exact_, overflow_ = false;
  std::vector<int64_t> seen_, whole_;
  std::vector<double> mean_, squares_, low_, high_;  // mean_: sums and products, too
  std::vector<std::vector<double>> kept_;
};

}  // namespace

Column aggregate(Aggregate op, const Column& column, const ColumnSpec& spec, const std::vector<int64_t>& groups, int64_t count,
                 const std::string& where) {
  const bool counted = op == Aggregate::count || op == Aggregate::rows || op == Aggregate::distinct;
  const bool numbers = is_numeric(column.type) || (column.type == Type::time && op != Aggregate::product);
  const bool any = keeps_type(op) || group_of_texts(op) || counted;
  if (!numbers && (!any || ((op == Aggregate::min || op == Aggregate::max) && column.type == Type::list)))
    throw Error(ErrorKind::data, {.where = where,
                                  .what = std::string("the column '") + spec.name + "' has no " + aggregate_text(op),
                                  .got = type_text(column.type),
                                  .expected = "a number"});
  const auto size = static_cast<size_t>(count);
  if (keeps_type(op)) return chosen_rows(op, column, groups, size);
  if (group_of_texts(op)) return joined_texts(op, column, spec, groups, size);
  if (counted) return group_counts(op, column, spec, groups, size);
  Column out(aggregate_type(op, column.type));
  GroupNumbers computed(op, out.type == Type::integer, size);
  const bool of_moments = op == Aggregate::mean || (op >= Aggregate::stdev && op <= Aggregate::population_variance);
  GroupMoments moments;
  const bool done = of_moments && column.missing.empty() && moments_of(column, groups, size, op != Aggregate::mean, moments);
  if (done) computed.set(std::move(moments));
  for (int64_t r = 0; !done && r < column.size(); ++r)
    if (!column.is_missing(r))
      computed.take(static_cast<size_t>(groups[static_cast<size_t>(r)]), column.number(r),
                    column.type == Type::real ? 0 : column.whole[static_cast<size_t>(r)]);
  if (computed.overflow())
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "the " + std::string(aggregate_text(op)) + " of '" + spec.name + "' is no 64-bit integer",
                                  .hint = "real(x) computes with reals"});
  for (size_t g = 0; g < size; ++g) computed.put(g, out);
  return out;
}

namespace {

std::unique_ptr<Step> open_group(const Config& config, const StepContext& context) {
  std::vector<std::pair<Aggregate, std::vector<std::string>>> wanted;
  for (size_t i = 0; i < std::size(kAggregates); ++i)
    if (config.has(kAggregates[i])) wanted.emplace_back(static_cast<Aggregate>(i), config.string_list(kAggregates[i]));
  int other = -1;
  if (config.has("other")) {
    const std::vector<std::string> known(std::begin(kAggregates), std::end(kAggregates));
    const std::string name = config.choice("other", "mean", known);
    other = static_cast<int>(std::find(known.begin(), known.end(), name) - known.begin());
  }
  return step_of(
      [keys = config.string_list("group"), wanted, other, where = context.where](Frame& frame) {
        const std::vector<size_t> columns = columns_of(frame, keys, where);
        std::vector<int64_t> first, groups;
        int64_t count = 1;
        if (!frame.sequences.empty()) {
          // A sequence is a group, an empty one too. Its keys are those of its first row.
          count = static_cast<int64_t>(frame.sequences.size()) - 1;
          groups.resize(static_cast<size_t>(frame.rows));
          for (size_t s = 0; s + 1 < frame.sequences.size(); ++s) {
            first.push_back(frame.sequences[s] < frame.sequences[s + 1] ? frame.sequences[s] : -1);
            std::fill(groups.begin() + frame.sequences[s], groups.begin() + frame.sequences[s + 1], static_cast<int64_t>(s));
          }
        } else if (columns.empty()) {
          groups.assign(static_cast<size_t>(frame.rows), 0);
        } else {
          groups = group_rows(frame, columns, &first);
          count = static_cast<int64_t>(first.size());
        }
        Frame out{.rows = count};
        for (const size_t c : columns) out.add(frame.schema.columns[c], frame.columns[c].rows(first));
        const auto add = [&](Aggregate op, size_t c) {
          ColumnSpec spec{.name = std::string(aggregate_text(op)) + "(" + frame.schema.columns[c].name + ")",
                          .type = aggregate_type(op, frame.columns[c].type)};
          if (spec.type == Type::category) spec.categories = frame.schema.columns[c].categories;
          out.add(std::move(spec), aggregate(op, frame.columns[c], frame.schema.columns[c], groups, count, where));
        };
        if (other < 0) {
          for (const auto& [op, names] : wanted)
            for (const size_t c : columns_of(frame, names, where, names == std::vector<std::string>{"*"} ? is_numeric : nullptr))
              if (std::find(columns.begin(), columns.end(), c) == columns.end()) add(op, c);
        } else {  // in the order of the columns
          std::vector<std::pair<Aggregate, size_t>> named;
          for (const auto& [op, names] : wanted)
            for (const size_t c : columns_of(frame, names, where)) named.emplace_back(op, c);
          for (size_t c = 0; c < frame.columns.size(); ++c) {
            if (std::find(columns.begin(), columns.end(), c) != columns.end()) continue;
            bool any = false;
            for (const auto& [op, column] : named)
              if (column == c) add(op, c), any = true;
            if (!any) add(static_cast<Aggregate>(other), c);
          }
        }
        frame = std::move(out);
      },
      false);
}

constexpr Option kGroup[] = {{"group", "list of names", nullptr, "the keys; none: one row of all, or one for each sequence"},
                             {"min", "list of names", "[]", "columns; the result is called min(NAME)"},
                             {"max", "list of names", "[]", ""},
                             {"range", "list of names", "[]", "max - min"},
                             {"sum", "list of names", "[]", ""},
                             {"product", "list of names", "[]", ""},
                             {"mean", "list of names", "[]", ""},
                             {"median", "list of names", "[]", ""},
                             {"stdev", "list of names", "[]", "of a sample (n - 1)"},
                             {"variance", "list of names", "[]", "of a sample (n - 1)"},
                             {"population_stdev", "list of names", "[]", "by n"},
                             {"population_variance", "list of names", "[]", "by n"},
                             {"count", "list of names", "[]", "values that are not missing"},
                             {"rows", "list of names", "[]", "rows"},
                             {"distinct", "list of names", "[]", "different values"},
                             {"first", "list of names", "[]", "that is not missing"},
                             {"last", "list of names", "[]", ""},
                             {"append", "list of names", "[]", "the texts in a row"},
                             {"prepend", "list of names", "[]", "the same from the last to the first"},
                             {"other", "name", "left out", "the aggregate of all columns that are not named"}};

}  // namespace

extern const StepDef step_group;
const StepDef step_group{
    "group", "makes one row of many by keys, with aggregates of the other columns", {.options = kGroup}, open_group, Rows::remakes};

}  // namespace perigee::tables
