#include "src/data/stored_arrays.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "src/data/arrays.h"
#include "src/io/digest.h"
#include "src/io/file.h"
#include "src/io/npy.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigits = 32;

// ---- those in memory ----

struct Known {
  Type type;
  std::weak_ptr<Storage> storage;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Known> arrays;  // by hash
};

Registry& stored_arrays_registry() {
  static Registry one;
  return one;
}

// The array of this content that was there first, so that the same numbers lie in memory once.
Tensor register_array(const std::string& hash, const Tensor& values) {
  const std::lock_guard lock(stored_arrays_registry().mutex);
  auto& arrays = stored_arrays_registry().arrays;
  std::erase_if(arrays, [](const auto& entry) { return entry.second.storage.expired(); });
  Known& known = arrays[hash];
  if (const auto storage = known.storage.lock()) return Tensor(storage, 0, known.type.dtype, known.type.shape);
  known = {{values.dtype(), values.shape()}, values.storage()};
  return values;
}

std::optional<Tensor> registered_array(const std::string& hash) {
  const std::lock_guard lock(stored_arrays_registry().mutex);
  const auto found = stored_arrays_registry().arrays.find(hash);
  if (found == stored_arrays_registry().arrays.end()) return std::nullopt;
  const auto storage = found->second.storage.lock();
  return storage ? std::optional(Tensor(storage, 0, found->second.type.dtype, found->second.type.shape)) : std::nullopt;
}

// ---- names ----

std::string hash_of(const std::string& head, std::span<const std::byte> elements) {
  Xxh3 hash;
  hash.update(as_bytes(head));
  hash.update(elements);
  return hash.hex();
}

std::span<const std::byte> elements_of(const Tensor& values) { return {values.data<std::byte>(), values.bytes()}; }

std::string relative_file(const std::string& hash) { return "arrays/" + hash + ".npy"; }

std::string read_hash(const Config& name) {
  const std::string hash = name.string("hash");
  const bool digits = std::all_of(hash.begin(), hash.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (hash.size() != kDigits || !digits) name.fail("hash", "names no array", "'" + hash + "'", "32 digits, 0 to 9 and a to f");
  return hash;
}

Type read_stored_arrays_type(const Config& name) {
  Type type;
  try {
    type = {dtype_from_name(name.string("dtype")), Shape(name.integer_list("shape"))};
  } catch (const Error& error) {
    if (!error.parts().where.empty()) throw;
    throw error.within(name.where());
  }
  if (type.dtype == Dtype::bf16 || type.shape.rank() < 1) name.fail("shape", "is of no array with examples", type.text());
  return type;
}

// Where the file lies. Only an array of a run may be opened so, whoever wrote the job.
std::string read_file_name(const Config& name, const std::string& hash, const std::string& folder) {
  const std::string file = name.string("file", "");
  if (file.empty()) return "";
  const std::string usual = relative_file(hash);
  const std::string path = fs::path(file).lexically_normal().string();
  if (path != usual && !(path.starts_with('/') && path.ends_with("/" + usual)))
    throw Error(ErrorKind::data, {.where = name.where() + ": 'file'",
                                  .what = "leads elsewhere than to an array of a run",
                                  .got = "'" + file + "'",
                                  .expected = "'" + usual + "' in the run's folder"});
  return path_in(folder, path);
}

// ---- files ----

struct MappedArray {
  MappedFile file;
  Storage window;
};

// Reads nothing into memory: what the system keeps of the file serves every process.
Tensor open_file(const std::string& path, const std::string& hash, const Type& type) {
  const std::string head = npy_head(type);
  const uint64_t bytes = static_cast<uint64_t>(type.shape.elements()) * dtype_bytes(type.dtype);
  const auto refuse = [&](const char* what, std::string got, std::string expected) {
    return Error(ErrorKind::data, {.where = path,
                                   .what = what,
                                   .got = std::move(got),
                                   .expected = std::move(expected),
                                   .hint = "the file is damaged or another one; train from the script again, which writes it anew"});
  };
  MappedFile file(path);
  const uint64_t expected = head.size() + bytes;
  if (file.bytes().size() != expected)
    throw refuse("has another size than the array that the job names", std::to_string(file.bytes().size()) + " bytes",
                 std::to_string(expected) + " for " + type.text());
  const std::string got = xxh3_hex(file.bytes());
  if (got != hash) throw refuse("is not the array that the job names", "content with hash " + got, hash);
  if (as_text(file.bytes().first(head.size())) != head) throw refuse("has another type than the job says", "another header", type.text());
  const auto mapped = std::make_shared<MappedArray>(MappedArray{std::move(file), Storage::borrow(nullptr, 0)});
  auto* elements = const_cast<std::byte*>(mapped->file.bytes().data() + head.size());  // sources only read
  mapped->window = Storage::borrow(elements, bytes);
  return Tensor(std::shared_ptr<Storage>(mapped, &mapped->window), 0, type.dtype, type.shape);
}

bool stored_arrays_is_whole(const std::string& path, const std::string& hash, const Type& type) {
  if (!file_exists(path)) return false;
  try {
    open_file(path, hash, type);
    return true;
  } catch (const Error&) {
    return false;  // it is written anew
  }
}

// ---- descriptions ----

bool is_arrays_source(const Json& description) {
  const Json* type = description.find("type");
  return type && *type == Json("arrays");
}

// Calls `visit` for every source of type "arrays" in a description of data, whatever stands around it.
template <class J>
void visit_sources(J& data, const std::string& where, const std::function<void(J&, const std::string&)>& visit) {
  if (data.is_array()) {
    for (size_t i = 0; i < data.as_array().size(); ++i) visit_sources(data.as_array()[i], where + "[" + std::to_string(i + 1) + "]", visit);
  } else if (data.is_object()) {
    if (is_arrays_source(data)) return visit(data, where);
    for (auto& [key, value] : data.as_object()) visit_sources(value, where + "." + key, visit);
  }
}

template <class J>
void visit_names(J& data, const std::function<void(J&, const std::string&)>& visit) {
  visit_sources<J>(data, "data", [&](J& source, const std::string& where) {
    for (auto& [key, value] : source.as_object())
      if (key != "class_names" && names_array(value)) visit(value, where + "." + key);
  });
}

bool is_list_of_numbers(const std::string& key, const Json& value) { return value.is_array() && key != "class_names"; }

int64_t count_numbers(const Json& list) {
  if (!list.is_array()) return 1;
  int64_t count = 0;
  for (const Json& item : list.as_array()) count += count_numbers(item);
  return count;
}

// Keys in the order of Job::canonical, so that equal jobs are the same text.
void set_file(Json& name, const std::string& file) {
  name.set("file", file);
  std::sort(name.as_object().begin(), name.as_object().end(),
            [](const Json::Member& a, const Json::Member& b) { return a.first < b.first; });
}

Json job_with_names(const Json& job, const std::function<void(Json&, const std::string&)>& change) {
  Json changed = job;
  if (Json* data = changed.find("data")) visit_names<Json>(*data, change);
  return changed;
}

}  // namespace

Json HeldArrays::hold(const Tensor& values) {
  Tensor plain = values.dtype() == Dtype::bf16 ? values.to(Dtype::f32) : values;
  if (plain.data<std::byte>() != plain.storage()->data()) plain = plain.clone();  // a window holds more than itself in memory
  const Type type{plain.dtype(), plain.shape()};
  const std::string hash = hash_of(npy_head(type), elements_of(plain));
  arrays_.push_back(register_array(hash, plain));
  Json shape = Json::array();
  for (const int64_t dim : type.shape.vector()) shape.push(dim);
  return Json(Json::Object{{"hash", hash}, {"dtype", dtype_name(type.dtype)}, {"shape", std::move(shape)}});
}

void HeldArrays::hold_named(const Json& data) {
  visit_names<const Json>(data, [&](const Json& name, const std::string&) {
    const Json* hash = name.find("hash");
    if (!hash->is_string()) return;  // whoever opens it says so
    if (auto values = registered_array(hash->as_string())) arrays_.push_back(std::move(*values));
  });
}

void HeldArrays::take_numbers(Json* data, const std::string& where) {
  visit_sources<Json>(*data, where, [&](Json& source, const std::string& place) {
    int64_t count = 0;
    for (const auto& [key, value] : source.as_object())
      if (is_list_of_numbers(key, value)) count += count_numbers(value);
    if (count <= kInlineNumbers) return;
    const Config config(source, place);
    for (auto& [key, value] : source.as_object())
      if (is_list_of_numbers(key, value)) value = hold(array_from_json(config, key, value));
  });
}

bool names_array(const Json& value) { return value.find("hash") != nullptr; }

Tensor open_named_array(const Config& name, const std::string& folder) {
  const std::string hash = read_hash(name);
  const Type type = read_stored_arrays_type(name);
  const std::string path = read_file_name(name, hash, folder);
  name.reject_unread();
  if (const auto values = registered_array(hash)) {
    const Type got{values->dtype(), values->shape()};
    if (got != type) name.fail("shape", "is not that of the array in memory", type.text(), got.text());
    return *values;
  }
  if (path.empty() || !file_exists(path))
    throw Error(ErrorKind::data,
                {.where = name.where(),
                 .what = "the array lies neither in memory nor in a file here",
                 .got = path.empty() ? type.text() + " without a file" : path,
                 .hint = "train from the script that has the numbers, use the run's own folder, or give other data (eval --data); "
                         "workers of a cluster elsewhere get them with data.at = \"coordinator\""});
  return register_array(hash, open_file(path, hash, type));
}

void store_arrays(const Json& job, const std::string& folder, const std::string& run) {
  const Json* data = job.find("data");
  if (!data) return;
  visit_names<const Json>(*data, [&](const Json& value, const std::string& where) {
    const Config name(value, where);
    const std::string hash = read_hash(name);
    const std::string path = path_in(run, relative_file(hash));
    if (stored_arrays_is_whole(path, hash, read_stored_arrays_type(name))) return;
    const Tensor values = open_named_array(name, folder);
    const std::string head = npy_head({values.dtype(), values.shape()});
    const std::span<const std::byte> pieces[] = {as_bytes(head), elements_of(values)};
    write_file(path, pieces);
  });
}

Json with_array_files(const Json& job, const std::string& run) {
  std::error_code status;
  const std::string folder = fs::absolute(run, status).lexically_normal().string();
  return job_with_names(job, [&](Json& name, const std::string&) {
    const Json *hash = name.find("hash"), *file = name.find("file");
    if (!hash->is_string()) return;
    const std::string path = path_in(folder, relative_file(hash->as_string()));
    const bool elsewhere = file && file->is_string() && file->as_string() != relative_file(hash->as_string());
    if (!elsewhere || file_exists(path)) set_file(name, path);
  });
}

Json with_relative_array_files(const Json& job) {
  return job_with_names(job, [](Json& name, const std::string&) {
    if (const Json* hash = name.find("hash"); hash->is_string()) set_file(name, relative_file(hash->as_string()));
  });
}

}  // namespace perigee
