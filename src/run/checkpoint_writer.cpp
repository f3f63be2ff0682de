#include "src/run/checkpoint_writer.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace perigee {
namespace {

// From the beginning of one file to that of the next, unless somebody waits: so a thread that shares the trainer's cores takes little of them.
constexpr auto kPace = std::chrono::milliseconds(100);
constexpr size_t kLargeBytes = size_t{256} << 20;  // of these no second copy waits: the trainer does
constexpr double kLargeSeconds = 600;
constexpr size_t kMostResults = 64;

}  // namespace

void CheckpointWriter::Work::take(const Work& later) {
  if (later.newest) newest = later.newest;
  if (later.best) best = later.best;
}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// One that nobody waits for or writes.
CheckpointWriter::Snapshot CheckpointWriter::free_snapshot() {
  const std::lock_guard lock(mutex_);
  for (const Snapshot& snapshot : snapshots_)
    if (!writing_.has(snapshot) && !waiting_.has(snapshot)) return snapshot;
  return snapshots_.emplace_back(std::make_shared<CheckpointSnapshot>());
}

void CheckpointWriter::keep(const Trainer& trainer, const Json& extra, CheckpointKinds kinds) {
  if (CheckpointSnapshot::bytes_of(trainer) >= kLargeBytes && !finish(kLargeSeconds))
    throw Error(ErrorKind::resources, {.what = "the one before is not written after " + std::to_string(int(kLargeSeconds)) + " s"});
  const Snapshot snapshot = free_snapshot();
  snapshot->take(trainer, extra);
  if (!thread_.joinable()) thread_ = std::thread([this] { write_on_thread(); });
  {
    const std::lock_guard lock(mutex_);
    Work& to = writing_.any() || resting_ ? waiting_ : writing_;  // what is handed over is written, whatever comes after it
    to.take({kinds.newest ? snapshot : nullptr, kinds.best ? snapshot : nullptr});
  }
  changed_.notify_all();
}

void CheckpointWriter::hurry() {
  {
    const std::lock_guard lock(mutex_);
    hurried_ = writing_.any() || waiting_.any();
  }
  changed_.notify_all();
}

bool CheckpointWriter::finish(double seconds) {
  hurry();
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return !writing_.any() && !waiting_.any(); });
}

std::vector<CheckpointResult> CheckpointWriter::take_results() {
  const std::lock_guard lock(mutex_);
  return std::exchange(results_, {});
}

CheckpointResult CheckpointWriter::write(const CheckpointSnapshot& snapshot, bool best) {
  CheckpointResult result{.step = snapshot.step(), .best = best};
  try {
    if (best) folder_.add_best(snapshot);
    else result.file = folder_.add(snapshot);
  } catch (const std::exception& error) {
    result.problem = error.what();
  }
  return result;
}

void CheckpointWriter::write_on_thread() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return writing_.any() || closing_; });
    if (!writing_.any()) return;
    const Work work = writing_;
    const auto next = std::chrono::steady_clock::now() + kPace;
    lock.unlock();
    std::vector<CheckpointResult> results;
    // The best one first: a run that resumes from the newest must find the best epoch that this one remembers.
    if (work.best) results.push_back(write(*work.best, true));
    if (work.newest) results.push_back(write(*work.newest, false));
    lock.lock();
    for (CheckpointResult& result : results) results_.push_back(std::move(result));
    if (results_.size() > kMostResults) results_.erase(results_.begin(), results_.end() - kMostResults);
    writing_ = {};
    resting_ = true;
    changed_.notify_all();
    changed_.wait_until(lock, next, [this] { return hurried_ || closing_; });
    resting_ = false;
    writing_ = std::exchange(waiting_, {});
    hurried_ = hurried_ && writing_.any();
  }
}

}  // namespace perigee
