// Steps on rows: filter, remove, by_time, sort, rank, distinct, head, sample.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "kernels/philox.h"
#include "src/core/error.h"
#include "src/data/table/expression/expression.h"
#include "src/data/table/loops/conditions.h"
#include "src/data/table/spill/spilled_rows.h"
#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

std::vector<int64_t> all_rows(const Frame& frame) {
  std::vector<int64_t> rows(static_cast<size_t>(frame.rows));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// Rows that stay, in sequences a shorter sequence each; one that has none goes.
void keep(Frame& frame, const std::vector<uint8_t>& stays) {
  std::vector<int64_t> rows, sequences;
  const std::vector<int64_t> bounds = frame.bounds();
  const bool has_sequences = !frame.sequences.empty();
  for (size_t s = 0; s + 1 < bounds.size(); ++s) {
    const size_t before = rows.size();
    rows_that_stay(stays, bounds[s], bounds[s + 1], rows);
    if (has_sequences && sequences.empty()) sequences.push_back(0);
    if (has_sequences && rows.size() > before) sequences.push_back(static_cast<int64_t>(rows.size()));
  }
  frame.take(rows);
  frame.sequences = std::move(sequences);
}

std::unique_ptr<Step> filter(const Config& config, const StepContext& context, const char* key, bool stays) {
  auto condition = std::make_shared<Expression>(config.string(key), context.where);
  return step_of(
      [condition, stays](Frame& frame) {
        std::vector<uint8_t> holds = condition->holds(frame);
        if (!stays)
          for (uint8_t& each : holds) each = !each;
        keep(frame, holds);
      },
      true);
}
std::unique_ptr<Step> open_filter(const Config& config, const StepContext& context) { return filter(config, context, "filter", true); }
std::unique_ptr<Step> open_remove(const Config& config, const StepContext& context) { return filter(config, context, "remove", false); }

// The part of a table that lies between two times, which are chosen so that the parts have their shares of the rows; rows of one time are in one
// part. With the last `before` rows of earlier times, in each sequence: what the first windows of the part look back at.
class ByTime : public Step {
 public:
  ByTime(const Config& config, const StepContext& context)
      : name_(config.string("by_time")), where_(context.where), before_(config.integer_in("before", 0, 1 << 20, 0)) {
    const Json* parts = config.raw("parts");
    double sum = 0;
    if (parts == nullptr || !parts->is_array() || parts->as_array().empty()) config.fail("parts", "must list the shares", "", "[0.8, 0.2]");
    for (const Json& share : parts->as_array()) {
      if (!share.is_number() || !(share.as_number() > 0 && share.as_number() <= 1))
        config.fail("parts", "has a share that is none", share.dump(), "a number above 0 and at most 1");
      ends_.push_back(sum += share.as_number());
    }
    if (sum > 1 + 1e-9) config.fail("parts", "has shares that are more than the whole", Json(sum).dump(), "a sum of at most 1");
    part_ = static_cast<size_t>(config.integer_in("part", 0, static_cast<int64_t>(parts->as_array().size()) - 1));
  }
  bool by_rows() const override { return false; }

  void apply(Frame& frame) const override {
    const Column& time =
        frame.columns[columns_of(frame, {name_}, where_, [](Type t) { return t == Type::time || t == Type::integer; }).at(0)];
    std::vector<int64_t> sorted;
    for (int64_t r = 0; r < frame.rows; ++r)
      if (!time.is_missing(r)) sorted.push_back(time.whole[static_cast<size_t>(r)]);
    std::sort(sorted.begin(), sorted.end());
    // The time at which a part ends; there is none where it has the last rows.
    const auto end_of = [&](size_t part) -> std::optional<int64_t> {
      const auto row = static_cast<size_t>(std::llround(ends_[part] * static_cast<double>(sorted.size())));
      return row < sorted.size() ? std::optional(sorted[row]) : std::nullopt;
    };
    const std::optional<int64_t> end = end_of(part_), least = part_ == 0 ? std::nullopt : end_of(part_ - 1);
    if (part_ > 0 && !least) return keep(frame, std::vector<uint8_t>(static_cast<size_t>(frame.rows)));
    std::vector<uint8_t> stays(static_cast<size_t>(frame.rows));
    const std::vector<int64_t> bounds = frame.bounds();
    for (size_t s = 0; s + 1 < bounds.size(); ++s) {
      std::vector<std::pair<int64_t, int64_t>> earlier;
      bool any = false;
      for (int64_t r = bounds[s]; r < bounds[s + 1]; ++r) {
        if (time.is_missing(r)) continue;
        const int64_t t = time.whole[static_cast<size_t>(r)];
        if (least && t < *least) earlier.emplace_back(t, r);
        else if (!end || t < *end) stays[static_cast<size_t>(r)] = 1, any = true;
      }
      std::sort(earlier.begin(), earlier.end());
      for (size_t i = earlier.size() - std::min(earlier.size(), static_cast<size_t>(before_)); any && i < earlier.size(); ++i)
        stays[static_cast<size_t>(earlier[i].second)] = 1;
    }
    keep(frame, stays);
  }

 private:
  std::string name_, where_;
  int64_t before_;
  std::vector<double> ends_ = {};  // of the parts, as shares of all rows
  size_t part_ = 0;
};

std::unique_ptr<Step> open_by_time(const Config& config, const StepContext& context) { return std::make_unique<ByTime>(config, context); }

std::vector<bool> directions(const Config& config) {
  const Json* value = config.raw("descending");
  std::vector<bool> list;
  if (value != nullptr && value->is_array())
    for (const Json& each : value->as_array()) list.push_back(each.is_bool() && each.as_bool());
  if (list.empty()) list.push_back(value != nullptr && value->is_bool() && value->as_bool());
  return list;
}

std::unique_ptr<Step> open_sort(const Config& config, const StepContext& context) {
  const auto names = config.string_list("sort");
  const std::vector<bool> down = directions(config);
  return step_by_sequences(
      [names, down, where = context.where](Frame& frame) {
        const std::vector<size_t> columns = columns_of(frame, names, where);
        const std::vector<int64_t> bounds = frame.sequences;
        std::vector<int64_t> rows = all_rows(frame);
        if (bounds.empty()) {
          frame.take(sorted_rows(frame, columns, down, std::move(rows)));
          return;
        }
        std::vector<int64_t> sorted;
        for (size_t s = 0; s + 1 < bounds.size(); ++s) {
          const auto part = sorted_rows(frame, columns, down, {rows.begin() + bounds[s], rows.begin() + bounds[s + 1]});
          sorted.insert(sorted.end(), part.begin(), part.end());
        }
        frame.take(sorted);
        frame.sequences = bounds;
      },
      [names, down, where = context.where](const TableRoom& room, const UseFrame& next) {
        return spilled_sort(room, names, down, where, next);
      });
}

std::unique_ptr<Step> open_rank(const Config& config, const StepContext& context) {
  const auto names = config.string_list("rank");
  const std::string name = config.string("new", "rank");
  const std::vector<bool> down = directions(config);
  return step_of_table(
      [names, name, down, where = context.where](Frame& frame) {
        const auto sorted = sorted_rows(frame, columns_of(frame, names, where), down, all_rows(frame));
        Column rank(Type::integer);
        rank.whole.resize(sorted.size());
        for (size_t i = 0; i < sorted.size(); ++i) rank.whole[static_cast<size_t>(sorted[i])] = static_cast<int64_t>(i);
        frame.add({.name = name, .type = Type::integer}, std::move(rank));
      },
      [names, name, down, where = context.where](const TableRoom& room, const UseFrame& next) {
        return spilled_rank(room, names, down, name, where, next);
      });
}

std::unique_ptr<Step> open_distinct(const Config& config, const StepContext& context) {
  const auto names = config.string_list("distinct");
  return step_of_table(
      [names, where = context.where](Frame& frame) {
        std::vector<int64_t> first;
        group_rows(frame, columns_of(frame, names, where), &first);
        frame.take(first);
      },
      [names, where = context.where](const TableRoom& room, const UseFrame& next) { return spilled_distinct(room, names, where, next); });
}

std::unique_ptr<Step> open_head(const Config& config, const StepContext&) {
  const int64_t count = config.integer_in("head", 0, INT64_MAX), from = config.integer_in("from", 0, INT64_MAX, 0);
  return step_of_table(
      [count, from](Frame& frame) {
        std::vector<int64_t> rows = all_rows(frame);
        const auto begin = std::min<int64_t>(from, frame.rows), end = begin + std::min<int64_t>(count, frame.rows - begin);
        frame.take({rows.begin() + begin, rows.begin() + end});
      },
      [count, from](const TableRoom&, const UseFrame& next) { return spilled_head(from, count, next); });
}

// A row is drawn by its number, so that the sample of a table is the same whatever stands around.
std::function<float(int64_t)> draw_of(uint64_t seed) {
  return [key = philox_key(seed, 0x7ab1e5)](int64_t row) {
    return uniform_from_bits(philox_for_example(key, 0, static_cast<uint64_t>(row), 0).lane[0]);
  };
}

// The `count` rows of so many with the smallest draws, ascending.
std::vector<int64_t> drawn_rows(const std::function<float(int64_t)>& draw, int64_t rows, size_t count) {
  std::vector<std::pair<float, int64_t>> best;  // a heap, the largest first
  for (int64_t r = 0; r < rows && count > 0; ++r) {
    const std::pair<float, int64_t> next(draw(r), r);
    if (best.size() == count) {
      if (!(next < best.front())) continue;
      std::pop_heap(best.begin(), best.end());
      best.pop_back();
    }
    best.push_back(next);
    std::push_heap(best.begin(), best.end());
  }
  std::vector<int64_t> chosen;
  for (const auto& [u, r] : best) chosen.push_back(r);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// Whether each row stays, asked for in their order.
std::function<bool(int64_t)> sample_of(double share, uint64_t seed, int64_t rows) {
  const auto draw = draw_of(seed);
  if (share < 1) return [draw, share](int64_t row) { return draw(row) < share; };
  auto chosen = drawn_rows(draw, rows, static_cast<size_t>(std::min(share, static_cast<double>(rows))));
  return [chosen = std::move(chosen), next = size_t{0}](int64_t row) mutable {
    const bool stays = next < chosen.size() && chosen[next] == row;
    next += stays;
    return stays;
  };
}

std::unique_ptr<Step> open_sample(const Config& config, const StepContext&) {
  const double share = config.number_in("sample", 0, 1e15, 0);
  const auto seed = static_cast<uint64_t>(config.integer("seed", 1));
  return step_of_table(
      [share, seed](Frame& frame) {
        const auto stays = sample_of(share, seed, frame.rows);
        std::vector<int64_t> rows;
        for (int64_t r = 0; r < frame.rows; ++r)
          if (stays(r)) rows.push_back(r);
        frame.take(rows);
      },
      [share, seed](const TableRoom& room, const UseFrame& next) {
        return spilled_choice(
            room, [share, seed](int64_t rows) { return sample_of(share, seed, rows); }, next);
      });
}

constexpr Option kFilter[] = {{"filter", "string", nullptr, "the condition of the rows that stay"}};
constexpr Option kRemove[] = {{"remove", "string", nullptr, "the condition of the rows that go"}};
constexpr Option kByTime[] = {
    {"by_time", "name", nullptr, "a column of times, or of integers"},
    {"parts", "list of numbers", nullptr, "shares of the rows, the earliest first: {0.8, 0.2}"},
    {"part", "integer", nullptr, "which stays, from 0", {0}},
    {"before", "integer", "0", "earlier rows that stay too, for the first windows to look back at", {0, 1 << 20}}};
constexpr Option kSort[] = {{"sort", "list of names", nullptr, "the columns, the most important first"},
                            {"descending", "any", "false", "true, or a list of true and false"}};
constexpr Option kRank[] = {{"rank", "list of names", nullptr, "the columns to sort by"},
                            {"new", "name", "rank", "the column of ranks, from 0"},
                            {"descending", "any", "false", "true, or a list of true and false"}};
constexpr Option kDistinct[] = {
    {"distinct", "list of names", nullptr, "of rows equal in these columns the first stays; \"*\": all columns"}};
constexpr Option kRowsHead[] = {{"head", "integer", nullptr, "how many rows stay"}, {"from", "integer", "0", "the first of them"}};
constexpr Option kSample[] = {{"sample", "number", nullptr, "below 1 a share of the rows, else their number"},
                              {"seed", "integer", "1", "of the draw"}};

}  // namespace

extern const StepDef step_filter, step_remove, step_by_time, step_sort, step_rank, step_distinct, step_head, step_sample;
const StepDef step_filter{"filter", "keeps rows that meet a condition", {.options = kFilter}, open_filter, Rows::chooses};
const StepDef step_remove{"remove", "leaves out rows that meet a condition", {.options = kRemove}, open_remove, Rows::chooses};
const StepDef step_by_time{
    "by_time", "keeps a part of the rows by their times: for training, or for the test", {.options = kByTime}, open_by_time, Rows::chooses};
const StepDef step_sort{
    "sort", "sorts rows, within sequences where there are some; missing values come last", {.options = kSort}, open_sort, Rows::chooses};
const StepDef step_rank{"rank", "numbers rows by their order", {.options = kRank}, open_rank, Rows::remakes};
const StepDef step_distinct{"distinct", "leaves out what is there twice", {.options = kDistinct}, open_distinct, Rows::chooses};
const StepDef step_head{"head", "keeps a range of rows", {.options = kRowsHead}, open_head, Rows::chooses};
const StepDef step_sample{"sample", "draws rows", {.options = kSample}, open_sample, Rows::chooses};

}  // namespace perigee::tables
