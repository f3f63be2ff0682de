#include "src/io/store/known.h"

#include <algorithm>

namespace perigee {

Known& Known::shared() {
  static Known known;
  return known;
}

void Known::put(const std::string& text, Kept kept) {
  if (infos_.size() >= kMost) infos_.clear(), in_use_ = 0;
  Kept& place = infos_[text];
  in_use_ -= place.file != nullptr;
  in_use_ += kept.file != nullptr;
  place = std::move(kept);
}

void Known::keep(const std::string& text, const StoredInfo& info, Time until) {
  const std::lock_guard lock(mutex_);
  put(text, {info, until, nullptr});
}

bool Known::find(const std::string& text, StoredInfo& info) const {
  const std::lock_guard lock(mutex_);
  const auto found = infos_.find(text);
  if (found == infos_.end() || found->second.until < std::chrono::steady_clock::now()) return false;
  info = found->second.info;
  return true;
}

void Known::forget(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const auto found = infos_.find(text);
  if (found == infos_.end()) return;
  in_use_ -= found->second.file != nullptr;
  infos_.erase(found);
}

std::shared_ptr<const StoredFile> Known::use(const StoreUrl& url, Store& store, const StoredInfo& info) {
  auto file = std::make_shared<const StoredFile>(url, store, info);
  const std::lock_guard lock(mutex_);
  put(url.text, {info, Time::max(), in_use_ < kMostInUse ? file : nullptr});
  return file;
}

std::shared_ptr<const StoredFile> Known::in_use(const std::string& text) const {
  const std::lock_guard lock(mutex_);
  const auto found = infos_.find(text);
  return found == infos_.end() ? nullptr : found->second.file;
}

size_t Known::to_list_beside(const std::string& folder) {
  constexpr size_t kFirst = 16, kMostOfPage = 1000;
  const std::lock_guard lock(mutex_);
  if (folders_.size() >= kMost) folders_.clear();
  size_t& next = folders_[folder];
  const size_t now = next;
  if (now == kNoMore) return 0;
  next = now == 0 ? kFirst : std::min(4 * now, kMostOfPage);
  return now;
}

void Known::list_no_more(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  folders_[folder] = kNoMore;
}

}  // namespace perigee
