// group: one row for each key (and, where the table has sequences, for each sequence), each other column by an aggregate.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "src/core/error.h"
#include "src/data/table/aggregate.h"
#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool of_texts(Aggregate op) { return op == Aggregate::append || op == Aggregate::prepend; }
bool keeps_type(Aggregate op) { return op == Aggregate::first || op == Aggregate::last || op == Aggregate::min || op == Aggregate::max; }

}  // namespace

const char* aggregate_text(Aggregate op) { return kAggregates[static_cast<size_t>(op)]; }

Type aggregate_type(Aggregate op, Type of) {
  if (op == Aggregate::count || op == Aggregate::rows || op == Aggregate::distinct) return Type::integer;
  if (of_texts(op)) return Type::text;
  if (op == Aggregate::first || op == Aggregate::last) return of;
  if (op == Aggregate::min || op == Aggregate::max) return of == Type::boolean ? Type::integer : of;
  if ((op == Aggregate::sum || op == Aggregate::product || op == Aggregate::range) &&
      (of == Type::integer || of == Type::boolean || of == Type::time))
    return Type::integer;
  return Type::real;
}

Column aggregate(Aggregate op, const Column& column, const ColumnSpec& spec, const std::vector<int64_t>& groups, int64_t count,
                 const std::string& where) {
  const bool numbers = is_numeric(column.type) || (column.type == Type::time && op != Aggregate::product);
  const bool any = keeps_type(op) || of_texts(op) || op == Aggregate::count || op == Aggregate::rows || op == Aggregate::distinct;
  if (!numbers && (!any || ((op == Aggregate::min || op == Aggregate::max) && column.type == Type::list)))
    throw Error(ErrorKind::data, {.where = where,
                                  .what = std::string("the column '") + spec.name + "' has no " + aggregate_text(op),
                                  .got = type_text(column.type),
                                  .expected = "a number"});
  const auto size = static_cast<size_t>(count);
  Column out(aggregate_type(op, column.type));
  if (keeps_type(op)) {  // which row
    std::vector<int64_t> chosen(size, -1);
    const bool text = column.type == Type::text || column.type == Type::category;
    for (int64_t r = 0; r < column.size(); ++r) {
      int64_t& best = chosen[static_cast<size_t>(groups[static_cast<size_t>(r)])];
      if (column.is_missing(r)) continue;
      if (best < 0 || op == Aggregate::last) {
        best = r;
      } else if (op != Aggregate::first) {
        const bool less = column.type == Type::text ? column.text(r) < column.text(best)
                          : text || column.type == Type::integer || column.type == Type::time || column.type == Type::boolean
                              ? column.whole[static_cast<size_t>(r)] < column.whole[static_cast<size_t>(best)]
                              : column.real[static_cast<size_t>(r)] < column.real[static_cast<size_t>(best)];
        const bool equal = column.type != Type::text && column.number(r) == column.number(best);
        if (op == Aggregate::min ? less : !less && !equal) best = r;
      }
    }
    for (const int64_t r : chosen) out.add_from(column, r);
    return out;
  }
  if (of_texts(op)) {
    std::vector<std::string> texts(size);
    for (int64_t r = 0; r < column.size(); ++r) {
      std::string& text = texts[static_cast<size_t>(groups[static_cast<size_t>(r)])];
      if (op == Aggregate::append) append_cell(column, spec, r, text);
      else text = cell_text(column, spec, r) + text;
    }
    for (const std::string& text : texts) out.add_text(text);
    return out;
  }
  std::vector<int64_t> seen(size);
  if (op == Aggregate::distinct) {
    std::unordered_set<uint64_t> known;  // hashes of 64 bits: of group and value
    for (int64_t r = 0; r < column.size(); ++r) {
      const auto g = static_cast<uint64_t>(groups[static_cast<size_t>(r)]);
      if (!column.is_missing(r) && known.insert(cell_hash(column, spec, r) ^ (g * 0x9e3779b97f4a7c15)).second) ++seen[g];
    }
    for (const int64_t each : seen) out.add_whole(each);
    return out;
  }
  std::vector<double> a(size, op == Aggregate::product ? 1.0 : 0.0), b(size), low(op == Aggregate::range ? size : 0, HUGE_VAL),
      high(low.size(), -HUGE_VAL);
  std::vector<int64_t> whole(size, op == Aggregate::product);
  bool overflow = false;
  const bool exact = out.type == Type::integer;
  std::vector<std::vector<double>> kept(op == Aggregate::median ? size : 0);
  for (int64_t r = 0; r < column.size(); ++r) {
    const auto g = static_cast<size_t>(groups[static_cast<size_t>(r)]);
    if (op == Aggregate::rows) ++seen[g];
    if (op == Aggregate::rows || column.is_missing(r)) continue;
    ++seen[g];
    if (op == Aggregate::count) continue;
    const double x = column.number(r);
    switch (op) {
      case Aggregate::sum:
        if (exact) overflow |= __builtin_add_overflow(whole[g], column.whole[static_cast<size_t>(r)], &whole[g]);
        else a[g] += x;
        break;
      case Aggregate::product:
        if (exact) overflow |= __builtin_mul_overflow(whole[g], column.whole[static_cast<size_t>(r)], &whole[g]);
        else a[g] *= x;
        break;
      case Aggregate::range:
        low[g] = std::min(low[g], x);
        high[g] = std::max(high[g], x);
        break;
      case Aggregate::median: kept[g].push_back(x); break;
      default: {  // Welford
        const double delta = x - a[g];
        a[g] += delta / static_cast<double>(seen[g]);
        b[g] += delta * (x - a[g]);
      }
    }
  }
  if (overflow)
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "the " + std::string(aggregate_text(op)) + " of '" + spec.name + "' is no 64-bit integer",
                                  .hint = "real(x) computes with reals"});
  for (size_t g = 0; g < size; ++g) {
    const auto n = static_cast<double>(seen[g]);
    if (op == Aggregate::count || op == Aggregate::rows) {
      out.add_whole(seen[g]);
    } else if (seen[g] == 0) {
      out.add_missing();
    } else if (op == Aggregate::sum || op == Aggregate::product) {
      if (exact) out.add_whole(whole[g]);
      else out.add_real(a[g]);
    } else if (op == Aggregate::range) {
      if (exact) out.add_whole(static_cast<int64_t>(high[g] - low[g]));
      else out.add_real(high[g] - low[g]);
    } else if (op == Aggregate::median) {
      std::sort(kept[g].begin(), kept[g].end());
      const size_t half = kept[g].size() / 2;
      out.add_real(kept[g].size() % 2 ? kept[g][half] : (kept[g][half - 1] + kept[g][half]) / 2);
    } else if (op == Aggregate::mean) {
      out.add_real(a[g]);
    } else {
      const bool population = op == Aggregate::population_stdev || op == Aggregate::population_variance;
      const double variance = population ? b[g] / n : n > 1 ? b[g] / (n - 1) : kNaN;
      if (std::isnan(variance)) out.add_missing();
      else out.add_real(op == Aggregate::stdev || op == Aggregate::population_stdev ? std::sqrt(variance) : variance);
    }
  }
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
