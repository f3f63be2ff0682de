#include "src/io/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "src/core/error.h"
#include "src/core/json.h"
#include "src/io/digest.h"

namespace perigee {
namespace {

constexpr uint64_t kMostSafetensorsHeaderBytes = uint64_t{16} << 20;
constexpr size_t kMostTensors = 65536;
constexpr char kBlank[] = "00000000000000000000000000000000";  // where the digest goes while it is computed

struct DtypeName {
  Dtype dtype;
  const char* name;
};
constexpr std::array<DtypeName, 8> kDtypes = {{{Dtype::f32, "F32"},
                                               {Dtype::f64, "F64"},
                                               {Dtype::f16, "F16"},
                                               {Dtype::bf16, "BF16"},
                                               {Dtype::i32, "I32"},
                                               {Dtype::i64, "I64"},
                                               {Dtype::u8, "U8"},
                                               {Dtype::boolean, "BOOL"}}};

[[noreturn]] void safetensors_damaged(const std::string& where, std::string what, std::string got = "", std::string expected = "") {
  throw Error(ErrorKind::model, {.where = where,
                                 .what = std::move(what),
                                 .got = std::move(got),
                                 .expected = std::move(expected),
                                 .hint = "the file is damaged or no safetensors file; use an older checkpoint or write it again"});
}

std::string header_text(std::span<const NamedTensor> tensors, const Metadata& metadata) {
  Json header = Json::object();
  Json info = Json::object();
  for (const auto& [key, value] : metadata) info.set(key, value);
  info.set("xxh3", kBlank);
  header.set("__metadata__", std::move(info));
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    Json entry = Json::object();
    for (const DtypeName& known : kDtypes)
      if (known.dtype == tensor.dtype()) entry.set("dtype", known.name);
    Json shape = Json::array(), offsets = Json::array();
    for (int64_t dim : tensor.shape().vector()) shape.push(dim);
    offsets.push(static_cast<int64_t>(offset));
    offset += tensor.bytes();
    offsets.push(static_cast<int64_t>(offset));
    entry.set("shape", std::move(shape));
    entry.set("data_offsets", std::move(offsets));
    header.as_object().emplace_back(name, std::move(entry));
  }
  std::string text = header.dump();
  while (text.size() % 8 != 0) text += ' ';  // tensors start on an 8-byte border
  return text;
}

// Where the digest's 32 characters stand in the header; npos when there is none.
size_t digest_place(std::string_view header, const std::string& digest) {
  const std::string quoted = "\"xxh3\":\"" + digest + "\"";
  const size_t at = header.find(quoted);
  return at == std::string_view::npos ? at : at + 8;
}

std::string digest_of(std::string_view header, std::span<const std::span<const std::byte>> data) {
  Xxh3 hash;
  hash.update(as_bytes(header));
  for (const auto& piece : data) hash.update(piece);
  return hash.hex();
}

struct SafetensorsPieces {
  std::string head;  // length and header, digest filled in
  std::vector<std::span<const std::byte>> all;
};

SafetensorsPieces pieces_of(std::span<const NamedTensor> tensors, const Metadata& metadata) {
  SafetensorsPieces pieces;
  std::string header = header_text(tensors, metadata);
  std::vector<std::span<const std::byte>> data;
  for (const auto& [name, tensor] : tensors) data.push_back({static_cast<const std::byte*>(tensor.view().data), tensor.bytes()});
  const std::string digest = digest_of(header, data);
  header.replace(digest_place(header, kBlank), digest.size(), digest);
  uint64_t length = header.size();
  pieces.head.assign(reinterpret_cast<const char*>(&length), sizeof length);
  pieces.head += header;
  pieces.all.push_back({});
  pieces.all.insert(pieces.all.end(), data.begin(), data.end());
  return pieces;
}

struct Entry {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> dims;
  uint64_t begin = 0, end = 0;
};

Entry read_safetensors_entry(const std::string& name, const Json& json, const std::string& where) {
  const std::string at = where + ": tensor '" + name + "'";
  Entry entry{.name = name};
  if (!json.is_object()) safetensors_damaged(at, "is no object", json.type_name());
  const Json* dtype = json.find("dtype");
  const Json* shape = json.find("shape");
  const Json* offsets = json.find("data_offsets");
  if (!dtype || !dtype->is_string() || !shape || !shape->is_array() || !offsets || !offsets->is_array() || json.as_object().size() != 3)
    safetensors_damaged(at, "must have exactly the keys dtype, shape and data_offsets");
  const auto known = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const DtypeName& d) { return dtype->as_string() == d.name; });
  if (known == kDtypes.end()) safetensors_damaged(at, "has an unknown dtype", dtype->as_string());
  entry.dtype = known->dtype;
  if (shape->as_array().size() > static_cast<size_t>(kMaxRank))
    safetensors_damaged(at, "has too many dimensions", std::to_string(shape->as_array().size()));
  for (const Json& dim : shape->as_array()) {
    if (!dim.is_int() || dim.as_int() < 0) safetensors_damaged(at, "has a dimension that is no size", dim.dump());
    entry.dims.push_back(dim.as_int());
  }
  const std::optional<int64_t> count = count_elements(entry.dims);
  if (!count) safetensors_damaged(at, "is too large to be", shape->dump());
  const uint64_t bytes = static_cast<uint64_t>(*count) * dtype_bytes(entry.dtype);
  const auto& range = offsets->as_array();
  if (range.size() != 2 || !range[0].is_int() || !range[1].is_int() || range[0].as_int() < 0 || range[1].as_int() < range[0].as_int())
    safetensors_damaged(at, "has data_offsets that are no range", offsets->dump());
  entry.begin = static_cast<uint64_t>(range[0].as_int());
  entry.end = static_cast<uint64_t>(range[1].as_int());
  if (entry.end - entry.begin != bytes)
    safetensors_damaged(at, "has data of another size than its shape", std::to_string(entry.end - entry.begin) + " bytes",
                        std::to_string(bytes) + " bytes");
  return entry;
}

// In order of their data: no holes, no overlaps, nothing after the last.
void check_layout(std::vector<Entry> entries, uint64_t data_bytes, const std::string& where) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.begin < b.begin || (a.begin == b.begin && a.end < b.end); });
  uint64_t next = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != next)
      safetensors_damaged(where + ": tensor '" + entry.name + "'",
                          entry.begin < next ? "overlaps the one before it" : "leaves a hole before it",
                          "offset " + std::to_string(entry.begin), std::to_string(next));
    next = entry.end;
  }
  if (next != data_bytes)
    safetensors_damaged(where, next > data_bytes ? "is truncated" : "has bytes after the last tensor",
                        std::to_string(data_bytes) + " bytes of data", std::to_string(next));
}

}  // namespace

Bytes safetensors_bytes(std::span<const NamedTensor> tensors, const Metadata& metadata) {
  SafetensorsPieces pieces = pieces_of(tensors, metadata);
  pieces.all[0] = as_bytes(pieces.head);
  Bytes bytes;
  for (const auto& piece : pieces.all) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors, const Metadata& metadata) {
  SafetensorsPieces pieces = pieces_of(tensors, metadata);
  pieces.all[0] = as_bytes(pieces.head);
  write_file(path, pieces.all);
}

const Tensor* Safetensors::find(std::string_view name) const {
  for (const NamedTensor& entry : tensors)
    if (entry.name == name) return &entry.tensor;
  return nullptr;
}

Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& where) {
  uint64_t length = 0;
  if (bytes.size() < sizeof length) safetensors_damaged(where, "is too short", std::to_string(bytes.size()) + " bytes", "at least 8");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMostSafetensorsHeaderBytes)
    safetensors_damaged(where, "has a header that is too long", std::to_string(length) + " bytes",
                        "at most " + std::to_string(kMostSafetensorsHeaderBytes));
  if (length > bytes.size() - sizeof length)
    safetensors_damaged(where, "is truncated inside its header", std::to_string(bytes.size()) + " bytes");
  std::string header(as_text(bytes.subspan(sizeof length, length)));
  const std::span<const std::byte> data = bytes.subspan(sizeof length + length);

  // A tensor's entry is at most this many values: itself, its type, two lists, dimensions and two offsets.
  constexpr size_t kMostValues = kMostTensors * (6 + kMaxRank) + 4096;
  const Json json = Json::parse(header, where + ": header", kMostValues);
  if (!json.is_object()) safetensors_damaged(where, "has a header that is no object", json.type_name());
  Safetensors file;
  std::vector<Entry> entries;
  for (const auto& [name, value] : json.as_object()) {
    if (name != "__metadata__") {
      entries.push_back(read_safetensors_entry(name, value, where));
      continue;
    }
    if (!value.is_object()) safetensors_damaged(where, "has metadata that are no object", value.type_name());
    for (const auto& [key, text] : value.as_object()) {
      if (!text.is_string()) safetensors_damaged(where, "has a metadata value that is no string", key);
      file.metadata[key] = text.as_string();
    }
  }
  if (entries.size() > kMostTensors)
    safetensors_damaged(where, "has too many tensors", std::to_string(entries.size()), "at most " + std::to_string(kMostTensors));
  check_layout(entries, data.size(), where);
  if (const auto digest = file.metadata.find("xxh3"); digest != file.metadata.end()) {
    const size_t place = digest_place(header, digest->second);
    if (place == std::string::npos || digest->second.size() != sizeof kBlank - 1)
      safetensors_damaged(where, "has a digest that is none", digest->second);
    header.replace(place, sizeof kBlank - 1, kBlank);
    const std::span<const std::byte> pieces[] = {data};
    const std::string actual = digest_of(header, pieces);
    if (actual != digest->second) safetensors_damaged(where, "does not match its digest", actual, digest->second);
  }
  for (const Entry& entry : entries) {
    Tensor tensor(entry.dtype, Shape(entry.dims));
    if (tensor.bytes()) std::memcpy(tensor.view().data, data.data() + entry.begin, tensor.bytes());
    file.tensors.push_back({entry.name, std::move(tensor)});
  }
  return file;
}

Safetensors read_safetensors(const std::string& path) { return parse_safetensors(read_file(path), path); }

}  // namespace perigee
