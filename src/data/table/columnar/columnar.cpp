#include "src/data/table/columnar/columnar.h"

#include <algorithm>

#include "src/core/error.h"
#include "src/data/table/columnar/arrow/arrow_file.h"
#include "src/data/table/columnar/hdf5/hdf5_file.h"
#include "src/data/table/columnar/matlab/mat_file.h"
#include "src/data/table/columnar/parquet/parquet_file.h"
#include "src/data/table/columnar/records/arrays_file.h"
#include "src/data/table/columnar/records/lmdb.h"
#include "src/data/table/columnar/records/mds.h"
#include "src/data/table/columnar/records/tfrecord.h"
#include "src/data/table/columnar/records/webdataset.h"
#include "src/data/table/columnar/sqlite/sqlite_file.h"
#include "src/data/table/columnar/text/arff.h"
#include "src/data/table/columnar/text/svmlight.h"
#include "src/data/table/columnar/text/ts_file.h"
#include "src/data/table/columnar/xlsx/xlsx_file.h"
#include "src/data/table/reading/byte_stream.h"

namespace perigee::tables {
namespace {

constexpr uint64_t kMostUnpacked = uint64_t{4} << 30;  // of a file that is compressed as a whole

using Opener = std::unique_ptr<ColumnarFile> (*)(const ColumnarInput& input);

std::unique_ptr<ColumnarFile> parquet_of(const ColumnarInput& in) { return parquet::open_parquet(in.name, in.content, in.owner); }
std::unique_ptr<ColumnarFile> arrow_of(const ColumnarInput& in) { return arrow::open_arrow(in.name, in.content, in.owner); }

struct Format {
  bool (*is)(std::string_view head, std::string_view name);
  Opener open;
  bool parts = false;  // whether it may have several tables
};

// The name without what compression adds to it.
std::string_view plain_name(std::string_view name) {
  for (const std::string_view end : {".gz", ".xz", ".zst"})
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  return name;
}

// Others may put 512 bytes or more in front, as Matlab 7.3 does.
bool begins_as_hdf5(std::string_view head) {
  for (size_t at = 0; at < head.size(); at = at == 0 ? 512 : 2 * at)
    if (head.substr(at).starts_with("\x89HDF\r\n\x1a\n")) return true;
  return false;
}

// In this order; what begins in a way of its own comes before what only its name tells.
constexpr Format kFormats[] = {
    {[](std::string_view head, std::string_view) { return head.starts_with("PAR1"); }, parquet_of},
    {[](std::string_view head, std::string_view) {
       // A stream begins with the size of its first message.
       return head.starts_with("ARROW1") || (head.starts_with("\xff\xff\xff\xff") && head.size() > 8 && head[7] == 0);
     },
     arrow_of},
    {[](std::string_view head, std::string_view) { return head.starts_with(std::string_view("SQLite format 3\0", 16)); },
     sqlite::open_sqlite, true},
    {[](std::string_view head, std::string_view) { return begins_as_hdf5(head); }, open_hdf5, true},
    {[](std::string_view head, std::string_view name) { return head.starts_with("PK\3\4") && !name.ends_with(".npz"); }, xlsx::open_xlsx,
     true},
    {[](std::string_view head, std::string_view) { return head.starts_with("\x93NUMPY") || head.starts_with("PK\3\4"); }, open_arrays,
     true},
    {[](std::string_view head, std::string_view name) { return matlab::begins_as_mat(head) || name.ends_with(".mat"); }, matlab::open_mat,
     true},
    {[](std::string_view head, std::string_view) { return begins_as_lmdb(head); }, open_lmdb},
    {[](std::string_view head, std::string_view) { return head.size() > 262 && head.substr(257, 5) == "ustar"; }, open_webdataset},
    {[](std::string_view head, std::string_view) { return begins_as_tfrecord(head); }, open_tfrecord},
    {[](std::string_view head, std::string_view name) { return begins_as_arff(head) || name.ends_with(".arff"); }, open_arff},
    {[](std::string_view head, std::string_view name) { return name.ends_with(".ts") && (head.starts_with('@') || head.starts_with('#')); },
     open_ts},
    {[](std::string_view, std::string_view name) {
       return name.ends_with(".svm") || name.ends_with(".svmlight") || name.ends_with(".libsvm");
     },
     open_svmlight},
};

constexpr size_t kColumnarHead = 4096;

const Format* format_of(std::string_view head, std::string_view name) {
  const auto found =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& format) { return format.is(head, plain_name(name)); });
  return found == std::end(kFormats) ? nullptr : found;
}

std::unique_ptr<ColumnarFile> opened(const Format& format, const ColumnarInput& input) {
  if (!input.part.empty() && !format.parts)
    throw Error(ErrorKind::data,
                {.where = input.name, .what = "the file has one table and no parts", .got = "#" + input.part.substr(0, 60)});
  return format.open(input);
}

}  // namespace

std::unique_ptr<ColumnarFile> open_columnar_folder(const std::string& path) {
  if (is_mds_folder(path)) return open_mds(path);
  // LMDB keeps an environment in a folder.
  const std::string lmdb = path + "/data.mdb";
  if (!file_exists(lmdb)) return nullptr;
  const auto file = std::make_shared<MappedFile>(lmdb);
  return open_lmdb({.name = lmdb, .part = {}, .content = file->bytes(), .owner = file});
}

std::unique_ptr<ColumnarFile> open_columnar(const std::string& path, const std::string& part, std::string_view head) {
  const Format* format = format_of(head, path);
  if (format == nullptr) return nullptr;
  auto file = std::make_shared<MappedFile>(path);
  ColumnarInput input{.name = path, .part = part, .content = file->bytes(), .owner = file};
  const size_t same = std::min({head.size(), input.content.size(), kColumnarHead});
  if (as_text(input.content.first(same)) != head.substr(0, same)) {
    const auto whole = unpacked_file(path, kMostUnpacked);
    input.content = whole->bytes();
    input.owner = whole;
  }
  return opened(*format, input);
}

std::unique_ptr<ColumnarFile> open_columnar_content(const std::string& name, const std::string& part, std::span<const std::byte> content) {
  const Format* format = format_of(as_text(content.first(std::min(content.size(), size_t{1} << 20))), name);
  return format != nullptr ? opened(*format, {.name = name, .part = part, .content = content, .owner = nullptr}) : nullptr;
}

}  // namespace perigee::tables
