// group: one row for each key (and, where the table has sequences, for each sequence), each other column by an aggregate.
#include <algorithm>
#include <numeric>
#include <optional>

#include "src/data/table/spill/key_parts.h"
#include "src/data/table/steps.h"
#include "src/data/table/steps/aggregate.h"

namespace perigee::tables {
namespace {

struct GroupOptions {
  std::vector<std::string> keys;
  std::vector<std::pair<Aggregate, std::vector<std::string>>> wanted;
  std::optional<Aggregate> other;  // of all columns that are not named
  std::string where;
};

using GroupColumns = std::vector<std::pair<Aggregate, size_t>>;

// The aggregates and their columns, in the order of the result.
GroupColumns columns_of_groups(const Frame& frame, const GroupOptions& options, const std::vector<size_t>& keys) {
  const auto is_key = [&](size_t c) { return std::find(keys.begin(), keys.end(), c) != keys.end(); };
  GroupColumns named, all;
  for (const auto& [op, names] : options.wanted) {
    const bool numbers = !options.other && names == std::vector<std::string>{"*"};
    for (const size_t c : columns_of(frame, names, options.where, numbers ? is_numeric : nullptr))
      if (!is_key(c)) named.emplace_back(op, c);
  }
  if (!options.other) return named;
  for (size_t c = 0; c < frame.columns.size(); ++c) {
    const size_t before = all.size();
    if (is_key(c)) continue;
    for (const auto& [op, column] : named)
      if (column == c) all.emplace_back(op, c);
    if (all.size() == before) all.emplace_back(*options.other, c);
  }
  return all;
}

ColumnSpec group_spec(Aggregate op, const ColumnSpec& of, const Column& column) {
  ColumnSpec spec{.name = std::string(aggregate_text(op)) + "(" + of.name + ")", .type = aggregate_type(op, column.type)};
  if (spec.type == Type::category) spec.categories = of.categories;
  return spec;
}

void group_frame(const GroupOptions& options, Frame& frame) {
  const std::vector<size_t> columns = columns_of(frame, options.keys, options.where);
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
  for (const auto& [op, c] : columns_of_groups(frame, options, columns))
    out.add(group_spec(op, frame.schema.columns[c], frame.columns[c]),
            aggregate(op, frame.columns[c], frame.schema.columns[c], groups, count, options.where));
  frame = std::move(out);
}

// Part by part. Held are the keys of a part's groups and what their aggregates need: a part may have more rows than the memory.
class GroupSink : public PartsSink {
 public:
  GroupSink(const TableRoom& room, GroupOptions options, UseFrame next) : PartsSink(room, std::move(next)), options_(std::move(options)) {}

 protected:
  // Only what the groups need goes to the disk.
  std::vector<size_t> keys_of(const Frame& frame) override {
    const std::vector<size_t> columns = columns_of(frame, options_.keys, options_.where);
    wanted_ = columns_of_groups(frame, options_, columns);
    kept_ = columns;
    for (const auto& [op, c] : wanted_)
      if (std::find(kept_.begin(), kept_.end(), c) == kept_.end()) kept_.push_back(c);
    const auto place = [&](size_t c) { return static_cast<size_t>(std::find(kept_.begin(), kept_.end(), c) - kept_.begin()); };
    for (auto& [op, c] : wanted_) c = place(c);
    std::vector<size_t> keys;
    for (const size_t c : columns) keys.push_back(place(c));
    return keys;
  }
  void reduce(Frame& frame) const override {
    Frame kept{.rows = frame.rows};
    for (const size_t c : kept_) kept.add(std::move(frame.schema.columns[c]), std::move(frame.columns[c]));
    frame = std::move(kept);
  }

  bool compute(const ChunkStore& part, bool must, ChunkStore& run) override {
    Groups groups{.keys = keys()};
    std::vector<GroupAggregate> aggregates;
    std::vector<uint8_t> wants(wanted_.size(), 1);
    TableSchema schema;
    bool fits = true;
    while (fits && (groups.first.columns.empty() || std::find(wants.begin(), wants.end(), 1) != wants.end())) {
      each_batch(part, room().part() / 4, [&](Frame&& batch) {
        if (!fits) return;
        const std::vector<int64_t> of_rows = groups.take(batch);
        if (aggregates.empty())
          for (const auto& [op, c] : wanted_) aggregates.emplace_back(op, batch.schema.columns[c], batch.columns[c], options_.where);
        uint64_t bytes = bytes_of(groups.first);
        for (size_t i = 0; i < wanted_.size(); ++i) {
          if (wants[i]) aggregates[i].take(batch.columns[wanted_[i].second], of_rows, groups.first.rows);
          bytes += aggregates[i].bytes();
        }
        schema = std::move(batch.schema);
        fits = must || bytes <= room().part();
      });
      for (size_t i = 0; fits && i < wanted_.size(); ++i) wants[i] = wants[i] && aggregates[i].wants_more(groups.first.rows);
    }
    if (!fits) return false;
    Frame out{.rows = groups.first.rows};
    for (size_t k = 0; k < keys().size(); ++k) out.add(groups.first.schema.columns[k], std::move(groups.first.columns[k]));
    for (size_t i = 0; i < wanted_.size(); ++i) {
      Column of(schema.columns[wanted_[i].second].type);
      out.add(group_spec(wanted_[i].first, schema.columns[wanted_[i].second], of), aggregates[i].result(out.rows));
    }
    out.add(groups.first.schema.columns.back(), std::move(groups.first.columns.back()));
    add_run(run, std::move(out), room());
    return true;
  }

 private:
  // The keys of the groups so far, and the number of each one's first row.
  struct Groups {
    std::vector<size_t> keys;
    Frame first = {};
    std::vector<int64_t> take(const Frame& batch) {
      const auto before = static_cast<ptrdiff_t>(first.rows);
      Frame more{.rows = batch.rows};
      for (const size_t c : keys) more.schema.columns.push_back(batch.schema.columns[c]), more.columns.push_back(batch.columns[c]);
      more.schema.columns.push_back(batch.schema.columns.back()), more.columns.push_back(batch.columns.back());
      append_chunk(first, std::move(more));
      std::vector<size_t> columns(keys.size());
      std::iota(columns.begin(), columns.end(), size_t{0});
      std::vector<int64_t> firsts = {0}, groups(static_cast<size_t>(first.rows));
      if (!columns.empty()) groups = group_rows(first, columns, &firsts);
      first.take(firsts);
      groups.erase(groups.begin(), groups.begin() + before);
      return groups;
    }
  };

  GroupOptions options_;
  GroupColumns wanted_;       // places in what is kept
  std::vector<size_t> kept_;  // columns of the table
};

std::unique_ptr<Step> open_group(const Config& config, const StepContext& context) {
  GroupOptions options{.keys = config.string_list("group"), .where = context.where};
  for (size_t i = 0; i < std::size(kAggregates); ++i)
    if (config.has(kAggregates[i])) options.wanted.emplace_back(static_cast<Aggregate>(i), config.string_list(kAggregates[i]));
  if (config.has("other")) {
    const std::vector<std::string> known(std::begin(kAggregates), std::end(kAggregates));
    const std::string name = config.choice("other", "mean", known);
    options.other = static_cast<Aggregate>(std::find(known.begin(), known.end(), name) - known.begin());
  }
  return step_by_sequences(
      [options](Frame& frame) { group_frame(options, frame); },
      [options](const TableRoom& room, const UseFrame& next) { return std::make_unique<GroupSink>(room, options, next); });
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
                             {"midpoint", "list of names", "[]", "the middle of places, texts of latitude and longitude: 48.1,11.6"},
                             {"other", "name", "left out", "the aggregate of all columns that are not named"}};

}  // namespace

extern const StepDef step_group;
const StepDef step_group{
    "group", "makes one row of many by keys, with aggregates of the other columns", {.options = kGroup}, open_group, Rows::remakes};

}  // namespace perigee::tables
