// Steps on sequences of rows: sequence, flatten, split, trim, length, offset, difference, moving, windows, expand.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "src/core/error.h"
#include "src/data/table/loops/large.h"
#include "src/data/table/loops/measures.h"
#include "src/data/table/spill/neighbours.h"
#include "src/data/table/spill/spilled_rows.h"
#include "src/data/table/steps.h"
#include "src/data/table/steps/aggregate.h"
#include "src/data/table/time_text.h"

namespace perigee::tables {
namespace {

constexpr int64_t kMostWindows = 100'000'000;

// Rows and where sequences begin, to be taken from a frame.
struct Picked {
  std::vector<int64_t> rows, bounds = {0};
  void end() { bounds.push_back(static_cast<int64_t>(rows.size())); }
  void into(Frame& frame) {
    frame.take(rows);
    frame.sequences = std::move(bounds);
  }
};

std::unique_ptr<Step> open_sequence(const Config& config, const StepContext& context) {
  const auto keys = config.string_list("sequence"), order = config.string_list("by");
  return step_of_table(
      [keys, order, where = context.where](Frame& frame) {
        std::vector<int64_t> first, rows(static_cast<size_t>(frame.rows));
        const std::vector<int64_t> groups = group_rows(frame, columns_of(frame, keys, where), &first);
        std::iota(rows.begin(), rows.end(), 0);
        std::stable_sort(rows.begin(), rows.end(),
                         [&](int64_t a, int64_t b) { return groups[static_cast<size_t>(a)] < groups[static_cast<size_t>(b)]; });
        Picked picked;
        const std::vector<size_t> columns = columns_of(frame, order, where);
        for (size_t at = 0; at < rows.size();) {
          size_t end = at;
          while (end < rows.size() && groups[static_cast<size_t>(rows[end])] == groups[static_cast<size_t>(rows[at])]) ++end;
          std::vector<int64_t> part(rows.begin() + static_cast<ptrdiff_t>(at), rows.begin() + static_cast<ptrdiff_t>(end));
          if (!columns.empty()) part = sorted_rows(frame, columns, {false}, std::move(part));
          picked.rows.insert(picked.rows.end(), part.begin(), part.end());
          picked.end();
          at = end;
        }
        picked.into(frame);
      },
      [keys, order, where = context.where](const TableRoom& room, const UseFrame& next) {
        return spilled_sequence(room, keys, order, where, next);
      });
}

std::unique_ptr<Step> open_flatten(const Config&, const StepContext&) {
  return step_of([](Frame& frame) { frame.sequences.clear(); }, true);
}

// Shortest parts of at most `length` rows; equal ones differ by one row at most.
std::unique_ptr<Step> open_split(const Config& config, const StepContext& context) {
  const std::string gap = config.string("gap", "");
  return step_by_sequences([column = config.string("split", ""), gap = gap.empty() ? -1 : span_ms(gap, context.where),
                            length = config.integer_in("length", 1, INT64_MAX, INT64_MAX), equal = config.boolean("equal", false),
                            where = context.where](Frame& frame) {
    const Column* time =
        gap < 0 ? nullptr
                : &frame.columns[columns_of(frame, {column}, where, [](Type t) { return t == Type::time || t == Type::integer; }).at(0)];
    const std::vector<int64_t> old = frame.bounds();
    std::vector<int64_t> bounds = {0};
    for (size_t s = 0; s + 1 < old.size(); ++s) {
      const int64_t count = old[s + 1] - old[s];
      int64_t most = std::max<int64_t>(count, 1);
      if (length < count) {
        const int64_t parts = (count + length - 1) / length;
        most = equal ? (count + parts - 1) / parts : length;
      }
      int64_t begin = old[s];
      for (int64_t r = old[s] + 1; r < old[s + 1]; ++r)
        if (r - begin >= most || (time != nullptr && time->whole[static_cast<size_t>(r)] - time->whole[static_cast<size_t>(r - 1)] > gap))
          bounds.push_back(begin = r);
      bounds.push_back(old[s + 1]);
    }
    frame.sequences = std::move(bounds);
  });
}

std::unique_ptr<Step> open_trim(const Config& config, const StepContext&) {
  return step_by_sequences(
      [count = config.integer_in("trim", 0, INT64_MAX), at_end = config.string("from", "start") == "end"](Frame& frame) {
        Picked picked;
        const std::vector<int64_t> bounds = frame.bounds();
        for (size_t s = 0; s + 1 < bounds.size(); ++s) {
          const int64_t gone = std::min(count, bounds[s + 1] - bounds[s]);
          for (int64_t r = bounds[s] + (at_end ? 0 : gone); r < bounds[s + 1] - (at_end ? gone : 0); ++r) picked.rows.push_back(r);
          picked.end();
        }
        picked.into(frame);
      });
}

std::unique_ptr<Step> open_length(const Config& config, const StepContext& context) {
  std::vector<std::string> pad;
  const Json* values = config.raw("pad");
  if (values != nullptr && values->is_array())
    for (const Json& each : values->as_array()) pad.push_back(each.is_null() ? "" : each.is_string() ? each.as_string() : each.dump());
  return step_by_sequences([length = config.integer_in("length", 1, 1 << 24), padded = values != nullptr && !values->is_null(), pad,
                            where = context.where](Frame& frame) {
    Picked picked;
    const std::vector<int64_t> bounds = frame.bounds();
    for (size_t s = 0; s + 1 < bounds.size(); ++s) {
      const int64_t end = std::min(bounds[s + 1], bounds[s] + length);
      for (int64_t r = bounds[s]; r < end; ++r) picked.rows.push_back(r);
      for (int64_t r = end - bounds[s]; padded && r < length; ++r) picked.rows.push_back(-1);
      picked.end();
    }
    const std::vector<int64_t> rows = picked.rows;
    picked.into(frame);
    if (!padded) return;
    if (pad.size() != frame.columns.size())
      throw Error(ErrorKind::data, {.where = where,
                                    .what = "'pad' has another number of values than the table columns",
                                    .got = std::to_string(pad.size()),
                                    .expected = std::to_string(frame.columns.size())});
    for (size_t c = 0; c < pad.size(); ++c) {
      const ColumnSpec& spec = frame.schema.columns[c];
      Column one(spec.type), out(spec.type);
      if (pad[c].empty()) one.add_missing();
      else if (!add_parsed(spec, pad[c], one))
        throw Error(ErrorKind::data, {.where = where,
                                      .what = "'pad' has a value that does not fit '" + spec.name + "'",
                                      .got = "'" + pad[c] + "'",
                                      .expected = type_text(spec.type)});
      for (size_t r = 0; r < rows.size(); ++r)
        if (rows[r] < 0) out.add_from(one, 0);
        else out.add_from(frame.columns[c], static_cast<int64_t>(r));
      frame.columns[c] = std::move(out);
    }
  });
}

// A text of JSON's value for add_parsed; nothing: missing.
std::optional<std::string> edge_value(const Config& config, const char* key) {
  const Json* value = config.raw(key);
  if (value == nullptr || value->is_null()) return {};
  return value->is_string() ? value->as_string() : value->dump();
}

void add_edge(Column& out, const ColumnSpec& spec, const std::optional<std::string>& value, const std::string& where) {
  if (!value) return out.add_missing();
  if (!add_parsed(spec, *value, out))
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "the value does not fit the column '" + spec.name + "'",
                                  .got = "'" + value->substr(0, 40) + "'",
                                  .expected = std::string("a ") + type_text(spec.type)});
}

std::unique_ptr<Step> open_offset(const Config& config, const StepContext& context) {
  const int64_t by = config.integer_in("by", -(int64_t{1} << 40), int64_t{1} << 40);
  const bool trim = config.string("edge", "missing") == "trim";
  const auto move = [names = config.string_list("offset"), by, make_new = config.boolean("new", false),
                     value = trim ? std::nullopt : edge_value(config, "value"), where = context.where](Frame& frame) {
    const std::vector<int64_t> bounds = frame.bounds();
    for (const std::string& name : names) {
      const size_t c = frame.schema.at(name, where);
      ColumnSpec spec = frame.schema.columns[c];
      Column out(spec.type);
      for (size_t s = 0; s + 1 < bounds.size(); ++s)
        for (int64_t r = bounds[s]; r < bounds[s + 1]; ++r)
          if (r - by >= bounds[s] && r - by < bounds[s + 1]) out.add_from(frame.columns[c], r - by);
          else add_edge(out, spec, value, where);
      if (make_new) spec.name = "offset(" + std::to_string(by) + "," + name + ")";
      frame.add(std::move(spec), std::move(out), static_cast<int64_t>(c) + 1);
    }
  };
  const int64_t first = std::max<int64_t>(by, 0), last = std::max<int64_t>(-by, 0);
  return step_by_sequences(
      [move, trim, first, last](Frame& frame) {
        const std::vector<int64_t> bounds = frame.bounds();
        const bool had = !frame.sequences.empty();
        move(frame);
        if (!trim) return;
        Picked picked;
        for (size_t s = 0; s + 1 < bounds.size(); ++s) {
          for (int64_t r = bounds[s] + first; r < bounds[s + 1] - last; ++r) picked.rows.push_back(r);
          picked.end();
        }
        picked.into(frame);
        if (!had) frame.sequences.clear();
      },
      [move, trim, first, last](const TableRoom&, const UseFrame& next) {
        return spilled_neighbours({.before = first, .after = last, .trim = trim}, move, next);
      });
}

std::unique_ptr<Step> open_difference(const Config& config, const StepContext& context) {
  const int64_t lag = config.integer_in("lag", 1, int64_t{1} << 40, 1);
  const auto subtract = [name = config.string("difference"), to = config.string("new", ""), lag, value = edge_value(config, "first"),
                         where = context.where](Frame& frame) {
    const size_t c = columns_of(frame, {name}, where, [](Type t) { return is_numeric(t) || t == Type::time; }).at(0);
    const Column& column = frame.columns[c];
    ColumnSpec spec{.name = to.empty() ? name : to, .type = column.type == Type::real ? Type::real : Type::integer};
    Column out(spec.type);
    const std::vector<int64_t> bounds = frame.bounds();
    for (size_t s = 0; s + 1 < bounds.size(); ++s)
      for (int64_t r = bounds[s]; r < bounds[s + 1]; ++r) {
        const auto now = static_cast<size_t>(r), before = static_cast<size_t>(r - lag);
        int64_t whole = 0;
        if (r - lag < bounds[s]) add_edge(out, spec, value, where);
        else if (column.is_missing(r) || column.is_missing(r - lag)) out.add_missing();
        else if (spec.type == Type::real) out.add_real(column.real[now] - column.real[before]);
        else if (__builtin_sub_overflow(column.whole[now], column.whole[before], &whole)) out.add_missing();
        else out.add_whole(whole);
      }
    frame.columns[c] = std::move(out);
    frame.schema.columns[c] = std::move(spec);
  };
  return step_by_sequences(
      subtract, [subtract, lag](const TableRoom&, const UseFrame& next) { return spilled_neighbours({.before = lag}, subtract, next); });
}

constexpr double kSequencesNaN = std::numeric_limits<double>::quiet_NaN();

std::unique_ptr<Step> open_moving(const Config& config, const StepContext& context) {
  const std::vector<std::string> known(std::begin(kAggregates), std::end(kAggregates));
  const std::string op = config.choice("op", "mean", known);
  const int64_t window = config.integer_in("rows", 1, 1 << 20);
  const auto compute =
      [name = config.string("moving"), window, op = static_cast<Aggregate>(std::find(known.begin(), known.end(), op) - known.begin()),
       to = config.string("new", ""), partial = config.string("edge", "partial") == "partial", where = context.where](Frame& frame) {
        const size_t c = frame.schema.at(name, where);
        const Column& column = frame.columns[c];
        Column out(aggregate_type(op, column.type));
        const std::vector<int64_t> bounds = frame.bounds();
        if (op == Aggregate::mean || op == Aggregate::sum) {
          if (!is_numeric(column.type)) columns_of(frame, {name}, where, is_numeric);
          out = Column(Type::real);
          const bool gaps = !column.missing.empty();
          if (!gaps) resize_large(out.real, static_cast<size_t>(frame.rows));
          for (size_t s = 0; !gaps && s + 1 < bounds.size(); ++s) {
            moving_sums(column, bounds[s], bounds[s + 1], window, out.real.data() + bounds[s]);
            for (int64_t r = bounds[s]; r < bounds[s + 1]; ++r) {
              const int64_t count = std::min(r - bounds[s] + 1, window);
              if (!partial && count < window) out.set_missing(r), out.real[static_cast<size_t>(r)] = kSequencesNaN;
              else if (op == Aggregate::mean) out.real[static_cast<size_t>(r)] /= static_cast<double>(count);
            }
          }
          for (size_t s = 0; gaps && s + 1 < bounds.size(); ++s)
            for (int64_t r = bounds[s]; r < bounds[s + 1]; ++r) {
              const int64_t from = std::max(bounds[s], r - window + 1);
              double sum = 0;
              int64_t count = 0;
              for (int64_t i = from; i <= r; ++i)
                if (!column.is_missing(i)) sum += column.number(i), ++count;
              if (count == 0 || (!partial && r - bounds[s] + 1 < window)) out.add_missing();
              else out.add_real(op == Aggregate::mean ? sum / static_cast<double>(count) : sum);
            }
        } else {
          for (size_t s = 0; s + 1 < bounds.size(); ++s)
            for (int64_t r = bounds[s]; r < bounds[s + 1]; ++r) {
              if (!partial && r - bounds[s] + 1 < window) {
                out.add_missing();
                continue;
              }
              std::vector<int64_t> rows;
              for (int64_t i = std::max(bounds[s], r - window + 1); i <= r; ++i) rows.push_back(i);
              out.append(aggregate(op, column.rows(rows), frame.schema.columns[c], std::vector<int64_t>(rows.size(), 0), 1, where));
            }
        }
        ColumnSpec spec{.name = to.empty() ? std::string(aggregate_text(op)) + "(" + std::to_string(window) + "," + name + ")" : to,
                        .type = out.type};
        if (spec.type == Type::category) spec.categories = frame.schema.columns[c].categories;
        frame.add(std::move(spec), std::move(out));
      };
  return step_by_sequences(compute, [compute, window](const TableRoom&, const UseFrame& next) {
    return spilled_neighbours({.before = window - 1}, compute, next);
  });
}

int64_t floor_to(int64_t x, int64_t unit) { return (x >= 0 ? x / unit : -((-x + unit - 1) / unit)) * unit; }

std::unique_ptr<Step> open_windows(const Config& config, const StepContext& context) {
  const int64_t size = span_ms(config.string("size"), context.where);
  const std::string every = config.string("every", "");
  return step_by_sequences([name = config.string("windows"), size, step = every.empty() ? size : span_ms(every, context.where),
                            shift = span_ms(config.string("shift", "0"), context.where), empty = config.boolean("empty", false),
                            where = context.where](Frame& frame) {
    if (size <= 0 || step <= 0) throw Error(ErrorKind::data, {.where = where, .what = "windows want a size and a distance above 0"});
    const Column& time = frame.columns[columns_of(frame, {name}, where, [](Type t) { return t == Type::time; }).at(0)];
    Picked picked;
    const std::vector<int64_t> bounds = frame.bounds();
    for (size_t s = 0; s + 1 < bounds.size(); ++s) {
      if (bounds[s] == bounds[s + 1]) continue;
      for (int64_t r = bounds[s]; r < bounds[s + 1]; ++r)
        if (time.is_missing(r) || (r > bounds[s] && time.whole[static_cast<size_t>(r)] < time.whole[static_cast<size_t>(r - 1)]))
          throw Error(ErrorKind::data, {.where = where + ": row " + std::to_string(r + 1),
                                        .what = "the time is missing or goes back",
                                        .hint = "a step {\"sort\": \"" + name + "\"} before it sorts the rows"});
      const int64_t first = time.whole[static_cast<size_t>(bounds[s])], last = time.whole[static_cast<size_t>(bounds[s + 1] - 1)];
      if ((last - first) / step > kMostWindows)
        throw Error(ErrorKind::resources,
                    {.where = where, .what = "there are too many windows", .got = std::to_string((last - first) / step)});
      // The first window that has the first row: windows begin at multiples of `step`.
      int64_t from = bounds[s];
      for (int64_t begin = floor_to(first - shift - size, step) + step + shift; begin <= last; begin += step) {
        while (from < bounds[s + 1] && time.whole[static_cast<size_t>(from)] < begin) ++from;
        const size_t before = picked.rows.size();
        for (int64_t r = from; r < bounds[s + 1] && time.whole[static_cast<size_t>(r)] < begin + size; ++r) picked.rows.push_back(r);
        if (empty || picked.rows.size() > before) picked.end();
      }
    }
    picked.into(frame);
  });
}

// A text as rows of numbers: of its letters, or of its words.
std::unique_ptr<Step> open_expand(const Config& config, const StepContext& context) {
  std::map<std::string, int64_t, std::less<>> number_of;
  const std::vector<std::string> words = config.string_list("words");
  for (size_t i = 0; i < words.size(); ++i) number_of.emplace(words[i], static_cast<int64_t>(i));
  return step_of(
      [name = config.string("expand"), to = config.string("new", ""), by = config.string("by", " "),
       unknown = config.string("unknown", "ignore"), number_of, where = context.where](Frame& frame) {
        const size_t c = columns_of(frame, {name}, where, [](Type t) { return t == Type::text; }).at(0);
        const Column texts = frame.columns[c];
        Picked picked;
        Column out(Type::integer);
        for (int64_t r = 0; r < frame.rows; ++r) {
          const std::string_view text = texts.is_missing(r) ? std::string_view() : texts.text(r);
          for (size_t at = 0; at < text.size();) {
            size_t end = at + 1;
            while (by.empty() && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;  // a letter of UTF-8
            if (!by.empty()) end = std::min(text.find(by, at), text.size());
            const std::string_view part = text.substr(at, end - at);
            at = end + by.size();
            const auto found = number_of.find(part);
            if (found == number_of.end() && unknown == "error")
              throw Error(ErrorKind::data, {.where = where + ": row " + std::to_string(r + 1),
                                            .what = "the text has a part that is none of 'words'",
                                            .got = "'" + std::string(part.substr(0, 40)) + "'"});
            if (found == number_of.end()) continue;
            picked.rows.push_back(r);
            out.add_whole(found->second);
          }
          picked.end();
        }
        picked.into(frame);
        frame.columns[c] = std::move(out);
        frame.schema.columns[c] = {.name = to.empty() ? name : to, .type = Type::integer};
      },
      true);
}

constexpr Option kSequence[] = {{"sequence", "list of names", nullptr, "the keys"},
                                {"by", "list of names", "[]", "columns that sort each sequence"}};
constexpr Option kFlatten[] = {{"flatten", "boolean", nullptr, "true"}};
constexpr Option kSplit[] = {{"split", "name", nullptr, "the column of times, \"\" for none"},
                             {"gap", "string", "none", "a longer one begins a new sequence: \"1 minute\""},
                             {"length", "integer", "none", "most rows of one", {1}},
                             {"equal", "boolean", "false", "parts of almost equal lengths"}};
constexpr Option kTrim[] = {{"trim", "integer", nullptr, "how many rows of each sequence go", {0}},
                            {"from", "name", "start", "", {}, {"start", "end"}}};
constexpr Option kLength[] = {{"length", "integer", nullptr, "the most rows of a sequence", {1, 1 << 24}},
                              {"pad", "list", "none", "the values of rows that fill up shorter ones"}};
constexpr Option kOffset[] = {
    {"offset", "list of names", nullptr, "columns whose values move down"},
    {"by", "integer", nullptr, "rows; below 0: up"},
    {"new", "boolean", "false", "into columns of their own, offset(BY,NAME)"},
    {"edge", "name", "missing", "of rows that get no value; with 'value' they get that one", {}, {"missing", "trim"}},
    {"value", "any", "none", ""}};
constexpr Option kDifference[] = {{"difference", "name", nullptr, "a column of numbers or times"},
                                  {"lag", "integer", "1", "rows back", {1}},
                                  {"first", "any", "missing", "the value of the first rows"},
                                  {"new", "name", "the column's", "its new name"}};
constexpr Option kMoving[] = {{"moving", "name", nullptr, "the column"},
                              {"rows", "integer", nullptr, "the window, which ends with the row", {1, 1 << 20}},
                              {"op", "name", "mean", "an aggregate as of group"},
                              {"new", "name", "op(rows,name)", ""},
                              {"edge", "name", "partial", "of windows that begin before the sequence", {}, {"partial", "missing"}}};
constexpr Option kWindows[] = {{"windows", "name", nullptr, "the column of times"},
                               {"size", "string", nullptr, "\"10 minutes\""},
                               {"every", "string", "size", "from one begin to the next"},
                               {"shift", "string", "0", "of all begins"},
                               {"empty", "boolean", "false", "windows without rows count"}};
constexpr Option kExpand[] = {{"expand", "name", nullptr, "a column of texts"},
                              {"words", "list of names", nullptr, "the parts that are numbered from 0"},
                              {"by", "string", " ", "what stands between two parts; empty: each letter is one"},
                              {"new", "name", "the column's", ""},
                              {"unknown", "name", "ignore", "", {}, {"ignore", "error"}}};

}  // namespace

extern const StepDef step_sequence, step_flatten, step_split, step_trim, step_length, step_offset, step_difference, step_moving,
    step_windows, step_expand;
const StepDef step_sequence{"sequence", "makes rows with equal keys a sequence", {.options = kSequence}, open_sequence, Rows::remakes};
const StepDef step_flatten{"flatten", "forgets where sequences begin", {.options = kFlatten}, open_flatten, Rows::remakes};
const StepDef step_split{"split", "splits sequences", {.options = kSplit}, open_split, Rows::remakes};
const StepDef step_trim{"trim", "shortens sequences", {.options = kTrim}, open_trim, Rows::remakes};
const StepDef step_length{"length", "cuts sequences to a length, or fills them up", {.options = kLength}, open_length, Rows::remakes};
const StepDef step_offset{"offset", "moves columns against the others, within sequences", {.options = kOffset}, open_offset, Rows::remakes};
const StepDef step_difference{
    "difference", "subtracts the value of an earlier row", {.options = kDifference}, open_difference, Rows::remakes};
const StepDef step_moving{"moving", "computes an aggregate over the last rows", {.options = kMoving}, open_moving, Rows::remakes};
const StepDef step_windows{"windows", "makes spans of time sequences", {.options = kWindows}, open_windows, Rows::remakes};
const StepDef step_expand{"expand", "makes a text a sequence of numbers", {.options = kExpand}, open_expand, Rows::remakes};

}  // namespace perigee::tables
