// Aggregates of groups of rows: the rows come in parts, in their order, and may have to come again for what needs a second look.
#include "src/data/table/steps/aggregate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_set>

#include "src/core/error.h"
#include "src/data/table/loops/groups.h"
#include "src/data/table/steps.h"
#include "src/data/table/steps/places.h"

namespace perigee::tables {
namespace {

constexpr double kGroupNaN = std::numeric_limits<double>::quiet_NaN();

bool group_of_texts(Aggregate op) { return op == Aggregate::append || op == Aggregate::prepend; }
bool keeps_type(Aggregate op) { return op == Aggregate::first || op == Aggregate::last || op == Aggregate::min || op == Aggregate::max; }
bool group_counted(Aggregate op) { return op == Aggregate::count || op == Aggregate::rows || op == Aggregate::distinct; }
bool group_of_moments(Aggregate op) { return op == Aggregate::mean || (op >= Aggregate::stdev && op <= Aggregate::population_variance); }

}  // namespace

const char* aggregate_text(Aggregate op) { return kAggregates[static_cast<size_t>(op)]; }

Type aggregate_type(Aggregate op, Type of) {
  if (op == Aggregate::count || op == Aggregate::rows || op == Aggregate::distinct) return Type::integer;
  if (group_of_texts(op) || op == Aggregate::midpoint) return Type::text;
  if (op == Aggregate::first || op == Aggregate::last) return of;
  if (op == Aggregate::min || op == Aggregate::max) return of == Type::boolean ? Type::integer : of;
  if ((op == Aggregate::sum || op == Aggregate::product || op == Aggregate::range) &&
      (of == Type::integer || of == Type::boolean || of == Type::time))
    return Type::integer;
  return Type::real;
}

namespace {

// The row of each group that an aggregate chooses, -1 for none: the first, the last, the least, the greatest.
std::vector<int64_t> chosen_rows(Aggregate op, const Column& column, const std::vector<int64_t>& groups, size_t count) {
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
  return chosen;
}

// Sums, products, ranges, medians and moments of the groups of one column.
class GroupNumbers {
 public:
  GroupNumbers(Aggregate op, bool exact) : op_(op), exact_(exact) {}

  void grow(size_t count) {
    if (count <= seen_.size()) return;
    seen_.resize(count);
    whole_.resize(count, op_ == Aggregate::product);
    mean_.resize(count, op_ == Aggregate::product ? 1.0 : 0.0);
    squares_.resize(count);
    if (op_ == Aggregate::range) low_.resize(count, HUGE_VAL), high_.resize(count, -HUGE_VAL);
    if (op_ == Aggregate::median) kept_.resize(count);
  }

  bool overflow() const { return overflow_; }
  size_t size() const { return seen_.size(); }
  uint64_t kept() const { return values_; }  // values that a median waits for

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
      case Aggregate::median: kept_[g].push_back(x), ++values_; break;
      default: {  // Welford
        const double delta = x - mean_[g];
        mean_[g] += delta / static_cast<double>(seen_[g]);
        squares_[g] += delta * (x - mean_[g]);
      }
    }
  }

  // The moments of a group, where they are known already.
  void set(size_t g, int64_t count, double mean, double squares) { seen_[g] = count, mean_[g] = mean, squares_[g] = squares; }

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
  uint64_t values_ = 0;
  std::vector<int64_t> seen_, whole_;
  std::vector<double> mean_, squares_, low_, high_;  // mean_: sums and products, too
  std::vector<std::vector<double>> kept_;
};

}  // namespace

struct GroupAggregate::State {
  State(Aggregate op, const Column& column) : numbers(op, aggregate_type(op, column.type) == Type::integer), kept(column.type) {}
  GroupNumbers numbers;
  // The chosen value of each group so far.
  Column kept;
  std::vector<std::string> texts;
  std::vector<PlaceMean> places;
  std::vector<int64_t> seen;
  std::unordered_set<uint64_t> known;  // hashes of 64 bits: of group and value
  GroupMoments moments;
  std::vector<double> rest;    // what rounding leaves of the means
  std::vector<uint8_t> again;  // groups whose sums are not finite
  int pass = 0;
};

GroupAggregate::GroupAggregate(Aggregate op, ColumnSpec spec, const Column& column, const std::string& where)
    : op_(op), spec_(std::move(spec)), where_(where), state_(std::make_unique<State>(op, column)) {
  const bool numbers = is_numeric(column.type) || (column.type == Type::time && op != Aggregate::product);
  const bool places = op == Aggregate::midpoint;
  const bool any =
      keeps_type(op) || group_of_texts(op) || group_counted(op) || (places && (column.type == Type::text || column.type == Type::category));
  if ((!numbers || places) && (!any || ((op == Aggregate::min || op == Aggregate::max) && column.type == Type::list)))
    throw Error(ErrorKind::data, {.where = where,
                                  .what = std::string("the column '") + spec_.name + "' has no " + aggregate_text(op),
                                  .got = type_text(column.type),
                                  .expected = places ? "texts of latitude and longitude" : "a number"});
}
GroupAggregate::~GroupAggregate() = default;
GroupAggregate::GroupAggregate(GroupAggregate&&) noexcept = default;

void GroupAggregate::take_chosen(const Column& column, const std::vector<int64_t>& groups, size_t count) {
  Column& kept = state_->kept;
  if (kept.size() == 0) {
    kept = column.rows(chosen_rows(op_, column, groups, count));
    return;
  }
  // The choice so far is a row before the others.
  std::vector<int64_t> all(static_cast<size_t>(kept.size()));
  std::iota(all.begin(), all.end(), 0);
  all.insert(all.end(), groups.begin(), groups.end());
  kept.append(column);
  kept = kept.rows(chosen_rows(op_, kept, all, count));
}

void GroupAggregate::take_counted(const Column& column, const std::vector<int64_t>& groups, size_t count) {
  std::vector<int64_t>& seen = state_->seen;
  seen.resize(std::max(seen.size(), count));
  if (op_ == Aggregate::rows || (op_ == Aggregate::count && column.missing.empty())) return count_groups(groups, seen);
  for (int64_t r = 0; r < column.size(); ++r) {
    const auto g = static_cast<uint64_t>(groups[static_cast<size_t>(r)]);
    if (column.is_missing(r)) continue;
    if (op_ == Aggregate::distinct && !state_->known.insert(cell_hash(column, spec_, r) ^ (g * 0x9e3779b97f4a7c15)).second) continue;
    ++seen[g];
  }
}

void GroupAggregate::take_texts(const Column& column, const std::vector<int64_t>& groups, size_t count) {
  state_->texts.resize(std::max(state_->texts.size(), count));
  for (int64_t r = 0; r < column.size(); ++r) {
    std::string& text = state_->texts[static_cast<size_t>(groups[static_cast<size_t>(r)])];
    if (op_ == Aggregate::append) append_cell(column, spec_, r, text);
    else text = cell_text(column, spec_, r) + text;
  }
}

void GroupAggregate::take_places(const Column& column, const std::vector<int64_t>& groups, size_t count) {
  state_->places.resize(std::max(state_->places.size(), count));
  for (int64_t r = 0; r < column.size(); ++r) {
    if (column.is_missing(r)) continue;
    if (const std::string text = cell_text(column, spec_, r);
        !state_->places[static_cast<size_t>(groups[static_cast<size_t>(r)])].add(text))
      throw Error(ErrorKind::data, {.where = where_,
                                    .what = "the column '" + spec_.name + "' has a text that is no place",
                                    .got = "'" + text.substr(0, 40) + "'",
                                    .expected = "latitude and longitude in degrees, such as 48.1,11.6"});
  }
}

void GroupAggregate::take(const Column& column, const std::vector<int64_t>& groups, int64_t count) {
  const auto size = static_cast<size_t>(count);
  if (keeps_type(op_)) return take_chosen(column, groups, size);
  if (group_of_texts(op_)) return take_texts(column, groups, size);
  if (group_counted(op_)) return take_counted(column, groups, size);
  if (op_ == Aggregate::midpoint) return take_places(column, groups, size);
  State& s = *state_;
  if (group_of_moments(op_) && s.pass == 0) return add_sums(column, groups, size, s.moments);
  if (group_of_moments(op_) && s.pass == 1) return add_distances(column, groups, s.moments, s.rest);
  s.numbers.grow(size);
  for (int64_t r = 0; r < column.size(); ++r) {
    const auto row = static_cast<size_t>(r), g = static_cast<size_t>(groups[row]);
    if (column.is_missing(r) || (!s.again.empty() && s.again[g] == 0)) continue;
    s.numbers.take(g, column.number(r), column.type == Type::real ? 0 : column.whole[row]);
  }
}

bool GroupAggregate::wants_more(int64_t count) {
  State& s = *state_;
  if (!group_of_moments(op_)) return false;
  const auto size = static_cast<size_t>(count);
  if (s.pass == 0) {
    s.pass = 1;
    means_of_sums(size, s.moments);
    s.rest.assign(size, 0);
    s.moments.squares.assign(size, 0);
    if (op_ != Aggregate::mean) return true;
  }
  if (s.pass != 1) return false;
  s.pass = 2;
  if (op_ != Aggregate::mean) correct_squares(s.moments, s.rest);
  // Sums that are too large, or not of numbers: these groups go row by row (Welford).
  s.numbers.grow(size);
  s.again.assign(size, 0);
  bool any = false;
  for (size_t g = 0; g < size; ++g) {
    s.again[g] = !std::isfinite(s.moments.mean[g]) || !std::isfinite(s.moments.squares[g]);
    if (s.again[g]) any = true;
    else s.numbers.set(g, s.moments.count[g], s.moments.mean[g], s.moments.squares[g]);
  }
  return any;
}

Column GroupAggregate::result(int64_t count) {
  State& s = *state_;
  const auto size = static_cast<size_t>(count);
  Column out(aggregate_type(op_, s.kept.type));
  if (keeps_type(op_)) {
    if (s.kept.size() < count) s.kept = s.kept.rows(std::vector<int64_t>(size, -1));  // groups without any row
    s.kept.type = out.type;
    return std::move(s.kept);
  }
  if (group_of_texts(op_)) {
    s.texts.resize(size);
    for (const std::string& text : s.texts) out.add_text(text);
    return out;
  }
  if (op_ == Aggregate::midpoint) {
    s.places.resize(size);
    for (const PlaceMean& place : s.places)
      if (const std::string text = place.result(); text.empty()) out.add_missing();
      else out.add_text(text);
    return out;
  }
  if (group_counted(op_)) {
    s.seen.resize(size);
    out.whole = std::move(s.seen);
    return out;
  }
  if (s.numbers.overflow())
    throw Error(ErrorKind::data, {.where = where_,
                                  .what = "the " + std::string(aggregate_text(op_)) + " of '" + spec_.name + "' is no 64-bit integer",
                                  .hint = "real(x) computes with reals"});
  s.numbers.grow(size);
  for (size_t g = 0; g < size; ++g) s.numbers.put(g, out);
  return out;
}

uint64_t GroupAggregate::bytes() const {
  const State& s = *state_;
  const uint64_t groups = s.seen.size() + 3 * s.moments.count.size() + s.numbers.size() * 4 + static_cast<uint64_t>(s.kept.size());
  return 8 * (groups + 8 * s.known.size() + s.numbers.kept()) + s.kept.bytes.size() + 8 * s.kept.items.size() + 40 * s.texts.size() +
         sizeof(PlaceMean) * s.places.size();
}

Column aggregate(Aggregate op, const Column& column, const ColumnSpec& spec, const std::vector<int64_t>& groups, int64_t count,
                 const std::string& where) {
  GroupAggregate computed(op, spec, column, where);
  do computed.take(column, groups, count);
  while (computed.wants_more(count));
  return computed.result(count);
}

}  // namespace perigee::tables
