// Examples that lie in memory, one record after the other, converted while they are read. What most sources are once they are open.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/data/source.h"

namespace perigee {

// One field of all examples: example i has its `stored` elements at data + i * stride.
struct Column {
  Field field;
  Dtype stored = Dtype::f32;
  const std::byte* data = nullptr;
  int64_t stride = 0;  // bytes; 0: packed
  float scale = 1;     // u8 read as f32 is multiplied by it
};

class ArraySource : public DataSource {
 public:
  // `owner` keeps the columns' memory alive. `description`, `fitted` and `remarks` are those of its traits.
  ArraySource(std::string description, int64_t size, std::vector<Column> columns, std::vector<std::shared_ptr<const void>> owners,
              Json fitted = {}, Json remarks = {});

  int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override;
  void expect(std::span<const ReadKey> keys) const override;
  SourceTraits traits() const override;

 private:
  std::string description_;
  int64_t size_;
  std::vector<Column> columns_;
  std::vector<int64_t> elements_;  // of one example
  std::vector<Field> fields_;
  std::vector<std::shared_ptr<const void>> owners_;
  Json fitted_, remarks_;
};

// Checks that every stored label lies in [0, column.field.classes); Error(data) naming the record. Stored integers only.
void check_labels(const Column& column, int64_t size, const std::string& where);

}  // namespace perigee
