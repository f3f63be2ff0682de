#include "src/io/store/published.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>
#include <set>

#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/io/digest.h"
#include "src/io/store/store.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 10000, kKeptStates = 3;
constexpr uint64_t kLargestManifest = 16 << 20;
constexpr int kMostClaims = 100;

std::string manifest_name(int64_t sequence) {
  char name[32];
  std::snprintf(name, sizeof name, "%010lld.json", static_cast<long long>(sequence));
  return name;
}

// The number of a manifest's name; 0: it is no manifest.
int64_t sequence_of(const std::string& name) {
  if (name.size() != 15 || !name.ends_with(".json") || name.find_first_not_of("0123456789") != 10) return 0;
  return std::stoll(name.substr(0, 10));
}

// A path of a manifest becomes a local file: it must stay below the folder.
bool is_plain_path(const std::string& path) {
  if (path.empty() || path.size() > 1000 || path.front() == '/' || path.back() == '/') return false;
  for (const char c : path)
    if (static_cast<unsigned char>(c) < 32) return false;
  for (const fs::path& part : fs::path(path))
    if (part.empty() || part == "." || part == "..") return false;
  return true;
}

std::string manifest_text(const PublishedState& manifest) {
  Json files = Json::array();
  for (const PublishedFile& file : manifest.files)
    files.push(
        Json(Json::Object{{"path", file.path}, {"object", file.object}, {"bytes", static_cast<int64_t>(file.bytes)}, {"xxh3", file.xxh3}}));
  Json json(Json::Object{
      {"sequence", manifest.sequence}, {"generation", manifest.generation}, {"writer", manifest.writer}, {"files", std::move(files)}});
  json.set("xxh3", xxh3_hex(as_bytes(json.dump())));
  return json.dump() + "\n";
}

[[noreturn]] void bad_manifest(const std::string& where, const char* what) {
  throw Error(
      ErrorKind::data,
      {.where = where, .what = std::string("this manifest ") + what, .hint = "delete this file: the state before it is the newest then"});
}

PublishedState parse_manifest(std::span<const std::byte> bytes, const std::string& where) {
  Json json = Json::parse(as_text(bytes), where, 10 * kMostFiles + 100);
  const Json* hash = json.find("xxh3");
  if (hash == nullptr || !hash->is_string()) bad_manifest(where, "has no hash");
  const std::string given = hash->as_string();
  json.erase("xxh3");
  if (xxh3_hex(as_bytes(json.dump())) != given) bad_manifest(where, "is damaged");
  const auto number = [&](const Json& of, const char* name) {
    const Json* value = of.find(name);
    if (value == nullptr || !value->is_int() || value->as_int() < 0) bad_manifest(where, "lacks a number");
    return value->as_int();
  };
  const auto text = [&](const Json& of, const char* name) {
    const Json* value = of.find(name);
    if (value == nullptr || !value->is_string()) bad_manifest(where, "lacks a name");
    return value->as_string();
  };
  PublishedState manifest{.sequence = number(json, "sequence"), .generation = number(json, "generation"), .writer = text(json, "writer")};
  const Json* files = json.find("files");
  if (files == nullptr || !files->is_array() || files->as_array().size() > kMostFiles) bad_manifest(where, "has no list of files");
  for (const Json& each : files->as_array()) {
    PublishedFile file{text(each, "path"), text(each, "object"), text(each, "xxh3"), static_cast<uint64_t>(number(each, "bytes"))};
    if (!is_plain_path(file.path) || !is_plain_path(file.object) || file.object.find('/') != std::string::npos)
      bad_manifest(where, "leads out of its folder");
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

std::string in_folder(const std::string& url, const std::string& name) { return store_path_in(url, name); }

// Newest first.
std::vector<int64_t> sequences(const std::string& url) {
  std::vector<int64_t> found;
  const std::string folder = in_folder(url, "manifests");
  if (stat_stored(folder).kind != StoredKind::folder) return found;
  for (const StoredEntry& entry : list_stored(folder))
    if (const int64_t sequence = entry.folder ? 0 : sequence_of(entry.name); sequence > 0) found.push_back(sequence);
  std::sort(found.rbegin(), found.rend());
  return found;
}

PublishedState read_manifest(const std::string& url, int64_t sequence) {
  const std::string path = in_folder(url, "manifests/" + manifest_name(sequence));
  Bytes bytes;
  read_stored(path, kLargestManifest, bytes);
  const PublishedState manifest = parse_manifest(bytes, path);
  if (manifest.sequence != sequence) bad_manifest(path, "has another number than its name");
  return manifest;
}

// The newest that is there, which a writer may remove while it is being read.
PublishedState newest_manifest(const std::string& url) {
  for (int attempt = 0;; ++attempt) {
    const std::vector<int64_t> all = sequences(url);
    if (all.empty()) return {};
    try {
      return read_manifest(url, all[0]);
    } catch (const Error& error) {
      if (attempt == 3) throw;
    }
  }
}

void fetch_file(const std::string& url, const PublishedFile& file, const std::string& folder) {
  const std::string object = in_folder(url, "objects/" + file.object);
  Bytes bytes;
  read_stored(object, file.bytes, bytes);
  if (bytes.size() != file.bytes || xxh3_hex(bytes) != file.xxh3)
    throw Error(ErrorKind::data,
                {.where = object,
                 .what = "is not the content that the manifest names",
                 .hint = "put the right object there, or delete the manifest that names it: the state before it is the newest then"});
  write_file(folder + "/" + file.path, bytes);
}

// ".7-name.tmp-123", which a killed writer leaves at some stores, counts as "7-name".
int64_t number_at_start(const std::string& name) { return std::strtoll(name.c_str() + (name.starts_with('.') ? 1 : 0), nullptr, 10); }

std::string random_name() {
  std::random_device random;
  return hex_digest(uint64_t{random()} << 32 | random());
}

}  // namespace

void check_unpublished(const std::string& url) {
  if (sequences(url).empty()) return;
  throw Error(ErrorKind::usage, {.where = url,
                                 .what = "a run is published here already",
                                 .hint = "continue it with --resume " + url + ", or choose another address"});
}

PublishedState fetch_published(const std::string& url, const std::string& folder) {
  const std::vector<int64_t> all = sequences(url);
  for (const int64_t sequence : all) {
    try {
      PublishedState manifest = read_manifest(url, sequence);
      for (const PublishedFile& file : manifest.files) fetch_file(url, file, folder);
      return manifest;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data && error.kind() != ErrorKind::model) throw;
      if (sequence == all.back()) throw;
      warn(std::string(error.what()) + "; trying the state before it");
      std::error_code ignored;
      fs::remove_all(folder, ignored);
    }
  }
  throw Error(ErrorKind::data,
              {.where = url, .what = "no run is published here", .hint = "`perigee train --out " + url + "` publishes one"});
}

PublishedFolder::PublishedFolder(std::string url, std::string folder, bool fresh)
    : url_(std::move(url)), folder_(std::move(folder)), writer_(random_name()) {
  claim(fresh);
  sweep();
}

// The new manifest has the files of the one before it: the newest is whole at any time.
void PublishedFolder::claim(bool fresh) {
  for (int i = 0; i < kMostClaims; ++i) {
    if (fresh) check_unpublished(url_);
    const PublishedState there = newest_manifest(url_);
    const PublishedState mine{there.sequence + 1, there.generation + 1, writer_, there.files};
    if (!create(mine)) continue;
    kept_ = {there, mine};
    newest_ = mine;
    return;
  }
  throw Error(ErrorKind::cluster,
              {.where = url_, .what = "many writers want this address at once", .hint = "give each run an address of its own: --out"});
}

bool PublishedFolder::create(const PublishedState& manifest) {
  const std::string text = manifest_text(manifest);
  const std::span<const std::byte> pieces[] = {as_bytes(text)};
  const std::string path = in_folder(url_, "manifests/" + manifest_name(manifest.sequence));
  if (put_stored(path, pieces, {.absent = true})) return true;
  // The one that is there may be this very one, written by a try whose answer was lost.
  if (stat_stored(path).kind != StoredKind::file) return false;
  Bytes bytes;
  read_stored(path, kLargestManifest, bytes);
  return as_text(bytes) == text;
}

void PublishedFolder::refuse_stale(const PublishedState& there) const {
  throw Error(ErrorKind::cluster, {.where = url_,
                                   .what = "another process has taken over this run",
                                   .got = "generation " + std::to_string(there.generation),
                                   .expected = "generation " + std::to_string(newest_.generation),
                                   .hint = "this one publishes nothing more; what it has is in " + folder_});
}

// A file of another time or size than before is read; one that then has another hash is written, under a new name.
std::vector<PublishedFile> PublishedFolder::upload() {
  std::vector<fs::directory_entry> there;
  std::error_code status;
  for (fs::recursive_directory_iterator it(folder_, status), end; !status && it != end; it.increment(status)) {
    std::error_code gone;
    if (!it->is_regular_file(gone) || it->path().filename().string().find(".tmp") != std::string::npos) continue;
    if (there.size() >= kMostFiles)
      throw Error(ErrorKind::resources, {.where = folder_,
                                         .what = "has too many files to publish",
                                         .expected = "at most " + std::to_string(kMostFiles),
                                         .hint = "keep data and other files outside of the run's folder"});
    there.push_back(*it);
  }
  if (status) throw Error(ErrorKind::resources, {.where = folder_, .what = "the folder cannot be read: " + status.message()});
  std::vector<PublishedFile> files;
  for (const fs::directory_entry& entry : there) {
    std::error_code gone;
    const std::string path = entry.path().lexically_relative(folder_).string();
    const int64_t time = entry.last_write_time(gone).time_since_epoch().count();
    const uint64_t size = entry.file_size(gone);
    if (gone || !is_plain_path(path)) continue;
    Seen& seen = seen_[path];
    if (seen.time != time || seen.file.bytes != size || seen.file.object.empty()) {
      Bytes bytes;
      try {
        read_file(entry.path().string(), kLargestStored, bytes);
      } catch (const Error&) {
        if (!fs::exists(entry.path(), gone)) continue;  // an old checkpoint that was just removed
        throw;
      }
      const std::string hash = xxh3_hex(bytes);
      if (seen.file.object.empty() || hash != seen.file.xxh3 || bytes.size() != seen.file.bytes) {
        std::string name = std::to_string(newest_.generation) + "-" + random_name() + "-" + entry.path().filename().string();
        const std::span<const std::byte> pieces[] = {bytes};
        put_stored(in_folder(url_, "objects/" + name), pieces, {.absent = true});
        seen.file = {path, std::move(name), hash, bytes.size()};
      }
      seen.time = bytes.size() == size ? time : 0;
    }
    files.push_back(seen.file);
  }
  std::sort(files.begin(), files.end(), [](const PublishedFile& a, const PublishedFile& b) { return a.path < b.path; });
  return files;
}

void PublishedFolder::publish() {
  PublishedState next{newest_.sequence + 1, newest_.generation, writer_, {}};
  bool created = false;
  try {
    next.files = upload();
    const auto same = [](const PublishedFile& a, const PublishedFile& b) { return a.path == b.path && a.object == b.object; };
    if (std::equal(next.files.begin(), next.files.end(), newest_.files.begin(), newest_.files.end(), same)) return;
    created = create(next);
  } catch (const Error&) {
    // A later writer sweeps what this one is about to write.
    if (const PublishedState there = newest_manifest(url_); there.generation != newest_.generation) refuse_stale(there);
    throw;
  }
  if (!created) refuse_stale(newest_manifest(url_));
  // A number that the later writer has left behind could be created again: what counts is the newest.
  if (const PublishedState there = newest_manifest(url_); there.generation != next.generation) {
    remove_stored(in_folder(url_, "manifests/" + manifest_name(next.sequence)));
    refuse_stale(there);
  }
  newest_ = std::move(next);
  kept_.push_back(newest_);
  point();
  remove_old();
}

// Readers do without it: a failure is no harm.
void PublishedFolder::point() {
  try {
    const std::string path = in_folder(url_, "latest.json");
    const std::string text =
        Json(Json::Object{{"manifest", "manifests/" + manifest_name(newest_.sequence)}, {"generation", newest_.generation}}).dump() + "\n";
    const std::span<const std::byte> pieces[] = {as_bytes(text)};
    const StoredInfo there = stat_stored(path);
    put_stored(path, pieces, {.absent = there.kind == StoredKind::none, .version = there.version});
  } catch (const Error&) {}
}

// Manifests go before their objects, so that none is left without them.
void PublishedFolder::remove_old() {
  while (kept_.size() > kKeptStates) {
    const PublishedState old = std::move(kept_.front());
    kept_.pop_front();
    std::set<std::string> used;
    for (const PublishedState& manifest : kept_)
      for (const PublishedFile& file : manifest.files) used.insert(file.object);
    if (old.sequence == 0) continue;
    try {
      remove_stored(in_folder(url_, "manifests/" + manifest_name(old.sequence)));
      for (const PublishedFile& file : old.files)
        if (!used.contains(file.object)) remove_stored(in_folder(url_, "objects/" + file.object));
    } catch (const Error&) {
      return;  // the next writer sweeps
    }
  }
}

void PublishedFolder::sweep_temporaries() {
  for (const char* part : {"", "manifests"}) {
    const std::string folder = in_folder(url_, part);
    for (const StoredEntry& entry : list_stored(folder)) {
      if (entry.folder || entry.name.find(".tmp-") == std::string::npos) continue;
      const bool pointer = *part == '\0' && entry.name.find("latest.json") < 2;
      const int64_t sequence = *part == '\0' ? 0 : number_at_start(entry.name);
      if (pointer || (sequence > 0 && sequence <= newest_.sequence)) remove_stored(in_folder(folder, entry.name));
    }
  }
}

// Takes away the rest of writers that were killed: older manifests, and objects of earlier generations that no manifest names.
void PublishedFolder::sweep() {
  try {
    for (const int64_t sequence : sequences(url_))
      if (sequence < newest_.sequence - static_cast<int64_t>(kKeptStates))
        remove_stored(in_folder(url_, "manifests/" + manifest_name(sequence)));
    std::set<std::string> used;
    for (const int64_t sequence : sequences(url_))
      for (const PublishedFile& file : read_manifest(url_, sequence).files) used.insert(file.object);
    sweep_temporaries();
    const std::string folder = in_folder(url_, "objects");
    if (stat_stored(folder).kind != StoredKind::folder) return;
    for (const StoredEntry& entry : list_stored(folder)) {
      const int64_t generation = number_at_start(entry.name);
      if (!entry.folder && generation > 0 && generation < newest_.generation && !used.contains(entry.name))
        remove_stored(folder + "/" + entry.name);
    }
  } catch (const Error&) {
    // It costs space alone.
  }
}

void PublishedFolder::finish(const std::vector<std::string>& plain) {
  publish();
  for (const std::string& name : plain) {
    if (!file_exists(folder_ + "/" + name)) continue;
    const Bytes bytes = read_file(folder_ + "/" + name);
    write_file(in_folder(url_, name), bytes);
  }
}

}  // namespace perigee
