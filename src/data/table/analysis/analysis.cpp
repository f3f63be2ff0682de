#include "src/data/table/analysis/analysis.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>

#include "src/data/table/analysis/sketch.h"
#include "src/io/digest.h"
#include "src/io/file.h"

namespace perigee::tables {
namespace {

constexpr double kAnalysisShares[] = {0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99};

struct ColumnSummary {
  int64_t rows = 0, missing = 0, nan = 0, infinite = 0, zeros = 0, negative = 0;
  Moments moments;  // of numbers, of times, of lengths of texts
  Quantiles quantiles;
  Histogram histogram;
  Distinct distinct;
  Frequent frequent;

  void merge(const ColumnSummary& other) {
    rows += other.rows, missing += other.missing, nan += other.nan, infinite += other.infinite, zeros += other.zeros,
        negative += other.negative;
    moments.merge(other.moments);
    quantiles.merge(other.quantiles);
    histogram.merge(other.histogram);
    distinct.merge(other.distinct);
    frequent.merge(other.frequent);
  }
};

uint64_t analysis_mixed(uint64_t x) {
  x *= 0x9e3779b97f4a7c15;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93;
  return x ^ x >> 32;
}

// Sums of products of deviations for each pair of columns, of the rows that have both.
struct Pairs {
  struct Pair {
    double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  };
  std::vector<Pair> of;

  static void merge(Pair& a, const Pair& b) {
    if (b.n == 0) return;
    const double n = a.n + b.n, dx = b.x - a.x, dy = b.y - a.y, share = a.n * b.n / n;
    a.xx += b.xx + dx * dx * share;
    a.yy += b.yy + dy * dy * share;
    a.xy += b.xy + dx * dy * share;
    a.x += dx * b.n / n;
    a.y += dy * b.n / n;
    a.n = n;
  }
  void merge(const Pairs& other) {
    for (size_t i = 0; i < of.size(); ++i) merge(of[i], other.of[i]);
  }
};

double dot(const double* a, const double* b, size_t count) {
  double sums[8] = {};
  size_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (size_t lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

struct AnalysisPart {
  std::vector<ColumnSummary> columns;
  Pairs pairs;
};

void summarize(const Column& column, const ColumnSpec& spec, ColumnSummary* out, std::vector<double>* numbers) {
  out->rows = column.size();
  numbers->clear();
  if (column.type == Type::text || column.type == Type::category || column.type == Type::list) {
    for (int64_t r = 0; r < column.size(); ++r) {
      if (column.is_missing(r)) {
        ++out->missing;
        continue;
      }
      const std::string list = column.type == Type::list ? cell_text(column, spec, r) : "";
      const std::string_view text = column.type == Type::text ? column.text(r)
                                    : column.type == Type::list
                                        ? std::string_view(list)
                                        : std::string_view(spec.categories[static_cast<size_t>(column.whole[static_cast<size_t>(r)])]);
      numbers->push_back(static_cast<double>(text.size()));
      out->distinct.add(xxh3_64(as_bytes(text)));
      out->frequent.add(text);
    }
  } else {
    for (int64_t r = 0; r < column.size(); ++r) {
      if (column.is_missing(r)) {
        ++out->missing;
        continue;
      }
      const double x = column.number(r);
      out->distinct.add(analysis_mixed(std::bit_cast<uint64_t>(x + 0.0)));
      out->zeros += x == 0;
      out->negative += x < 0;
      out->nan += std::isnan(x);
      out->infinite += std::isinf(x);
      if (std::isfinite(x)) numbers->push_back(x);
    }
    if (column.type == Type::boolean)
      for (const double x : *numbers) out->frequent.add(x != 0 ? "true" : "false");
  }
  out->moments.add(*numbers);
  out->histogram.add(*numbers);
  if (column.type != Type::category) out->quantiles.add(*numbers);
}

void correlate(const Frame& frame, const std::vector<size_t>& columns, Pairs* out) {
  const auto rows = static_cast<size_t>(frame.rows);
  std::vector<std::vector<double>> centred(columns.size());
  std::vector<double> means(columns.size());
  std::vector<bool> gaps(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    const Column& column = frame.columns[columns[i]];
    centred[i].resize(rows);
    double sum = 0, count = 0;
    for (size_t r = 0; r < rows; ++r) {
      const double x = column.number(static_cast<int64_t>(r));
      centred[i][r] = x;
      if (std::isfinite(x)) sum += x, ++count;
      else gaps[i] = true;
    }
    means[i] = count > 0 ? sum / count : 0;
    for (double& x : centred[i]) x -= means[i];
  }
  out->of.assign(columns.size() * (columns.size() + 1) / 2, {});
  size_t at = 0;
  std::vector<double> squares(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) squares[i] = gaps[i] ? 0 : dot(centred[i].data(), centred[i].data(), rows);
  for (size_t i = 0; i < columns.size(); ++i)
    for (size_t j = 0; j <= i; ++j, ++at) {
      Pairs::Pair& pair = out->of[at];
      const double *a = centred[i].data(), *b = centred[j].data();
      if (!gaps[i] && !gaps[j]) {
        pair = {static_cast<double>(rows), means[i], means[j], squares[i], squares[j], i == j ? squares[i] : dot(a, b, rows)};
        continue;
      }
      double x = 0, y = 0;
      for (size_t r = 0; r < rows; ++r)
        if (std::isfinite(a[r]) && std::isfinite(b[r])) x += a[r], y += b[r], ++pair.n;
      if (pair.n == 0) continue;
      x /= pair.n, y /= pair.n;
      for (size_t r = 0; r < rows; ++r)
        if (std::isfinite(a[r]) && std::isfinite(b[r]))
          pair.xx += (a[r] - x) * (a[r] - x), pair.yy += (b[r] - y) * (b[r] - y), pair.xy += (a[r] - x) * (b[r] - y);
      pair.x = means[i] + x, pair.y = means[j] + y;
    }
}

Json analysis_json_of(const ColumnSummary& summary, const ColumnSpec& spec) {
  const bool text = spec.type == Type::text || spec.type == Type::category || spec.type == Type::list;
  Json json(Json::Object{{"name", spec.name}, {"type", type_text(spec.type)}, {"rows", summary.rows}, {"missing", summary.missing}});
  const double present = static_cast<double>(summary.rows - summary.missing);
  json.set("distinct", static_cast<int64_t>(std::llround(std::min(summary.distinct.estimate(), present))));
  if (!text) {
    json.set("zeros", summary.zeros);
    json.set("negative", summary.negative);
    if (summary.nan > 0) json.set("nan", summary.nan);
    if (summary.infinite > 0) json.set("infinite", summary.infinite);
  }
  if (summary.moments.count > 0) {
    Json numbers = Json::object();
    numbers.set("min", summary.moments.min);
    numbers.set("max", summary.moments.max);
    numbers.set("mean", summary.moments.mean);
    numbers.set("stdev", std::sqrt(summary.moments.variance()));
    numbers.set("skewness", summary.moments.skewness());
    if (spec.type != Type::category) {
      Json quantiles = Json::object();
      for (const double share : kAnalysisShares) {
        char name[8];
        quantiles.set(std::string(name, std::to_chars(name, name + sizeof name, share).ptr), summary.quantiles.at(share));
      }
      numbers.set("quantiles", std::move(quantiles));
    }
    Json histogram = Json::array();
    for (const Histogram::Bin& bin : summary.histogram.bins()) histogram.push(Json(Json::Array{bin.from, bin.to, bin.count}));
    numbers.set("histogram", std::move(histogram));
    if (text) json.set("length", std::move(numbers));
    else
      for (auto& [key, value] : numbers.as_object()) json.set(key, std::move(value));
  }
  const auto top = summary.frequent.top(10);
  if (top.empty()) return json;
  Json list = Json::array();
  for (const auto& [value, count] : top) list.push(Json(Json::Array{value, count}));
  json.set("top", std::move(list));
  if (!summary.frequent.exact()) json.set("top_is_approximate", true);
  return json;
}

}  // namespace

Json analyse(TableFile& file, const std::string& name) {
  AnalysisPart whole;
  int64_t rows = 0;
  std::vector<size_t> correlated;
  std::vector<AnalysisPart> parts(64);  // of each thread
  const auto work = [&](TableFile::Chunk& chunk) {
    AnalysisPart& part = parts[static_cast<size_t>(chunk.rank)];
    const Frame& frame = chunk.block.frame;
    part.columns.assign(frame.columns.size(), {});
    std::vector<double> numbers;
    for (size_t c = 0; c < frame.columns.size(); ++c) summarize(frame.columns[c], frame.schema.columns[c], &part.columns[c], &numbers);
    correlate(frame, correlated, &part.pairs);
  };
  const auto in_order = [&](TableFile::Chunk& chunk) {
    const AnalysisPart& part = parts[static_cast<size_t>(chunk.rank)];
    rows += chunk.block.frame.rows;
    for (size_t c = 0; c < whole.columns.size(); ++c) whole.columns[c].merge(part.columns[c]);
    whole.pairs.merge(part.pairs);
  };
  do {
    rows = 0;
    correlated.clear();
    for (size_t c = 0; c < file.schema().columns.size() && correlated.size() < kMostCorrelated; ++c) {
      const Type type = file.schema().columns[c].type;
      if (type == Type::integer || type == Type::real || type == Type::boolean) correlated.push_back(c);
    }
    whole = {};
    whole.columns.resize(file.schema().columns.size());
    whole.pairs.of.assign(correlated.size() * (correlated.size() + 1) / 2, {});
  } while (!file.each(work, in_order));

  Json columns = Json::array(), names = Json::array(), values = Json::array();
  for (size_t c = 0; c < whole.columns.size(); ++c) columns.push(analysis_json_of(whole.columns[c], file.schema().columns[c]));
  for (const size_t c : correlated) names.push(file.schema().columns[c].name);
  for (size_t i = 0, at = 0; i < correlated.size(); ++i) {
    Json row = Json::array();
    for (size_t j = 0; j <= i; ++j, ++at) {
      const Pairs::Pair& pair = whole.pairs.of[at];
      const double norm = std::sqrt(pair.xx) * std::sqrt(pair.yy);
      row.push(norm > 0 ? Json(i == j ? 1.0 : std::clamp(pair.xy / norm, -1.0, 1.0)) : Json());
    }
    values.push(std::move(row));
  }
  Json json(Json::Object{{"file", name}, {"rows", rows}, {"columns", std::move(columns)}});
  if (correlated.size() > 1) json.set("correlations", Json(Json::Object{{"columns", std::move(names)}, {"values", std::move(values)}}));
  return json;
}

}  // namespace perigee::tables
