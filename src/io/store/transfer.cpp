#include "src/io/store/transfer.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/io/store/transfer_loop.h"

namespace perigee {
namespace {

bool worth_another_try(Transfer& transfer) {
  const int status = transfer.status;
  if (status == 0) return transfer.may_go;
  if (status == 500 || status == 502 || status == 503 || status == 504 || status == 429 || status == 408) return true;
  return transfer.again && transfer.again(transfer);
}

// A part of a growing pause, so that many clients do not come back together.
std::chrono::milliseconds pause_after(int attempt) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const int64_t longest = std::min<int64_t>(5000, int64_t{200} << std::min(attempt, 8));
  return std::chrono::milliseconds(std::uniform_int_distribution<int64_t>(longest / 4, longest)(random));
}

std::string fault_of(const Transfer& transfer) {
  return transfer.status != 0 ? "HTTP status " + std::to_string(transfer.status) : transfer.problem;
}

// One warning for each place and minute.
void tell_fault(const std::string& where, const Transfer& transfer) {
  static std::mutex mutex;
  static std::chrono::steady_clock::time_point last{};
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex);
    if (last.time_since_epoch().count() != 0 && now - last < std::chrono::minutes(1)) return;
    last = now;
  }
  warn(where + ": " + fault_of(transfer) + "; trying again");
}

void set_defaults(Transfer& transfer) {
  if (transfer.stall_ms <= 0) transfer.stall_ms = 1000 * store_setting("PERIGEE_STORE_STALL_S", 20, 1, 3600);
  if (transfer.tries <= 0) transfer.tries = static_cast<int>(store_setting("PERIGEE_STORE_TRIES", 6, 1, 100));
}

// The caller's thread waits for transfers, and hears meanwhile what arrives.
class Waiting {
 public:
  explicit Waiting(std::span<Transfer* const> transfers) : transfers_(transfers), arrived_(transfers.size()), left_(transfers.size()) {}
  void done() {
    const std::lock_guard lock(mutex_);
    --left_;
    changed_.notify_one();
  }
  void arrived(size_t index, uint64_t count) {
    const std::lock_guard lock(mutex_);
    arrived_[index] = count;
    changed_.notify_one();
  }
  void wait() {
    std::vector<uint64_t> told(transfers_.size());
    std::unique_lock lock(mutex_);
    while (left_ > 0 || arrived_ != told) {
      const std::vector<uint64_t> now = arrived_;
      if (now == told) {
        changed_.wait(lock);
        continue;
      }
      lock.unlock();
      for (size_t i = 0; i < now.size(); ++i)
        if (now[i] > told[i]) transfers_[i]->arrived(now[i]);
      told = now;
      lock.lock();
    }
  }

 private:
  std::span<Transfer* const> transfers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint64_t> arrived_;
  size_t left_;
};

void run_once(std::span<Transfer* const> transfers) {
  Waiting waiting(transfers);
  for (size_t i = 0; i < transfers.size(); ++i) {
    transfers[i]->reset_answer();
    TransferTry attempt{.transfer = transfers[i], .owner = nullptr, .done = [&waiting] { waiting.done(); }, .arrived = {}};
    if (transfers[i]->arrived) attempt.arrived = [&waiting, i](uint64_t count) { waiting.arrived(i, count); };
    begin_try(std::move(attempt));
  }
  waiting.wait();
}

}  // namespace

std::string Transfer::header(std::string_view name) const {
  for (size_t at = 0; at < answer_headers.size();) {
    const size_t end = std::min(answer_headers.find('\n', at), answer_headers.size());
    const std::string_view line = std::string_view(answer_headers).substr(at, end - at);
    at = end + 1;
    if (line.size() <= name.size() || line[name.size()] != ':') continue;
    const auto same = [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
    };
    if (!std::equal(name.begin(), name.end(), line.begin(), same)) continue;
    std::string_view value = line.substr(name.size() + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
    while (!value.empty() && (value.back() == ' ' || value.back() == '\r')) value.remove_suffix(1);
    return std::string(value);
  }
  return "";
}

void Transfer::reset_answer() {
  status = 0, received = 0, file_time = length = -1, may_go = too_long = false, part_fault = PartFault::none;
  tls = TlsFault::none;
  problem.clear(), answer_headers.clear(), content.clear(), redirect.clear();
}

void perform(std::span<Transfer* const> transfers, const std::string& where) {
  std::vector<Transfer*> left(transfers.begin(), transfers.end());
  for (Transfer* transfer : left) transfer->attempts = 0, set_defaults(*transfer);
  for (int attempt = 1;; ++attempt) {
    for (Transfer* transfer : left)
      if (transfer->prepare) transfer->prepare(*transfer);
    run_once(left);
    std::vector<Transfer*> again;
    for (Transfer* transfer : left) {
      ++transfer->attempts;
      if (attempt < transfer->tries && worth_another_try(*transfer)) again.push_back(transfer);
    }
    if (again.empty() || downloads_stopped()) return;
    if (attempt >= 3) tell_fault(where, *again.front());
    std::this_thread::sleep_for(pause_after(attempt));
    left = std::move(again);
  }
}

void perform(Transfer& transfer, const std::string& where) {
  Transfer* const one[] = {&transfer};
  perform(one, where);
}

void begin_transfer(const std::shared_ptr<Transfer>& transfer, std::function<void()> done) {
  set_defaults(*transfer);
  if (transfer->prepare) transfer->prepare(*transfer);
  transfer->reset_answer();
  begin_try({.transfer = transfer.get(), .owner = transfer, .done = std::move(done), .arrived = {}});
}

int64_t store_setting(const char* variable, int64_t usual, int64_t least, int64_t most) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return usual;
  char* end = nullptr;
  const int64_t value = std::strtoll(text, &end, 10);
  if (*end == '\0' && value >= least && value <= most) return value;
  throw Error(ErrorKind::usage, {.where = variable,
                                 .what = "is out of range",
                                 .got = "'" + std::string(text).substr(0, 40) + "'",
                                 .expected = std::to_string(least) + " to " + std::to_string(most)});
}

}  // namespace perigee
