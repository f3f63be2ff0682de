#include "repl/commands/train/stored_run.h"

#include <chrono>
#include <ctime>
#include <filesystem>
#include <set>

#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/io/file.h"
#include "src/io/store/store.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr auto kLook = std::chrono::milliseconds(500), kAfterFault = std::chrono::milliseconds(5000),
               kAtLeast = std::chrono::milliseconds(60000);

// runs/<last part of the address>-<time>, free.
std::string local_folder(const std::string& url) {
  std::string stem = parse_store_url(url).key();
  stem = stem.substr(stem.rfind('/') + 1);
  for (char& c : stem)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '-';
  if (stem.empty()) stem = "run";
  char time[32];
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  std::strftime(time, sizeof time, "-%Y%m%d-%H%M%S", localtime_r(&now, &local));
  std::string free = "runs/" + stem + time;
  for (int i = 2; fs::exists(free); ++i) free = "runs/" + stem + time + "-" + std::to_string(i);
  return free;
}

// The names of the checkpoints with their times: another text when there is a new one.
std::string checkpoints_of(const std::string& folder) {
  std::set<std::string> all;
  std::error_code status;
  for (const auto& entry : fs::directory_iterator(folder + "/checkpoints", status)) {
    std::error_code gone;
    if (entry.path().extension() == ".safetensors")
      all.insert(entry.path().filename().string() + " " + std::to_string(entry.last_write_time(gone).time_since_epoch().count()));
  }
  std::string text;
  for (const std::string& each : all) text += each + "\n";
  return text;
}

}  // namespace

std::unique_ptr<StoredRun> StoredRun::begin(std::string* out, std::string* resume) {
  const bool to_store = is_store_path(*out = local_path(*out)), from_store = is_store_path(*resume = local_path(*resume));
  if (!to_store && !from_store) return nullptr;
  std::string url = to_store ? *out : "", folder;
  bool fresh = to_store;
  if (from_store && stat_stored(*resume).kind == StoredKind::file) {  // a checkpoint alone
    const std::string file = local_folder(*resume) + "/checkpoints/resumed.safetensors";
    write_file(file, read_file(*resume));
    *resume = file;
  } else if (from_store) {
    folder = local_folder(*resume);
    if (out->empty()) url = *resume, fresh = false;
    fetch_published(*resume, folder);
    *resume = folder;
  }
  if (url.empty()) return nullptr;
  if (to_store) *out = folder = local_folder(url);
  return std::make_unique<StoredRun>(url, folder, fresh);
}

StoredRun::StoredRun(std::string url, std::string folder, bool fresh) : url_(std::move(url)), folder_(std::move(folder)), fresh_(fresh) {
  if (fresh) check_unpublished(url_);
  thread_ = std::thread([this] { watch(); });
}

StoredRun::~StoredRun() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

PublishedFolder& StoredRun::published() {
  if (!published_) published_.emplace(url_, folder_, fresh_);
  return *published_;
}

bool StoredRun::publish() {
  try {
    published().publish();
    return true;
  } catch (const Error& error) {
    const bool lost = error.kind() == ErrorKind::cluster;
    warn(std::string(error.what()) + (lost ? "" : "; the run goes on, and its state is published later"));
    if (!lost) return false;
    const std::lock_guard lock(mutex_);
    ended_ = true;
    return true;
  }
}

void StoredRun::watch() {
  std::string last;
  auto due = std::chrono::steady_clock::now();
  for (std::unique_lock lock(mutex_); !ended_;) {
    wake_.wait_for(lock, kLook, [&] { return ended_; });
    if (ended_) return;
    lock.unlock();
    const std::string now = checkpoints_of(folder_);
    if (fs::exists(folder_ + "/job.json") && (now != last || std::chrono::steady_clock::now() >= due)) {
      const bool good = publish();
      if (good) last = now;
      due = std::chrono::steady_clock::now() + (good ? kAtLeast : kAfterFault);
      if (!good) std::this_thread::sleep_for(kLook);
    }
    lock.lock();
  }
}

void StoredRun::finish() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  published().finish({"model.safetensors", "job.json", "log.jsonl", "report.json", "report.txt", "report.html", "curves.svg"});
}

}  // namespace perigee
