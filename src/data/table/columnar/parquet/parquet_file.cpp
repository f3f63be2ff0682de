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
    for (size_t g = 0; g < metadata_.groups.size(); ++g) cut(g);
  }

  const TableSchema& schema() const override { return schema_; }
  std::string refusal(size_t column) const override {
    const Leaf& leaf = metadata_.leaves[column];
    return leaf.lists > 1 ? "it is in a list of lists" : leaf.lists == 1 && leaf.type != Type::list ? "it is in a list, and no number" : "";
  }
  int64_t chunks() const override { return static_cast<int64_t>(parts_.size()); }

  Frame read(int64_t chunk, std::span<const size_t> columns) const override {
    const Part& part = parts_[static_cast<size_t>(chunk)];
    const RowGroup& group = metadata_.groups[part.group];
    Frame frame;
    frame.rows = part.rows.to - part.rows.from;
    Room room(content_.size());
    for (const size_t c : columns) {
      const Leaf& leaf = metadata_.leaves[c];
      Column column(leaf.type);
      read_column(content_, leaf, group.chunks[c], group.rows, part.rows, name_ + ": column '" + leaf.name.substr(0, 60) + "'", room,
                  column);
      frame.add(schema_.columns[c], std::move(column));
    }
    return frame;
  }

 private:
  struct Part {
    size_t group = 0;
    RowRange rows;
  };

  // A row group is a chunk, unless it has far more in it than its bytes let expect: then its rows are read in parts, at the price of pages
  // that are read twice.
  void cut(size_t number) {
    const RowGroup& group = metadata_.groups[number];
    const uint64_t most = most_chunk(content_.size());
    uint64_t row = 1;
    for (size_t c = 0; c < metadata_.leaves.size(); ++c) row += cell_bytes(metadata_.leaves[c], group.chunks[c]);
    int64_t rows = group.rows;
    if (static_cast<uint64_t>(rows) > most / row) rows = std::max<int64_t>({static_cast<int64_t>(most / 2 / row), rows / kMostParts, 1});
    for (int64_t from = 0; from < group.rows; from += rows) parts_.push_back({number, {from, std::min(from + rows, group.rows)}});
    if (parts_.size() > kMostOfAll)
      throw Error(ErrorKind::resources, {.where = name_,
                                         .what = "the row groups have far more in them than their bytes can have",
                                         .expected = "at most " + std::to_string(kMostOfAll) + " parts",
                                         .hint = "write it with smaller row groups"});
  }

  // The bytes that a cell takes, about; of texts by the mean of the dictionary.
  uint64_t cell_bytes(const Leaf& leaf, const Chunk& chunk) const {
    if (leaf.type != Type::text) return kCellBytes;
    constexpr uint64_t kUsual = 24;
    if (chunk.values == 0 || chunk.begin >= content_.size()) return kCellBytes;
    try {
      const PageHead head = read_page_head(content_.subspan(chunk.begin), name_, chunk.begin);
      if (head.kind == PageHead::Kind::dictionary && head.values > 0)
        return kCellBytes + 2 * static_cast<uint64_t>(head.plain / head.values);
    } catch (const Error&) {}  // the reader of the column is told
    return kCellBytes + 2 * kUsual;
  }

  static constexpr int64_t kMostParts = 1024;
  static constexpr size_t kMostOfAll = size_t{1} << 18;
  std::vector<Part> parts_;
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
