#include "src/data/table/columnar/records/webdataset.h"

#include "src/core/error.h"
#include "src/data/table/columnar/records/record_table.h"
#include "src/io/archive/tar.h"
#include "src/io/npy.h"

namespace perigee::tables {
namespace {

std::vector<double> numbers_of(std::span<const std::byte> npy, const std::string& where) {
  const Tensor tensor = parse_npy(npy, where).to(Dtype::f64);
  return {tensor.data<double>(), tensor.data<double>() + tensor.elements()};
}

class WebDatasetFile : public RecordTable {
 public:
  explicit WebDatasetFile(const ColumnarInput& input)
      : name_(input.name), entries_(tar_entries(input.content, input.name)), owner_(input.owner) {
    std::string_view last;
    for (size_t e = 0; e < entries_.size(); ++e) {
      const auto [key, extension] = parts(entries_[e].name);
      if (extension.empty()) continue;  // a file without a dot is none of a record
      if (begins_.empty() || key != last) begins_.push_back(e);
      last = key;
    }
    find_columns(name_, input.content.size());
  }

 protected:
  uint64_t records() const override { return begins_.size(); }
  void each(uint64_t first, uint64_t count, const Use& use) const override {
    std::vector<RecordField> fields;
    for (uint64_t r = first; r < first + count; ++r) {
      const size_t end = r + 1 < begins_.size() ? begins_[r + 1] : entries_.size();
      fields.clear();
      fields.push_back({.name = "key", .cell = {.kind = Cell::Kind::text, .text = parts(entries_[begins_[r]].name).first}});
      for (size_t e = begins_[r]; e < end; ++e)
        if (const std::string_view extension = parts(entries_[e].name).second; !extension.empty())
          fields.push_back(field(entries_[e], extension));
      use(fields);
    }
  }

 private:
  // Up to the first dot after the last slash, and what follows it.
  static std::pair<std::string_view, std::string_view> parts(std::string_view name) {
    const size_t slash = name.rfind('/');
    const size_t dot = name.find('.', slash == name.npos ? 0 : slash + 1);
    return dot == name.npos ? std::pair(name, std::string_view()) : std::pair(name.substr(0, dot), name.substr(dot + 1));
  }

  RecordField field(const TarEntry& entry, std::string_view extension) const {
    RecordField field{.name = extension};
    const std::string_view text = as_text(entry.content);
    if (extension.ends_with("npy")) {
      field.list = numbers_of(entry.content, name_ + ": " + entry.name.substr(0, 100));
      field.is_list = true;
    } else if (Column number(Type::integer);
               extension == "cls" && add_parsed({.type = Type::integer}, text.substr(0, text.find_last_not_of(" \r\n") + 1), number)) {
      field.cell = {.kind = Cell::Kind::whole, .whole = number.whole[0]};
    } else {
      field.cell = {.kind = Cell::Kind::text, .text = text};
    }
    return field;
  }

  std::string name_;
  std::vector<TarEntry> entries_;
  std::shared_ptr<const void> owner_;
  std::vector<size_t> begins_;  // the first entry of each record
};

}  // namespace

std::unique_ptr<ColumnarFile> open_webdataset(const ColumnarInput& input) { return std::make_unique<WebDatasetFile>(input); }

}  // namespace perigee::tables
