// analyse() against sums done here, and the same bits for any number of threads; cells that do not meet a schema, row by row.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "src/core/error.h"
#include "src/data/table/analysis/analysis.h"
#include "src/data/table/analysis/sketch.h"
#include "src/data/table/write_table.h"
#include "src/io/file.h"
#include "src/io/npy.h"
#include "tests/io/temporary.h"

namespace perigee::tables {
namespace {

std::vector<double> draws(size_t count, double scale) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(3, scale);
  std::vector<double> values(count);
  for (double& x : values) x = normal(random);
  return values;
}

TEST(TableSketch, QuantilesAreNear) {
  std::vector<double> values = draws(500'000, 2);
  Quantiles whole, parts;
  whole.add(values);
  for (size_t at = 0; at < values.size(); at += 7919) {
    Quantiles part;
    part.add(std::span(values).subspan(at, std::min<size_t>(7919, values.size() - at)));
    parts.merge(part);
  }
  std::sort(values.begin(), values.end());
  for (const double share : {0.01, 0.25, 0.5, 0.75, 0.99})
    for (const Quantiles* each : {&whole, &parts}) {
      const double rank = static_cast<double>(std::lower_bound(values.begin(), values.end(), each->at(share)) - values.begin()) / 500'000;
      EXPECT_NEAR(rank, share, 0.005);
    }
  EXPECT_TRUE(std::isnan(Quantiles().at(0.5)));
}

TEST(TableSketch, HistogramsCountEachValueOnce) {
  for (const double scale : {1e-6, 1.0, 1e9}) {
    const std::vector<double> values = draws(100'000, scale);
    Histogram whole, parts;
    whole.add(values);
    for (size_t at = 0; at < values.size(); at += 1000) {
      Histogram part;
      part.add(std::span(values).subspan(at, 1000));
      parts.merge(part);
    }
    for (const Histogram* each : {&whole, &parts}) {
      int64_t sum = 0;
      const auto bins = each->bins();
      EXPECT_GE(bins.size(), 16u);
      EXPECT_LE(bins.size(), 64u);
      for (const auto& bin : bins) {
        EXPECT_EQ(bin.count, std::count_if(values.begin(), values.end(), [&](double x) { return x >= bin.from && x < bin.to; }));
        sum += bin.count;
      }
      EXPECT_EQ(sum, 100'000);
    }
  }
  Histogram extreme;
  const double far[] = {-1e300, 0, 5e-324, 1e300};
  extreme.add(far);
  const double near[] = {1, 2, 3};
  extreme.add(near);
  int64_t sum = 0;
  for (const auto& bin : extreme.bins()) sum += bin.count;
  EXPECT_EQ(sum, 7);
}

TEST(TableSketch, CountsDifferentAndFrequentValues) {
  for (const int count : {10, 1000, 300'000}) {
    Distinct distinct;
    for (int twice = 0; twice < 2; ++twice)
      for (int i = 0; i < count; ++i) {
        uint64_t x = static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
        x = (x ^ x >> 27) * 0x94d049bb133111eb;
        distinct.add(x ^ x >> 31);
      }
    EXPECT_NEAR(distinct.estimate(), count, 0.03 * count);
  }
  Frequent frequent;
  for (int i = 0; i < 100'000; ++i) frequent.add(i % 3 == 0 ? "often" : std::to_string(i));
  EXPECT_EQ(frequent.top(1)[0].first, "often");
  EXPECT_FALSE(frequent.exact());
}

TEST(TableSketch, MomentsMerge) {
  const std::vector<double> values = draws(10'000, 2);
  Moments whole, parts;
  whole.add(values);
  for (size_t at = 0; at < values.size(); at += 100) {
    Moments part;
    part.add(std::span(values).subspan(at, 100));
    parts.merge(part);
  }
  EXPECT_NEAR(whole.mean, parts.mean, 1e-12);
  EXPECT_NEAR(whole.m2, parts.m2, 1e-8);
  EXPECT_NEAR(whole.skewness(), parts.skewness(), 1e-9);
}

std::string small_table() {
  std::string text = "n,x,word,when,ok\n";
  std::mt19937_64 random(9);
  for (int i = 0; i < 30'000; ++i) {
    const uint64_t draw = random();
    text += std::to_string(i) + "," + (draw % 10 == 0 ? "" : std::to_string(2.5 * i + static_cast<double>(draw % 1000))) + ",w" +
            std::to_string(draw % 7) + ",20" + std::to_string(10 + draw % 80) + "-01-02," + (draw % 2 ? "true" : "false") + "\n";
  }
  return text;
}

TEST(TableAnalysis, HasTheSameBitsForAnyThreads) {
  const TemporaryFolder folder;
  write_file(folder / "t.csv", as_bytes(small_table()));
  std::string once;
  for (const int threads : {1, 2, 5}) {
    TableFile file(folder / "t.csv", {.threads = threads, .chunk_bytes = 10'000});
    const std::string text = analyse(file, "t.csv").dump();
    if (once.empty()) once = text;
    EXPECT_EQ(text, once) << threads;
  }
  TableFile file(folder / "t.csv", {});
  const Json found = analyse(file, "t.csv");
  const Json::Array& columns = found.find("columns")->as_array();
  EXPECT_EQ(found.find("rows")->as_int(), 30'000);
  EXPECT_DOUBLE_EQ(columns[0].find("mean")->as_number(), 14'999.5);
  EXPECT_NEAR(columns[0].find("stdev")->as_number(), std::sqrt(30'000.0 * 30'001 / 12), 1e-6);
  EXPECT_NEAR(columns[0].find("quantiles")->find("0.5")->as_number(), 15'000, 150);
  EXPECT_NEAR(columns[0].find("distinct")->as_number(), 30'000, 900);
  EXPECT_NEAR(static_cast<double>(columns[1].find("missing")->as_int()), 3000, 200);
  EXPECT_EQ(columns[2].find("top")->as_array().size(), 7u);
  EXPECT_EQ(columns[3].find("type")->as_string(), "time");
  const Json::Array& pairs = found.find("correlations")->find("values")->as_array();
  EXPECT_GT(pairs[1].as_array()[0].as_number(), 0.999) << "x follows n";
  EXPECT_NE(analysis_text(found).find("30000 rows, 5 columns"), std::string::npos);
}

TEST(TableAnalysis, FindsWhatDoesNotMeetTheSchema) {
  const TemporaryFolder folder;
  write_file(folder / "t.csv", as_bytes("age,city,id\n12,Rome,AB1\n-3,Oslo,AB2\nold,Rome,ab3\n40,Bern,\n41,,AB5\n"));
  const Json schema = Json::parse(R"({"columns": [{"name": "age", "type": "integer", "min": 0, "max": 120},
    {"name": "city", "type": "category", "categories": ["Oslo", "Rome"]}, {"name": "id", "type": "text", "pattern": "[A-Z]{2}[0-9]+", "required": true}]})",
                                  "schema");
  ReadOptions options = options_of_schema(schema, "schema");
  options.on_misfit = OnMisfit::missing;
  TableFile file(folder / "t.csv", options);
  const Json found = check_quality(file, "t.csv", 10);
  EXPECT_EQ(found.find("invalid")->as_int(), 5);
  EXPECT_EQ(
      found.find("examples")->dump(),
      R"([{"row":2,"column":"age","value":"-3","why":"below min"},{"row":3,"column":"age","value":"old","why":"type"},)"
      R"({"row":3,"column":"id","value":"ab3","why":"pattern"},{"row":4,"column":"city","value":"Bern","why":"category"},{"row":4,"column":"id","value":"","why":"required"}])");
  EXPECT_EQ(found.find("columns")->as_array()[1].dump(),
            R"({"name":"city","type":"category","valid":3,"missing":1,"invalid":1,"why":{"category":1}})");
  EXPECT_EQ(found.find("columns")->as_array()[2].dump(),
            R"({"name":"id","type":"text","valid":3,"missing":1,"invalid":2,"why":{"pattern":1,"required":1}})");
}

TEST(TableWriter, WritesWhatIsReadAgain) {
  const TemporaryFolder folder;
  const std::string text = "n,word,when\n1,\"a, \"\"b\"\"\",2020-01-02\n,\"\",\n-3,\" blank\",2020-01-02T03:04:05\n";
  write_file(folder / "t.csv", as_bytes(text));
  const Frame frame = read_table(folder / "t.csv");
  const auto written = [&](const char* name, const Frame& what) {
    const auto writer = write_table(folder / name);
    writer->add(what);
    EXPECT_FALSE(file_exists(folder / name)) << "not before it is whole";
    writer->finish();
    return std::string(as_text(read_file(folder / name)));
  };
  EXPECT_EQ(written("o.csv", frame), text);
  EXPECT_EQ(written("o.jsonl", frame),
            "{\"n\":1,\"word\":\"a, \\\"b\\\"\",\"when\":\"2020-01-02\"}\n{\"n\":null,\"word\":\"\",\"when\":null}\n{\"n\":-3,\"word\":\" "
            "blank\",\"when\":\"2020-01-02T03:04:05\"}\n");
  EXPECT_THROW(written("o.npz", frame), Error) << "texts are no arrays";
  Frame numbers = frame;
  numbers.remove(1);
  written("o.npz", numbers);
  const auto arrays = parse_npz(read_file(folder / "o.npz"), "o.npz");
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].second.data<double>()[2], -3);
  EXPECT_TRUE(std::isnan(arrays[0].second.data<double>()[1]));
}

}  // namespace
}  // namespace perigee::tables
