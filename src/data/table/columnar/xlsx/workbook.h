// A workbook (.xlsx, ECMA-376) beside its sheets: which there are, the texts that cells share, which styles are dates.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/io/archive/zip.h"

namespace perigee::tables::xlsx {

class Workbook {
 public:
  // Opens the sheet that `part` names, or the first. Error(data) with what is missing or too large.
  Workbook(const std::string& name, std::span<const std::byte> content, const std::string& part);

  std::string_view sheet() const { return sheet_; }
  const std::string& where() const { return where_; }
  size_t texts() const { return ends_.size(); }
  std::string_view text(size_t number) const;
  bool is_date(size_t style) const { return style < dates_.size() && dates_[style] != 0; }
  bool since_1904() const { return since_1904_; }

 private:
  // Empty where the archive has no such file.
  std::string file(std::string_view path);
  std::string sheet_path(const std::string& part);
  void read_texts(std::string_view xml);
  void read_styles(std::string_view xml);

  std::string where_;
  std::span<const std::byte> content_;
  std::vector<ZipEntry> entries_;
  uint64_t room_ = 0;  // bytes that may still be unpacked
  std::string sheet_, texts_;
  std::vector<size_t> ends_;
  std::vector<uint8_t> dates_;
  bool since_1904_ = false;
};

}  // namespace perigee::tables::xlsx
