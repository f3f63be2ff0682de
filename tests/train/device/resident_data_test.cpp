// A data set on a GPU holds what its source gives, row for row, however many uploads it takes; what may not stand in for a source is not
// loaded.
#include "src/train/device/resident_data.h"

#include <cstring>
#include <numeric>

#include "tests/train/device/device_site.h"

namespace perigee {
namespace {

// Bytes that say which example, field and place they are of. The last field is so wide that 16 MiB hold 256 rows.
class Patterns : public DataSource {
 public:
  Patterns() {
    for (int64_t i = 0; i < 11; ++i) fields_.push_back({"field" + std::to_string(i), Dtype::u8, Shape({3 * i + 1})});
    fields_.push_back({"wide", Dtype::u8, Shape({65'000})});
  }
  int64_t size() const override { return 600; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    for (size_t f = 0; f < fields_.size(); ++f)
      for (int64_t k = 0; k < std::min<int64_t>(fields_[f].shape.elements(), 64); ++k) slots[f][k] = byte_of(key.index, f, k);
  }
  SourceTraits traits() const override { return {.description = "patterns", .fixed = is_fixed, .live = is_live}; }
  static std::byte byte_of(int64_t index, size_t field, int64_t place) {
    return static_cast<std::byte>(index * 7 + index / 256 * 3 + static_cast<int64_t>(field) * 31 + place);
  }
  bool is_fixed = true, is_live = false;

 private:
  std::vector<Field> fields_;
};

TEST(ResidentData, HoldsTheRowsOfItsSource) {
  Gpu gpu(0, "test");
  const Patterns source;
  // More than one gathering takes, in an order of their own; the wide one is read but not wanted here.
  const std::vector<int> fields = {7, 2, 10, 0, 1, 9, 4, 3, 8, 6};
  const auto data = ResidentData::load(gpu, source, fields, 5, SIZE_MAX);
  ASSERT_TRUE(data);
  const std::vector<int64_t> rows = {599, 0, 255, 256, 511, 512, 3, 3, 258};
  const GpuMemory ids = gpu.allocate(rows.size() * sizeof(int64_t), "test");
  gpu.upload(ids.data(), rows.data(), rows.size() * sizeof(int64_t));
  std::vector<GpuMemory> memory;
  std::vector<std::byte*> to;
  const auto bytes_of = [&](size_t i) { return static_cast<size_t>(source.fields()[static_cast<size_t>(fields[i])].shape.elements()); };
  for (size_t i = 0; i < fields.size(); ++i) {
    memory.push_back(gpu.allocate(rows.size() * bytes_of(i), "test"));
    to.push_back(i == 4 ? nullptr : memory.back().data());
  }
  data->gather(gpu, reinterpret_cast<const int64_t*>(ids.data()), static_cast<int64_t>(rows.size()), to, gpu.queue());
  gpu.check_queue("a test");
  for (size_t i = 0; i < fields.size(); ++i) {
    if (to[i] == nullptr) continue;
    std::vector<std::byte> got(rows.size() * bytes_of(i));
    gpu.download(got.data(), to[i], got.size());
    for (size_t r = 0; r < rows.size(); ++r)
      for (size_t k = 0; k < bytes_of(i); ++k)
        ASSERT_EQ(got[r * bytes_of(i) + k], Patterns::byte_of(rows[r], static_cast<size_t>(fields[i]), static_cast<int64_t>(k)))
            << "field " << fields[i] << ", row " << rows[r];
  }
}

TEST(ResidentData, IsNotLoadedWhereItMayNotStandInForItsSource) {
  const Environment memory("PERIGEE_SHIM_MEMORY_MB", "64");
  Gpu gpu(0, "test");
  Patterns source;
  const std::vector<int> small = {0, 1}, wide = {11};  // 3000 bytes, 39 MB
  EXPECT_TRUE(ResidentData::load(gpu, source, small, 5, 3000));
  EXPECT_FALSE(ResidentData::load(gpu, source, small, 5, 2999));
  EXPECT_FALSE(ResidentData::load(gpu, source, wide, 5, SIZE_MAX));  // more than half of what is free
  source.is_live = true;
  EXPECT_FALSE(ResidentData::load(gpu, source, small, 5, SIZE_MAX));
  source.is_live = false, source.is_fixed = false;  // other bytes in another epoch
  EXPECT_FALSE(ResidentData::load(gpu, source, small, 5, SIZE_MAX));
}

}  // namespace
}  // namespace perigee
