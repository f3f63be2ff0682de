// Steps on rows: filter, remove, sort, rank, distinct, head, sample.
#include <algorithm>
#include <numeric>

#include "kernels/philox.h"
#include "src/core/error.h"
#include "src/data/table/expression/expression.h"
#include "src/data/table/spill/spilled_rows.h"
#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

std::vector<int64_t> all_rows(const Frame& frame) {
  std::vector<int64_t> rows(static_cast<size_t>(frame.rows));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::unique_ptr<Step> filter(const Config& config, const StepContext& context, const char* key, bool stays) {
  auto condition = std::make_shared<Expression>(config.string(key), context.where);
  return step_of(
      [condition, stays](Frame& frame) {
        std::vector<uint8_t> holds = condition->holds(frame);
        if (!stays)
          for (uint8_t& each : holds) each = !each;
        keep_rows(frame, holds);
      },
      true);
}
std::unique_ptr<Step> open_filter(const Config& config, const StepContext& context) { return filter(config, context, "filter", true); }
std::unique_ptr<Step> open_remove(const Config& config, const StepContext& context) { return filter(config, context, "remove", false); }

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

extern const StepDef step_filter, step_remove, step_sort, step_rank, step_distinct, step_head, step_sample;
const StepDef step_filter{"filter", "keeps rows that meet a condition", {.options = kFilter}, open_filter, Rows::chooses};
const StepDef step_remove{"remove", "leaves out rows that meet a condition", {.options = kRemove}, open_remove, Rows::chooses};
const StepDef step_sort{
    "sort", "sorts rows, within sequences where there are some; missing values come last", {.options = kSort}, open_sort, Rows::chooses};
const StepDef step_rank{"rank", "numbers rows by their order", {.options = kRank}, open_rank, Rows::remakes};
const StepDef step_distinct{"distinct", "leaves out what is there twice", {.options = kDistinct}, open_distinct, Rows::chooses};
const StepDef step_head{"head", "keeps a range of rows", {.options = kRowsHead}, open_head, Rows::chooses};
const StepDef step_sample{"sample", "draws rows", {.options = kSample}, open_sample, Rows::chooses};

}  // namespace perigee::tables
