#include "src/io/plot/trace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "src/core/error.h"
#include "src/core/warning.h"

namespace perigee {
namespace {

constexpr size_t kFlushBytes = size_t{64} << 10;
constexpr size_t kRoomForLastWords = 512;
constexpr auto kEvery = std::chrono::milliseconds(100);

std::string row_name(uint8_t row) {
  if (row == kTrainerRow) return "trainer";
  if (row == kLoopRow) return "loop";
  return "loader " + std::to_string(row - kLoaderRow + 1);
}

// Microseconds, as the format wants them.
std::string microseconds(uint64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%llu.%03u", static_cast<unsigned long long>(ns / 1000), static_cast<unsigned>(ns % 1000));
  return text;
}

std::string trace_file_quoted(const std::string& text) { return Json(text).dump(); }

}  // namespace

TraceFile::TraceFile(const std::string& path, Options options)
    : path_(path), options_(std::move(options)), origin_ns_(monotonic_ns()), from_ring_(1024) {
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file_ < 0) throw Error(ErrorKind::resources, {.where = path, .what = "the trace cannot be written", .got = std::strerror(errno)});
  text_ = "[\n{\"name\":\"trace_begins\",\"ph\":\"M\",\"pid\":0,\"tid\":0,\"args\":{\"monotonic_ns\":" + std::to_string(origin_ns_) + "}}";
  thread_ = std::thread([this] { writer_main(); });
}

TraceFile::~TraceFile() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
  ::close(file_);
}

// ---- producers of events ----

void TraceFile::put(Event event) {
  const std::lock_guard lock(mutex_);
  if (queue_.size() >= kQueued) ++dropped_;
  else queue_.push_back(std::move(event));
}

void TraceFile::name_process(uint32_t process, const std::string& name) {
  put({.process = process, .name = name, .kind = Event::Kind::process_name});
}

void TraceFile::name_row(uint32_t process, uint8_t row, const std::string& name) {
  put({.process = process, .span = {.row = row}, .name = name, .kind = Event::Kind::row_name});
}

void TraceFile::add(uint32_t process, int64_t offset_ns, std::span<const PhaseSpan> spans) {
  const std::lock_guard lock(mutex_);
  const size_t taken = std::min(spans.size(), kQueued - std::min(kQueued, queue_.size()));
  for (const PhaseSpan& span : spans.first(taken)) queue_.push_back({.process = process, .offset_ns = offset_ns, .span = span});
  dropped_ += spans.size() - taken;
}

void TraceFile::add(uint32_t process, uint8_t row, const std::string& name, uint64_t begin_ns, uint64_t end_ns, const Json& args) {
  assert(begin_ns <= end_ns && args.is_object());
  put({.process = process, .span = {.begin_ns = begin_ns, .end_ns = end_ns, .row = row}, .name = name, .args = args.dump()});
}

void TraceFile::follow(TraceRing& ring, uint32_t process) {
  const std::lock_guard lock(mutex_);
  followed_.push_back({.ring = &ring, .process = process});
}

// ---- the writing thread ----

void TraceFile::writer_main() {
  for (bool closing = false; !closing;) {
    std::vector<Followed> followed;
    uint64_t dropped = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kEvery, [&] { return closing_; });
      closing = closing_;
      std::swap(queue_, taken_);
      followed = followed_;
      dropped = dropped_;
    }
    write_events(taken_, dropped);
    taken_.clear();
    for (Followed& each : followed) write_ring(each);
    {
      const std::lock_guard lock(mutex_);
      std::copy(followed.begin(), followed.end(), followed_.begin());  // others may have been added behind them
    }
    if (!closing) flush();
  }
  text_ += "\n]\n";
  flush();
}

void TraceFile::write_events(const std::vector<Event>& events, uint64_t dropped) {
  for (const Event& event : events) write(event);
  if (dropped != told_dropped_) note(std::to_string(dropped - told_dropped_) + " events had no room on their way into the file");
  told_dropped_ = dropped;
}

void TraceFile::write_ring(Followed& followed) {
  for (size_t count = from_ring_.size(); count == from_ring_.size();) {
    count = followed.ring->take(from_ring_);
    for (size_t i = 0; i < count; ++i) write_span({.process = followed.process, .span = from_ring_[i]});
  }
  const uint64_t dropped = followed.ring->dropped();
  if (dropped != followed.told_dropped) note(std::to_string(dropped - followed.told_dropped) + " spans had no room in the ring");
  followed.told_dropped = dropped;
}

void TraceFile::write(const Event& event) {
  if (event.kind == Event::Kind::span) return write_span(event);
  const bool process = event.kind == Event::Kind::process_name;
  line(std::string("{\"name\":\"") + (process ? "process_name" : "thread_name") +
       "\",\"ph\":\"M\",\"pid\":" + std::to_string(event.process) + ",\"tid\":" + std::to_string(event.span.row) +
       ",\"args\":{\"name\":" + trace_file_quoted(event.name) + "}}");
}

void TraceFile::write_span(const Event& event) {
  const PhaseSpan& span = event.span;
  const auto placed = [&](uint64_t ns) {
    const int64_t at = static_cast<int64_t>(ns) + event.offset_ns - static_cast<int64_t>(origin_ns_);
    return static_cast<uint64_t>(std::max<int64_t>(0, at));
  };
  uint64_t begin = placed(span.begin_ns), end = std::max(begin, placed(span.end_ns));
  std::string text = "{\"name\":" + trace_file_quoted(event.name.empty() ? to_string(span.phase) : event.name);
  const std::string row = ",\"pid\":" + std::to_string(event.process) + ",\"tid\":" + std::to_string(span.row);
  if (!event.name.empty() && span.begin_ns == span.end_ns)
    return line(text + ",\"ph\":\"i\",\"s\":\"g\",\"ts\":" + microseconds(begin) + row + ",\"args\":" + event.args + "}");
  // A better estimate of a clock moves what follows by a little: rows stay free of overlaps.
  const auto [known, fresh] = row_end_ns_.try_emplace({event.process, span.row}, 0);
  if (fresh && event.name.empty())
    write({.process = event.process, .span = {.row = span.row}, .name = row_name(span.row), .kind = Event::Kind::row_name});
  begin = std::max(begin, known->second);
  end = known->second = std::max(begin, end);
  text += ",\"ph\":\"X\",\"ts\":" + microseconds(begin) + ",\"dur\":" + microseconds(end - begin) + row;
  if (!event.args.empty()) return line(text + ",\"args\":" + event.args + "}");
  std::string args;
  if (span.round >= 0) args += '"' + options_.round_name + "\":" + std::to_string(span.round);
  if (span.count > 0)
    args += (args.empty() ? "\"" : ",\"") + std::string(span.phase == TracePhase::transfer ? "bytes" : "examples") +
            "\":" + std::to_string(span.count);
  line(text + (args.empty() ? "}" : ",\"args\":{" + args + "}}"));
}

void TraceFile::note(const std::string& text) {
  line("{\"name\":" + trace_file_quoted(text) + ",\"ph\":\"i\",\"s\":\"g\",\"ts\":" + microseconds(monotonic_ns() - origin_ns_) +
       ",\"pid\":0,\"tid\":0}");
}

void TraceFile::line(const std::string& text) {
  if (full_ || broken_) return;
  if (bytes_ + text_.size() + text.size() + kRoomForLastWords > options_.limit_bytes) {
    full_ = true;
    text_ += ",\n{\"name\":\"the file is full: what came later is not in it\",\"ph\":\"i\",\"s\":\"g\",\"ts\":" +
             microseconds(monotonic_ns() - origin_ns_) + ",\"pid\":0,\"tid\":0}";
    return;
  }
  text_ += ",\n" + text;
  if (text_.size() >= kFlushBytes) flush();
}

void TraceFile::flush() {
  for (size_t done = 0; !broken_ && done < text_.size();) {
    const ssize_t written = ::write(file_, text_.data() + done, text_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      broken_ = true;
      warn("the trace " + path_ + " ends early: " + std::strerror(errno));
    } else {
      done += static_cast<size_t>(written);
    }
  }
  bytes_ += text_.size();
  text_.clear();
}

}  // namespace perigee
