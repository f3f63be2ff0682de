#include "src/run/checkpoint_writer.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace perigee {
namespace {

// From the beginning of one file to that of the next, unless somebody waits. The trainer's thread computes so much longer in between than the
// file took of this one: on a machine that others load too, time alone would not say how much of a core the trainer has had. A trainer that
// computes nothing, as it is paused or a GPU works for it, is waited for as long as the longest rest, or as the file's time stands for.
constexpr auto kPace = std::chrono::milliseconds(100);
constexpr double kTrainedPerWritten = 64;
constexpr size_t kMostResults = 64;

// That a thread has computed; infinite when there is no such thread any more.
double computed_seconds(clockid_t clock) {
  timespec time = {};
  if (clock_gettime(clock, &time) != 0) return INFINITY;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

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
  if (CheckpointSnapshot::bytes_of(trainer) >= limits_.large_bytes && !finish(limits_.wait_s))
    throw Error(ErrorKind::resources, {.where = "checkpoint",
                                       .what = "the one before is not written after " + std::to_string(int(limits_.wait_s)) + " s",
                                       .hint = "use a faster disk, or fewer files"});
  const Snapshot snapshot = free_snapshot();
  snapshot->take(trainer, extra);
  if (!thread_.joinable()) {
    if (pthread_getcpuclockid(pthread_self(), &trainer_clock_) != 0) trainer_clock_ = CLOCK_MONOTONIC;
    thread_ = std::thread([this] { write_on_thread(); });
  }
  bool idle = false;
  {
    const std::lock_guard lock(mutex_);
    idle = !writing_.any() && !resting_;
    Work& to = idle ? writing_ : waiting_;  // what is handed over is written, whatever comes after it
    to.take({kinds.newest ? snapshot : nullptr, kinds.best ? snapshot : nullptr});
  }
  if (idle) changed_.notify_all();
}

bool CheckpointWriter::free() {
  const std::lock_guard lock(mutex_);
  return !writing_.any() && !resting_;
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

// After a file that took `written_s` of this thread, begun when the trainer had computed `trained_s`.
void CheckpointWriter::rest(std::unique_lock<std::mutex>& lock, Clock::time_point begun, double trained_s, double written_s) {
  const double owed_s = kTrainedPerWritten * written_s;
  const auto seconds = [](double s) { return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s)); };
  const auto latest = begun + seconds(std::max(longest_rest_s_, owed_s));
  for (auto next = begun + kPace; !changed_.wait_until(lock, next, [this] { return hurried_ || closing_; });) {
    const double left_s = owed_s - (computed_seconds(trainer_clock_) - trained_s);  // that it computes in no less time
    const auto now = Clock::now();
    if (left_s <= 0 || now >= latest) return;
    next = std::min(latest, now + std::max<Clock::duration>(kPace, seconds(left_s)));
  }
}

void CheckpointWriter::write_on_thread() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return writing_.any() || closing_; });
    if (!writing_.any()) return;
    const Work work = writing_;
    const auto begun = Clock::now();
    const double trained_s = computed_seconds(trainer_clock_), own_s = computed_seconds(CLOCK_THREAD_CPUTIME_ID);
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
    rest(lock, begun, trained_s, computed_seconds(CLOCK_THREAD_CPUTIME_ID) - own_s);
    resting_ = false;
    writing_ = std::exchange(waiting_, {});
    hurried_ = hurried_ && writing_.any();
  }
}

}  // namespace perigee
