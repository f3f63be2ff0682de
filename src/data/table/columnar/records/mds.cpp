#include "src/data/table/columnar/records/mds.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "src/core/error.h"
#include "src/core/json.h"
#include "src/core/schema.h"
#include "src/data/table/columnar/column_values.h"
#include "src/data/table/columnar/records/record_table.h"
#include "src/data/table/reading/byte_stream.h"
#include "src/io/damaged.h"

namespace perigee::tables {
namespace {

constexpr uint64_t kMostShard = uint64_t{4} << 30;
constexpr size_t kMostMdsColumns = 4096;

// How a column is written: a name and, of arrays, the type of their elements and their shape.
struct MdsEncoding {
  std::string name;     // of the column
  std::string kind;     // "int", "str", "ndarray", ...
  std::string element;  // of an array: "float32"; empty: each says it
  uint64_t count = 0;   // of an array with a shape
  uint64_t size = 0;    // bytes; 0: each value has its own
};

uint64_t element_size(std::string_view element) {
  static constexpr std::pair<std::string_view, uint64_t> kSizes[] = {{"uint8", 1},   {"int8", 1},    {"uint16", 2}, {"int16", 2},
                                                                     {"uint32", 4},  {"int32", 4},   {"uint64", 8}, {"int64", 8},
                                                                     {"float16", 2}, {"float32", 4}, {"float64", 8}};
  for (const auto& [name, size] : kSizes)
    if (name == element) return size;
  return 0;
}

int64_t whole_value(std::string_view element, const char* at, uint64_t size) {
  uint64_t bits = 0;
  for (uint64_t i = 0; i < size; ++i) bits |= uint64_t{static_cast<uint8_t>(at[i])} << (8 * i);
  const auto unused = static_cast<unsigned>(64 - 8 * size);
  return element.starts_with('i') ? static_cast<int64_t>(bits << unused) >> unused : static_cast<int64_t>(bits);
}

double real_value(std::string_view element, const char* at, uint64_t size) {
  if (!element.starts_with('f')) return static_cast<double>(whole_value(element, at, size));
  if (size == 2) return half_value({at, 2});
  float small = 0;
  double large = 0;
  std::memcpy(size == 4 ? static_cast<void*>(&small) : &large, at, size);
  return size == 4 ? static_cast<double>(small) : large;
}

// The columns that a shard or the index names.
std::vector<MdsEncoding> encodings_of(const Json& json, const std::string& where) {
  const Json *names = json.find("column_names"), *kinds = json.find("column_encodings"), *sizes = json.find("column_sizes");
  const auto fail = [&](const std::string& what, const std::string& got) {
    throw Error(ErrorKind::data, {.where = where, .what = what, .got = got});
  };
  for (const Json* list : {names, kinds, sizes})
    if (list == nullptr || !list->is_array() || list->as_array().size() != names->as_array().size() ||
        list->as_array().size() > kMostMdsColumns)
      fail("the columns of the shard cannot be read", "lists of different lengths, or none");
  std::vector<MdsEncoding> columns;
  for (size_t c = 0; c < names->as_array().size(); ++c) {
    const Json &name = names->as_array()[c], &kind = kinds->as_array()[c], &size = sizes->as_array()[c];
    if (!name.is_string() || !kind.is_string() || !(size.is_null() || size.is_int()))
      fail("the columns of the shard cannot be read", shown(name));
    MdsEncoding column{.name = name.as_string(), .kind = kind.as_string()};
    if (size.is_int() && (size.as_int() <= 0 || size.as_int() > int64_t{1} << 32))
      fail("a column of the shard has an impossible size", shown(size));
    if (size.is_int()) column.size = static_cast<uint64_t>(size.as_int());
    if (column.kind.starts_with("ndarray")) {  // ndarray:float32:3,4
      const size_t first = column.kind.find(':'), second = first == column.kind.npos ? first : column.kind.find(':', first + 1);
      if (first != column.kind.npos)
        column.element = column.kind.substr(first + 1, second == column.kind.npos ? second : second - first - 1);
      if (second != column.kind.npos && element_size(column.element) > 0) column.count = column.size / element_size(column.element);
      column.kind = "ndarray";
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

// A byte that stands for a type of NumPy's.
std::string_view element_of(uint8_t code) {
  static constexpr std::pair<uint8_t, std::string_view> kCodes[] = {{8, "uint8"},    {9, "int8"},    {16, "uint16"}, {17, "int16"},
                                                                    {18, "float16"}, {32, "uint32"}, {33, "int32"},  {34, "float32"},
                                                                    {64, "uint64"},  {65, "int64"},  {66, "float64"}};
  for (const auto& [number, name] : kCodes)
    if (number == code) return name;
  return "";
}

// An array whose type or shape stands before it. False: damage.
bool read_mds_array(const MdsEncoding& column, std::string_view bytes, RecordField& field) {
  std::string_view element = column.element;
  field.is_list = true;
  if (column.count == 0 || column.size == 0) {
    if (element.empty()) {
      if (bytes.empty()) return false;
      element = element_of(static_cast<uint8_t>(bytes[0]));
      bytes.remove_prefix(1);
    }
    // A byte says how wide the sizes are and how many there are: 4 x rank + width.
    if (bytes.empty()) return false;
    const auto head = static_cast<uint8_t>(bytes[0]);
    const size_t width = size_t{1} << (head & 3), rank = head >> 2;
    if (bytes.size() - 1 < rank * width) return false;
    bytes.remove_prefix(1 + rank * width);
  }
  const uint64_t size = element_size(element);
  if (size == 0 || bytes.size() % size != 0) return false;
  for (size_t i = 0; i < bytes.size(); i += size) field.list.push_back(real_value(element, bytes.data() + i, size));
  return true;
}

// A value of a column. False: damage.
bool read_value(const MdsEncoding& column, std::string_view bytes, RecordField& field) {
  using enum Cell::Kind;
  const std::string& kind = column.kind;
  const std::string_view element = kind == "int" ? std::string_view("int64") : kind;
  if (kind == "ndarray") return read_mds_array(column, bytes, field);
  if (const uint64_t size = element_size(element); size > 0) {
    if (bytes.size() != size) return false;
    if (element.starts_with('f')) field.cell = {.kind = real, .real = real_value(element, bytes.data(), size)};
    else field.cell = {.kind = whole, .whole = whole_value(element, bytes.data(), size)};
  } else if (kind == "str_int" || kind == "str_float" || kind == "str_decimal") {
    field.cell.kind = kind == "str_int" ? whole : real;
    const char* end = bytes.data() + bytes.size();
    const auto result =
        kind == "str_int" ? std::from_chars(bytes.data(), end, field.cell.whole) : std::from_chars(bytes.data(), end, field.cell.real);
    return result.ec == std::errc() && result.ptr == end;
  } else {
    field.cell = {.kind = text, .text = bytes};
    if (kind == "pkl") field.refusal = "it is pickled by Python";
  }
  return true;
}

// The samples of one shard.
class Shard {
 public:
  Shard(const std::string& name, std::string_view bytes, std::vector<MdsEncoding> columns)
      : name_(name), bytes_(bytes), columns_(std::move(columns)) {
    if (bytes_.size() < 8) damaged("the shard is cut short", bytes_.size());
    samples_ = number(0);
    if ((bytes_.size() - 4) / 4 < samples_ + 1) damaged("the shard has more samples than room", 0);
    if (columns_.empty()) {  // what it says of itself, between the list of samples and the first
      const uint64_t at = 4 * (samples_ + 2);
      const uint64_t end = std::min<uint64_t>(samples_ == 0 ? bytes_.size() : number(4), bytes_.size());
      if (at > end) damaged("the shard does not say what it has", at);
      try {
        columns_ = encodings_of(Json::parse(bytes_.substr(at, end - at), name_), name_);
      } catch (const Error& error) {
        throw Error(ErrorKind::data, error.parts());
      }
    }
  }
  uint64_t samples() const { return samples_; }

  void read(uint64_t sample, std::vector<RecordField>& fields) const {
    const uint64_t begin = number(4 * (sample + 1)), end = number(4 * (sample + 2));
    if (begin > end || end > bytes_.size()) damaged("a sample leads out of its shard", 4 * (sample + 1));
    uint64_t head = begin, at = begin;
    for (const MdsEncoding& column : columns_) at += column.size == 0 ? 4 : 0;
    fields.clear();
    for (const MdsEncoding& column : columns_) {
      uint64_t size = column.size;
      if (size == 0) {
        if (end - head < 4) damaged("a sample is cut short", begin);
        size = number(head), head += 4;
      }
      if (at > end || size > end - at) damaged("a value leads out of its sample", begin);
      RecordField& field = fields.emplace_back();
      field.name = column.name;
      if (!read_value(column, bytes_.substr(at, size), field))
        damaged(("a value of '" + column.name.substr(0, 60) + "' is no " + column.kind.substr(0, 20)).c_str(), at);
      at += size;
    }
  }

 private:
  [[noreturn]] void damaged(const char* what, uint64_t at, const char* hint = kGetAnew) const {
    throw Error(ErrorKind::data, {.where = name_ + ": byte " + std::to_string(at), .what = what, .hint = hint});
  }
  uint64_t number(uint64_t at) const {
    uint32_t value = 0;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }

  std::string name_;
  std::string_view bytes_;
  std::vector<MdsEncoding> columns_;
  uint64_t samples_ = 0;
};

class MdsFile : public RecordTable {
 public:
  void add(Shard shard, std::shared_ptr<const void> owner) {
    total_ += shard.samples();
    ends_.push_back(total_);
    shards_.push_back(std::move(shard));
    owners_.push_back(std::move(owner));
  }
  void finish(const std::string& name, uint64_t bytes, uint64_t stored) { find_columns(name, bytes, stored); }

 protected:
  uint64_t records() const override { return total_; }
  void each(uint64_t first, uint64_t count, const Use& use) const override {
    std::vector<RecordField> fields;
    auto shard = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), first) - ends_.begin());
    for (uint64_t r = first; r < first + count; ++r) {
      while (r >= ends_[shard]) ++shard;
      shards_[shard].read(r - (shard == 0 ? 0 : ends_[shard - 1]), fields);
      use(fields);
    }
  }

 private:
  std::vector<Shard> shards_;
  std::vector<std::shared_ptr<const void>> owners_;
  std::vector<uint64_t> ends_;
  uint64_t total_ = 0;
};

// A file of the folder, by its name alone.
std::string file_in(const std::string& folder, const Json* data) {
  const Json* name = data != nullptr && data->is_object() ? data->find("basename") : nullptr;
  const std::string text = name != nullptr && name->is_string() ? name->as_string() : "";
  if (text.empty() || text.find('/') != text.npos || text == "..")
    throw Error(ErrorKind::data, {.where = folder + "/index.json",
                                  .what = "a shard has no name, or one that leads out of the folder",
                                  .got = "'" + text.substr(0, 60) + "'"});
  return folder + "/" + text;
}

// "zstd:16" has a level behind the name.
void check_packed(const Json& shard, const std::string& index) {
  const Json* given = shard.find("compression");
  const std::string by = given != nullptr && given->is_string() ? given->as_string() : "zstd";
  if (const std::string name = by.substr(0, by.find(':')); name != "zstd" && name != "gz")
    throw Error(ErrorKind::data, {.where = index,
                                  .what = "a shard is packed in a way that is not read",
                                  .got = "'" + name.substr(0, 60) + "'",
                                  .expected = "zstd or gz",
                                  .hint = "unpack the shards, or write them with compression = \"zstd\""});
}

}  // namespace

bool is_mds_folder(const std::string& path) { return folder_exists(path) && file_exists(path + "/index.json"); }

std::unique_ptr<ColumnarFile> open_mds(const std::string& folder) {
  const std::string index = folder + "/index.json";
  const Bytes content = read_file(index, uint64_t{256} << 20);
  auto file = std::make_unique<MdsFile>();
  uint64_t bytes = 0, stored = 0;
  try {
    const Json json = Json::parse(as_text(content), index);
    const Json* shards = json.is_object() ? json.find("shards") : nullptr;
    if (shards == nullptr || !shards->is_array())
      throw Error(ErrorKind::data, {.where = index, .what = "the index lists no shards", .got = json.type_name()});
    for (const Json& shard : shards->as_array()) {
      const Json* format = shard.is_object() ? shard.find("format") : nullptr;
      if (format == nullptr || !format->is_string() || format->as_string() != "mds")
        throw Error(ErrorKind::data, {.where = index,
                                      .what = "a shard has another format",
                                      .got = format == nullptr ? "nothing" : shown(*format),
                                      .expected = "mds"});
      const Json* packed = shard.find("zip_data");
      const std::string path = file_in(folder, shard.find("raw_data"));
      const std::string from = file_exists(path) || packed == nullptr || packed->is_null() ? path : file_in(folder, packed);
      if (from == path) {
        auto mapped = std::make_shared<MappedFile>(path);
        bytes += mapped->bytes().size();
        stored += mapped->bytes().size();
        file->add(Shard(path, as_text(mapped->bytes()), encodings_of(shard, index)), mapped);
      } else {
        check_packed(shard, index);
        const auto whole = unpacked_file(from, kMostShard);
        bytes += whole->bytes().size();
        stored += MappedFile(from).bytes().size();
        file->add(Shard(from, as_text(whole->bytes()), encodings_of(shard, index)), whole);
      }
    }
  } catch (const Error& error) {
    throw Error(error.kind() == ErrorKind::resources ? ErrorKind::resources : ErrorKind::data, error.parts());
  }
  file->finish(folder, bytes, stored);
  return file;
}

std::unique_ptr<ColumnarFile> open_mds_shard(const std::string& name, std::string_view shard) {
  auto file = std::make_unique<MdsFile>();
  file->add(Shard(name, shard, {}), nullptr);
  file->finish(name, shard.size(), shard.size());
  return file;
}

}  // namespace perigee::tables
