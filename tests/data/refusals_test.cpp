// Data that a program hands over and that cannot be what it says.
#include "tests/core/refusal.h"

#include "src/data/arrays.h"
#include "src/data/sources/host.h"

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

TEST(Refusals, ASourceIsRegisteredOnce) {
  const auto open = [] { return SourcePtr(); };
  register_host_source("refusals.twice", open);
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { register_host_source("refusals.twice", open); }),
             "data 'refusals.twice': are registered already; register each source once");
}

}  // namespace
}  // namespace perigee
