#include "src/data/table/columnar/parquet/parquet_file.h"

#include <algorithm>

#include "src/core/error.h"

namespace perigee::tables::parquet {
namespace {

class ParquetFile : public ColumnarFile {
 public:
  ParquetFile(const std::string& name, std::span<const std::byte> content, std::shared_ptr<const void> owner)
      : name_(name), content_(content), owner_(std::move(owner)), metadata_(read_metadata(content, name)) {
    for (const Leaf& leaf : metadata_.leaves) {
      std::string column = leaf.name;
      while (schema_.find(column) >= 0) column += "_" + std::to_string(schema_.columns.size());
      schema_.columns.push_back({.name = column, .type = leaf.type});
    }
    for (const RowGroup& group : metadata_.groups)
      if (group.rows > most_rows(content.size()))
        throw Error(ErrorKind::resources, {.where = name,
                                           .what = "a row group has far more rows than its bytes can have",
                                           .got = std::to_string(group.rows),
                                           .expected = "at most " + std::to_string(most_rows(content.size())),
                                           .hint = "write it with smaller row groups"});
  }

  const TableSchema& schema() const override { return schema_; }
  std::string refusal(size_t column) const override {
    const Leaf& leaf = metadata_.leaves[column];
    return leaf.lists > 1 ? "it is in a list of lists" : leaf.lists == 1 && leaf.type != Type::list ? "it is in a list, and no number" : "";
  }
  int64_t chunks() const override { return static_cast<int64_t>(metadata_.groups.size()); }

  Frame read(int64_t chunk, std::span<const size_t> columns) const override {
    const RowGroup& group = metadata_.groups[static_cast<size_t>(chunk)];
    Frame frame;
    frame.rows = group.rows;
    for (const size_t c : columns) {
      const Leaf& leaf = metadata_.leaves[c];
      Column column(leaf.type);
      read_column(content_, leaf, group.chunks[c], group.rows, name_ + ": column '" + leaf.name.substr(0, 60) + "'", column);
      frame.add(schema_.columns[c], std::move(column));
    }
    return frame;
  }

 private:
  std::string name_;
  std::span<const std::byte> content_;
  std::shared_ptr<const void> owner_;
  Metadata metadata_;
  TableSchema schema_;
};

}  // namespace

std::unique_ptr<ColumnarFile> open_parquet(const std::string& name, std::span<const std::byte> content, std::shared_ptr<const void> owner) {
  return std::make_unique<ParquetFile>(name, content, std::move(owner));
}

}  // namespace perigee::tables::parquet
