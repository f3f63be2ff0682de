// Data that a program hands over and that cannot be what it says.
#include "tests/core/refusal.h"

#include <sys/mman.h>

#include "src/data/arrays.h"
#include "src/data/sources/host.h"
#include "src/data/text_source.h"
#include "src/io/codec/compress.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

TEST(Refusals, LabelsAreWholeNumbers) {
  const auto source = [](Tensor values) {
    std::vector<NamedArray> arrays;
    arrays.push_back({.name = "y", .values = std::move(values), .label = true, .where = "records: 'y'"});
    return arrays_source("records", std::move(arrays));
  };
  EXPECT_HAS(refusal(ErrorKind::data,
                     [&] {
                       source(Tensor::from<float>({2}, {0, 1}));
                     }),
             "records: 'y': these are no class labels; got f32[2], expected one integer per example");
  EXPECT_HAS(refusal(ErrorKind::data, [&] { source(Tensor::from<int64_t>({1, 2}, {0, 1})); }), "these are no class labels; got i64[1x2]");
}

TEST(Refusals, TheSecondOfSeveralSourcesIsTold) {
  const Json two = Json::parse(R"({"type": "concat", "sources": [{"type": "digits"}, {"type": "digitz"}]})", "data");
  EXPECT_HAS(refusal(ErrorKind::data, [&] { open_source(Config(two, "data", ErrorKind::data), "."); }), "data: sources[2]: ");
}

// Examples that come while the program runs.
class Sensor : public DataSource {
 public:
  int64_t size() const override { return 10; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(const ReadKey&, std::span<std::byte* const>) const override {}
  SourceTraits traits() const override { return {.description = "sensor", .live = true}; }

 private:
  std::vector<Field> fields_ = {{.name = "y", .dtype = Dtype::i64, .shape = {}, .classes = 2}};
};

TEST(Refusals, WhatComesLaterIsNotSorted) {
  const std::map<std::string, SourcePtr> sources = {{"sensor", std::make_shared<Sensor>()}};
  const HostScope scope(sources);
  const Json sorted = Json::parse(R"({"type": "by_label", "field": "y", "source": {"type": "host", "name": "sensor"}})", "data");
  EXPECT_HAS(
      refusal(ErrorKind::data, [&] { open_source(Config(sorted, "data", ErrorKind::data), "."); }),
      "data: 'source' gives examples while the program runs, which cannot be sorted; got sensor, expected a source that is there whole");
}

// 17 thousand million numbers, of a table that is small: a column of many categories.
TEST(Refusals, ATableBeyondAllMemory) {
  const TemporaryFolder folder;
  constexpr int kMany = (1 << 17) + 1;
  std::string text = "a\n";
  Json categories = Json::array();
  for (int i = 0; i < kMany; ++i) text += "7\n", categories.push(std::to_string(1'000'000 + i));
  write_file(folder / "table.csv", as_bytes(text));
  const Json column(Json::Object{{"name", "a"}, {"categories", std::move(categories)}});
  const Json table(Json::Object{
      {"type", "csv"}, {"file", "table.csv"}, {"target", false}, {"fitted", Json(Json::Object{{"columns", Json(Json::Array{column})}})}});
  EXPECT_HAS(refusal(ErrorKind::resources, [&] { open_source(Config(table, "data", ErrorKind::data), folder.path()); }),
             "table.csv: the table is too large; got 131073 rows of 131073 numbers");
}

// Address space alone: the text is never read.
TEST(Refusals, ATextBeyondAllMemory) {
  constexpr size_t kBytes = (size_t{1} << 33) + 1;
  void* const memory = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const Json options = Json::parse(R"({"type": "text", "context": 4})", "data");
  const std::string_view text(static_cast<const char*>(memory), kBytes);
  EXPECT_HAS(refusal(ErrorKind::resources, [&] { text_source(Config(options, "data", ErrorKind::data), text, "memory"); }),
             "memory: the text is too large; got 8589934593 bytes, expected at most 8589934592");
  munmap(memory, kBytes);
}

TEST(Refusals, ASourceIsRegisteredOnce) {
  const auto open = [] { return SourcePtr(); };
  register_host_source("refusals.twice", open);
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { register_host_source("refusals.twice", open); }),
             "data 'refusals.twice': are registered already; register each source once");
}

}  // namespace
}  // namespace perigee
