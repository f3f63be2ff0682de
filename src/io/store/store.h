// Files that lie elsewhere, by the same calls as local ones: src/io/file.h comes here with every path that is_store_path(). One Store serves
// one server (or bucket) for the whole process; objects are read in blocks, which the user's cache folder keeps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/io/file.h"
#include "src/io/store/transfer.h"
#include "src/io/store/url.h"

namespace perigee {

enum class StoredKind { none, file, folder };
struct StoredInfo {
  StoredKind kind = StoredKind::none;
  uint64_t size = 0;
  std::string version;  // changes with the content; empty: the store does not say, and nothing is kept of it
  bool whole = false;   // no part of it can be had, only all
};
struct StoredEntry {
  std::string name;
  bool folder = false;
  uint64_t size = 0;
  std::string version;
};

// Under which condition a file is written.
struct PutCondition {
  bool absent = false;  // only where there is none
  std::string version;  // only over this one; empty: whatever is there
};

class Store {
 public:
  virtual ~Store() = default;
  virtual StoredInfo stat(const StoreUrl& url) = 0;
  // The transfer of bytes [offset, offset + size) of that version.
  virtual std::shared_ptr<Transfer> reading(const StoreUrl& url, uint64_t offset, uint64_t size, const StoredInfo& info) = 0;
  // Throws what an answer means that is no success.
  [[noreturn]] virtual void refuse(const StoreUrl& url, Transfer& answer) = 0;
  // Sorted by name, bounded.
  virtual std::vector<StoredEntry> list(const StoreUrl& url) = 0;
  // This file and those that follow it in its folder, at most so many, by one request. Empty: not now. Nothing: not of this folder.
  virtual std::optional<std::vector<StoredEntry>> list_from(const StoreUrl& /*file*/, size_t /*most*/) { return std::nullopt; }
  // False: answers to reading() tell no version, and still_is() is asked behind them. Such a store's reading() asks for one byte more than the
  // file has, where it asks for its end.
  virtual bool answers_tell_version() const { return true; }
  // False: the file has another version by now.
  virtual bool still_is(const StoreUrl& /*url*/, const StoredInfo& /*info*/) { return true; }
  // Whole or not at all, also for readers; false: the condition does not hold, and nothing has changed.
  virtual bool put(const StoreUrl& url, std::span<const std::span<const std::byte>> pieces, const PutCondition& condition) = 0;
  virtual void remove(const StoreUrl& url) = 0;  // nothing happens when it is not there
};

// Error(resources) for a listing that is longer than memory is for.
void check_listing(const StoreUrl& folder, size_t entries);
inline constexpr uint64_t kLargestStored = uint64_t{1} << 44;

// --- Calls of src/io/file.h. For each path is_store_path() holds, and none begins with file:// ----------------------------------------

StoredInfo stat_stored(const std::string& path);
void read_stored(const std::string& path, uint64_t limit, Bytes& bytes);
// All of it in memory, where blocks that the cache has are mapped and not copied; the caller unmaps it. Of an empty file nothing.
std::span<const std::byte> map_stored(const std::string& path);
// A range of it, past the end: Error(data).
void read_stored_range(const std::string& path, uint64_t offset, std::span<std::byte> into);
// Small files that are read soon: their transfers begin.
void expect_stored(std::span<const std::string> paths);
std::vector<StoredEntry> list_stored(const std::string& path);
bool put_stored(const std::string& path, std::span<const std::span<const std::byte>> pieces, const PutCondition& condition = {});
void remove_stored(const std::string& path);

// The stores of each scheme.
std::unique_ptr<Store> make_s3_store(const StoreUrl& url);
std::unique_ptr<Store> make_hdfs_store(const StoreUrl& url);
std::unique_ptr<Store> make_web_store(const StoreUrl& url);
std::unique_ptr<Store> make_sftp_store(const StoreUrl& url);

// For them: an Error(resources) about an answer that never came, or that nobody expects.
[[noreturn]] void refuse_answer(const StoreUrl& url, const Transfer& answer);
[[noreturn]] void refuse_missing(const StoreUrl& url);
[[noreturn]] void refuse_changed(const StoreUrl& url);
[[noreturn]] void refuse_without_size(const StoreUrl& url);

}  // namespace perigee
