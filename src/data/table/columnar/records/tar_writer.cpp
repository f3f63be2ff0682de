#include "src/data/table/columnar/records/tar_writer.h"

#include <cstring>

#include "src/core/error.h"
#include "src/io/npy.h"

namespace perigee::tables {
namespace {

constexpr size_t kTarWriterBlock = 512, kMostName = 100;

class TarWriter : public TableWriter {
 public:
  explicit TarWriter(const std::string& path) : file_(path) {}

  void add(const Frame& frame) override {
    const int64_t key = frame.schema.find("key");
    for (int64_t r = 0; r < frame.rows; ++r, ++row_) {
      std::string name = std::to_string(row_);
      name.insert(0, 8 - std::min<size_t>(name.size(), 8), '0');
      if (key >= 0) name = cell_text(frame.columns[static_cast<size_t>(key)], frame.schema.columns[static_cast<size_t>(key)], r);
      if (name.empty() || name.find('.', name.rfind('/') == name.npos ? 0 : name.rfind('/')) != name.npos || name.front() == '/' ||
          name.find("..") != name.npos)
        throw Error(ErrorKind::data, {.where = file_.path() + ": row " + std::to_string(row_ + 1),
                                      .what = "the key cannot name files of an archive",
                                      .got = "'" + name.substr(0, 60) + "'",
                                      .expected = "a relative path without dots"});
      for (size_t c = 0; c < frame.columns.size(); ++c) {
        if (static_cast<int64_t>(c) == key || frame.columns[c].is_missing(r)) continue;
        cell(name, frame.columns[c], frame.schema.columns[c], r);
      }
    }
  }

  void finish() override {
    const std::string end(2 * kTarWriterBlock, '\0');
    file_.write(as_bytes(end));
    file_.finish();
  }

 private:
  void cell(const std::string& key, const Column& column, const ColumnSpec& spec, int64_t row) {
    std::string extension = spec.name;
    for (char& c : extension)
      if (c == '/' || c == '\\') c = '_';
    if (column.type != Type::list) return entry(key + "." + extension, as_bytes(cell_text(column, spec, row)));
    const auto r = static_cast<size_t>(row);
    const uint64_t begin = r == 0 ? 0 : column.ends[r - 1];
    const std::vector<double> items(column.items.begin() + static_cast<ptrdiff_t>(begin),
                                    column.items.begin() + static_cast<ptrdiff_t>(column.ends[r]));
    if (!extension.ends_with("npy")) extension += ".npy";
    entry(key + "." + extension, npy_bytes(Tensor::from<double>(Shape({static_cast<int64_t>(items.size())}), items)));
  }

  // A head (ustar), the content, and zeros up to a multiple of 512.
  void entry(const std::string& name, std::span<const std::byte> content) {
    if (name.size() > kMostName)
      throw Error(ErrorKind::data, {.where = file_.path(),
                                    .what = "the name of a file in an archive is too long",
                                    .got = "'" + name.substr(0, 120) + "'",
                                    .expected = "at most 100 bytes"});
    char head[kTarWriterBlock] = {};
    std::memcpy(head, name.data(), name.size());
    std::snprintf(head + 100, 8, "%07o", 0644);
    std::snprintf(head + 108, 8, "%07o", 0);
    std::snprintf(head + 116, 8, "%07o", 0);
    std::snprintf(head + 124, 12, "%011llo", static_cast<unsigned long long>(content.size()));
    std::snprintf(head + 136, 12, "%011o", 0);  // no time, so that the same table makes the same bytes
    std::memset(head + 148, ' ', 8);
    head[156] = '0';
    std::memcpy(head + 257, "ustar\00000", 8);
    unsigned sum = 0;
    for (const char c : head) sum += static_cast<uint8_t>(c);
    std::snprintf(head + 148, 8, "%06o", sum);
    file_.write(as_bytes(std::string_view(head, kTarWriterBlock)));
    file_.write(content);
    const std::string rest((kTarWriterBlock - content.size() % kTarWriterBlock) % kTarWriterBlock, '\0');
    file_.write(as_bytes(rest));
  }

  PartFile file_;
  int64_t row_ = 0;
};

}  // namespace

std::unique_ptr<TableWriter> write_tar(const std::string& path) { return std::make_unique<TarWriter>(path); }

}  // namespace perigee::tables
