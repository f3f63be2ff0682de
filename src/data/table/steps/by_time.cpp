// by_time: a part of a table by the times of its rows.
#include <algorithm>
#include <cmath>
#include <optional>

#include "src/core/error.h"
#include "src/data/table/spill/chunk_store.h"
#include "src/data/table/spill/merge.h"
#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

// The times from `least` on and before `end`; none: there is no such limit.
struct TimeLimits {
  std::optional<int64_t> least, end;
};

// The last rows of those that came: the latest, of equal times those of the largest numbers.
class LastRows {
 public:
  explicit LastRows(int64_t most) : most_(static_cast<size_t>(most)) {}
  void add(int64_t time, int64_t row) {
    if (most_ == 0) return;
    if (rows_.size() == most_) {
      if (std::pair(time, row) < rows_.front()) return;
      std::pop_heap(rows_.begin(), rows_.end(), std::greater<>());
      rows_.pop_back();
    }
    rows_.emplace_back(time, row);
    std::push_heap(rows_.begin(), rows_.end(), std::greater<>());
  }
  std::vector<int64_t> rows() const {  // ascending
    std::vector<int64_t> list;
    for (const auto& [time, row] : rows_) list.push_back(row);
    std::sort(list.begin(), list.end());
    return list;
  }

 private:
  size_t most_;
  std::vector<std::pair<int64_t, int64_t>> rows_;  // a heap, the first one of them in front
};

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
  std::unique_ptr<FrameSink> spilled(const TableRoom& room, const UseFrame& next) const override;

  void apply(Frame& frame) const override {
    const Column& time = frame.columns[time_column(frame)];
    std::vector<int64_t> sorted;
    for (int64_t r = 0; r < frame.rows; ++r)
      if (!time.is_missing(r)) sorted.push_back(time.whole[static_cast<size_t>(r)]);
    std::sort(sorted.begin(), sorted.end());
    std::vector<int64_t> found;
    for (const int64_t place : places(static_cast<int64_t>(sorted.size()))) found.push_back(sorted[static_cast<size_t>(place)]);
    const std::optional<TimeLimits> limits = limits_of(found);
    keep_rows(frame, limits ? chosen(frame, *limits) : std::vector<uint8_t>(static_cast<size_t>(frame.rows)));
  }

  size_t time_column(const Frame& frame) const {
    return columns_of(frame, {name_}, where_, [](Type t) { return t == Type::time || t == Type::integer; }).at(0);
  }
  const std::string& where() const { return where_; }
  int64_t before() const { return before_; }

  // Where among the sorted times those stand at which the part begins and ends, as far as there are such rows.
  std::vector<int64_t> places(int64_t count) const {
    std::vector<int64_t> list;
    for (size_t part = part_ == 0 ? 0 : part_ - 1; part <= part_; ++part)
      if (const int64_t row = std::llround(ends_[part] * static_cast<double>(count)); row < count) list.push_back(row);
    return list;
  }
  // None: the part has no rows.
  std::optional<TimeLimits> limits_of(const std::vector<int64_t>& times) const {
    if (part_ == 0) return TimeLimits{.end = times.empty() ? std::nullopt : std::optional(times[0])};
    if (times.empty()) return std::nullopt;
    return TimeLimits{.least = times[0], .end = times.size() > 1 ? std::optional(times[1]) : std::nullopt};
  }

  // Not 0 for rows that stay.
  std::vector<uint8_t> chosen(const Frame& frame, const TimeLimits& limits) const {
    const Column& time = frame.columns[time_column(frame)];
    std::vector<uint8_t> stays(static_cast<size_t>(frame.rows));
    const std::vector<int64_t> bounds = frame.bounds();
    for (size_t s = 0; s + 1 < bounds.size(); ++s) {
      LastRows earlier(before_);
      if (!mark(time, bounds[s], bounds[s + 1], 0, limits, stays, earlier)) continue;
      for (const int64_t row : earlier.rows()) stays[static_cast<size_t>(row)] = 1;
    }
    return stays;
  }
  // Marks the part's rows and gathers earlier ones, whose numbers begin with `first`. False: the part has none of these rows.
  static bool mark(const Column& time, int64_t begin, int64_t end, int64_t first, const TimeLimits& limits, std::vector<uint8_t>& stays,
                   LastRows& earlier) {
    bool any = false;
    for (int64_t r = begin; r < end; ++r) {
      if (time.is_missing(r)) continue;
      const int64_t t = time.whole[static_cast<size_t>(r)];
      if (limits.least && t < *limits.least) earlier.add(t, first + r);
      else if (!limits.end || t < *limits.end) stays[static_cast<size_t>(r)] = 1, any = true;
    }
    return any;
  }

 private:
  std::string name_, where_;
  int64_t before_;
  std::vector<double> ends_ = {};  // of the parts, as shares of all rows
  size_t part_ = 0;
};

// The table waits on the disk until its times are sorted.
class ByTimeSink : public FrameSink {
 public:
  ByTimeSink(const TableRoom& room, const ByTime& step, UseFrame next)
      : room_(room), step_(step), next_(std::move(next)), rows_(std::make_shared<ScratchFile>(room)) {}

  void add(Frame&& frame) override {
    if (rows_.size() == 0) time_ = step_.time_column(frame);
    sequences_ |= !frame.sequences.empty();
    rows_.add(frame);
  }

  void finish() override {
    const std::optional<TimeLimits> limits = step_.limits_of(times());
    std::vector<int64_t> earlier = limits && !sequences_ ? earlier_rows(*limits) : std::vector<int64_t>{};
    size_t next = 0;
    int64_t first = 0;
    for (size_t chunk = 0; chunk < rows_.size(); ++chunk) {
      Frame frame = rows_.take(chunk);
      const int64_t count = frame.rows;
      std::vector<uint8_t> stays(static_cast<size_t>(count));
      LastRows none(0);
      if (limits && sequences_) stays = step_.chosen(frame, *limits);
      else if (limits) ByTime::mark(frame.columns[time_], 0, count, 0, *limits, stays, none);
      for (; next < earlier.size() && earlier[next] < first + count; ++next) stays[static_cast<size_t>(earlier[next] - first)] = 1;
      keep_rows(frame, stays);
      next_(std::move(frame));
      first += count;
    }
  }

 private:
  template <class F>
  void each_time(F use) const {
    int64_t first = 0;
    for (size_t chunk = 0; chunk < rows_.size(); ++chunk) {
      const Frame frame = rows_.read(chunk, {time_});
      use(frame.columns[0], first);
      first += frame.rows;
    }
  }

  std::vector<int64_t> times() const {
    const ColumnSpec spec{.name = "time", .type = Type::integer};
    std::vector<int64_t> wanted, found;
    int64_t count = 0, place = 0;
    SpilledSort sort(room_, {spec.name}, {false}, step_.where(), [&](Frame&& sorted) {
      for (; found.size() < wanted.size() && wanted[found.size()] < place + sorted.rows;)
        found.push_back(sorted.columns[0].whole[static_cast<size_t>(wanted[found.size()] - place)]);
      place += sorted.rows;
    });
    each_time([&](const Column& time, int64_t) {
      Frame there;
      Column known(Type::integer);
      for (int64_t r = 0; r < time.size(); ++r)
        if (!time.is_missing(r)) known.add_whole(time.whole[static_cast<size_t>(r)]);
      there.rows = known.size();
      count += there.rows;
      there.add(spec, std::move(known));
      sort.add(std::move(there));
    });
    wanted = step_.places(count);
    sort.finish();
    return found;
  }

  std::vector<int64_t> earlier_rows(const TimeLimits& limits) const {
    LastRows earlier(step_.before());
    bool any = false;
    each_time([&](const Column& time, int64_t first) {
      std::vector<uint8_t> ignored(static_cast<size_t>(time.size()));
      any |= ByTime::mark(time, 0, time.size(), first, limits, ignored, earlier);
    });
    return any ? earlier.rows() : std::vector<int64_t>{};
  }

  TableRoom room_;
  const ByTime& step_;
  UseFrame next_;
  ChunkStore rows_;
  size_t time_ = 0;
  bool sequences_ = false;
};

std::unique_ptr<FrameSink> ByTime::spilled(const TableRoom& room, const UseFrame& next) const {
  return std::make_unique<ByTimeSink>(room, *this, next);
}

std::unique_ptr<Step> open_by_time(const Config& config, const StepContext& context) { return std::make_unique<ByTime>(config, context); }

constexpr Option kByTime[] = {
    {"by_time", "name", nullptr, "a column of times, or of integers"},
    {"parts", "list of numbers", nullptr, "shares of the rows, the earliest first: {0.8, 0.2}"},
    {"part", "integer", nullptr, "which stays, from 0", {0}},
    {"before", "integer", "0", "earlier rows that stay too, for the first windows to look back at", {0, 1 << 20}}};

}  // namespace

extern const StepDef step_by_time;
const StepDef step_by_time{
    "by_time", "keeps a part of the rows by their times: for training, or for the test", {.options = kByTime}, open_by_time, Rows::chooses};

}  // namespace perigee::tables
