// Sizes and versions of stored files that this process knows, from listings and requests.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "src/io/store/store.h"

namespace perigee {

// A file that is being read: the same in the next epoch without a look at its address.
struct StoredFile {
  StoredFile(StoreUrl its_url, Store& its_store, StoredInfo its_info)
      : url(std::move(its_url)), store(its_store), info(std::move(its_info)) {}
  const StoreUrl url;
  Store& store;
  const StoredInfo info;
  mutable std::atomic<bool> cached{false};  // all of it was found in the cache
};

// Any thread's.
class Known {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static Known& shared();
  void keep(const std::string& text, const StoredInfo& info, Time until = Time::max());
  bool find(const std::string& text, StoredInfo& info) const;
  void forget(const std::string& text);
  // From now on what is known of the file holds.
  std::shared_ptr<const StoredFile> use(const StoreUrl& url, Store& store, const StoredInfo& info);
  // Null: it has not been read yet, or what is known of it does not hold any more; or there are very many files.
  std::shared_ptr<const StoredFile> in_use(const std::string& text) const;
  // How many neighbours of a file are to be listed: none of a folder's first, then more each time.
  size_t to_list_beside(const std::string& folder);
  void list_no_more(const std::string& folder);  // it cannot be listed

 private:
  static constexpr size_t kMost = 1 << 21, kMostInUse = 100'000, kNoMore = ~size_t{0};
  struct Kept {
    StoredInfo info;
    Time until;
    std::shared_ptr<const StoredFile> file;
  };
  void put(const std::string& text, Kept kept);  // under the lock

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Kept> infos_;
  size_t in_use_ = 0;
  std::unordered_map<std::string, size_t> folders_;
};

}  // namespace perigee
