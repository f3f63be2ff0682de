#include "src/io/store/store.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

#include "src/core/error.h"
#include "src/io/store/blocks.h"
#include "src/io/store/fetch.h"
#include "src/io/store/known.h"

namespace perigee {
namespace {

struct Scheme {
  const char* name;
  std::unique_ptr<Store> (*make)(const StoreUrl& url);
};
constexpr Scheme kSchemes[] = {{"s3", make_s3_store},         {"hdfs", make_hdfs_store}, {"webhdfs", make_hdfs_store},
                               {"swebhdfs", make_hdfs_store}, {"https", make_web_store}, {"http", make_web_store},
                               {"sftp", make_sftp_store}};

Store& store_of(const StoreUrl& url) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Store>> stores;
  const std::lock_guard lock(mutex);
  auto& store = stores[url.scheme + "://" + url.user + ":" + url.password + "@" + url.host_and_port()];
  if (store) return *store;
  std::vector<std::string> names = {"file"};
  for (const Scheme& scheme : kSchemes) {
    if (url.scheme == scheme.name) store = scheme.make(url);
    names.emplace_back(scheme.name);
  }
  if (store) return *store;
  throw Error(ErrorKind::usage, {.where = url.text,
                                 .what = "this kind of store is not known",
                                 .got = "'" + url.scheme + "://'",
                                 .expected = "s3://, hdfs:// (or webhdfs://, swebhdfs://), https://, sftp:// or file://",
                                 .hint = nearest_hint(url.scheme, names)});
}

// Segments "." and ".." of a key would be resolved by some servers and not by others.
StoreUrl checked_url(const std::string& path) {
  StoreUrl url = parse_store_url(path);
  for (size_t at = 0; at < url.path.size();) {
    const size_t end = std::min(url.path.find('/', at), url.path.size());
    const std::string_view part = std::string_view(url.path).substr(at, end - at);
    if (part == "." || part == "..")
      throw Error(ErrorKind::usage,
                  {.where = url.text, .what = "has '" + std::string(part) + "' in its path", .hint = "give the path without"});
    at = end + 1;
  }
  return url;
}

// --- Facts about objects, from listings and requests ------------------------------------------------------------------------------

// Who reads a second file of a folder will read more of them: one listing tells of 16, the next ones of up to a thousand, where each would
// be asked about. What was not asked for itself holds for a while only.
void learn_neighbours(Store& store, const StoreUrl& url) {
  constexpr std::chrono::seconds kHolds{60};
  const std::string folder = url.text.substr(0, url.text.rfind('/') + 1);
  const size_t most = Known::shared().to_list_beside(folder);
  if (most == 0) return;
  const std::optional<std::vector<StoredEntry>> entries = store.list_from(url, most);
  if (!entries) return Known::shared().list_no_more(folder);
  StoredInfo known;
  for (const StoredEntry& entry : *entries) {
    if (entry.folder || entry.version.empty() || Known::shared().find(folder + entry.name, known)) continue;
    Known::shared().keep(folder + entry.name, {StoredKind::file, entry.size, entry.version}, std::chrono::steady_clock::now() + kHolds);
  }
}

std::shared_ptr<const StoredFile> file_to_read(const std::string& path) {
  if (auto file = Known::shared().in_use(path)) return file;
  const StoreUrl url = checked_url(path);
  Store& store = store_of(url);
  StoredInfo info;
  const auto known = [&] { return Known::shared().find(url.text, info) && info.kind == StoredKind::file; };
  if (!known()) {
    learn_neighbours(store, url);
    if (!known()) info = store.stat(url);
  }
  if (info.kind == StoredKind::folder)
    throw Error(ErrorKind::data, {.where = url.text, .what = "is a folder of the store", .expected = "a file"});
  if (info.kind == StoredKind::none) refuse_missing(url);
  if (info.size > kLargestStored) throw Error(ErrorKind::resources, {.where = url.text, .what = "the file is too large"});
  return Known::shared().use(url, store, info);
}

// --- Small files that are read soon ------------------------------------------------------------------------------------------------

class Expected {
 public:
  static Expected& shared() {
    static Expected expected;
    return expected;
  }
  void begin(Store& store, const StoreUrl& url, const StoredInfo& info) {
    auto each = std::make_shared<Each>(info);
    {
      const std::lock_guard lock(mutex_);
      if (bytes_ + info.size > kMostBytes || all_.contains(url.text)) return;
      bytes_ += info.size;
      all_[url.text] = each;
    }
    each->bytes.resize(info.size);
    each->transfer = checked_reading(store, url, 0, each->bytes, info);
    const std::weak_ptr<Each> weak = each;
    begin_transfer(each->transfer, [each] {
      const std::lock_guard lock(each->mutex);
      each->done = true;
      each->came.notify_all();
    });
  }
  // True when the whole content of that version came.
  bool take(const std::string& text, const StoredInfo& info, Bytes& bytes) {
    std::shared_ptr<Each> each;
    {
      const std::lock_guard lock(mutex_);
      const auto found = all_.find(text);
      if (found == all_.end()) return false;
      each = found->second;
      all_.erase(found);
      bytes_ -= each->bytes.size();
    }
    if (each->info.version != info.version || each->info.size != info.size) return false;
    std::unique_lock lock(each->mutex);
    each->came.wait(lock, [&] { return each->done; });
    if (!each->transfer->ok() || !each->transfer->problem.empty() || each->transfer->received != each->bytes.size()) return false;
    bytes.swap(each->bytes);
    return true;
  }

 private:
  struct Each {
    explicit Each(const StoredInfo& its_info) : info(its_info) {}
    const StoredInfo info;
    std::mutex mutex;
    std::condition_variable came;
    bool done = false;
    Bytes bytes;
    std::shared_ptr<Transfer> transfer;
  };
  static constexpr uint64_t kMostBytes = uint64_t{256} << 20;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Each>> all_;
  uint64_t bytes_ = 0;
};

}  // namespace

void check_listing(const StoreUrl& folder, size_t entries) {
  constexpr size_t kMostEntries = 4'000'000;
  if (entries > kMostEntries)
    throw Error(ErrorKind::resources, {.where = folder.text,
                                       .what = "the folder has too many entries",
                                       .expected = "at most " + std::to_string(kMostEntries),
                                       .hint = "put them into folders of fewer files"});
}

StoredInfo stat_stored(const std::string& path) {
  const StoreUrl url = checked_url(path);
  const StoredInfo info = store_of(url).stat(url);
  if (info.kind == StoredKind::file) Known::shared().keep(url.text, info);
  else Known::shared().forget(url.text);
  return info;
}

void read_stored(const std::string& path, uint64_t limit, Bytes& bytes) {
  const auto file = file_to_read(path);
  const StoreUrl& url = file->url;
  const StoredInfo& info = file->info;
  if (info.size > limit)
    throw Error(ErrorKind::resources, {.where = url.text,
                                       .what = "the file is too large",
                                       .got = std::to_string(info.size) + " bytes",
                                       .expected = "at most " + std::to_string(limit)});
  if (Expected::shared().take(url.text, info, bytes)) return keep_block(url.text, info.version, 0, bytes);
  bytes.resize(info.size);
  std::vector<StoredBlock> missing = blocks_not_kept(url, info, bytes);
  file->cached = missing.empty();
  fetch_store(file->store, url, info, missing);
}

std::span<const std::byte> map_stored(const std::string& path) {
  const auto file = file_to_read(path);
  const StoreUrl& url = file->url;
  const StoredInfo& info = file->info;
  if (info.size == 0) return {};
  void* data = ::mmap(nullptr, info.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    throw Error(ErrorKind::resources, {.where = url.text, .what = std::string("cannot be mapped: ") + std::strerror(errno)});
  const auto unmap = [&](std::byte* begin) { ::munmap(begin, info.size); };
  std::unique_ptr<std::byte, decltype(unmap)> mapped(static_cast<std::byte*>(data), unmap);
  constexpr uint64_t kMostMapped = 8192;  // the system counts mappings
  const std::span<std::byte> bytes{mapped.get(), info.size};
  std::vector<StoredBlock> missing = blocks_not_kept(url, info, bytes, info.size / kBlockBytes < kMostMapped ? map_block : find_block);
  fetch_store(file->store, url, info, missing);
  mapped.release();
  return bytes;
}

void read_stored_range(const std::string& path, uint64_t offset, std::span<std::byte> into) {
  const auto file = file_to_read(path);
  const StoreUrl& url = file->url;
  const StoredInfo& info = file->info;
  if (offset > info.size || into.size() > info.size - offset)
    throw Error(ErrorKind::data, {.where = url.text, .what = "ends before the bytes that are asked for"});
  // Whole blocks are read and kept, so that neighbours find them.
  Bytes whole;
  if (info.whole) {
    read_stored(path, kLargestStored, whole);
    std::memcpy(into.data(), whole.data() + offset, into.size());
    return;
  }
  while (!into.empty()) {
    const uint64_t begin = offset / kBlockBytes * kBlockBytes;
    const uint64_t end = std::min((offset + into.size() + kBlockBytes - 1) / kBlockBytes * kBlockBytes, begin + kLeastStretch);
    whole.resize(std::min(end, info.size) - begin);
    std::vector<StoredBlock> missing;
    for (uint64_t at = 0; at < whole.size(); at += kBlockBytes) {
      const std::span<std::byte> block = std::span(whole).subspan(at, std::min(kBlockBytes, whole.size() - at));
      if (!find_block(url.text, info.version, begin + at, block)) missing.push_back({begin + at, block});
    }
    fetch_store(file->store, url, info, missing);
    const size_t count = std::min<size_t>(into.size(), whole.size() - (offset - begin));
    std::memcpy(into.data(), whole.data() + (offset - begin), count);
    offset += count, into = into.subspan(count);
  }
}

void expect_stored(std::span<const std::string> paths) {
  for (const std::string& path : paths) {
    if (const auto file = Known::shared().in_use(path); file && file->cached) continue;
    StoredInfo info;
    const StoreUrl url = checked_url(path);
    if (!Known::shared().find(url.text, info) || info.kind != StoredKind::file || info.size == 0 || info.size > kBlockBytes) continue;
    if (has_block(url.text, info.version, 0)) continue;
    Expected::shared().begin(store_of(url), url, info);
  }
}

std::vector<StoredEntry> list_stored(const std::string& path) {
  const StoreUrl url = checked_url(path);
  std::vector<StoredEntry> entries = store_of(url).list(url);
  std::sort(entries.begin(), entries.end(), [](const StoredEntry& a, const StoredEntry& b) { return a.name < b.name; });
  const std::string folder = url.text.ends_with('/') ? url.text : url.text + "/";
  for (const StoredEntry& entry : entries)
    if (!entry.folder && !entry.version.empty()) Known::shared().keep(folder + entry.name, {StoredKind::file, entry.size, entry.version});
  return entries;
}

bool put_stored(const std::string& path, std::span<const std::span<const std::byte>> pieces, const PutCondition& condition) {
  const StoreUrl url = checked_url(path);
  Known::shared().forget(url.text);
  return store_of(url).put(url, pieces, condition);
}

void remove_stored(const std::string& path) {
  const StoreUrl url = checked_url(path);
  Known::shared().forget(url.text);
  store_of(url).remove(url);
}

void refuse_answer(const StoreUrl& url, const Transfer& answer) {
  const std::string times = answer.attempts > 1 ? ", " + std::to_string(answer.attempts) + " times" : "";
  if (answer.tls == TlsFault::no_authorities)
    throw Error(ErrorKind::usage, {.where = url.text,
                                   .what = "the certificates of authorities cannot be read",
                                   .got = answer.problem,
                                   .hint = "AWS_CA_BUNDLE=FILE names them, as PEM; without it, the system's: apt install ca-certificates"});
  if (answer.tls == TlsFault::server)
    throw Error(
        ErrorKind::authentication,
        {.where = url.text,
         .what = "the server's certificate is not accepted",
         .got = answer.problem,
         .hint = "use the name that it is made for, look at this machine's clock, or name its authority's file: AWS_CA_BUNDLE=FILE"});
  if (answer.status == 0 || !answer.problem.empty())
    throw Error(ErrorKind::resources, {.where = url.text,
                                       .what = "the store cannot be reached" + times,
                                       .got = answer.problem,
                                       .hint = "check host and port, the network, and proxy variables such as https_proxy"});
  throw Error(ErrorKind::resources,
              {.where = url.text,
               .what = "the store answers with an error" + times,
               .got = "HTTP status " + std::to_string(answer.status),
               .hint = answer.status >= 500 || answer.status == 429 ? "it is overloaded or down: try again later" : ""});
}

void refuse_missing(const StoreUrl& url) {
  throw Error(ErrorKind::data, {.where = url.text, .what = "there is no such file in the store"});
}

void refuse_without_size(const StoreUrl& url) {
  throw Error(ErrorKind::data, {.where = url.text, .what = "the server does not say how large the file is", .hint = "download it first"});
}

void refuse_changed(const StoreUrl& url) {
  throw Error(
      ErrorKind::data,
      {.where = url.text, .what = "the file was changed while it was in use", .hint = "write new data under a new name, and start again"});
}

}  // namespace perigee
