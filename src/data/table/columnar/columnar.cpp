#include "src/data/table/columnar/columnar.h"

#include <algorithm>

#include "src/data/table/columnar/arrow/arrow_file.h"
#include "src/data/table/columnar/parquet/parquet_file.h"

namespace perigee::tables {
namespace {

using Open = std::unique_ptr<ColumnarFile> (*)(const std::string& name, std::span<const std::byte> content,
                                               std::shared_ptr<const void> owner);

Open opener_of(std::string_view head) {
  if (head.starts_with("PAR1")) return parquet::open_parquet;
  if (head.starts_with("ARROW1")) return arrow::open_arrow;
  if (head.starts_with("\xff\xff\xff\xff") && head.size() > 8 && head[7] == 0)
    return arrow::open_arrow;  // a stream: the size of its first message
  return nullptr;
}

}  // namespace

std::unique_ptr<ColumnarFile> open_columnar(const std::string& path, std::string_view head) {
  const Open open = opener_of(head);
  if (open == nullptr) return nullptr;
  auto file = std::make_shared<MappedFile>(path);
  const std::span<const std::byte> content = file->bytes();
  // A file that is compressed as a whole cannot be read from its middle.
  if (opener_of(as_text(content.first(std::min<size_t>(content.size(), 16)))) != open) return nullptr;
  return open(path, content, std::move(file));
}

std::unique_ptr<ColumnarFile> open_columnar_content(const std::string& name, std::span<const std::byte> content) {
  const Open open = opener_of(as_text(content.first(std::min<size_t>(content.size(), 16))));
  return open != nullptr ? open(name, content, nullptr) : nullptr;
}

}  // namespace perigee::tables
