// Steps on rows: filter, remove, sort, rank, distinct, head, sample.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/philox.h"
#include "src/core/error.h"
#include "src/data/table/expression.h"
#include "src/data/table/steps.h"
#include "src/data/table/steps/row_loops.h"

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

std::vector<bool> directions(const Config& config) {
  const Json* value = config.raw("descending");
  std::vector<bool> list;
  if (value != nullptr && value->is_array())
    for (const Json& each : value->as_array()) list.push_back(each.is_bool() && each.as_bool());
  if (list.empty()) list.push_back(value != nullptr && value->is_bool() && value->as_bool());
  return list;
}

std::unique_ptr<Step> open_sort(const Config& config, const StepContext& context) {
  return step_of(
      [names = config.string_list("sort"), down = directions(config), where = context.where](Frame& frame) {
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
      false);
}

std::unique_ptr<Step> open_rank(const Config& config, const StepContext& context) {
  return step_of(
      [names = config.string_list("rank"), name = config.string("new", "rank"), down = directions(config),
       where = context.where](Frame& frame) {
        const auto sorted = sorted_rows(frame, columns_of(frame, names, where), down, all_rows(frame));
        Column rank(Type::integer);
        rank.whole.resize(sorted.size());
        for (size_t i = 0; i < sorted.size(); ++i) rank.whole[static_cast<size_t>(sorted[i])] = static_cast<int64_t>(i);
        frame.add({.name = name, .type = Type::integer}, std::move(rank));
      },
      false);
}

std::unique_ptr<Step> open_distinct(const Config& config, const StepContext& context) {
  return step_of(
      [names = config.string_list("distinct"), where = context.where](Frame& frame) {
        std::vector<int64_t> first;
        group_rows(frame, columns_of(frame, names, where), &first);
        frame.take(first);
      },
      false);
}

std::unique_ptr<Step> open_head(const Config& config, const StepContext&) {
  return step_of(
      [count = config.integer_in("head", 0, INT64_MAX), from = config.integer_in("from", 0, INT64_MAX, 0)](Frame& frame) {
        std::vector<int64_t> rows = all_rows(frame);
        const auto begin = std::min<int64_t>(from, frame.rows), end = begin + std::min<int64_t>(count, frame.rows - begin);
        frame.take({rows.begin() + begin, rows.begin() + end});
      },
      false);
}

// A row is drawn by its number, so that the sample of a table is the same whatever stands around.
std::unique_ptr<Step> open_sample(const Config& config, const StepContext&) {
  return step_of(
      [share = config.number_in("sample", 0, 1e15, 0), seed = config.integer("seed", 1)](Frame& frame) {
        std::vector<std::pair<float, int64_t>> drawn;
        const PhiloxKey key = philox_key(static_cast<uint64_t>(seed), 0x7ab1e5);
        for (int64_t r = 0; r < frame.rows; ++r)
          drawn.emplace_back(uniform_from_bits(philox_for_example(key, 0, static_cast<uint64_t>(r), 0).lane[0]), r);
        std::vector<int64_t> rows;
        if (share < 1) {
          for (const auto& [u, r] : drawn)
            if (u < share) rows.push_back(r);
        } else {
          const auto count = static_cast<size_t>(std::min(share, static_cast<double>(drawn.size())));
          std::sort(drawn.begin(), drawn.end());
          for (size_t i = 0; i < count; ++i) rows.push_back(drawn[i].second);
          std::sort(rows.begin(), rows.end());
        }
        frame.take(rows);
      },
      false);
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
constexpr Option kHead[] = {{"head", "integer", nullptr, "how many rows stay"}, {"from", "integer", "0", "the first of them"}};
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
const StepDef step_head{"head", "keeps a range of rows", {.options = kHead}, open_head, Rows::chooses};
const StepDef step_sample{"sample", "draws rows", {.options = kSample}, open_sample, Rows::chooses};

}  // namespace perigee::tables
