// Which examples are in batch number n, against a walk from batch to batch; and what sources around others say of themselves.
#include "src/data/batch_order.h"

#include <gtest/gtest.h>

#include "src/data/indexed_source.h"

namespace perigee {
namespace {

TEST(EpochOrder, NumbersTheBatchesOfOneEpochAfterAnother) {
  for (const int64_t size : {1, 7, 64, 100})
    for (const int64_t batch : {1, 3, 32, 200})
      for (const int64_t start : {int64_t{0}, size / 2, size - 1, 2 * size + 1}) {
        const EpochPermutation examples(size, 5, true, 1, batch);
        EpochOrder order(examples, batch);
        order.start_at(4, start);
        uint64_t epoch = 4 + static_cast<uint64_t>(start / size);
        int64_t position = start % size;
        for (uint64_t number = 0; number < 300; ++number) {
          const BatchRange range = order.range(number);
          ASSERT_EQ(range.epoch, epoch) << number;
          ASSERT_EQ(range.position, position) << number;
          ASSERT_EQ(range.size, std::min(batch, size - position)) << number;
          ASSERT_EQ(order.index(range, range.size - 1), shuffled_index(5, epoch, position + range.size - 1, size));
          position += range.size;
          if (position == size) ++epoch, position = 0;
        }
      }
}

TEST(ListedOrder, KeepsWhatIsNotTaken) {
  const EpochPermutation examples(1000, 5, false, 1, 8);
  ListedOrder order(examples);
  uint64_t taken = 0;
  for (uint64_t n = 0; n < 5000; ++n) {
    order.append({.epoch = n, .position = static_cast<int64_t>(n % 1000), .size = 1}, taken);
    ASSERT_EQ(order.end(), n + 1);
    if (n % 3 == 0 && taken < n) taken += n > 4000 ? 4 : 1;  // falls behind, then catches up
    taken = std::min(taken, n);
    for (uint64_t each = taken; each <= n; each += 1 + (n - taken) / 8) ASSERT_EQ(order.range(each).epoch, each);
  }
  order.clear();
  EXPECT_EQ(order.end(), 0u);
}

class Spy final : public DataSource {
 public:
  int64_t size() const override { return 10; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(const ReadKey&, std::span<std::byte* const>) const override {}
  void expect(std::span<const ReadKey> keys) const override {
    for (const ReadKey& key : keys) expected.push_back(key.index);
  }
  SourceTraits traits() const override {
    return {.description = "spy", .fitted = Json(7), .cheap = true, .fixed = true, .live = true, .touches = true, .read_ahead = 5};
  }
  mutable std::vector<int64_t> expected;

 private:
  std::vector<Field> fields_{{.name = "x"}};
};

TEST(IndexedSource, SaysWhatItsSourceSaysAndTranslatesWhatItExpects) {
  const auto spy = std::make_shared<Spy>();
  const IndexedSource backwards("backwards", spy, 4, [](int64_t i) { return 9 - i; });
  const SourceTraits traits = backwards.traits();
  EXPECT_EQ(traits.description, "backwards (4 examples) of spy");
  EXPECT_EQ(traits.fitted, Json(7));
  EXPECT_TRUE(traits.cheap && traits.fixed && traits.live && traits.touches);
  EXPECT_EQ(traits.read_ahead, 5);
  const std::vector<ReadKey> keys{{.index = 0}, {.index = 3}};
  backwards.expect({keys.data(), 1});
  backwards.expect(keys);
  EXPECT_EQ(spy->expected, (std::vector<int64_t>{9, 9, 6}));
}

}  // namespace
}  // namespace perigee
